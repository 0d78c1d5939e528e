"""Tests of common.networks.standardizer."""

import numpy as np
import pytest
import tensorflow as tf

from common.networks.standardizer import RunningMoments, Standardizer


def test_without_moments_observations_stay_as_they_are():
    observation = np.array([[1.0, -2.0]], np.float32)
    np.testing.assert_allclose(Standardizer(2)(observation), observation, rtol=1e-6)


def test_observations_are_standardised():
    rng = np.random.default_rng(0)
    observations = rng.normal([3, -1, 0], [0.1, 20, 1e-3], size=(1000, 3)).astype(np.float32)
    standardizer = Standardizer(3)
    standardizer.set(observations.mean(0, np.float64), observations.std(0, np.float64))
    actual = standardizer(observations).numpy()
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(actual.std(0), 1, rtol=1e-3)


def test_components_without_variance_keep_their_unit():
    """A constant's deviation may come out as a rounding error, which would magnify another's."""
    standardizer = Standardizer(3)
    standardizer.set(np.array([0.0, 100.3, 100.3]), np.array([0.0, 1.4e-14, 1e-3]))
    np.testing.assert_array_equal(standardizer.deviation, np.array([1, 1, 1e-3], np.float32))
    standardized = standardizer(np.array([[0, 100.3, 100.3]], np.float32))
    np.testing.assert_allclose(standardized, np.zeros((1, 3)), atol=1e-3)


@pytest.mark.parametrize(
    "mean, deviation, message",
    [
        (np.zeros(3), np.ones(2), r"mean must have shape \(2,\), got \(3,\)"),
        (np.zeros(2), np.ones(1), "standard deviation must have shape"),
        (np.array([0, np.nan]), np.ones(2), "mean must be finite"),
        (np.zeros(2), np.array([np.inf, 1]), "standard deviation must be finite"),
    ],
)
def test_bad_moments_are_refused_and_change_nothing(mean, deviation, message):
    standardizer = Standardizer(2)
    with pytest.raises(ValueError, match=message):
        standardizer.set(mean, deviation)
    np.testing.assert_array_equal(standardizer.mean, np.zeros(2))
    np.testing.assert_array_equal(standardizer.deviation, np.ones(2))


def test_moments_are_saved_but_not_trained():
    standardizer = Standardizer(2)
    assert standardizer.trainable_variables == () and len(standardizer.variables) == 2
    with tf.GradientTape() as tape:
        result = standardizer(tf.ones([1, 2]))
    assert tape.gradient(result, list(standardizer.variables)) == [None, None]


def test_running_moments_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=[n, 3]) * [1, 100, 0] + [5, -3, 2] for n in (1, 7, 40)]
    moments = RunningMoments((3,))
    for i, part in enumerate(parts):
        moments.update(part.astype(np.float32))
        rows = np.concatenate(parts[: i + 1])
        np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=1e-5)
        np.testing.assert_allclose(moments.deviation, rows.std(0), rtol=1e-5, atol=1e-9)
    assert float(moments.count) == 48
