"""The learner against sections 3.1 to 3.4, written down in NumPy (float64) as the paper has them.

The twin takes the outputs of both networks, and gives the losses' gradients with respect to those
of the online network. These, sent back through the network, must be the learner's. Its targets are
those that test_multistep.py compares with the paper's sums.
"""

import dataclasses
import functools

import numpy as np
import pytest
from reproduction_readme import Readme
from target_copies import check_hard_copies
import tensorflow as tf

from common.data.sequences import StoredTimestep
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from common.values import multistep
from reproductions.reactor import reactor
from reproductions.reactor.config import SETTINGS

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
        self.a, self.r = steps.action, steps.reward.astype(float)
        self.mu, self.step_type = steps.extras["mu"].astype(float), steps.step_type
        self.z = np.linspace(config.v_min, config.v_max, config.num_atoms)
        size = len(self.a)
        weights = 1 / (N_MEM * batch.probabilities.numpy().astype(float))
        self.weights = weights**config.importance_exponent
        self.policy = np.asarray(online.policy, float)
        self.q = np.asarray(online.q, float)
        self.logits = None if online.logits is None else np.asarray(online.logits, float)
        # The target network's index k is frame k + 1, and at LAST no action was taken.
        columns = (steps.action, self.mu, self.r, steps.discount.astype(float), steps.step_type)
        a, mu, r, g, step_type = (np.swapaxes(column, 0, 1)[1:] for column in columns)
        pi = np.asarray(target.policy, float)
        c = multistep.retrace_coefficients(pi, a, mu, config.trace_lambda)
        c *= (step_type != LAST).astype(float)
        if self.logits is None:
            q = np.asarray(target.q, float)
            self.targets = multistep.scalar_retrace_targets(q, pi, a, c, r, g).numpy()
        else:
            q = np.asarray(tf.nn.softmax(target.logits), float)
            self.targets = multistep.categorical_retrace_targets(q, pi, a, c, r, g, self.z).numpy()
        self.traces = c.numpy()
        self.d_policy = np.zeros_like(self.policy)
        self.d_values = np.zeros_like(self.q if self.logits is None else self.logits)
        self.loss, self.priorities = 0.0, np.zeros(size)
        for b in range(size):
            scale = self.weights[b] / (T * size)
            for t in range(T):
                if self.step_type[b, t] != LAST:
                    self._add(b, t, scale)

    def _add(self, b, t, scale):
        action, target = self.a[b, t], self.targets[t, b]
        pi, q, mu = self.policy[t, b], self.q[t, b], self.mu[b, t]
        if self.logits is None:
            r, error = target, target - q[action]
            self.loss += scale * error**2 / 2
            self.d_values[t, b, action] -= scale * error
            self.priorities[b] += abs(error) / T
        else:
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
    *[
        (f"reactor{name}", {})
        for name in ("", "_nd", "_tislr", "_one_step", "_one_over_mu", "_islr", "_stored_state")
    ],
    ("reactor", {"c": 2.0, "trace_lambda": 0.7, "importance_exponent": 0.5}),
    ("reactor", {"entropy_cost": 5.0, "policy_floor": 0.3}),
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
    learner = reactor.ReactorLearner(make_config(target_period=2), SPEC)
    networks = learner.actor_variables, learner.target_variables
    assert len(networks[0]) == len(networks[1])
    check_hard_copies(learner, *networks, functools.partial(make_batch, learner), period=2)
