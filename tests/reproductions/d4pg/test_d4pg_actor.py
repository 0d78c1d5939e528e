"""The actor and the evaluator, on the real adder and the real cartpole."""

import re

from launched import run_code
import numpy as np
import pytest
import tensorflow as tf
import tree

from common import environments
from common.acting.loop import ActingLoop
from common.data.transitions import NStepAdder
from common.environments.batch import BatchedEnvironment
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from reproductions.d4pg import d4pg
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import D4PG, D4PGActor

K = 4


def make_config(**values):
    defaults = dict(policy_sizes=(16, 8), critic_sizes=(16, 8), v_min=0.0, v_max=5.0, discount=0.9)
    return D4PGConfig(**{**defaults, **values})


def make_batch_environment(seed=0):
    names = ["control:cartpole:swingup"] * K
    return BatchedEnvironment([environments.make(name, seed + i) for i, name in enumerate(names)])


def randomize(variables, seed, scale=0.5):
    generator = np.random.default_rng(seed)
    for variable in variables:
        variable.assign(generator.normal(scale=scale, size=variable.shape))


def make_evaluator(config):
    return D4PG(config).make_evaluator(EnvironmentSpec(3, 2), 1)


def act(loop_steps, actor, config, environment=None):
    """Returns the transitions of `loop_steps` timesteps, as constants, and their priorities."""
    adder = NStepAdder(range(K), config.n_step, config.discount, policy=actor, send_batch=np.inf)
    loop = ActingLoop(environment or make_batch_environment(), actor, adder, lambda *_: None)
    for _ in range(loop_steps):
        loop.step()
    ((items, _),) = adder.flush()
    return tf.nest.map_structure(tf.constant, items.steps), items.priorities


@pytest.mark.parametrize("length, critic", [(5, "categorical"), (1, "scalar")])
def test_initial_priorities_are_the_learners(length, critic):
    """The learner's own formula, its targets being the online networks (equations 15 and 16)."""
    config = make_config(n_step=length, critic=critic)
    spec = EnvironmentSpec.of(make_batch_environment())
    learner = d4pg.D4PGLearner(config, spec)
    randomize(learner.networks.variables, seed=1)
    for source, target in zip(learner.networks.variables, learner.target_networks.variables):
        target.assign(source)
    actor = D4PGActor(config, spec, seed=2)
    actor.load(packing.to_numpy(learner.actor_variables))

    steps, priorities = act(40, actor, config)
    assert priorities.dtype == np.float32
    assert priorities.shape == ((40 - length) * K,)
    size = len(priorities)
    uniform = Batch(steps, tf.fill([size], 1.0 / size), tf.constant(float(size)))
    expected, _ = learner.update(uniform)
    np.testing.assert_allclose(priorities, expected, atol=1e-4)
    assert np.ptp(priorities) > 0.05 and np.all(priorities > 0)


def test_initial_priorities_of_a_mixture_are_the_learners_up_to_its_samples():
    config = make_config(critic="mixture", num_target_samples=4_000, min_variance=0.1)
    spec = EnvironmentSpec.of(make_batch_environment())
    learner = d4pg.D4PGLearner(config, spec)
    randomize(learner.networks.variables, seed=1)
    actor = D4PGActor(config, spec, seed=2)
    actor.load(packing.to_numpy(learner.actor_variables))
    steps, priorities = act(20, actor, config)
    kind = d4pg.make_critic_kind(config)
    target = d4pg.backup(steps, learner.networks, kind, tf.constant([0, 0]))
    outputs = learner.networks.critic(steps.observation_tm1, steps.action_tm1)
    expected = np.abs(kind.distance(target, outputs))
    np.testing.assert_allclose(priorities, expected, atol=0.06)
    assert np.ptp(expected) > 0.2


def test_initial_priorities_use_the_values_of_the_time_each_state_was_seen():
    """Weights that arrive in between change where a transition ends, not where it began."""
    config = make_config(n_step=1)
    environment = make_batch_environment()
    spec = EnvironmentSpec.of(environment)
    old, new = (d4pg.D4PGLearner(config, spec) for _ in range(2))
    randomize(old.networks.variables, seed=1)
    randomize(new.networks.variables, seed=2)
    actor = D4PGActor(config, spec, seed=3)
    adder = NStepAdder(range(K), 1, config.discount, policy=actor)
    loop = ActingLoop(environment, actor, adder, lambda *_: None)
    actor.load(packing.to_numpy(old.actor_variables))
    loop.step()
    actor.load(packing.to_numpy(new.actor_variables))
    ((items, _),) = loop.step()

    steps = tf.nest.map_structure(tf.constant, items.steps)
    kind = d4pg.make_critic_kind(config)
    target = d4pg.backup(steps, new.networks, kind, tf.constant([0, 0]))
    expected = kind.distance(target, old.networks.critic(steps.observation_tm1, steps.action_tm1))
    np.testing.assert_allclose(items.priorities, expected, atol=1e-4)


def test_noise_is_gaussian_of_the_configured_std():
    config = make_config(noise_sigma=0.2)
    actor = D4PGActor(config, EnvironmentSpec(3, 2), seed=0)
    learner = d4pg.D4PGLearner(config, EnvironmentSpec(3, 2))
    policy = learner.networks.policy
    actor.load(packing.to_numpy(learner.actor_variables))
    observation = np.random.default_rng(0).normal(size=(5_000, 3)).astype(np.float32)
    first, second = (actor(observation)[0] - policy(observation).numpy() for _ in range(2))
    noise = np.concatenate([first, second], 1)  # the policy starts near 0: nothing is clipped
    assert abs(noise.mean()) < 0.01
    np.testing.assert_allclose(noise.std(0), 0.2, atol=0.01)
    np.testing.assert_allclose(np.mean(np.abs(noise) < 0.2), 0.6827, atol=0.02)
    correlation = np.corrcoef(noise.T) - np.eye(4)  # over dimensions and from step to step
    assert np.abs(correlation).max() < 0.06
    assert np.abs(np.corrcoef(noise[:-1, 0], noise[1:, 0])[0, 1]) < 0.06  # over actors


def test_ou_noise_is_correlated_within_an_episode_and_begins_anew_with_the_next():
    config = make_config(noise="ou", noise_sigma=0.01, ou_theta=0.1)
    actor = D4PGActor(config, EnvironmentSpec(3, 2), seed=0)
    quiet = make_evaluator(config)
    parameters = packing.to_numpy(d4pg.D4PGLearner(config, EnvironmentSpec(3, 2)).actor_variables)
    actor.load(parameters)
    quiet.load(parameters)
    observation = np.zeros((500, 3), np.float32)
    state, noise = actor.initial_state(500), []
    assert state.shape == (500, 2) and not state.any()
    for _ in range(40):
        action, state, _ = actor(observation, state)
        noise.append(action - quiet(observation)[0])
    noise = np.stack(noise)
    np.testing.assert_allclose(noise[0].std(), 0.01, rtol=0.1)
    np.testing.assert_allclose(noise[-1].std(), 0.01 / np.sqrt(1 - 0.9**2), rtol=0.15)
    correlation = np.corrcoef(noise[-2].ravel(), noise[-1].ravel())[0, 1]
    np.testing.assert_allclose(correlation, 0.9, atol=0.05)
    action, _, _ = actor(observation, actor.initial_state(500))
    np.testing.assert_allclose((action - quiet(observation)[0]).std(), 0.01, rtol=0.1)


def test_evaluator_is_the_policy_without_noise():
    config = make_config()
    learner = d4pg.D4PGLearner(config, EnvironmentSpec(3, 2))
    randomize(learner.networks.variables, seed=4)
    evaluator = make_evaluator(config)
    evaluator.load(packing.to_numpy(learner.actor_variables))
    observation = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    action, state, extras = evaluator(observation)
    np.testing.assert_allclose(action, learner.networks.policy(observation), atol=1e-5)
    np.testing.assert_array_equal(action, evaluator(observation)[0])
    assert state == () and extras == {}


def overwriting(*functions):
    """Functions that write each result over the arrays of the first result of any of them."""
    kept = []

    def of(function):
        def call(*arguments):
            result = function(*arguments)
            kept.append(result)
            for mine, new in zip(tree.flatten(kept[0]), tree.flatten(result), strict=True):
                mine[...] = new
            return kept[0]

        return call

    return map(of, functions)


def test_stored_transitions_are_copies():
    config = make_config(n_step=3)
    spec = EnvironmentSpec.of(make_batch_environment())
    first, second = (D4PGActor(config, spec, seed=0) for _ in range(2))
    parameters = packing.to_numpy(d4pg.D4PGLearner(config, spec).actor_variables)
    first.load(parameters)
    second.load(parameters)
    expected, priorities = act(12, first, config)
    environment = make_batch_environment()
    environment.reset, environment.step = overwriting(environment.reset, environment.step)
    (call,) = overwriting(second)

    class Overwriting(D4PGActor):
        def __call__(self, observation, state=()):
            return call(observation, state)

    actor = Overwriting(config, spec, seed=0)
    actor.load(parameters)
    actual = act(12, actor, config, environment)
    tree.map_structure(np.testing.assert_array_equal, actual, (expected, priorities))
    per_step = expected.observation_tm1.numpy().reshape(-1, K, spec.observation_size)
    assert np.all(np.abs(np.diff(per_step, axis=0)).max(axis=(1, 2)) > 0)


_WITHOUT_PROBABILITY = """
import sys
from common.environments.spec import EnvironmentSpec
from reproductions.d4pg.d4pg import D4PGActor
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import gaussian_mixture
from reproductions.d4pg.d4pg import D4PGLearner

D4PGActor(D4PGConfig(critic="mixture"), EnvironmentSpec(3, 2), seed=0)
D4PGLearner(D4PGConfig(), EnvironmentSpec(3, 2))
print("tensorflow_probability" in sys.modules)
gaussian_mixture.mixture([[1.0, 2.0, 3.0]], 1e-2)
print("tensorflow_probability" in sys.modules)
"""


def test_tensorflow_probability_is_imported_only_for_a_mixtures_learner(tmp_path):
    """It takes 1 s and 61 MB of each process. An actor also has mixtures, but in NumPy."""
    _, output = run_code(tmp_path, _WITHOUT_PROBABILITY)
    assert re.findall("True|False", output) == ["False", "True"], output
