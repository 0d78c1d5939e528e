"""ACER's targets, gradients and trust region against their equations in NumPy (float64)."""

from float64_networks import numeric_gradient
import numpy as np
import pytest
import tensorflow as tf

from reproductions.refer import acer

T, B, A = 7, 3, 2


def make_sequence(seed=0):
    rng = np.random.default_rng(seed)
    return dict(
        rewards=rng.normal(size=[T, B]),
        values=rng.normal(size=[T, B]),
        q=rng.normal(size=[T, B]),
        rho=np.exp(rng.normal(scale=2, size=[T, B])),
        bootstrap=np.array([0.7, 0.0, -2.0]),
    )


def targets(sequence, **changes):
    tensors = {name: tf.constant(array) for name, array in sequence.items()}
    return acer.targets(**{**tensors, "discounts": 0.9, "dimensions": 4, **changes})


def by_products(rewards, values, q, rho, bootstrap, trace, discount=0.9):
    """Q_0 + sum over k of g^k (product of traces 1 to k) (temporal difference k), of each start."""
    following = np.concatenate([values[1:], bootstrap[None]])
    errors = rewards + discount * following - q
    found = np.zeros_like(q)
    for start in range(T):
        found[start] = q[start]
        for k in range(start, T):
            product = np.prod(trace[start + 1 : k + 1], axis=0)
            found[start] += discount ** (k - start) * product * errors[k]
    return found


@pytest.mark.parametrize("exponent, power", [(1.0, 1 / 4), (0.5, 1 / 2)])
def test_q_ret_is_the_sum_over_products_of_traces(exponent, power):
    sequence = make_sequence()
    assert (sequence["rho"] > 1).any() and (sequence["rho"] < 1).any()
    q_ret, q_opc = targets(sequence, exponent=exponent)
    trace = np.minimum(1, sequence["rho"]) ** power
    np.testing.assert_allclose(q_ret, by_products(**sequence, trace=trace), rtol=1e-10)
    np.testing.assert_allclose(
        q_opc, by_products(**sequence, trace=np.ones_like(trace)), rtol=1e-10
    )


def test_with_traces_of_0_q_ret_is_a_step_and_on_policy_with_q_of_v_it_is_the_return():
    sequence = make_sequence()
    q_ret, _ = targets({**sequence, "rho": np.zeros([T, B])})
    following = np.concatenate([sequence["values"][1:], sequence["bootstrap"][None]])
    np.testing.assert_allclose(q_ret, sequence["rewards"] + 0.9 * following, rtol=1e-10)
    found = targets({**sequence, "rho": np.full([T, B], 3.0), "q": sequence["values"]})
    ahead = sequence["bootstrap"]
    for t in reversed(range(T)):
        ahead = sequence["rewards"][t] + 0.9 * ahead
        for one in found:
            np.testing.assert_allclose(one[t], ahead, rtol=1e-10)


def test_a_discount_of_0_ends_the_return():
    sequence = make_sequence()
    discounts = np.full([T, B], 0.9)
    discounts[3, 1] = 0.0
    for one in targets(sequence, discounts=tf.constant(discounts)):
        np.testing.assert_allclose(one[3, 1], sequence["rewards"][3, 1], rtol=1e-12)


def test_nothing_flows_into_the_arguments_of_targets():
    tensors = {name: tf.constant(array) for name, array in make_sequence().items()}
    with tf.GradientTape() as tape:
        tape.watch(list(tensors.values()))
        q_ret, q_opc = acer.targets(**tensors, discounts=0.9, dimensions=4)
        total = tf.reduce_sum(q_ret + q_opc)
    gradients = tape.gradient(total, [tensors[n] for n in ("values", "q", "rho", "bootstrap")])
    assert gradients == [None] * 4


# The trust region.


def bounded(g, k, delta):
    z = acer.trust_region(tf.constant([g], tf.float64), tf.constant([k], tf.float64), delta)
    return z.numpy()[0]


def test_inside_the_trust_region_the_gradient_is_left_as_it_is():
    np.testing.assert_array_equal(bounded([0.5, -2.0], [1.0, 0.0], 1.0), [0.5, -2.0])
    np.testing.assert_array_equal(bounded([-9.0, 2.0], [1.0, 0.0], 1.0), [-9.0, 2.0])


def test_outside_it_is_the_nearest_gradient_inside():
    rng = np.random.default_rng(0)
    for _ in range(20):
        g, k = rng.normal(size=[2, 4])
        g += 3 * k  # so that k g exceeds delta
        delta = 0.5
        z = bounded(g, k, delta)
        assert g @ k > delta
        np.testing.assert_allclose(z @ k, delta, rtol=1e-9)
        # What was taken off is along k, so no other point of the half-space is nearer.
        np.testing.assert_allclose(np.cross([*(g - z)[:2], 0], [*k[:2], 0]), 0, atol=1e-9)
        for other in rng.normal(size=[50, 4]):
            other += max(0, (other @ k - delta) / (k @ k)) * -k
            assert np.linalg.norm(g - z) <= np.linalg.norm(g - other) + 1e-9


@pytest.mark.parametrize("delta", [1.0, 0.0])
def test_where_k_is_0_the_gradient_is_left_and_finite(delta):
    np.testing.assert_array_equal(bounded([3.0, -2.0], [0.0, 0.0], delta), [3.0, -2.0])
    g, k = tf.constant([[3e30, 1.0]]), tf.constant([[1e-30, 0.0]])  # |k|^2 underflows to 0
    assert np.isfinite(acer.trust_region(g, k, delta)).all()


# Gradients of policies.


def log_density(action, mean, deviation):
    z = (action - mean) / deviation
    return np.sum(-0.5 * z**2 - np.log(deviation) - 0.5 * np.log(2 * np.pi), axis=-1)


def divergence(mean_p, deviation_p, mean_q, deviation_q):
    """D_KL(p || q)."""
    ratio = (deviation_p / deviation_q) ** 2
    distance = ((mean_p - mean_q) / deviation_q) ** 2
    return 0.5 * np.sum(ratio + distance - 1 - np.log(ratio), axis=-1)


def make_policies(seed=0):
    rng = np.random.default_rng(seed)
    mean, average_mean, action = rng.normal(size=[3, B, A])
    deviation, average_deviation = rng.uniform(0.3, 1.5, size=[2, B, A])
    return mean, deviation, average_mean, average_deviation, action


def test_the_score_is_the_gradient_of_the_log_density():
    mean, deviation, _, _, action = make_policies()
    found = acer.score(*map(tf.constant, (action, mean, deviation))).numpy()
    expected = [
        numeric_gradient(lambda: np.sum(log_density(action, mean, deviation)), array)
        for array in (mean, deviation)
    ]
    np.testing.assert_allclose(found, np.concatenate(expected, -1), rtol=1e-6, atol=1e-8)


def test_k_is_the_gradient_of_the_divergence_from_the_average_policy():
    mean, deviation, average_mean, average_deviation, _ = make_policies()
    policies = mean, deviation, average_mean, average_deviation
    found = acer.divergence_gradient(*map(tf.constant, policies)).numpy()
    expected = [
        numeric_gradient(
            lambda: np.sum(divergence(average_mean, average_deviation, mean, deviation)), array
        )
        for array in (mean, deviation)
    ]
    np.testing.assert_allclose(found, np.concatenate(expected, -1), rtol=1e-6, atol=1e-8)
    same = acer.divergence_gradient(*map(tf.constant, (mean, deviation, mean, deviation)))
    np.testing.assert_array_equal(same, np.zeros([B, 2 * A]))


def test_the_ascent_is_truncated_and_its_correction_begins_beyond_the_truncation():
    rho, other = np.array([0.5, 5.0, 20.0]), np.array([20.0, 4.0, 5.0])
    advantage, of_sample = np.array([1.0, -2.0, 3.0]), np.array([0.5, 7.0, -7.0])
    scores = np.random.default_rng(0).normal(size=[2, 3, 4])
    found = acer.ascent(
        *map(tf.constant, (rho, advantage, scores[0], other, of_sample, scores[1])), 5.0
    )
    expected = np.array([0.5, -10.0, 15.0])[:, None] * scores[0]
    expected[0] += 0.75 * 0.5 * scores[1, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_truncation_and_correction_together_are_the_policy_gradient():
    """E_mu[min(c, rho) Q score] + E_pi[max(0, 1 - c / rho) Q score] = E_pi[Q score]."""
    n, mean, deviation, mu_mean, mu_deviation = 400_000, 0.8, 0.7, -0.6, 0.4
    rng = np.random.default_rng(0)
    of_mu = (mu_mean + mu_deviation * rng.normal(size=[n, 1])).astype(np.float64)
    of_pi = mean + deviation * rng.normal(size=[n, 1])

    def score(action):
        full = np.full([n, 1], 1.0)
        return acer.score(tf.constant(action), mean * full, deviation * full)

    def rho(action):
        pair = log_density(action, mean, deviation), log_density(action, mu_mean, mu_deviation)
        return np.exp(pair[0] - pair[1])

    def q(action):
        return -np.square(action[:, 0] - 2)

    assert np.mean(rho(of_pi) > 5) > 0.3  # else the correction is not tested
    found = acer.ascent(
        *map(tf.constant, (rho(of_mu), q(of_mu))),
        score(of_mu),
        *map(tf.constant, (rho(of_pi), q(of_pi))),
        score(of_pi),
        5.0,
    ).numpy()
    # d/dm and d/dsigma of E_pi[Q] = -((m - 2)^2 + sigma^2)
    error = found.std(0) / np.sqrt(n)
    assert np.all(np.abs(found.mean(0) - [-2 * (mean - 2), -2 * deviation]) < 5 * error)


def test_the_critics_loss_and_its_gradients():
    rng = np.random.default_rng(0)
    value, advantage, q_ret = rng.normal(size=[3, 9])
    rho = np.exp(rng.normal(size=9))
    q = value + advantage
    inputs = [tf.constant(array) for array in (value, advantage, q_ret, rho)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = acer.critic_loss(inputs[0], inputs[0] + inputs[1], *inputs[2:])
        total = tf.reduce_sum(loss)
    error = q_ret - q
    expected = 0.5 * error**2 + 0.5 * (np.minimum(1, rho) * error) ** 2
    np.testing.assert_allclose(loss, expected, rtol=1e-12)
    of_value, of_advantage, *others = tape.gradient(total, inputs)
    assert others == [None, None]
    np.testing.assert_allclose(of_advantage, -error, rtol=1e-12)
    np.testing.assert_allclose(of_value, -(1 + np.minimum(1, rho)) * error, rtol=1e-12)


def test_noise_is_normal_within_its_bound():
    noise = acer.truncated_normal([200_000], 3.0, [1, 2]).numpy()
    assert 2.9 < np.abs(noise).max() <= 3.0001 and noise.dtype == np.float32
    np.testing.assert_allclose([noise.mean(), noise.std()], [0, 0.9866], atol=0.01)
    again, other = (acer.truncated_normal([200_000], 3.0, seed) for seed in ([1, 2], [1, 3]))
    np.testing.assert_array_equal(again, noise)
    assert np.abs(np.corrcoef(noise, other)[0, 1]) < 0.02
