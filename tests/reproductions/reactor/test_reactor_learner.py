"""The learner against sections 3.1 to 3.4, written down in NumPy (float64) as the paper has them.

The twin takes the outputs of both networks, and gives the losses' gradients with respect to those
of the online network. These, sent back through the network, must be the learner's.
"""

import dataclasses

import numpy as np
import pytest
from reproduction_readme import Readme
import tensorflow as tf

from common.data.sequences import StoredTimestep
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from reproductions.reactor import reactor
from reproductions.reactor.config import SETTINGS
from reproductions.reactor.networks import ReactorOutputs, ReactorState

B, T, A, K = 3, 6, 3, 5  # sequences of T transitions, T + 1 frames
GAMMA, N_MEM = 0.9, 40.0
SHAPE = (6, 6, 2)
SPEC = EnvironmentSpec(72, A, image_shape=SHAPE, is_discrete=True)
FIRST, MID, LAST = range(3)
SMALL = dict(torso="minatar", num_atoms=K, v_min=-2.0, v_max=1.0, sequence_length=T + 1)


def make_config(setting="reactor", **values):
    return dataclasses.replace(SETTINGS.configuration(setting), **{**SMALL, **values})


def make_learner(setting="reactor", seed=0, **values):
    """A learner whose networks differ, with outputs that differ from action to action."""
    learner = reactor.ReactorLearner(make_config(setting, **values), SPEC)
    generator = np.random.default_rng(seed)
    for variable in (*learner.actor_variables, *learner.target_variables):
        inputs = np.prod(variable.shape[:-1]) if len(variable.shape) > 1 else 4
        variable.assign(generator.normal(scale=2 * inputs**-0.5, size=variable.shape))
    return learner


def make_batch(learner, seed=0, batch_size=B):
    """The first row has a lost life and the end of an episode, the second its time's end."""
    generator = np.random.default_rng(seed)
    step_type = np.full((B, T + 1), MID)
    discount = np.full((B, T + 1), GAMMA)
    reward = generator.normal(size=(B, T + 1)) * 0.5
    discount[0, 1] = 0.0  # a lost life
    step_type[0, 3:5] = LAST, FIRST
    discount[0, 3] = 0.0
    step_type[1, 2:4] = LAST, FIRST  # discount GAMMA: only the time is up
    step_type[2, 0] = FIRST
    discount[step_type == FIRST] = reward[step_type == FIRST] = 0.0
    mu = 0.9 * generator.dirichlet(np.ones(A), size=(B, T + 1)) + 0.1 / A
    extras = {"mu": mu.astype(np.float32)}
    if learner._config.stored_state:
        state = learner.network.initial_state(B)
        extras["state"] = tf.nest.map_structure(
            lambda leaf: generator.normal(size=(B, T + 1, leaf.shape[1])).astype(np.float32), state
        )
    steps = StoredTimestep(
        observation=generator.integers(0, 256, (B, T + 1, *SHAPE)).astype(np.uint8),
        action=generator.integers(0, A, (B, T + 1)).astype(np.int32),
        reward=reward.astype(np.float32),
        discount=discount.astype(np.float32),
        step_type=step_type.astype(np.uint8),
        extras=extras,
    )
    p = generator.uniform(0.2, 2, B) / N_MEM
    steps = tf.nest.map_structure(lambda column: tf.constant(column[:batch_size]), steps)
    return Batch(steps, tf.constant(p[:batch_size], tf.float32), tf.constant(N_MEM))


def with_columns(batch, **columns):
    steps = batch.steps._replace(**{name: tf.constant(value) for name, value in columns.items()})
    return batch._replace(steps=steps)


def unroll(learner, network, steps, frames):
    """Returns a network's outputs [T, B, ...] at some of the frames, run on their own."""
    images = tf.transpose(steps.observation, [1, 0, 2, 3, 4])[frames]
    is_first = tf.transpose(steps.step_type)[frames] == FIRST
    state = network.initial_state(images.shape[1])
    if learner._config.stored_state:
        state = tf.nest.map_structure(
            lambda leaf: leaf[:, frames.start or 0], steps.extras["state"]
        )
    return network.unroll(images, is_first, state)[0]


class Twin:
    """Losses and their gradients in float64. Frames are x[0] to x[T], sequence by sequence."""

    def __init__(self, config, online, target, batch):
        self.config = config
        steps = tf.nest.map_structure(lambda column: column.numpy(), batch.steps)
        self.a, self.r, self.g = steps.action, steps.reward.astype(float), steps.discount
        self.mu, self.step_type = steps.extras["mu"].astype(float), steps.step_type
        self.z = np.linspace(config.v_min, config.v_max, config.num_atoms)
        size = len(self.a)
        weights = 1 / (N_MEM * batch.probabilities.numpy().astype(float))
        self.weights = weights**config.importance_exponent
        self.policy = np.asarray(online.policy, float)
        self.q = np.asarray(online.q, float)
        self.logits = None if online.logits is None else np.asarray(online.logits, float)
        # At the target network's index of frame s.
        self.pi_bar = {s: np.asarray(target.policy[s - 1], float) for s in range(1, T + 1)}
        values = target.q if self.logits is None else tf.nn.softmax(target.logits)
        self.q_bar = {s: np.asarray(values[s - 1], float) for s in range(1, T + 1)}

        self.d_policy = np.zeros_like(self.policy)
        self.d_values = np.zeros_like(self.q if self.logits is None else self.logits)
        self.loss, self.priorities, self.traces = 0.0, np.zeros(size), []
        for b in range(size):
            scale = self.weights[b] / (T * size)
            self.traces += [self.c(b, s) for s in range(1, T + 1)]
            for t in range(T):
                if self.step_type[b, t] != LAST:
                    self._add(b, t, scale, size)

    def c(self, b, s):
        """Equation 4; at LAST no action was taken."""
        if self.step_type[b, s] == LAST:
            return 0.0
        action = self.a[b, s]
        return self.config.trace_lambda * min(1, self.pi_bar[s][b, action] / self.mu[b, s, action])

    def backup(self, value, returns, discount):
        """A value as seen n steps before: scalar, or projected (section 3.2)."""
        if self.logits is None:
            return returns + discount * value
        projected = np.zeros(K)
        for j, mass in enumerate(value):
            atom = np.clip(returns + discount * self.z[j], self.z[0], self.z[-1])
            spacing = self.z[1] - self.z[0]
            projected += mass * np.maximum(0, 1 - np.abs(atom - self.z) / spacing)
        return projected

    def target(self, b, t):
        """q*(x_t, a_t), or R: the sum of all n-step backups."""
        total, trace, returns, discount = 0.0, 1.0, 0.0, 1.0
        for s in range(t + 1, T + 1):
            returns += discount * self.r[b, s]
            discount *= self.g[b, s]
            c = 0.0 if s == T else self.c(b, s)
            for a in range(A):
                alpha = trace * (self.pi_bar[s][b, a] - (a == self.a[b, s]) * c)
                total = total + alpha * self.backup(self.q_bar[s][b, a], returns, discount)
            trace *= c
        return total

    def _add(self, b, t, scale, size):
        action, target = self.a[b, t], self.target(b, t)
        pi, q, mu = self.policy[t, b], self.q[t, b], self.mu[b, t]
        if self.logits is None:
            r, error = target, target - q[action]
            self.loss += scale * error**2 / 2
            self.d_values[t, b, action] -= scale * error
            self.priorities[b] += abs(error) / T
        else:
            np.testing.assert_allclose(np.sum(target), 1, rtol=1e-5)
            e = np.exp(self.logits[t, b, action] - self.logits[t, b, action].max())
            probabilities, r = e / e.sum(), self.z @ target
            self.loss -= scale * target @ np.log(probabilities)
            self.d_values[t, b, action] += scale * (probabilities - target)
            self.priorities[b] += np.abs(target - probabilities).sum() / T
        # The policy gradient: coefficients of grad pi(a).
        name, taken = self.config.policy_gradient, np.eye(A)[action]
        if name in ("beta_loo", "one_over_mu"):
            beta = 1 / mu[action]
            if name == "beta_loo":
                beta = min(self.config.c, beta)
            ascent = q + taken * beta * (r - q[action])
        else:
            c = self.config.c if name == "tislr" else np.inf
            v = pi @ q
            ascent = taken * min(c, pi[action] / mu[action]) * (r - v)
            ascent = (ascent + np.maximum(pi / mu - c, 0) * mu * (q - v)) / pi
        entropy = -(np.log(pi) + 1)
        self.d_policy[t, b] -= scale * (ascent + self.config.entropy_cost * entropy)


CASES = [
    *[(name, {}) for name in SETTINGS.names if name != "reactor_20_workers"],
    ("reactor", {"c": 2.0, "trace_lambda": 0.7, "importance_exponent": 0.5}),
    ("reactor", {"entropy_cost": 5.0, "policy_floor": 0.3}),
    ("reactor_tislr", {"c": 1.0, "distributional": False}),
    ("reactor_nd", {"stored_state": True}),
]


@pytest.mark.parametrize("setting, values", CASES)
def test_an_update_is_the_papers(setting, values):
    learner = make_learner(setting, **values)
    batch, config = make_batch(learner), learner._config
    target = unroll(learner, learner.target_network, batch.steps, slice(1, None))
    with tf.GradientTape() as tape:
        online = unroll(learner, learner.network, batch.steps, slice(0, T))
        outputs = [online.policy, online.q if online.logits is None else online.logits]
    twin = Twin(config, online, target, batch)
    sent_back = [tf.constant(g, tf.float32) for g in (twin.d_policy, twin.d_values)]
    expected = tape.gradient(outputs, learner.actor_variables, output_gradients=sent_back)

    before = packing.to_numpy(learner.actor_variables)
    gradients, priorities, metrics = learner.gradients(batch)
    for variable, found, wanted in zip(learner.actor_variables, gradients, expected, strict=True):
        scale = np.abs(wanted).max()
        assert scale > 0, variable.name
        np.testing.assert_allclose(found, wanted, atol=2e-4 * scale, err_msg=variable.name)
    np.testing.assert_allclose(priorities, twin.priorities, rtol=1e-4)
    norm = np.linalg.norm(np.concatenate([np.ravel(g) for g in expected]))
    wanted = {
        "loss": twin.loss,
        "entropy": -(twin.policy * np.log(twin.policy)).sum(-1).mean(),
        "mean_q": (twin.policy * twin.q).sum(-1).mean(),
        "mean_trace": np.mean(twin.traces),
        "priority_mean": twin.priorities.mean(),
        "priority_max": twin.priorities.max(),
        "importance_weight_mean": twin.weights.mean(),
        "gradient_norm": norm,
    }
    assert list(metrics) == list(wanted)
    (named,) = Readme("reactor").metrics("(?!)")
    assert named == [*metrics, "staleness", "staleness_max", "num_workers", "num_refused"]
    for name, value in wanted.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-3, atol=1e-5, err_msg=name)
    np.testing.assert_array_equal(packing.pack(learner.actor_variables), before)
    assert int(learner.steps) == 0  # gradients change nothing


class Chain(tf.Module):
    """A target network whose values of all actions are what the frame's first pixel says."""

    def __init__(self, policy):
        super().__init__()
        self.policy = policy

    def initial_state(self, batch_size):
        return ReactorState((), ())

    def unroll(self, images, is_first, state):
        q = tf.repeat(tf.cast(images[..., 0, 0, :1], tf.float32), A, axis=-1)
        return ReactorOutputs(tf.broadcast_to(self.policy, q.shape), None, q), state


def make_chain(lambda_, step_type, discount):
    """Frames of values 10, 20, ... and rewards 1, 2, ...: Q of the network itself is 0."""
    learner = make_learner("reactor_nd", trace_lambda=lambda_, sequence_length=4)
    for head in (learner.network.value_head, learner.network.advantage_head):
        for variable in head.trainable_variables:
            variable.assign(tf.zeros_like(variable))
    learner.target_network = Chain([0.5, 0.25, 0.25])
    images = np.zeros((1, 4, *SHAPE), np.uint8)
    images[0, :, 0, 0, 0] = [10, 20, 30, 40]
    steps = StoredTimestep(
        tf.constant(images),
        action=tf.zeros([1, 4], tf.int32),
        reward=tf.constant([[1.0, 2, 3, 4]]),
        discount=tf.constant([discount], tf.float32),
        step_type=tf.constant([step_type], tf.uint8),
        extras={"mu": tf.fill([1, 4, A], 1.0)},  # half as likely for the target's policy
    )
    return learner, Batch(steps, tf.constant([0.25]), tf.constant(4.0))


@pytest.mark.parametrize(
    "lambda_, step_type, discount, expected",
    [
        # r_2 + g V(x_2), r_3 + g V(x_3), r_4 + g V(x_4): of the frame after each.
        (0.0, [MID] * 4, [0.5] * 4, [2 + 10, 3 + 15, 4 + 20]),
        # c = 1/2 of the way is replaced by the next return, and the last frame closes it.
        (1.0, [MID] * 4, [0.5] * 4, [2 + 0.5 * (20 - 10 + 8.25), 3 + 0.5 * (30 - 15 + 12), 24]),
        # The end at frame 3; from LAST nothing is learnt, and nothing comes from FIRST before.
        (1.0, [MID, MID, LAST, FIRST], [0.5, 0.5, 0.0, 0.0], [2 + 0.5 * (20 - 10 + 1.5), 3, 0]),
        # A time limit: bootstrapped from all actions of LAST.
        (1.0, [MID, MID, LAST, FIRST], [0.5, 0.5, 0.5, 0.0], [2 + 0.5 * (10 + 9), 3 + 15, 0]),
        # A lost life: the return ends, the rest is learnt.
        (1.0, [MID] * 4, [0.5, 0.0, 0.5, 0.5], [2, 3 + 0.5 * (30 - 15 + 12), 24]),
    ],
)
def test_a_chain_of_known_values(lambda_, step_type, discount, expected):
    """No off-by-one: the priority is the mean of |R_t - 0| (pitfall 14)."""
    learner, batch = make_chain(lambda_, step_type, discount)
    gradients = learner.gradients(batch)
    np.testing.assert_allclose(gradients.outputs, [np.sum(expected) / 3], rtol=1e-6)


def gradients_of(learner, batch):
    found = learner.gradients(batch)
    return np.concatenate([np.ravel(g) for g in found.gradients]), found.outputs.numpy()


def test_the_action_at_an_episodes_last_frame_has_no_meaning():
    learner = make_learner(c=3.0)
    batch = make_batch(learner)
    gradient, priorities = gradients_of(learner, batch)
    at_last = batch.steps.step_type.numpy() == LAST
    action, mu = batch.steps.action.numpy(), batch.steps.extras["mu"].numpy()
    action[at_last] = (action[at_last] + 1) % A
    mu[at_last] = [0.05, 0.05, 0.9]
    changed = with_columns(batch, action=action)
    changed = changed._replace(steps=changed.steps._replace(extras={"mu": tf.constant(mu)}))
    for before, after in zip((gradient, priorities), gradients_of(learner, changed)):
        np.testing.assert_array_equal(before, after)


def test_the_first_frames_coefficient_is_never_applied():
    """Pitfall 5: with beta = 1 the mu of x_1 does not matter at all."""
    learner = make_learner()
    batch = make_batch(learner)
    mu = batch.steps.extras["mu"].numpy()
    mu[:, 0] = [0.8, 0.1, 0.1]
    changed = batch._replace(steps=batch.steps._replace(extras={"mu": tf.constant(mu)}))
    for before, after in zip(gradients_of(learner, batch), gradients_of(learner, changed)):
        np.testing.assert_array_equal(before, after)


def test_what_was_before_an_episode_does_not_reach_the_lstms():
    """Reset at FIRST, but not at a lost life, whose discount is 0, too."""
    learner = make_learner("reactor_nd")
    batch = make_batch(learner, batch_size=1)
    step_type = np.full((1, T + 1), MID, np.uint8)
    discount = np.full((1, T + 1), GAMMA, np.float32)
    discount[0, 3] = 0.0
    images = batch.steps.observation.numpy()
    other = images.copy()
    other[0, :3] = 255 - other[0, :3]

    def changes(types):
        """Which frames' policies and values the first three images change."""
        outputs = [
            unroll(
                learner,
                learner.network,
                with_columns(batch, observation=image, step_type=types, discount=discount).steps,
                slice(0, T),
            )
            for image in (images, other)
        ]
        return [np.any(outputs[0].q[t] != outputs[1].q[t]) for t in range(T)]

    assert changes(step_type) == [True] * T
    step_type[0, 3] = FIRST
    assert changes(step_type) == [True] * 3 + [False] * 3


def test_a_sequences_whole_loss_has_its_weight_and_its_priority_none():
    """Pitfall 10: 1 / (N P), without normalisation."""
    learner = make_learner()
    batch = make_batch(learner, batch_size=1)
    batch = batch._replace(probabilities=tf.constant([1 / N_MEM]))
    gradient, priorities = gradients_of(learner, batch)
    rare = batch._replace(probabilities=tf.constant([0.25 / N_MEM]))
    found, same = gradients_of(learner, rare)
    np.testing.assert_allclose(found, 4 * gradient, rtol=1e-3, atol=1e-5 * np.abs(gradient).max())
    np.testing.assert_array_equal(same, priorities)


@pytest.mark.parametrize("setting", ["reactor", "reactor_nd", "reactor_tislr"])
def test_gradients_that_are_none(setting):
    """Pitfall 8: which variables each loss reaches, and that targets reach none."""
    learner = make_learner(setting)
    batch = make_batch(learner)
    steps = tf.nest.map_structure(
        lambda column: tf.transpose(column, [1, 0, *range(2, len(column.shape))]), batch.steps
    )
    steps_tm1, steps_t = (
        tf.nest.map_structure(lambda c: c[part], steps) for part in (slice(0, T), slice(1, None))
    )
    support = learner.network.support
    with tf.GradientTape(persistent=True) as tape:
        target = unroll(learner, learner.target_network, batch.steps, slice(1, None))
        online = unroll(learner, learner.network, batch.steps, slice(0, T))
        own = reactor.retrace_targets(online, steps_t, support, 1.0)
        retraced = reactor.retrace_targets(target, steps_t, support, 1.0)
        values, _ = reactor.value_losses(online, steps_tm1.action, retraced.values)
        policy = reactor.policy_losses(online, steps_tm1, retraced.returns, learner._config)
        entropy = reactor.entropies(online.policy)
    network, target_network = learner.network, learner.target_network
    for loss in (own.values, own.returns, retraced.values, values, policy):
        assert set(tape.gradient(loss, target_network.trainable_variables)) == {None}
    for targets in own:
        assert set(tape.gradient(targets, network.trainable_variables)) == {None}
    of_policy = {
        v.ref() for m in (network.policy_lstm, network.policy_head) for v in m.trainable_variables
    }
    for loss, reaches_policy in ((values, False), (policy, True), (entropy, True)):
        for variable, gradient in zip(
            network.trainable_variables, tape.gradient(loss, network.trainable_variables)
        ):
            assert (gradient is not None) == ((variable.ref() in of_policy) == reaches_policy)


def test_adam_has_no_momentum():
    """Pitfall 16: a gradient of 0 moves nothing, and the first step is the learning rate."""
    learner = make_learner()
    before = packing.to_numpy(learner.actor_variables)
    learner.apply([tf.ones_like(variable) for variable in learner.actor_variables])
    after = packing.to_numpy(learner.actor_variables)
    np.testing.assert_allclose(after, before - 5e-5, atol=1e-6)
    learner.apply([tf.zeros_like(variable) for variable in learner.actor_variables])
    np.testing.assert_array_equal(packing.pack(learner.actor_variables), after)
    learner = make_learner(adam_beta1=0.9)
    learner.apply([tf.ones_like(variable) for variable in learner.actor_variables])
    after = packing.to_numpy(learner.actor_variables)
    learner.apply([tf.zeros_like(variable) for variable in learner.actor_variables])
    assert np.any(packing.to_numpy(learner.actor_variables) != after)


def test_the_target_is_a_copy_of_both_lstms_every_period():
    """Pitfall 13."""
    learner = reactor.ReactorLearner(make_config(target_period=3), SPEC)
    before = packing.to_numpy(learner.actor_variables)
    assert len(learner.target_variables) == len(learner.actor_variables)
    for step in range(1, 8):
        learner.update(make_batch(learner, seed=step))
        assert int(learner.steps) == step
        if step % 3 == 0:
            before = packing.to_numpy(learner.actor_variables)
        np.testing.assert_array_equal(packing.pack(learner.target_variables), before)
    assert np.any(packing.to_numpy(learner.actor_variables) != before)


def test_updates_on_one_batch_lower_the_loss():
    learner = make_learner(learning_rate=1e-2, target_period=10_000)
    update, batch = tf.function(learner.update), make_batch(learner)
    losses = [float(update(batch)[1]["loss"]) for _ in range(60)]
    assert np.all(np.isfinite(losses)) and losses[-1] < 0.8 * losses[0]
