"""Sweeps of hyperparameters, as lists of runs and as their user meets them."""

import dataclasses
import os
import shlex
import subprocess
import sys

import pandas
import planted
import pytest

from binaries import experiment
from common.evidence.execute import ListError, slots_of
from common.evidence.plan import make_plan
from common.evidence.sweep import SweepError, of_agent, parse_varied, show, sweep
from common.program.slurm import array_script
from common.reporting import csv_rows
from common.reporting.csv_rows import CsvRows
import reproductions
from reproductions.d4pg.config import AGENT

SWINGUP = "control:cartpole:swingup"


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
    assert [varied_run.setting.removeprefix(run.setting) for varied_run in varied.runs] == [
        f"_n_step_{n}_num_actors_{actors}" for n in (1, 3) for actors in (2, 4)
    ]
    for varied_run in varied.runs:
        names = [flag.partition("=")[0] for flag in varied_run.flags]
        assert len({*names}) == len(names)  # the figure's own number of actors is replaced
        assert f"--setting={run.agent_setting}" in varied_run.flags
    assert {"--config.n_step=1", "--num_actors=2"} < {*varied.runs[0].flags}


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
    assert [flag for flag in rates if flag.startswith("--config")] == [
        "--config.learning_rate=1e-4",
        "--config.learning_rate=3e-4",
    ] * 4
    assert f"--environment={own}" in commands[0] and "--setting=ddpg" in commands[-1]


def test_a_sweep_is_drawn_like_any_figure(tmp_path):
    base = of_agent(AGENT, (), [SWINGUP], planted.SMALL)
    chosen = {"config.n_step": ("1", "3"), "evaluation_episodes": ("7",)}
    scale = dataclasses.replace(planted.SMALL, flags=("--evaluation_episodes=2",))
    varied = sweep(base, chosen)
    paper = planted.paper(varied)
    plan = make_plan(paper, varied, scale, tmp_path, num_seeds=2)
    assert all("--evaluation_episodes=2" not in run.flags for run in plan.runs)
    for planned_run in plan.runs:
        config = {"sizes": [4, 4], "n_step": int(planned_run.run.setting.split("n_step_")[1][0])}
        run = planted.plant(planned_run.directory, setting=AGENT.settings.default, config=config)
        for step in (0, 5, 10):
            row = dict.fromkeys(csv_rows.EVALUATOR, step) | {
                "paper": "fake",
                "seed": planned_run.seed,
            }
            row |= {"setting": AGENT.settings.default, "environment": SWINGUP}
            row["episode_return_mean"] = config["n_step"] * step + planned_run.seed
            CsvRows(run.evaluator_csv, csv_rows.EVALUATOR).append(row)
    plan = make_plan(paper, varied, planted.SMALL, tmp_path, num_seeds=2)
    picture, table, plain = show(plan, [*chosen], tmp_path)
    assert picture.name == f"{paper.name}_sweep_n_step_evaluation_episodes_small.png"
    assert picture.stat().st_size > 1000
    # Means of 3 * 10 and of 10, each with a seed that has 1 more; t_1(0.975) / sqrt(2) / sqrt(2).
    setting, half = AGENT.settings.default, 12.706 / 2
    assert table.read_text().splitlines() == [
        "| task | setting | n_step | evaluation_episodes | late_mean | low | high | seeds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        f"| {SWINGUP} | {setting} | 3 | 7 | 30.5 | {30.5 - half:.4g} | {30.5 + half:.4g} | 2 |",
        f"| {SWINGUP} | {setting} | 1 | 7 | 10.5 | {10.5 - half:.4g} | {10.5 + half:.4g} | 2 |",
    ]
    rows = pandas.read_csv(plain)
    assert rows["config.n_step"].tolist() == [3, 1] and rows["late_mean"].tolist() == [30.5, 10.5]


def test_the_script_of_an_array_job_runs_each_command_once(tmp_path):
    """Run by bash as Slurm would; a value with a space and a quote comes through."""
    here = tmp_path / "it's here"
    here.mkdir()
    commands = [
        [sys.executable, "-c", "import sys; print(sys.argv[1:])", "--name=a b'c", str(i)]
        for i in range(3)
    ]
    script = here / "array.sbatch"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        script.write_text(array_script(commands, "a name", 2))
    assert "#SBATCH --array=0-2%2" in script.read_text()
    for index in range(3):
        environment = {**os.environ, "SLURM_ARRAY_TASK_ID": str(index)}
        done = subprocess.run(
            ["bash", script], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{['--name=a b' + chr(39) + 'c', str(index)]}\n"


def test_emitted_commands_are_those_of_the_plan(capsys, tmp_path):
    flags = ["--paper=d4pg", "--figure=2", "--tasks", "cartpole:swingup", "--settings", "ddpg"]
    flags += ["--seeds=2", "--scale=paper", f"--runs={tmp_path}"]
    assert experiment.main([*flags, "--dry_run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [line for line in lines if not line.startswith("#")]
    assert any("--emit=slurm" in line for line in lines if line.startswith("#"))
    assert experiment.main([*flags, "--emit=slurm", "--jobs=1"]) == 0
    script = capsys.readouterr().out
    assert "#SBATCH --array=0-1%1" in script
    assert [shlex.split(line.strip())[0] for line in script.splitlines() if line[:2] == "  "] == (
        commands
    )


@pytest.mark.parametrize(
    "cores, jobs, wanted",
    [(None, 2, [{0, 2, 4}, {1, 3}]), (4, None, [{1}, {2}, {3}, {4}]), (4, 2, [{1, 3}, {2, 4}])],
)
def test_runs_at_once_share_the_cores(monkeypatch, cores, jobs, wanted):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(5)))
    assert [set(slot) for slot in slots_of(cores, jobs)] == wanted
    for wrong in ((6, None), (2, 3), (None, 0)):
        with pytest.raises(ListError):
            slots_of(*wrong)


def test_help_needs_no_pandas():
    code = (
        "import sys, binaries.experiment as e\n"
        "try: e.main(['--help'])\n"
        "except SystemExit: print({'pandas', 'scipy', 'numpy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n") and "workstation, two_cores" in done.stdout
