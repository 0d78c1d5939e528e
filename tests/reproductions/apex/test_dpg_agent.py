"""Ape-X DPG on a real memory: what is stored, how it is drawn, weighted and removed."""

import numpy as np
import pytest
import tensorflow as tf

from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
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


def test_uniform_is_uniform_and_without_weights():
    drawn = make_filled_memory(make_agent(priority_exponent=0.0)).sample(DRAWS, seed=2)
    np.testing.assert_allclose(drawn.masses / drawn.total_mass, 0.25, rtol=1e-6)
    np.testing.assert_allclose(frequencies(drawn), 0.25, atol=0.03)


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
