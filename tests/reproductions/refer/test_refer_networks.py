"""Tests of the policies of ReF-ER's networks: what their widths mean."""

import numpy as np
import pytest
import tensorflow as tf

from common.values import gaussian
from reproductions.refer import ddpg, networks
from reproductions.refer.config import ReferConfig


def test_the_initial_variance_is_a_variance_of_all_states():
    network = networks.VracerNetwork(ReferConfig(hidden_size=4), 3, 2)
    np.testing.assert_allclose(network.variance, [0.2, 0.2], rtol=1e-6)
    assert network.raw_variance.numpy() == pytest.approx(-1.5078, abs=1e-4)


def test_sigma_is_a_standard_deviation():
    one = tf.ones([1, 1])
    rho = ddpg.importance_weight(one, one, tf.zeros([1, 1]), sigma=0.5)
    variance = tf.constant([[0.25]])
    np.testing.assert_allclose(
        rho, gaussian.importance_weight(one, one, variance, tf.zeros([1, 1]), variance)
    )
    assert float(rho[0]) == pytest.approx(np.exp(0.5 / 0.25), rel=1e-6)


def test_a_small_change_of_many_means_is_far_from_the_policy():
    """17 means that move by 0.1 make most steps far at c_max = 5; one mean makes hardly any."""
    rng = np.random.default_rng(0)

    def far_share(size):
        mu = tf.zeros([4000, size])
        action = tf.constant(0.2 * rng.standard_normal([4000, size]), tf.float32)
        rho = ddpg.importance_weight(action, mu + 0.1, mu, sigma=0.2).numpy()
        return np.mean((rho <= 1 / 5) | (rho >= 5))

    assert far_share(1) < 0.01
    assert far_share(17) > 0.5
