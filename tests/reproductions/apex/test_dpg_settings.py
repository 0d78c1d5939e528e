"""Tests of Ape-X DPG's settings and of its sizes."""

import pytest

from common.agents.agent import EnvironmentSpec
from common.networks import packing
from common.replay.memory import Signature
from reproductions.apex.dpg import settings
from reproductions.apex.dpg.agent import ApexDPG
from reproductions.apex.dpg.config import NUM_ACTORS, DPGConfig
from reproductions.apex.dpg.sizes import sizes


def test_the_default_is_the_papers():
    """Section 4.2 and appendix D, with what sections 4.1 and appendix C say of DQN."""
    c = settings.SETTINGS.configuration("dpg")
    assert (c.policy_sizes, c.critic_sizes, c.layer_norm) == ((300, 200), (400, 300), False)
    assert (c.batch_size, c.learning_rate, c.target_period, c.dqda_clip) == (256, 1e-4, 100, 1.0)
    assert (c.replay_capacity, c.removal, c.removal_exponent) == (1_000_000, "priority", -0.4)
    assert (c.priority_exponent, c.importance_exponent, c.noise_sigma) == (0.6, 0.4, 0.3)
    assert (c.removal_period, c.min_replay_size, c.send_batch) == (100, 50_000, 50)
    assert (c.prefetch, c.actor_period, c.max_gradient_norm, NUM_ACTORS) == (16, 400, 40.0, 64)
    assert (c.n_step, c.discount, c.samples_per_insert) == (5, 0.99, 0.0)


def test_another_algorithm_has_another_name():
    config = DPGConfig(
        n_step=3,
        activation="tanh",
        layer_norm=True,
        removal="fifo",
        dqda_clip=0.0,
        min_replay_size=2_000,
        samples_per_insert=64.0,
        updates_per_call=1,
    )
    name = "dpg_n3_tanh_layer_norm_clip0_remove_by_fifo"
    assert settings.SETTINGS.name_of("dpg", config) == name
    uniform = DPGConfig(priority_exponent=0.0, learning_rate=1e-3)
    assert settings.SETTINGS.name_of("dpg_uniform", uniform) == "dpg_uniform_lr0.001"


@pytest.mark.parametrize("values", [{}, {"layer_norm": True, "policy_sizes": (30,)}], ids=str)
def test_sizes_are_those_of_the_agent(values):
    config, spec = DPGConfig(**values), EnvironmentSpec(44, 5)
    agent = ApexDPG(config)
    learner = agent.make_learner(spec, seed=0)
    found = sizes(config, spec)
    assert found.parameters == packing.pack(learner.actor_variables).shape.num_elements()
    assert found.bytes_per_step == Signature(agent.step_specs(spec)).bytes_per_step
    assert (found.replay_capacity, found.soft_capacity) == (agent.replay_capacity, True)
    stored = sum(v.shape.num_elements() * v.dtype.size for v in learner.variables)
    assert found.learner_bytes == pytest.approx(stored, abs=1000)
