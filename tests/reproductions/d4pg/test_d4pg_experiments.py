"""Tests of reproductions.d4pg.experiments."""

from absl import flags
from ml_collections import config_flags

from common import environments
from reproductions.d4pg import experiments
from reproductions.d4pg.agent import D4PG
from reproductions.d4pg.config import NUM_ACTORS, D4PGConfig


def test_figure_2_is_four_curves_on_sixteen_tasks():
    runs = experiments.figure_2()
    assert len(runs) == 64
    assert len({(run.setting, run.environment) for run in runs}) == 64
    assert {run.figure for run in runs} == {"figure 2"}
    assert len(set(experiments.CONTROL_SUITE)) == 16


def test_every_environment_exists():
    assert {run.environment for run in experiments.figure_2()} <= set(environments.names())


def test_overrides_are_the_curves_that_the_setting_names():
    for run in experiments.figure_2():
        assert D4PG(run.config).setting == run.setting
        assert run.config.n_step == int(run.setting[-1])


def test_the_rest_is_as_the_paper_says_for_the_control_suite():
    for run in experiments.figure_2():
        c = run.config
        assert (c.batch_size, c.learning_rate, c.noise_sigma) == (256, 1e-4, 0.3)
        assert (c.num_atoms, c.replay_capacity, NUM_ACTORS) == (51, 1_000_000, 32)


def test_the_flags_of_a_run_give_its_configuration():
    for setting in experiments.FIGURE_2_OVERRIDES:
        run = next(r for r in experiments.figure_2() if r.setting == setting)
        argv = ["program", *run.flags]
        values = flags.FlagValues()
        config = config_flags.DEFINE_config_dataclass(
            "config", D4PGConfig(), flag_values=values, sys_argv=argv
        )
        flags.DEFINE_string("environment", None, "", flag_values=values)
        values(argv)
        assert values.environment == run.environment
        assert config.value == run.config
