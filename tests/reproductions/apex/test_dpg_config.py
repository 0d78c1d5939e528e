"""Tests of the hyperparameters and settings of Ape-X DPG."""

import pytest

from reproductions.apex.dpg.config import NUM_ACTORS, SETTINGS, DPGConfig
from reproductions.d4pg import config as d4pg


def test_zero_turns_off_what_it_should():
    DPGConfig(noise_sigma=0.0, dqda_clip=0.0, max_gradient_norm=0.0, removal_exponent=0.0)


def test_the_default_is_the_papers():
    """Section 4.2 and appendix D, with what sections 4.1 and appendix C say of DQN."""
    c = SETTINGS.configuration("dpg")
    assert (c.policy_sizes, c.critic_sizes, c.layer_norm) == ((300, 200), (400, 300), False)
    assert (c.batch_size, c.learning_rate, c.target_period, c.dqda_clip) == (256, 1e-4, 100, 1.0)
    assert (c.replay_capacity, c.removal, c.removal_exponent) == (1_000_000, "priority", -0.4)
    assert (c.priority_exponent, c.importance_exponent, c.noise_sigma) == (0.6, 0.4, 0.3)
    assert (c.removal_period, c.min_replay_size, c.send_batch) == (100, 50_000, 50)
    assert (c.prefetch, c.actor_period, c.max_gradient_norm, NUM_ACTORS) == (16, 400, 40.0, 64)
    assert (c.n_step, c.discount, c.samples_per_insert) == (3, 0.99, 0.0)


@pytest.mark.parametrize(
    "settings, setting", [(SETTINGS, "ddpg"), (d4pg.SETTINGS, "ddpg_lillicrap")]
)
def test_standard_ddpg_is_that_of_lillicrap(settings, setting):
    """Lillicrap et al. 2016, section 7, but for batch normalisation, activations and layout."""
    c = settings.configuration(setting)
    assert (c.learning_rate, c.critic_learning_rate, c.critic_decay) == (1e-4, 1e-3, 1e-2)
    assert (c.target_rate, c.discount, c.batch_size, c.replay_capacity) == (1e-3, 0.99, 64, 10**6)
    assert (c.noise, c.ou_theta, c.noise_sigma) == ("ou", 0.15, 0.2)
    assert (c.policy_sizes, c.critic_sizes) == ((400, 300), (400, 300))
    assert (c.n_step, c.priority_exponent, c.dqda_norm, c.unit_norm) == (1, 0, 0, False)
    # One actor, and an update after each of its steps.
    assert c.single_process and c.samples_per_insert == c.batch_size
    assert (c.actor_period, c.updates_per_call, c.removal) == (1, 1, "fifo")
    assert (getattr(c, "dqda_clip", 0), getattr(c, "weight_clip", 0), c.max_gradient_norm) == (
        0,
        0,
        0,
    )
    assert getattr(c, "critic", "scalar") == "scalar"


def test_another_algorithm_has_another_name():
    config = DPGConfig(
        n_step=5,
        activation="tanh",
        layer_norm=True,
        removal="fifo",
        dqda_clip=0.0,
        min_replay_size=2_000,
        samples_per_insert=64.0,
        updates_per_call=1,
    )
    name = "dpg_n5_tanh_layer_norm_clip0_remove_by_fifo"
    assert SETTINGS.name_of("dpg", config) == name
    uniform = DPGConfig(priority_exponent=0.0, learning_rate=1e-3)
    assert SETTINGS.name_of("dpg_uniform", uniform) == "dpg_uniform_lr0.001"
