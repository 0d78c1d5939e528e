"""Tests of D4PG's figures.toml."""

from common import environments
import reproductions
from reproductions.d4pg import config

PAPER = reproductions.paper("d4pg")
FIGURE_2 = PAPER.experiment("figure 2")
FIGURE_8 = PAPER.experiment("figure 8")


def test_figure_2_is_nine_curves_and_another_ddpg_on_sixteen_tasks():
    assert len({(run.setting, run.environment) for run in FIGURE_2.runs}) == 10 * 16
    assert FIGURE_2.settings == (*config.FIGURE_2, "ddpg_lillicrap")
    assert len(set(FIGURE_2.environments)) == 16


def test_figure_8_is_three_curves_on_eight_tasks():
    assert len({(run.setting, run.environment) for run in FIGURE_8.runs}) == 3 * 8
    assert FIGURE_8.settings == tuple(config.FIGURE_8)
    assert set(FIGURE_8.environments) < set(FIGURE_2.environments)


def test_every_environment_exists():
    assert set(FIGURE_2.environments) <= set(environments.names())


def test_the_flags_of_a_run_choose_its_setting():
    for run in FIGURE_2.runs + FIGURE_8.runs:
        assert f"--setting={run.setting}" in run.flags
