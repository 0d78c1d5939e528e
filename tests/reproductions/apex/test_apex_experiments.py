"""Tests of Ape-X's experiments: what they run is there, and says what the paper says."""

import dataclasses

from common import environments
from reproductions.apex import experiments
from reproductions.apex.dpg import config as dpg
from reproductions.apex.dqn import config as dqn

RUNS = [run for experiment in experiments.EXPERIMENTS for run in experiment.runs]


def flag(run, name):
    """The value of a flag of a run, None if it has none."""
    found = [one.partition("=")[2] for one in run.flags if one.startswith(f"--{name}=")]
    return found[-1] if found else None


def of(name):
    return experiments.PAPER.experiment(name).runs


def test_every_environment_exists():
    assert {run.environment for run in RUNS} <= set(environments.names())


def test_every_setting_has_a_curve_but_those_of_ours():
    used = {flag(run, "setting") for run in RUNS}
    assert used <= {*dqn.SETTINGS.names, *dpg.SETTINGS.names}
    ours = {"dqn_uniform", "dqn_bfloat16", *dqn.TWO_CORES, *dqn.FIGURE_14_TRIED}
    assert {*dqn.SETTINGS.names, *dpg.SETTINGS.names} - used <= ours


def test_each_program_gets_its_own_settings():
    for run in RUNS:
        mine = dqn if run.agent == experiments.DQN else dpg
        assert flag(run, "setting") in mine.SETTINGS.names, run


def test_figure_2_is_57_games():
    assert len({run.environment for run in of("figure 2")}) == len(of("figure 2")) == 57


def test_figure_3_is_four_tasks_with_8_to_64_actors():
    pairs = {(flag(run, "num_actors"), run.environment) for run in of("figure 3")}
    assert len(pairs) == len(of("figure 3")) == 16
    assert {actors for actors, _ in pairs} == {"8", "16", "32", "64"}


def test_figure_6_is_few_actors_whose_transitions_are_copied():
    found = {
        (flag(run, "num_actors"), dqn.SETTINGS.configuration(flag(run, "setting")).num_copies)
        for run in of("figure 6")
    }
    assert found == {("32", 1), ("32", 8), ("256", 1)}


def test_no_scale_makes_two_curves_of_an_experiment_alike():
    for experiment in experiments.EXPERIMENTS:
        for scale in experiments.SCALES:
            seen = {}
            for run in experiment.runs:
                settings = dqn if run.agent == experiments.DQN else dpg
                config = dataclasses.asdict(settings.SETTINGS.configuration(flag(run, "setting")))
                config["num_actors"] = flag(run, "num_actors")
                for change in scale.changes_of(run.agent, run.choices):
                    name, _, value = change.flag.removeprefix("--").partition("=")
                    config[name.removeprefix("config.")] = value
                key = run.agent, run.environment, str(config)
                assert seen.setdefault(key, run.setting) == run.setting, (experiment.name, run)
