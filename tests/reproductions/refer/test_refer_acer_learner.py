"""ACER's learner: what its updates are made of, in NumPy (float64), and that it learns."""

import dataclasses

from episode_batches import metrics_of
from float64_networks import numeric_gradient, values_of
import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.data.data import StoredState
from common.learning.updates import UpdateLoop
from common.replay.episode_wire import WindowBatch
from common.types import Batch
from reproductions.refer import learner as learner_lib
from reproductions.refer.config import SETTINGS

D, A = 3, 2
LENGTHS = (5, 3, 1, 5)
B, L = len(LENGTHS), max(LENGTHS)
MEAN, DEVIATION = np.array([0.5, -1.0, 0.0]), np.array([2.0, 0.7, 3.0])
STEPS = 1_000_000  # updates done, so that annealing has an effect


def make_learner(setting="acer_lr1e-05", seed=0, **values):
    """A learner in the middle of its training, with networks that all differ."""
    values = {"hidden_size": 5, "discount": 0.9, **values}
    config = dataclasses.replace(SETTINGS.configuration(setting), **values)
    tf.random.set_seed(seed)
    learner = learner_lib.make_learner(config, D, A)
    rng = np.random.default_rng(seed)
    for variable in learner.trainable_variables:
        variable.assign(rng.normal(scale=0.5, size=variable.shape))
    for variable, near in zip(learner.average_policy.parameters, learner.policy.parameters):
        variable.assign(near + rng.normal(scale=0.1, size=near.shape))
    learner.standardizer.set(MEAN, DEVIATION)
    learner.steps.assign(STEPS)
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


class Float64:
    """The networks of a learner in float64, on standardised observations."""

    def __init__(self, learner):
        self._values = {v.ref(): v.numpy().astype(np.float64) for v in learner.variables}

    def of(self, variable):
        return self._values[variable.ref()]

    def run(self, mlp, *inputs):
        h = np.concatenate(inputs, axis=-1)
        for layer in mlp.layers:
            if isinstance(layer, snt.Linear):
                h = h @ self.of(layer.w) + self.of(layer.b)
            else:
                h = h / (1 + np.abs(h))
        return h

    def policy(self, network, x):
        """Means and standard deviations."""
        mean = self.run(network.mlp, x)
        return mean, np.sqrt(np.log1p(np.exp(self.of(network.raw_variance)))) + 0 * mean


class Expected:
    """An update, window by window and step by step."""

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

    def values(self, x):
        return self.networks.run(self.learner.critic.value, x)[:, 0]

    def advantage(self, x, action):
        return self.networks.run(self.learner.critic.advantage.mlp, x, action)[:, 0]

    def q(self, x, action, drawn_actions):
        centre = np.mean([self.advantage(x, u) for u in drawn_actions[1:]], axis=0)
        return self.values(x) + self.advantage(x, action) - centre

    def constants(self, x, action, mu, mu_variance, rewards, bootstrap, noise):
        """What gradients do not flow through: actions, weights, targets, the direction."""
        mean, deviation = self.networks.policy(self.learner.policy, x[:-1])
        drawn = mean + deviation * noise
        values = self.values(x)
        q = self.q(x[:-1], action, drawn)

        def rho_of(a):
            log = -0.5 * ((a - mean) / deviation) ** 2 - np.log(deviation)
            log += 0.5 * (a - mu) ** 2 / mu_variance + 0.5 * np.log(mu_variance)
            return np.exp(log.sum(-1).clip(-np.log(1000), np.log(1000)))

        rho, n = rho_of(action), len(rewards)
        q_ret, q_opc = np.zeros(n), np.zeros(n)
        ret = opc = values[-1] * bootstrap
        for t in reversed(range(n)):
            q_ret[t], q_opc[t] = rewards[t] + 0.9 * ret, rewards[t] + 0.9 * opc
            ret = values[t] + min(1, rho[t]) ** (1 / A) * (q_ret[t] - q[t])
            opc = values[t] + q_opc[t] - q[t]

        def score(a):
            z = (a - mean) / deviation
            return np.concatenate([z / deviation, (z**2 - 1) / deviation], -1)

        weight = np.minimum(5, rho) * (q_opc - values[:-1])
        own = self.q(x[:-1], drawn[0], drawn) - values[:-1]
        correction = np.maximum(0, 1 - 5 / rho_of(drawn[0])) * own
        g = weight[:, None] * score(action) + correction[:, None] * score(drawn[0])
        average, average_deviation = self.networks.policy(self.learner.average_policy, x[:-1])
        k = np.concatenate(
            [
                (mean - average) / deviation**2,
                1 / deviation - (average_deviation**2 + (mean - average) ** 2) / deviation**3,
            ],
            -1,
        )
        excess = np.maximum(0, np.sum(k * g, -1) - self.config.trust_region)
        z = g - (excess / np.sum(k**2, -1))[:, None] * k
        ratio = mu_variance / deviation**2
        kl = 0.5 * np.sum(ratio - 1 - np.log(ratio) + (mean - mu) ** 2 / deviation**2, -1)
        target = values[:-1] + np.minimum(1, rho) * (q_ret - q)
        return dict(
            drawn=drawn, rho=rho, q=q, q_ret=q_ret, target=target, z=z, kl=kl, values=values
        )

    def critic_loss(self):
        total = 0
        for (x, action, *_), part in zip(self.windows, self.parts):
            q = self.q(x[:-1], action, part["drawn"])
            total += 0.5 * np.sum((q - part["q_ret"]) ** 2)
            total += 0.5 * np.sum((self.values(x[:-1]) - part["target"]) ** 2)
        return total / sum(LENGTHS)

    def policy_loss(self):
        total = 0
        for (x, *_), part in zip(self.windows, self.parts):
            outputs = np.concatenate(self.networks.policy(self.learner.policy, x[:-1]), -1)
            total -= np.sum(part["z"] * outputs)
        return total / sum(LENGTHS)

    def joined(self, name):
        return np.concatenate([part[name] for part in self.parts])


@pytest.mark.parametrize("trust_region", [0.001, 1.0])
def test_the_gradients_are_those_of_the_equations(trust_region):
    config, learner = make_learner(trust_region=trust_region)
    batch = make_batch()
    expected, found = Expected(config, learner, batch), learner.gradients(batch)
    rho = expected.joined("rho")
    assert rho.max() > 1 and rho.min() < 1
    for loss, gradients, variables in (
        (expected.policy_loss, found.gradients.policy, learner.policy_variables),
        (expected.critic_loss, found.gradients.critic, learner.critic_variables),
    ):
        for gradient, variable in zip(gradients, variables, strict=True):
            numeric = numeric_gradient(loss, expected.networks.of(variable))
            np.testing.assert_allclose(gradient, numeric, rtol=5e-3, atol=1e-4)
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
        wanted = np.concatenate([one[ends] for one in values])
        np.testing.assert_allclose(of_steps(column), wanted, rtol=1e-4, atol=1e-5)


def test_the_other_direction_of_the_divergence_is_a_switch():
    (_, one), (_, other) = make_learner(), make_learner(divergence="policy_to_behavior")
    batch = make_batch()
    first, second = (learner.gradients(batch) for learner in (one, other))
    assert np.all(first.outputs.divergences != second.outputs.divergences)
    for a, b in zip(first.gradients.policy, second.gradients.policy):
        np.testing.assert_array_equal(a, b)


def test_the_authors_exponent_is_a_switch():
    (_, one), (_, other) = make_learner(), make_learner(trace_exponent=0.5)
    batch = make_batch()
    a, b = (learner.gradients(batch).metrics["critic_loss"] for learner in (one, other))
    assert a != b


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
    np.testing.assert_allclose(
        tf.reshape(found.outputs.rhos, [B, -1])[:, more:], tf.reshape(expected.outputs.rhos, [B, L])
    )


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


def test_the_average_policy_begins_as_the_policy():
    learner = learner_lib.make_learner(SETTINGS.configuration("acer_lr1e-05"), D, A)
    for v, s in zip(learner.policy.parameters, learner.average_policy.parameters, strict=True):
        np.testing.assert_array_equal(v, s)


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


def test_several_updates_of_windows_in_a_call():
    (_, one), (_, other) = make_learner(), make_learner()
    batches = [make_batch(0), make_batch(1)]
    joined = tf.nest.map_structure(lambda *c: tf.concat(c, 0), *[batch.steps for batch in batches])
    batch = Batch(joined, tf.fill([2 * B], 0.1), tf.constant(10.0))
    loop = UpdateLoop(one.update, 2, B, jit_compile=False)
    signature = tf.nest.map_structure(
        lambda x: tf.TensorSpec(
            [x.shape[0], None, *x.shape[2:]] if x.shape.rank > 1 else x.shape, x.dtype
        ),
        batch,
    )
    outputs, _ = tf.function(loop.learn, input_signature=[signature])(batch)
    expected = [other.update(one)[0] for one in batches]
    for name in learner_lib.Refresh._fields:
        wanted = tf.concat([getattr(each, name) for each in expected], 0)
        np.testing.assert_allclose(getattr(outputs, name), wanted, rtol=1e-4, atol=1e-5)
    assert int(one.steps) == STEPS + 2


OPTIMUM = np.array([0.6, -0.4])


def test_it_learns_the_best_action_and_the_value_of_a_bandit():
    """An action ends the episode, with a reward of minus its squared distance from the optimum."""
    config, learner = make_learner(
        "acer_lr0.0001", hidden_size=16, learning_rate=1e-2, policy_learning_rate=1e-2
    )
    tf.random.set_seed(0)
    learner = learner_lib.make_learner(config, D, A)
    size, one = 64, tf.zeros([1, D])

    @tf.function
    def train(num_updates):
        for i in tf.range(num_updates):
            mean, deviation = learner.policy(one)
            noise = tf.random.stateless_normal([size, A], [0, i])
            action = mean + deviation * noise
            rewards = -tf.reduce_sum(tf.square(action - OPTIMUM), axis=-1)

            def twice(column):
                return tf.tile(column[:, tf.newaxis], [1, 2, 1])

            variance = tf.square(deviation)
            extras = {"mean": tf.tile(mean, [size, 1]), "variance": tf.tile(variance, [size, 1])}
            extras = tf.nest.map_structure(twice, extras)
            states = StoredState(tf.zeros([size, 2, D]), twice(action), extras)
            lengths = tf.ones([size], tf.int64)
            steps = WindowBatch(states, rewards[:, tf.newaxis], lengths, tf.zeros([size], tf.bool))
            learner.update(Batch(steps, tf.ones([size]), tf.constant(100.0)))

    train(tf.constant(900))
    mean, deviation = learner.policy(one)
    np.testing.assert_allclose(mean[0], OPTIMUM, atol=0.07)
    # V = -E|a - optimum|^2 = -the sum of variances, as the mean is at the optimum.
    value = float(learner.critic.value(one)[0, 0])
    np.testing.assert_allclose(value, -np.sum(np.square(deviation[0])), atol=0.05)
    actions = tf.constant([[OPTIMUM], [OPTIMUM + 0.3]], tf.float32)
    best, worse = learner.critic.advantages(one, actions)[:, 0].numpy()
    np.testing.assert_allclose(best - worse, 0.18, atol=0.08)
