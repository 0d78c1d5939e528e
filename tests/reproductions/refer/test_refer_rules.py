"""Tests of reproductions.refer.rules."""

import numpy as np
import pytest
import tensorflow as tf

from reproductions.refer import rules


def test_c_max_anneals_from_5_towards_1():
    """With C = 4, A = 5e-7: 5 at the start, 3 after 2 million updates (section 3)."""
    for step, expected in ((0, 5.0), (2_000_000, 3.0), (10_000_000, 1 + 4 / 6)):
        actual = rules.c_max(tf.constant(step, tf.int64), 4.0, 5e-7)
        np.testing.assert_allclose(actual, expected, rtol=1e-6)
        np.testing.assert_allclose(rules.c_max(step, 4.0, 0.0), 5.0)


def test_rates_anneal():
    np.testing.assert_allclose(rules.annealed(1e-4, 2_000_000, 5e-7), 5e-5, rtol=1e-6)
    np.testing.assert_allclose(rules.annealed(1e-4, 2_000_000, 0.0), 1e-4, rtol=1e-6)


def test_the_bounds_themselves_are_far():
    rho = tf.constant([0.1, 0.25, 0.2500001, 1.0, 3.9999, 4.0, 9.0])
    near = rules.near_policy(rho, 4.0)
    np.testing.assert_array_equal(near, [False, False, True, True, True, False, False])
    np.testing.assert_array_equal(rules.mask(rho, 4.0, gate=True), [0, 0, 1, 1, 1, 0, 0])
    np.testing.assert_array_equal(rules.mask(rho, 4.0, gate=False), np.ones(7))


def test_beta_falls_while_too_much_is_far_and_rises_otherwise():
    beta = tf.constant(0.5, tf.float64)
    np.testing.assert_allclose(rules.next_beta(beta, 0.11, 0.1, 0.01), 0.495)
    np.testing.assert_allclose(rules.next_beta(beta, 0.1, 0.1, 0.01), 0.505)  # D itself is not far


@pytest.mark.parametrize("share", [0.25, 0.8])
def test_betas_fixed_point_is_the_share_of_updates_that_raise_it(share):
    """Equation 12's moving average: beta tends to how often the far fraction is within D."""
    rng = np.random.default_rng(0)
    beta, betas = 0.2, []
    for _ in range(20_000):
        far = 0.05 if rng.random() < share else 0.2
        # In Python, as equation 12 has it.
        beta = (1 - 1e-2) * beta + (1e-2 if far <= 0.1 else 0)
        betas.append(beta)
    assert np.mean(betas[2_000:]) == pytest.approx(share, abs=0.03)
    # The function makes the same steps.
    step = tf.function(lambda beta, far: rules.next_beta(beta, far, 0.1, 1e-2))
    beta = tf.constant(betas[-1])
    for far in (0.05, 0.2, 0.1):
        expected = 0.99 * float(beta) + (0.01 if far <= 0.1 else 0)
        beta = step(beta, tf.constant(far))
        if far != 0.1:  # which float32 rounds
            np.testing.assert_allclose(beta, expected, rtol=1e-6)


def test_beta_stays_within_0_and_1():
    for beta, far in ((0.0, 1.0), (1.0, 0.0)):
        assert float(rules.next_beta(tf.constant(beta), tf.constant(far), 0.1, 0.3)) == beta
