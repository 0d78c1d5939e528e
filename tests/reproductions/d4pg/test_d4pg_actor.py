"""The actor and the evaluator, on the real adder and the real cartpole."""

import re

from launched import run_code
import numpy as np
import pytest
import tensorflow as tf

from common import environments
from common.acting.loop import ActingLoop
from common.acting.policy import OrnsteinUhlenbeckNoise
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


@pytest.mark.parametrize(
    "kind, make",
    [
        ("gaussian", lambda seed: OrnsteinUhlenbeckNoise(0.2, 1.0, seed)),
        ("ou", lambda seed: OrnsteinUhlenbeckNoise(0.2, 0.1, seed)),
    ],
)
def test_noise_is_that_of_the_configuration(kind, make):
    """In canonical units, on the policy's actions; tests/acting has what either kind is."""
    config = make_config(noise=kind, noise_sigma=0.2, ou_theta=0.1)
    actor, quiet = D4PGActor(config, EnvironmentSpec(3, 2), seed=0), make_evaluator(config)
    parameters = packing.to_numpy(d4pg.D4PGLearner(config, EnvironmentSpec(3, 2)).actor_variables)
    actor.load(parameters)
    quiet.load(parameters)
    noise = make(*np.random.SeedSequence(0).generate_state(2).tolist()[:1])
    observation = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    state, own_state = actor.initial_state(50), noise.initial_state((50, 2))
    for _ in range(3):
        action, state, _ = actor(observation, state)
        expected, own_state = noise(quiet(observation)[0], own_state)
        np.testing.assert_allclose(action, expected, atol=1e-6)


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


_WITHOUT_PROBABILITY = """
import sys
from common.environments.spec import EnvironmentSpec
from reproductions.d4pg.d4pg import D4PGActor
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import gaussian
from reproductions.d4pg.d4pg import D4PGLearner

D4PGActor(D4PGConfig(critic="mixture"), EnvironmentSpec(3, 2), seed=0)
D4PGLearner(D4PGConfig(), EnvironmentSpec(3, 2))
print("tensorflow_probability" in sys.modules)
gaussian.mixture([[1.0, 2.0, 3.0]], 1e-2)
print("tensorflow_probability" in sys.modules)
"""


def test_tensorflow_probability_is_imported_only_for_a_mixtures_learner(tmp_path):
    """It takes 1 s and 61 MB of each process. An actor also has mixtures, but in NumPy."""
    _, output = run_code(tmp_path, _WITHOUT_PROBABILITY)
    assert re.findall("True|False", output) == ["False", "True"], output
