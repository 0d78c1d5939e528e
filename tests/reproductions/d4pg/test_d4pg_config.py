"""Tests of D4PG's hyperparameters and settings."""

import pytest

from reproductions.d4pg.config import FIGURE_2, FIGURE_8, SETTINGS, D4PGConfig


@pytest.mark.parametrize("setting", FIGURE_2)
def test_settings_are_what_their_names_say(setting):
    config = SETTINGS.configuration(setting)
    if setting == "ddpg":
        assert (config.critic, config.priority_exponent, config.n_step) == ("scalar", 0, 1)
        assert config.single_process
        assert (config.actor_period, config.updates_per_call) == (1, 1)
        assert config.samples_per_insert == config.batch_size
        return
    agent, replay, n = setting.split("_")
    assert config.critic == {"d4pg": "categorical", "d3pg": "scalar"}[agent]
    assert bool(config.priority_exponent) == (replay == "prioritized")
    assert f"n{config.n_step}" == n
    assert not config.single_process


@pytest.mark.parametrize("setting", [*FIGURE_2, *FIGURE_8])
def test_the_rest_is_as_the_paper_says_for_the_control_suite(setting):
    c = SETTINGS.configuration(setting)
    assert (c.batch_size, c.noise, c.noise_sigma) == (256, "gaussian", 0.3)
    assert (c.num_atoms, c.replay_capacity, c.policy_gradient_state) == (51, 1_000_000, "first")
    assert c.learning_rate == (5e-5 if "lr5e-05" in setting else 1e-4)


@pytest.mark.parametrize(
    "setting, changed, name",
    [
        (
            "d4pg_prioritized_n5",
            {
                "importance_exponent": 0.0,
                "noise": "ou",
                "removal": "priority",
                "policy_gradient_state": "last",
                "min_replay_size": 2_000,
                "samples_per_insert": 64.0,
            },
            "d4pg_prioritized_n5_ou_gradient_at_last_beta0_remove_by_priority",
        ),
        (
            "d4pg_prioritized_n5",
            {"priority_exponent": 1.0, "v_min": 0.0, "v_max": 100.0},
            "d4pg_prioritized_n5_vmin0_vmax100_alpha1",
        ),
        ("d4pg_prioritized_n5", {"critic": "scalar", "n_step": 1}, "d4pg_prioritized_n5_scalar_n1"),
    ],
)
def test_another_algorithm_has_another_name(setting, changed, name):
    config = D4PGConfig(**{**SETTINGS.overrides[setting], **changed})
    assert SETTINGS.name_of(setting, config) == name


def test_atoms_that_float32_cannot_tell_apart_are_refused():
    with pytest.raises(ValueError, match=r"^--config.v_max must be so that its atoms"):
        D4PGConfig(v_min=150.0, v_max=150.000001)
