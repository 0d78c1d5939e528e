"""ACER's targets, gradients, trust region and its learner's update in NumPy (float64)."""

from float64_networks import numeric_gradient, values_of
import numpy as np
import pytest
import refer_learners
from refer_learners import (
    DEVIATION,
    MEAN,
    STEPS,
    A,
    D,
    Float64,
    divergence_of,
    metrics_of,
    new_learner,
)
import tensorflow as tf

from common.data.data import StoredState
from common.learning.updates import UpdateLoop
from common.replay.episode_wire import WindowBatch
from common.types import Batch
from common.values import gaussian
from reproductions.refer import acer

T, ROWS = 7, 3


def make_sequence(seed=0):
    rng = np.random.default_rng(seed)
    return dict(
        rewards=rng.normal(size=[T, ROWS]),
        values=rng.normal(size=[T, ROWS]),
        q=rng.normal(size=[T, ROWS]),
        rho=np.exp(rng.normal(scale=2, size=[T, ROWS])),
        bootstrap=np.array([0.7, 0.0, -2.0]),
    )


def targets(sequence, **changes):
    tensors = {name: tf.constant(array) for name, array in sequence.items()}
    return acer.targets(**tensors, discount=0.9, dimensions=4, **changes)


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


def log_density(action, mean, deviation):
    z = (action - mean) / deviation
    return np.sum(-0.5 * z**2 - np.log(deviation) - 0.5 * np.log(2 * np.pi), axis=-1)


def make_policies(seed=0):
    rng = np.random.default_rng(seed)
    mean, average_mean, action = rng.normal(size=[3, ROWS, A])
    deviation, average_deviation = rng.uniform(0.3, 1.5, size=[2, ROWS, A])
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
            lambda: np.sum(divergence_of(average_mean, average_deviation**2, mean, deviation**2)),
            array,
        )
        for array in (mean, deviation)
    ]
    np.testing.assert_allclose(found, np.concatenate(expected, -1), rtol=1e-6, atol=1e-8)
    same = acer.divergence_gradient(*map(tf.constant, (mean, deviation, mean, deviation)))
    np.testing.assert_array_equal(same, np.zeros([ROWS, 2 * A]))


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


def test_noise_is_normal_within_its_bound():
    noise = acer.truncated_normal([200_000], 3.0, [1, 2]).numpy()
    assert 2.9 < np.abs(noise).max() <= 3.0001 and noise.dtype == np.float32
    np.testing.assert_allclose([noise.mean(), noise.std()], [0, 0.9866], atol=0.01)
    again, other = (acer.truncated_normal([200_000], 3.0, seed) for seed in ([1, 2], [1, 3]))
    np.testing.assert_array_equal(again, noise)
    assert np.abs(np.corrcoef(noise, other)[0, 1]) < 0.02


LENGTHS = (5, 3, 1, 5)
B, L = len(LENGTHS), max(LENGTHS)


def make_learner(setting="acer_lr1e-05", seed=0, **values):
    """A learner in the middle of its training, whose average policy is near the policy."""
    config, learner = refer_learners.make_learner(setting, seed, **{"discount": 0.9, **values})
    rng = np.random.default_rng(seed + 3)
    for variable, near in zip(learner.average_policy.parameters, learner.policy.parameters):
        variable.assign(near + rng.normal(scale=0.1, size=near.shape))
    return config, learner


def make_batch(seed=0, lengths=LENGTHS):
    """Windows whose first rows repeat their first step, as the memory gives them."""
    rng = np.random.default_rng(seed)
    size, longest = len(lengths), max(lengths)
    places = np.maximum(0, np.arange(longest + 1) - (longest - np.array(lengths)[:, None]))

    def column(*shape, low=None):
        drawn = rng.normal(size=[size, longest + 1, *shape])
        if low is not None:
            drawn = low + rng.random([size, longest + 1, *shape])
        taken = np.take_along_axis(
            drawn, places.reshape([size, longest + 1, *[1] * len(shape)]), axis=1
        )
        return tf.constant(taken, tf.float32)

    mean = column(A)
    extras = {"mean": mean, "variance": column(A, low=0.3)}
    states = StoredState(3 * column(D), mean + 0.5 * column(A), extras)
    bootstraps = tf.constant(np.arange(size) % 2 == 0)
    lengths = tf.constant(lengths, tf.int64)
    steps = WindowBatch(states, column()[:, :-1], lengths, bootstraps)
    return Batch(steps, tf.fill([size], 0.1), tf.constant(10.0))


class Expected:
    """An update, window by window, of the functions that are tested above."""

    def __init__(self, config, learner, batch):
        steps = batch.steps
        self.config, self.learner, self.networks = config, learner, Float64(learner)
        noise = learner.noise(B * L).numpy().reshape([-1, B, L, A]).astype(np.float64)
        self.windows = []
        for b in range(B):
            rows = slice(L - LENGTHS[b], None)

            def of(column, rows=rows, b=b):
                return column[b, rows].numpy().astype(np.float64)

            x = (of(steps.states.observation) - MEAN) / (DEVIATION + 1e-7)
            extras = steps.states.extras
            stored = [of(c)[:-1] for c in (steps.states.action, extras["mean"], extras["variance"])]
            drawn = noise[:, b, rows]
            self.windows.append((x, *stored, of(steps.rewards), bool(steps.bootstraps[b]), drawn))
        self.directions = []
        self.parts = [self.constants(*window) for window in self.windows]

    def policy(self, network, x):
        """Means and standard deviations."""
        mean = self.networks.run(network.mlp, x)
        variance = np.log1p(np.exp(self.networks.of(network.raw_variance)))
        return mean, np.sqrt(variance) + 0 * mean

    def values(self, x):
        return self.networks.run(self.learner.critic.value, x)[:, 0]

    def q(self, x, stored, action, drawn_actions):
        """Of actions at the states of a window whose actions are `stored`."""
        layers = self.learner.critic.advantage.mlp
        own, *others = [
            self.networks.run(layers, x, u, history=(x, stored))[:, 0]
            for u in (action, *drawn_actions[1:])
        ]
        return self.values(x) + own - np.mean(others, axis=0)

    def constants(self, x, action, mu, mu_variance, rewards, bootstrap, noise):
        """What gradients do not flow through: actions, weights, targets, the direction."""
        mean, deviation = self.policy(self.learner.policy, x[:-1])
        drawn = mean + deviation * noise
        values = self.values(x)
        q = self.q(x[:-1], action, action, drawn)

        def rho_of(a):
            policies = mean, deviation**2, mu, mu_variance
            return gaussian.importance_weight(a, *policies, np.log(1000))

        rho = rho_of(action)
        q_ret, q_opc = acer.targets(
            rewards, 0.9, values[:-1], q, rho, A, np.asarray(values[-1] * bootstrap)
        )
        own = self.q(x[:-1], action, drawn[0], drawn) - values[:-1]
        g = acer.ascent(
            *(rho, q_opc - values[:-1], acer.score(action, mean, deviation)),
            *(rho_of(drawn[0]), own, acer.score(drawn[0], mean, deviation), 5.0),
        )
        average = self.policy(self.learner.average_policy, x[:-1])
        k = acer.divergence_gradient(mean, deviation, *average)
        z = acer.trust_region(g, k, self.config.trust_region).numpy()
        kl = gaussian.kl_divergence(mu, mu_variance, mean, deviation**2).numpy()
        rho, q_ret = rho.numpy(), q_ret.numpy()
        target = values[:-1] + np.minimum(1, rho) * (q_ret - q)
        return dict(
            drawn=drawn, rho=rho, q=q, q_ret=q_ret, target=target, z=z, kl=kl, values=values
        )

    def critic_loss(self):
        total = 0
        for (x, action, *_), part in zip(self.windows, self.parts):
            q = self.q(x[:-1], action, action, part["drawn"])
            total += 0.5 * np.sum((q - part["q_ret"]) ** 2)
            total += 0.5 * np.sum((self.values(x[:-1]) - part["target"]) ** 2)
        return total / sum(LENGTHS)

    def policy_loss(self):
        total = 0
        for (x, *_), part in zip(self.windows, self.parts):
            outputs = np.concatenate(self.policy(self.learner.policy, x[:-1]), -1)
            total -= np.sum(part["z"] * outputs)
        return total / sum(LENGTHS)

    def joined(self, name):
        return np.concatenate([part[name] for part in self.parts])


def slope(function, array, direction, step=1e-6):
    """Central difference of a scalar as `array` moves in a direction."""
    values = []
    for sign in (1, -1):
        array += sign * step * direction
        values.append(function())
        array -= sign * step * direction
    return (values[0] - values[1]) / (2 * step)


RECURRENT = {"recurrent": True, "lstm_size": 2, "history": L, "advantage_samples": 2}


@pytest.mark.parametrize(
    "trust_region, network", [(0.001, {}), (1.0, {}), (0.001, RECURRENT)], ids=str
)
def test_the_gradients_are_those_of_the_equations(trust_region, network):
    config, learner = make_learner(trust_region=trust_region, **network)
    batch = make_batch()
    expected, found = Expected(config, learner, batch), learner.gradients(batch)
    rho = expected.joined("rho")
    assert rho.max() > 1 and rho.min() < 1
    for loss, gradients, variables in (
        (expected.policy_loss, found.gradients.policy, learner.policy_variables),
        (expected.critic_loss, found.gradients.critic, learner.critic_variables),
    ):
        for gradient, variable in zip(gradients, variables, strict=True):
            array = expected.networks.of(variable)
            for direction in np.random.default_rng(0).normal(size=[2, *array.shape]):
                numeric = slope(loss, array, direction)
                along = np.sum(gradient * direction)
                np.testing.assert_allclose(along, numeric, rtol=5e-3, atol=2e-4)
    assert list(found.metrics) == metrics_of(config)
    np.testing.assert_allclose(found.metrics["critic_loss"], expected.critic_loss(), rtol=1e-4)
    np.testing.assert_allclose(found.metrics["mean_q"], expected.joined("q").mean(), rtol=1e-3)
    share = float(found.metrics["trust_region_share"])
    assert share == 0 if trust_region == 1.0 else 0.3 < share < 1


def test_what_is_stored_anew_is_of_every_step():
    config, learner = make_learner()
    batch = make_batch()
    expected, refresh = Expected(config, learner, batch), learner.gradients(batch).outputs
    is_step = np.arange(L) >= L - np.array(LENGTHS)[:, None]

    def of_steps(column):
        return column.numpy().reshape([B, L])[is_step]

    np.testing.assert_allclose(of_steps(refresh.rhos), expected.joined("rho"), rtol=1e-4)
    np.testing.assert_allclose(of_steps(refresh.divergences), expected.joined("kl"), rtol=1e-4)
    errors = (expected.joined("q_ret") - expected.joined("q")) ** 2
    np.testing.assert_allclose(of_steps(refresh.errors), errors, rtol=1e-3, atol=1e-4)
    values = [part["values"] for part in expected.parts]
    for column, ends in ((refresh.values, slice(-1)), (refresh.next_values, slice(1, None))):
        wanted = np.concatenate([window[ends] for window in values])
        np.testing.assert_allclose(of_steps(column), wanted, rtol=1e-4, atol=1e-5)


def test_the_divergences_direction_and_the_authors_exponent_are_switches():
    pairs = make_learner(), make_learner(divergence="policy_to_behavior", trace_exponent=0.5)
    first, second = (learner.gradients(make_batch()) for _, learner in pairs)
    assert np.all(first.outputs.divergences != second.outputs.divergences)
    assert first.metrics["critic_loss"] != second.metrics["critic_loss"]


def test_rows_in_front_of_a_window_change_nothing(monkeypatch):
    """A batch whose windows are all longer by rows that repeat their first step."""
    _, learner = make_learner()
    batch, more = make_batch(), 4
    places = np.maximum(0, np.arange(L + 1 + more) - more)
    longer = tf.nest.map_structure(lambda x: tf.gather(x, places, axis=1), batch.steps.states)
    rewards = tf.gather(batch.steps.rewards, places[:-1], axis=1)
    noise = learner.noise(B * L).numpy().reshape([-1, B, L, A])
    padded = np.concatenate([np.zeros([len(noise), B, more, A]), noise], 2).astype(np.float32)
    expected = learner.gradients(batch)
    monkeypatch.setattr(learner, "noise", lambda n: tf.constant(padded.reshape([-1, n, A])))
    found = learner.gradients(
        batch._replace(steps=batch.steps._replace(states=longer, rewards=rewards))
    )
    for a, b in zip(tf.nest.flatten(found.gradients), tf.nest.flatten(expected.gradients)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    rhos = tf.reshape(found.outputs.rhos, [B, -1])[:, more:]
    np.testing.assert_allclose(rhos, tf.reshape(expected.outputs.rhos, [B, L]), rtol=1e-5)


@pytest.mark.parametrize("setting, rate", [("acer_lr1e-05", 1e-5), ("acer_lr0.0001", 1e-4)])
def test_an_update_anneals_both_rates_and_moves_the_average_policy(setting, rate):
    _, learner = make_learner(setting)
    before, slow = values_of(learner.policy_variables), values_of(learner.average_policy.parameters)
    critic = values_of(learner.critic_variables)
    _, metrics = learner.update(make_batch())
    assert int(learner.steps) == STEPS + 1
    for variables, old, step in (
        (learner.policy_variables, before, rate),
        (learner.critic_variables, critic, 1e-4),
    ):
        change = np.concatenate([np.abs(v - o).ravel() for v, o in zip(variables, old)])
        np.testing.assert_allclose(np.median(change), step / 1.5, rtol=1e-2)
    for v, o, s in zip(learner.policy_variables, slow, learner.average_policy.parameters):
        np.testing.assert_allclose(s, 0.999 * o + 0.001 * v.numpy(), rtol=1e-5, atol=1e-7)
    assert float(metrics["beta"]) == 1 and float(learner.beta) == 1
    np.testing.assert_allclose(metrics["learning_rate"], 1e-4 / 1.5, rtol=1e-5)


def test_each_update_draws_its_own_actions_which_a_checkpoint_repeats(tmp_path):
    _, learner = make_learner(seed=1)
    learner.steps.assign(7)
    path = tf.train.Checkpoint(learner=learner).write(str(tmp_path / "saved"))
    first = learner.noise(4)
    learner.steps.assign(8)
    assert np.all(learner.noise(4) != first)
    _, other = make_learner(seed=2)
    other.steps.assign(7)
    assert np.all(other.noise(4) != first)
    tf.train.Checkpoint(learner=other).read(path).assert_consumed()
    np.testing.assert_array_equal(other.noise(4), first)
    assert first.shape == (6, 4, A)


OPTIMUM = np.array([0.6, -0.4])


def test_it_learns_the_best_action_and_the_value_of_a_bandit():
    """An action ends the episode, with a reward of minus its squared distance from the optimum.

    Its windows are of any length, and several updates are made in a call.
    """
    config, _ = make_learner(
        "acer_lr0.0001", hidden_size=16, learning_rate=3e-2, policy_learning_rate=3e-2
    )
    tf.random.set_seed(0)
    learner, size, updates, state = new_learner(config), 32, 3, tf.zeros([1, D])
    loop = UpdateLoop(learner.update, updates, size, jit_compile=False)
    rows = updates * size

    def batch_of(generator):
        mean, deviation = (np.tile(x, (rows, 1)) for x in learner.policy(state))
        action = mean + deviation * generator.normal(size=[rows, A])
        extras = {"mean": mean, "variance": deviation**2}
        states = tf.nest.map_structure(
            lambda column: tf.constant(np.repeat(column[:, np.newaxis], 2, 1), tf.float32),
            StoredState(np.zeros([rows, D]), action, extras),
        )
        rewards = tf.constant(-np.sum((action - OPTIMUM) ** 2, -1, keepdims=True), tf.float32)
        lengths = tf.ones([rows], tf.int64)
        steps = WindowBatch(states, rewards, lengths, tf.zeros([rows], tf.bool))
        return Batch(steps, tf.ones([rows]), tf.constant(100.0))

    def any_length(x):
        shape = [x.shape[0], None, *x.shape[2:]] if x.shape.rank > 1 else x.shape
        return tf.TensorSpec(shape, x.dtype)

    generator = np.random.default_rng(0)
    signature = tf.nest.map_structure(any_length, batch_of(generator))
    learn = tf.function(loop.learn, input_signature=[signature])
    for _ in range(100):
        learn(batch_of(generator))
    mean, deviation = learner.policy(state)
    np.testing.assert_allclose(mean[0], OPTIMUM, atol=0.1)
    # V = -E|a - optimum|^2 = -the sum of variances, as the mean is at the optimum.
    value = float(learner.critic.value(state)[0, 0])
    np.testing.assert_allclose(value, -np.sum(np.square(deviation[0])), atol=0.05)
    actions = tf.constant([[OPTIMUM], [OPTIMUM + 0.3]], tf.float32)
    best, worse = learner.critic.advantages(state, actions)[:, 0].numpy()
    np.testing.assert_allclose(best - worse, 0.18, atol=0.08)
