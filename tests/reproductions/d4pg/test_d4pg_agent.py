"""D4PG on a real memory: what is stored, how it is drawn, and the variants of figure 2."""

import numpy as np
import pytest
import tensorflow as tf

from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.replay.memory import Fifo, Proportional
from common.values.value_learning import importance_weights
from reproductions.d4pg import d4pg
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import D4PG

SPEC = EnvironmentSpec(observation_size=3, action_size=2)
PRIORITIES = np.array([0.5, 1.0, 2.0, 4.0], np.float32)


def make_config(**values):
    defaults = dict(
        policy_sizes=(8,),
        critic_sizes=(8,),
        num_atoms=11,
        v_min=-2.0,
        v_max=2.0,
        batch_size=4,
        min_replay_size=4,
        replay_capacity=4,
        send_batch=1,
        updates_per_call=2,
    )
    return D4PGConfig(**{**defaults, **values})


def make_steps(size=4):
    generator = np.random.default_rng(0)

    def normal(*shape):
        return generator.normal(size=(size, *shape)).astype(np.float32)

    discounts = np.full(size, 0.9, np.float32)
    return StoredTransition(normal(3), normal(2), normal(), discounts, normal(3))


def make_filled_memory(agent):
    memory = agent.data.make_store(agent.step_specs(SPEC), seed=1)
    memory.insert(np.arange(4), make_steps(), PRIORITIES)
    return memory


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_probabilities_are_those_after_the_exponent_and_weights_undo_them(alpha):
    """Weights times probabilities sum to 1: the weighted mean is that over the whole memory."""
    agent = D4PG(make_config(priority_exponent=alpha))
    sample = make_filled_memory(agent).sample(4_000)
    p = sample.masses / sample.total_mass
    expected = PRIORITIES**alpha / np.sum(PRIORITIES**alpha)
    np.testing.assert_allclose(p, expected[sample.keys.numpy()], rtol=1e-5)
    frequencies = np.bincount(sample.keys.numpy(), minlength=4) / 4_000
    np.testing.assert_allclose(frequencies, expected, atol=0.03)

    # R is the number of transitions in the memory, also before it is full.
    weights = importance_weights(tf.cast(p, tf.float32), tf.cast(sample.count, tf.float32), 1.0)
    assert int(sample.count) == 4
    np.testing.assert_allclose(tf.reduce_mean(weights), 1.0, atol=0.05)
    if alpha == 0:
        np.testing.assert_allclose(weights, 1.0, rtol=1e-6)


def test_removal_is_first_in_first_out_or_by_priority_with_the_exponent_of_ape_x_dpg():
    kinds = [D4PG(make_config(removal=kind)).data.distributions for kind in ("fifo", "priority")]
    assert [kind["remove"] for kind in kinds] == [Fifo(), Proportional(-0.4)]


def test_new_priorities_are_the_learners_distances():
    """Unweighted and without the exponent, which the memory applies (once)."""
    config = make_config(
        priority_exponent=0.6, batch_size=64, updates_per_call=1, replay_capacity=64
    )
    agent = D4PG(config)
    memory = make_filled_memory(agent)
    learner = agent.make_learner(SPEC, seed=0)
    steps = make_steps()
    kind = d4pg.make_critic_kind(config)
    target = d4pg.backup(steps, learner.target_networks, kind, tf.constant([0, 0]))
    logits = learner.networks.critic(steps.observation_tm1, steps.action_tm1)
    distances = tf.nn.softmax_cross_entropy_with_logits(target, logits).numpy()

    agent.jit_compile = False
    trainer = agent.make_trainer(learner, memory, SPEC, 0, agent.rate_limiter())
    assert trainer.step() is not None
    assert int(memory.statistics().updated) == 64  # all four keys, many times
    sample = memory.sample(500)
    np.testing.assert_allclose(sample.masses, distances[sample.keys.numpy()] ** 0.6, rtol=1e-4)


def test_seed_gives_the_networks():
    first, again, other = (
        packing.to_numpy(D4PG(make_config()).make_learner(SPEC, seed).actor_variables)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_what_the_programs_ask_it_for():
    config = {"n_step": 3, "policy_sizes": [30, 20], "samples_per_insert": 64.0}
    agent = D4PG.of_run({"setting": "d4pg_n3", "config": config})
    assert (agent.declaration.paper, agent.setting, agent.config.n_step) == ("d4pg", "d4pg_n3", 3)
    assert (agent.trim_period, agent.samples_per_insert) == (None, 64.0)
    assert D4PG(D4PGConfig()).setting == "d4pg_prioritized_n5"
    with pytest.raises(ValueError, match="discrete actions"):
        agent.declaration.require_spec(agent.config, SPEC._replace(is_discrete=True))
    with pytest.raises(KeyError, match="setting"):
        D4PG.of_run({"config": config})
