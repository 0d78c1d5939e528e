"""Sweeps of hyperparameters, as lists of runs and as their user meets them."""

import dataclasses
import pathlib
import shlex

import planted
import pytest
from refusals import refusal

from binaries import experiment
from common.evidence import figures
from common.evidence.keep import keep
from common.evidence.plan import SweepError, make_plan, of_agent, parse_varied, sweep
from common.evidence.runs import KeptRuns
from common.reporting import csv_rows
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectory
import reproductions
from reproductions.d4pg.config import AGENT

SWINGUP = "control:cartpole:swingup"


def test_texts_become_values_of_flags():
    assert parse_varied(["config.learning_rate=1e-4,3e-4", "--num_actors=1"]) == {
        "config.learning_rate": ("1e-4", "3e-4"),
        "num_actors": ("1",),
    }
    assert parse_varied(["config.policy_sizes=(64,64),(32,)"]) == {
        "config.policy_sizes": ("(64,64)", "(32,)")
    }


@pytest.mark.parametrize("texts", [["config.n_step"], ["=1"], ["a=1,,2"], ["a=1", "a=2"]])
def test_what_is_no_flag_with_values_is_refused(texts):
    with pytest.raises(SweepError, match="give each flag once with its values"):
        parse_varied(texts)


def test_each_run_is_made_with_each_combination():
    base = reproductions.paper("d4pg").experiment("figure 2").at("small")
    base = dataclasses.replace(base, runs=base.runs[:1])
    (run,) = base.runs
    varied = sweep(base, parse_varied(["config.n_step=1,3", "num_actors=2,4"]))
    assert varied.name == "sweep n_step num_actors" and varied.x == "learner_steps"
    assert [one.setting.removeprefix(run.setting) for one in varied.runs] == [
        f"_n_step_{n}_num_actors_{actors}" for n in (1, 3) for actors in (2, 4)
    ]
    for one in varied.runs:
        names = [flag.partition("=")[0] for flag in one.flags]
        assert len({*names}) == len(names)  # the figure's own number of actors is replaced
        assert f"--setting={run.agent_setting}" in one.flags
    assert {"--config.n_step=1", "--num_actors=2"} < {*varied.runs[0].flags}


@pytest.mark.parametrize(
    "vary, words",
    [
        ("config.n_steps=1", ["d4pg", "config.n_step"]),
        ("config.lr=1e-3", ["no such hyperparameter to vary: give config.learning_rate"]),
        ("seed=1", ["no such hyperparameter to vary"]),
        ("config.n_step=0", ["--config.n_step must be at least 1, is 0"]),
        ("config.learning_rate=fast", ["--config.learning_rate must be a finite number", "fast"]),
    ],
)
def test_a_value_that_cannot_be_is_one_line(capsys, tmp_path, vary, words):
    flags = ["--agent=d4pg", "--tasks", SWINGUP, f"--runs={tmp_path}", "--vary", vary]
    line = refusal(capsys, experiment.main, *flags)
    assert all(word in line for word in words)


@pytest.mark.parametrize(
    "agent, task, words",
    [
        ("d4pg", "control:cartpole:swingpu", 'did you mean "control:cartpole:swingup"'),
        ("d4pg", "gym:CartPol-v1", 'did you mean "gym:CartPole-v1"'),
        ("d4pg", "gym:CartPole-v1", "error: d4pg on gym:CartPole-v1: "),
        ("apex_dqn", SWINGUP, f"error: apex_dqn on {SWINGUP}: "),
    ],
)
def test_a_task_in_which_the_agent_cannot_act_is_one_line(capsys, tmp_path, agent, task, words):
    flags = [f"--agent={agent}", "--tasks", task, f"--runs={tmp_path}", "--dry_run", "--vary"]
    assert words in refusal(capsys, experiment.main, *flags, "config.learning_rate=1e-3,1e-4")


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--agent=d4pg", "--vary", "config.n_step=1"], "--tasks"),
        (["--agent=d4pg", "--tasks", SWINGUP], "--vary"),
        (["--agent=d4pg", "--paper=d4pg"], "--agent"),
        (["--paper=d4pg", "--vary", "config.n_step=1"], "--figure"),
        (["--paper=d4pg", "--figure=2", "--vary", "config.n_step=1", "--keep"], "--keep"),
    ],
)
def test_flags_that_do_not_go_together(capsys, flags, words):
    assert words in refusal(capsys, experiment.main, *flags)


def test_the_commands_of_a_sweep(capsys, tmp_path):
    flags = ["--scale=smoke", "--seeds=2", "--dry_run", f"--runs={tmp_path}"]
    vary = ["--vary", "config.learning_rate=1e-4,3e-4"]
    own = "python:reproductions.d4pg.own_environment:make"
    assert experiment.main(["--agent=d4pg", "--tasks", own, *flags, *vary]) == 0
    assert (
        experiment.main(
            ["--paper=d4pg", "--figure=2", "--tasks", "cartpole:swingup", "--settings", "ddpg"]
            + [*flags, *vary]
        )
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    commands = [shlex.split(line) for line in lines if not line.startswith("#")]
    rates = [flag for command in commands for flag in command if "learning_rate" in flag]
    assert [one for one in rates if one.startswith("--config")] == [
        "--config.learning_rate=1e-4",
        "--config.learning_rate=3e-4",
    ] * 4
    assert f"--environment={own}" in commands[0] and "--setting=ddpg" in commands[-1]


def test_a_sweep_is_drawn_like_any_figure(tmp_path):
    base = of_agent(AGENT, (), [SWINGUP], planted.SMALL)
    varied = sweep(base, {"config.n_step": ("1", "3")})
    paper = planted.paper(varied)
    plan = make_plan(paper, varied, planted.SMALL, tmp_path, num_seeds=2)
    for one in plan.runs:
        config = {"sizes": [4, 4], "n_step": int(one.run.setting[-1])}
        run = RunDirectory(pathlib.Path(one.directory))
        record = {"paper": paper.name, "setting": AGENT.settings.default, "environment": SWINGUP}
        run.open({**record, "seed": one.seed, "num_actors": 2, "config": config})
        run.write_run_record(seed=one.seed, scale="small", budget=planted.SMALL.budget)
        run.close_run_record("finished")
        for step in (0, 5, 10):
            row = dict.fromkeys(csv_rows.EVALUATOR, step) | record | {"seed": one.seed}
            CsvRows(run.evaluator_csv, csv_rows.EVALUATOR).append(row)
        row = dict.fromkeys(csv_rows.LEARNER, 10)
        CsvRows(run.learner_csv, csv_rows.LEARNER).append(row)
    plan = make_plan(paper, varied, planted.SMALL, tmp_path, num_seeds=2)
    assert len(keep(plan, tmp_path / "kept")) == 4
    runs = KeptRuns(tmp_path / "kept").of(paper.name, "small")
    files = figures.draw(paper, varied, "small", runs, tmp_path)
    assert [path.name for path in files] == [f"{paper.name}_sweep_n_step_small.png"]
    assert all(path.stat().st_size > 1000 for path in files)
