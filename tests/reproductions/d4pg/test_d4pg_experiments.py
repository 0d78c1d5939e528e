"""Tests of reproductions.d4pg.experiments and of the settings behind them."""

import dataclasses

from absl import flags
from ml_collections import config_flags
import pytest

from common import environments
from common.program import setting_flags
from reproductions.d4pg import experiments, settings
from reproductions.d4pg.agent import D4PG
from reproductions.d4pg.config import D4PGConfig

FIGURE_2 = experiments.PAPER.experiment("figure 2")
FIGURE_8 = experiments.PAPER.experiment("figure 8")


def test_figure_2_is_nine_curves_on_sixteen_tasks():
    assert len({(run.setting, run.environment) for run in FIGURE_2.runs}) == 9 * 16
    assert FIGURE_2.settings == tuple(settings.FIGURE_2)
    assert len(set(experiments.CONTROL_SUITE)) == 16


def test_figure_8_is_three_curves_on_eight_tasks():
    assert len({(run.setting, run.environment) for run in FIGURE_8.runs}) == 3 * 8
    assert FIGURE_8.settings == tuple(settings.FIGURE_8)
    assert set(experiments.FIGURE_8_TASKS) < set(experiments.CONTROL_SUITE)


def test_every_environment_exists():
    assert set(experiments.CONTROL_SUITE) <= set(environments.names())


@pytest.mark.parametrize("setting", settings.SETTINGS)
def test_a_setting_is_named_by_its_configuration(setting):
    assert settings.name_of(settings.configuration(setting)) == setting
    assert D4PG(settings.configuration(setting)).setting == setting


@pytest.mark.parametrize("setting", settings.FIGURE_2)
def test_settings_are_what_their_names_say(setting):
    config = settings.configuration(setting)
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


@pytest.mark.parametrize("setting", settings.SETTINGS)
def test_the_rest_is_as_the_paper_says_for_the_control_suite(setting):
    c = settings.configuration(setting)
    assert (c.batch_size, c.noise, c.noise_sigma) == (256, "gaussian", 0.3)
    assert (c.num_atoms, c.replay_capacity, c.policy_gradient_state) == (51, 1_000_000, "first")
    assert c.learning_rate == (5e-5 if "lr5e-05" in setting else 1e-4)


def test_what_makes_another_algorithm_is_in_the_name_and_what_does_not_is_not():
    config = D4PGConfig(
        importance_exponent=0.0,
        noise="ou",
        removal="priority",
        policy_gradient_state="last",
        min_replay_size=2_000,
        samples_per_insert=64.0,
    )
    assert settings.name_of(config) == (
        "d4pg_prioritized_n5_ou_gradient_at_last_beta0_remove_by_priority"
    )
    assert settings.name_of(D4PGConfig(samples_per_insert=64.0)) == "d4pg_prioritized_n5"
    literal = D4PGConfig(priority_exponent=1.0, v_min=0.0, v_max=100.0)
    assert settings.name_of(literal) == "d4pg_prioritized_n5_vmin0_vmax100_alpha1"
    ddpg = dataclasses.replace(settings.configuration("ddpg"), batch_size=64)
    assert settings.name_of(ddpg) == "ddpg_updates4"
    uniform = D4PGConfig(priority_exponent=0.0, importance_exponent=0.0)
    assert settings.name_of(uniform) == "d4pg_uniform_n5"


@pytest.mark.parametrize("setting", settings.SETTINGS)
def test_the_flags_of_a_run_give_its_configuration(setting, monkeypatch):
    run = next(r for r in FIGURE_2.runs + FIGURE_8.runs if r.setting == setting)
    argv = ["program", *run.flags]
    monkeypatch.setattr("sys.argv", argv)
    assert setting_flags._setting_in_command_line(settings.DEFAULT) == setting
    values = flags.FlagValues()
    config = config_flags.DEFINE_config_dataclass(
        "config", settings.configuration(setting), flag_values=values, sys_argv=argv
    )
    for name in ("setting", "num_actors"):
        flags.DEFINE_string(name, None, "", flag_values=values)
    values(argv)
    assert config.value == settings.configuration(setting)
