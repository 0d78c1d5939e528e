"""Ape-X DPG's actor, and the agent on a real memory and in a small run."""

import numpy as np
from one_process import OneProcessRun
from point_task import THRESHOLD, make_environments, mean_return
import tensorflow as tf

from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from reproductions.apex.dpg.config import DPGConfig
from reproductions.apex.dpg.dpg import ApexDPG

SPEC = EnvironmentSpec(observation_size=3, action_size=2)


def make_agent(**values):
    defaults = dict(
        policy_sizes=(8,),
        critic_sizes=(8,),
        batch_size=4,
        min_replay_size=4,
        replay_capacity=4,
        send_batch=1,
        updates_per_call=2,
    )
    agent = ApexDPG(DPGConfig(**{**defaults, **values}))
    agent.jit_compile = False
    return agent


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


NUM_CALLS = 50


def test_mini_run_learns():
    """Numbers of any scale are learnt from if they are normalised."""
    units = 1e3, 1e-3
    config = DPGConfig(
        normalize_observations=True,
        discount=0.9,
        batch_size=64,
        learning_rate=3e-3,
        policy_sizes=(32, 32),
        critic_sizes=(32, 32),
        replay_capacity=1_500,
        min_replay_size=500,
        updates_per_call=8,
        send_batch=1,
        samples_per_insert=16.0,
    )
    agent = ApexDPG(config)
    agent.jit_compile = False
    run = OneProcessRun(agent, make_environments(0, 8, units))
    assert mean_return(run.evaluator(32), units) < 0.5 * THRESHOLD
    run.train(NUM_CALLS)
    run.memory.check()
    statistics = run.memory.statistics()
    assert int(run.learner.steps) == NUM_CALLS * agent.updates_per_call
    # The last call's step was one of those after which what exceeds the capacity is removed.
    assert statistics.inserted > 1_900 and statistics.items == 1_500
    assert mean_return(run.evaluator(32), units) > THRESHOLD
