"""The actor and the evaluator."""

import numpy as np
import tensorflow as tf

from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from reproductions.apex.dpg.config import DPGConfig
from reproductions.apex.dpg.dpg import ApexDPG

SPEC = EnvironmentSpec(observation_size=3, action_size=2)


def make_agent(**values):
    return ApexDPG(DPGConfig(policy_sizes=(16, 8), critic_sizes=(16, 8), **values))


def make_learner(agent, seed=1):
    """Its targets are the online networks, none of which is near zero."""
    learner = agent.make_learner(SPEC, seed)
    generator = np.random.default_rng(seed)
    for online, target in zip(learner.networks.variables, learner.target_networks.variables):
        online.assign(generator.normal(scale=0.5, size=online.shape))
        target.assign(online)
    return learner


def make_actor(agent, learner, seed=0):
    actor = agent.make_actor(SPEC, range(4), 64, seed)
    actor.load(packing.to_numpy(learner.actor_variables))
    return actor


def observations(seed, size):
    return np.random.default_rng(seed).normal(size=(size, 3)).astype(np.float32)


def test_initial_priorities_are_the_learners():
    """|delta| and its floor, by the values of the time when each state was seen (eq 13)."""
    agent = make_agent()
    learner = make_learner(agent)
    actor = make_actor(agent, learner)
    size = 50
    first, last = observations(0, size), observations(1, size)
    action, _, extras_tm1 = actor(first)
    _, _, extras_t = actor(last)
    transitions = StoredTransition(
        observation_tm1=first,
        action_tm1=action,
        n_step_reward=np.linspace(-1, 1, size, dtype=np.float32),
        n_step_discount=np.where(np.arange(size) % 5 == 0, 0, 0.95).astype(np.float32),
        observation_t=last,
    )
    actor.load(np.zeros(packing.pack(learner.actor_variables).shape, np.float32))  # later ones
    priorities = actor.initial_priorities(transitions, extras_tm1, extras_t)
    assert priorities.dtype == np.float32 and priorities.shape == (size,)
    steps = tf.nest.map_structure(tf.constant, transitions)
    expected, _ = learner.update(Batch(steps, tf.fill([size], 1 / size), tf.constant(50.0)))
    np.testing.assert_allclose(priorities, expected, atol=1e-4)
    assert np.ptp(priorities) > 0.5


def test_an_error_of_zero_has_a_priority():
    agent = make_agent(priority_floor=1e-3)
    zeros = np.zeros(2, np.float32)
    priorities = make_actor(agent, make_learner(agent)).initial_priorities(
        StoredTransition(
            None, None, n_step_reward=zeros, n_step_discount=zeros, observation_t=None
        ),
        {"taken": np.array([0, 2], np.float32)},
        {"bootstrap": np.ones(2, np.float32)},
    )
    np.testing.assert_allclose(priorities, [1e-3, 2.001])


def test_noise_has_the_papers_std_and_is_clipped():
    learner, still = make_agent().make_learner(SPEC, 0), observations(0, 5_000)
    actor = make_actor(make_agent(), learner)  # its policy starts near 0
    noise = actor(still)[0] - learner.networks.policy(still).numpy()
    np.testing.assert_allclose(noise.std(0), 0.3, atol=0.01)
    action = make_actor(make_agent(noise_sigma=3.0), learner)(still)[0]
    assert action.min() == -1 and action.max() == 1
    other = make_actor(make_agent(), learner, seed=1)
    assert np.abs(other(still)[0] - make_actor(make_agent(), learner)(still)[0]).max() > 0.1
