"""Ape-X DPG's actor, and the agent on a real memory and in a small run."""

import numpy as np
from one_process import OneProcessRun
from point_task import THRESHOLD, make_environments, mean_return
import pytest
import tensorflow as tf

from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from common.values import value_learning
from reproductions.apex.dpg.config import DPGConfig
from reproductions.apex.dpg.dpg import ApexDPG

SPEC = EnvironmentSpec(observation_size=3, action_size=2)
PRIORITIES = np.array([1, 2, 4, 0.5], np.float32)
DRAWS = 4_000


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


def make_steps(size=4):
    generator = np.random.default_rng(0)

    def normal(*shape):
        return generator.normal(size=(size, *shape)).astype(np.float32)

    return StoredTransition(normal(3), normal(2), normal(), normal(), normal(3))


def make_filled_memory(agent):
    memory = agent.data.make_store(agent.step_specs(SPEC), seed=1)
    memory.insert(np.arange(4), make_steps(), PRIORITIES)
    return memory


def frequencies(sample):
    return np.bincount(sample.keys.numpy(), minlength=4) / DRAWS


def test_probabilities_weights_and_removal_of_the_facts():
    """Priorities 1, 2, 4, 0.5 (../shared/papers/apex.md, pitfall 15)."""
    memory = make_filled_memory(make_agent())
    drawn = memory.sample(DRAWS, seed=2)
    by_key = dict(zip(drawn.keys.numpy(), (drawn.masses / drawn.total_mass).numpy()))
    p = np.array([by_key[key] for key in range(4)], np.float32)
    np.testing.assert_allclose(p, [0.182720, 0.276951, 0.419779, 0.120550], atol=1e-6)
    np.testing.assert_allclose(frequencies(drawn), p, atol=0.03)

    weights = value_learning.normalize_by_max(
        value_learning.importance_weights(
            tf.constant(p), tf.cast(drawn.count, tf.float32), DPGConfig().importance_exponent
        )
    )
    np.testing.assert_allclose(weights, [0.846745, 0.716978, 0.607097, 1], atol=1e-6)

    removed = memory.sample(DRAWS, distribution="remove", seed=2)
    by_key = dict(zip(removed.keys.numpy(), (removed.masses / removed.total_mass).numpy()))
    p = [by_key[key] for key in range(4)]
    np.testing.assert_allclose(p, [0.273844, 0.207535, 0.157282, 0.361339], atol=1e-6)
    np.testing.assert_allclose(frequencies(removed), p, atol=0.03)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("removal, left", [("priority", None), ("fifo", [4, 5, 6, 7])])
def test_the_capacity_is_soft_and_removal_periodic(removal, left):
    """Every 4 learner steps, that is after every second call."""
    agent = make_agent(removal=removal, removal_period=4)
    memory = make_filled_memory(agent)
    memory.insert(np.arange(4, 8), make_steps(), PRIORITIES)
    learner = agent.make_learner(SPEC, seed=0)
    trainer = agent.make_trainer(learner, memory, SPEC, 0, agent.rate_limiter())
    for size in (8, 4):
        assert trainer.step() is not None
        assert memory.statistics().items == size
    if left is not None:
        found, _ = memory.read(np.arange(8))
        assert np.flatnonzero(found).tolist() == left


def test_sixteen_batches_are_drawn_ahead_however_many_a_call_holds():
    assert ApexDPG(DPGConfig()).prefetch == 1
    assert make_agent(updates_per_call=1).prefetch == 16
    assert make_agent(updates_per_call=5).prefetch == 4


def test_what_the_programs_ask_it_for():
    agent = ApexDPG.of_run({"setting": "dpg_n3", "config": {"n_step": 3, "policy_sizes": [30, 20]}})
    assert (agent.declaration.paper, agent.setting, agent.config.n_step) == ("apex", "dpg_n3", 3)
    assert (agent.trim_period, agent.data.num_copies) == (100, 1)
    assert agent.data.make_adder(policy=None, actors=range(1))._reward_clip == np.inf
    assert (agent.samples_per_insert, agent.declaration.num_frames) == (None, None)
    assert ApexDPG(DPGConfig()).setting == "dpg"
    with pytest.raises(ValueError, match="discrete actions"):
        agent.declaration.require_spec(agent.config, SPEC._replace(is_discrete=True))
    with pytest.raises(ValueError, match="no hyperparameter n_stp"):
        ApexDPG.of_run({"setting": "dpg", "config": {"n_stp": 1}})


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
