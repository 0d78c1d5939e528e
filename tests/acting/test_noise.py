import numpy as np
import pytest

from common.acting.noise import GaussianNoise


def test_the_noise_is_standard_normal_times_sigma():
    noise = GaussianNoise(.3, seed=0, clip=False)
    samples = noise(np.full((50_000, 2), .1, np.float32))
    assert samples.dtype == np.float32
    np.testing.assert_allclose(samples.mean(axis=0), .1, atol=.01)
    np.testing.assert_allclose(samples.std(axis=0), .3, atol=.01)
    assert abs(np.corrcoef(samples.T)[0, 1]) < .02
    assert np.abs(samples).max() > 1


def test_clipping_keeps_the_bounds_and_what_is_within():
    action = np.random.default_rng(1).uniform(-1, 1, (1000, 3)).astype(np.float32)
    clipped = GaussianNoise(.3, seed=2)(action)
    free = GaussianNoise(.3, seed=2, clip=False)(action)
    np.testing.assert_array_equal(clipped, np.clip(free, -1, 1))
    assert np.any(clipped != free)


def test_the_seed_decides_and_calls_differ():
    action = np.zeros((4, 2), np.float32)
    noise = GaussianNoise(.3, seed=5)
    first, second = noise(action), noise(action)
    np.testing.assert_array_equal(GaussianNoise(.3, seed=5)(action), first)
    assert np.all(first != second)
    assert not np.any(action)


def test_sigma_0_changes_nothing():
    action = np.array([[-1, .25, 1]], np.float32)
    np.testing.assert_array_equal(GaussianNoise(0, seed=0)(action), action)


@pytest.mark.parametrize("sigma", [-.1, float("nan"), float("inf")])
def test_a_bad_sigma_is_refused(sigma):
    with pytest.raises(ValueError, match="sigma"):
        GaussianNoise(sigma, seed=0)
