"""`binaries.experiment` as its user meets it; what runs is in tests/evidence/test_campaign.py."""

import pathlib
import shlex
import subprocess
import sys

from launched import run_light
import pytest
from refusals import refusal

from binaries import experiment
from common.evidence import execute, plan, search
from common.evidence.plan import State, Status
import reproductions

FIGURE = ("--paper=d4pg", "--figure=2")
FEW = (
    *(*FIGURE, "--tasks", "cartpole:swingup"),
    *("--settings", "ddpg", "d4pg_prioritized_n5", "--seeds=1"),
)
SEARCH = (
    *("--agent=d4pg", "--scale=smoke", "--search=optuna"),
    *("--tasks", "gym:Pendulum-v1", "--vary", "config.learning_rate"),
)
SWINGUP = ("--agent=d4pg", "--tasks", "control:cartpole:swingup")


@pytest.fixture(autouse=True)
def empty(tmp_path, monkeypatch):
    """No runs anywhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    monkeypatch.setattr(experiment, "RESULTS", tmp_path / "results")


def test_without_a_figure_it_lists_all_with_their_states(capsys):
    assert experiment.main(["--paper=d4pg"]) == 0
    out, _ = capsys.readouterr()
    lines = {line[:12].strip(): line for line in out.splitlines()}
    *counts, small, smoke = lines["figure 2"].split()[2:7]
    assert counts == ["0/0/480"] * 3 and smoke == "0/0/480"
    assert sum(map(int, small.split("/"))) == 200
    assert "PPO" in lines["figure 5"] and "nothing to run" in lines["table 1"]
    *_, small, _ = lines["figure 5"].split()[2:7]
    assert small == "0/0/45"  # D4PG, its ablations and PPO with five seeds
    assert experiment.main(["--paper=reactor"]) == 0
    assert "Atari: Reactor without each of its parts" in capsys.readouterr().out


def test_dry_run_shows_the_plan_and_prints_commands(capsys, tmp_path):
    assert experiment.main([*FEW, "--scale=smoke", "--dry_run"]) == 0
    out, err = capsys.readouterr()
    assert err == "" and [path.name for path in tmp_path.iterdir()] == ["results"]
    comments = [line for line in out.splitlines() if line.startswith("#")]
    commands = [shlex.split(line) for line in out.splitlines() if not line.startswith("#")]
    assert "#   1 minute instead of 12 hours" in comments
    assert "#   num_actors 4 instead of 32 (not in all settings)" in comments
    assert comments[-1].split()[1:] == ["all", "2", "0", "0", "0", "2", "0.0", "h", "3", "minutes"]
    assert [command[1:3] for command in commands] == [["-m", "binaries.d4pg"]] * 2
    assert {"--setting=ddpg", "--num_actors=1", "--max_minutes=1", "--scale=smoke"} < set(
        commands[1]
    )
    assert "--num_actors=4" in commands[0]


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--paper=refer", "--figure=7", "--scale=two_cores"], "use the scale small"),
        (["--paper=d4pg", "--figure=11"], "there are figure 1, figure 2"),
        (["--paper=apex", "--figure=13", "--scale=small"], "use the scale two_cores"),
        ([*FEW, "--scale=huge"], "paper, workstation"),
        ([*FEW, "--seeds=0"], "--seeds must be at least 1"),
        ([*FEW, "--jobs=0"], "--jobs must be at least 1"),
        ([*FEW, "--cores=0"], "--cores must be at least 1"),
        (["--list=campaign.csv", "--keep"], "--keep and --set_aside need --figure"),
        (["--paper=d4pg", "--set_aside"], "--keep and --set_aside need --figure"),
        (["--list=campaign.csv", "--tasks", "pong", "--status"], "--tasks needs --figure, --table"),
        (["--list=campaign.csv", "--settings", "ddpg"], "--settings needs --figure, --table"),
        (["--list=campaign.csv", "--seeds=1"], "--seeds needs --figure, --table"),
        (["--paper=d4pg", "--scale=smoke"], "--scale needs --figure, --table"),
        (["--paper=d4pg", "--emit=slurm"], "--dry_run and --emit need --figure"),
        (["--paper=d4pg", "--dry_run"], "--dry_run and --emit need --figure"),
        ([*SEARCH, "--seeds=3"], "--seeds does not apply to --search, whose runs have seed 0"),
        ([*SEARCH, "--status"], "--status, --dry_run and --emit do not apply to --search"),
        ([*SEARCH, "--dry_run"], "--status, --dry_run and --emit do not apply to --search"),
        ([*SEARCH, "--emit=slurm"], "--status, --dry_run and --emit do not apply to --search"),
        ([*SWINGUP, "--vary", "config.lr=1e-3"], "to vary: did you mean config.learning_rate or "),
        ([*SWINGUP, "--vary", "seed=1"], "no such flag to vary (--tasks, --seeds and "),
        ([*SWINGUP, "--vary", "learner_threads=few"], "few"),
        ([*SWINGUP, "--vary", "config.n_step=0"], "--config.n_step must be at least 1, is 0"),
        (
            ["--agent=d4pg", "--tasks", "control:cartpole:swingpu", "--vary", "config.n_step=1"],
            'did you mean "control:cartpole:swingup"',
        ),
        (
            ["--agent=apex_dqn", *SWINGUP[1:], "--vary", "config.n_step=1"],
            "error: apex_dqn on control:cartpole:swingup: ",
        ),
        (["--agent=d4pg", "--vary", "config.n_step=1"], "--agent needs --vary and --tasks"),
        ([*SWINGUP], "--agent needs --vary and --tasks"),
        (["--paper=d4pg", "--vary", "config.n_step=1"], "--vary needs --figure"),
        ([*FIGURE, "--vary", "config.n_step=1", "--keep"], "sweeps stay in --runs"),
        ([*FIGURE, "--search=optuna"], "--search needs --vary"),
        (
            [*FEW, "--search=optuna", "--vary", "config.n_step"],
            "--search needs one task and setting, not ",
        ),
        (
            [*SWINGUP, "--search=optuna", "--vary", "max_minutes=1"],
            "--vary max_minutes: d4pg has no such flag to vary",
        ),
        ([*FEW, "--table=1"], "--table"),
        (["--paper=dqn"], "apex"),
        ([], "--paper"),
    ],
)
def test_bad_input_is_one_line(capsys, flags, words):
    assert words in refusal(capsys, experiment.main, *flags)


def test_apexs_figure_13_is_of_flags_that_exist(capsys):
    arguments = ["--figure=13", "--scale=two_cores", "--tasks", "pong", "--seeds=1", "--dry_run"]
    assert experiment.main(["--paper=apex", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = [shlex.split(line) for line in lines if not line.startswith("#")]
    runs = reproductions.paper("apex").experiment("figure 13").at("two_cores").runs
    wanted = [run for run in runs if run.environment == "atari:pong"]
    for command, run in zip(commands, wanted, strict=True):
        assert command[1:3] == ["-m", run.agent.module]
        assert {*run.flags, "--max_minutes=1", "--learner_threads=2"} <= set(command)
    # One mistake in flags that otherwise are right: the program names that one alone.
    code, output = run_light(commands[-1][2], [*commands[-1][3:], "--actor_processes=999999"])
    assert code == 2 and output.startswith("error: ") and "--actor_processes" in output, output


@pytest.mark.parametrize("end, code", [(State.FINISHED, 0), (State.CUT, 1)])
def test_it_runs_what_is_missing_and_says_what_failed(capsys, monkeypatch, end, code):
    commands = []

    def start(planned, slot):
        commands.append(planned.command)
        monkeypatch.setattr(plan.PlannedRun, "read_status", lambda self: Status(end))
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])

    monkeypatch.setattr(execute, "start", start)
    monkeypatch.setattr(experiment.StopRequest, "install", lambda self: self)
    arguments = [*FEW[:4], "--settings", "ddpg", "--seeds=1", "--scale=smoke"]
    assert experiment.main(arguments) == code
    out, err = capsys.readouterr()
    (command,) = commands
    assert command[-1] == (
        "--workdir=runs/experiments/d4pg/smoke/ddpg/control-cartpole-swingup/seed_0"
    )
    assert "run 1 of 1 · ddpg on control:cartpole:swingup, seed 0 0%" in err
    assert f"{1 - code} of 1 runs are finished" in err
    assert (
        "failed: ddpg on control:cartpole:swingup, seed 0: it ended with exit code 3" in err
    ) == bool(code)


def test_runs_with_a_file_of_starts_get_it(capsys, tmp_path):
    flags = ["--paper=apex", "--table=1", "--tasks", "pong", "qbert", f"--starts={tmp_path}"]
    line = refusal(capsys, experiment.main, *flags)
    assert f"--starts={tmp_path} has no file for these runs, such as atari-pong.json" in line
    (tmp_path / "atari-pong.json").touch()
    assert experiment.main([*flags, "--dry_run"]) == 0
    commands = [line for line in capsys.readouterr().out.splitlines() if line[0] != "#"]
    has_file = [f"--starts={tmp_path}/atari-pong.json" in line for line in commands]
    assert has_file == ["--environment=atari:pong" in line for line in commands]
    assert any(has_file) and not all(has_file)
    line = refusal(capsys, experiment.main, "--paper=apex", "--starts=x")
    assert "--starts needs --figure" in line


def test_each_task_has_a_study_of_its_own(monkeypatch):
    files = []
    monkeypatch.setattr(search, "run", lambda *arguments: files.append(arguments[4].name) or [])
    monkeypatch.setattr(experiment.StopRequest, "install", lambda self: self)
    for task in ("gym:Pendulum-v1", "control:cartpole:swingup"):
        experiment.main([task if word == "gym:Pendulum-v1" else word for word in SEARCH])
    names = ("gym-Pendulum-v1", "control-cartpole-swingup")
    stem = "search_d4pg_prioritized_n5"
    assert files == [f"{stem}_{name}_learning_rate.sqlite" for name in names]


def test_keep_says_what_it_did(capsys):
    pathlib.Path("runs/experiments").mkdir(parents=True)
    assert experiment.main([*FEW, "--keep"]) == 0
    assert capsys.readouterr().out.startswith("0 runs added")
    assert experiment.main([*FEW, "--set_aside"]) == 0
    assert capsys.readouterr().out == "0 runs moved to the scale workstation_earlier\n"
    line = refusal(capsys, experiment.main, *FEW, "--keep", "--runs=absent")
    assert line == "error: --runs=absent is not a directory\n"


def test_it_needs_no_tensorflow(tmp_path):
    code, output = run_light("binaries.experiment", [*FEW, "--dry_run", f"--runs={tmp_path}"])
    assert code == 0 and "binaries.d4pg" in output, output
