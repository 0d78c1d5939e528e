"""D4PG and DDPG from their binary, through kill -9 of roles to the end.

A user's mistake is one line that names it and the way out, nothing written, no TensorFlow. One row
for each place that finds mistakes; values of hyperparameters and settings are tested with
`common.config` and `common.program.flags`.
"""

import collections
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from launched import ROOT, forked, launched, run_light
import pytest
from refusals import assert_refused, check_refusal
from watched_run import TOKEN, RunByHand, WatchedRun

from common.cluster.credentials import TOKEN_VARIABLE
from common.program import resources
from common.replay.store import Counters
from common.reporting.csv_rows import last_row, read_rows
from common.reporting.run_directory import RunDirectory

D4PG = "binaries.d4pg"
CARTPOLE = "--environment=control:cartpole:swingup"


def tf_config(role, **counts):
    """A cluster of so many tasks a job, on port 1 and above, read by `role`."""
    ports = iter(range(1, 100))
    cluster = {
        job: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for job, count in counts.items()
    }
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--environment=control:cartpole:swingu"], ["swingu", '"control:cartpole:swingup"']),
        (["--environment="], ["--environment is missing", "control:cartpole:swingup"]),
        ([CARTPOLE, "--config.n_step=0"], ["--config.n_step", "at least 1", "is 0"]),
        ([CARTPOLE, "--seed=" + "9" * 5000], ["9...: it must be a whole number"]),
        ([CARTPOLE, "--ignore_resources=maybe"], ["=maybe: it must be true or false"]),
        ([CARTPOLE, "--num_actor=2"], ["unknown flag --num_actor: did you mean --num_actors?"]),
        ([CARTPOLE, "--num_actors=5000"], ["--num_actors", "[1, 4096]", "5000"]),
        (
            [CARTPOLE, "--num_actors=2", "--actor_processes=3"],
            ["3 actor processes for 2 actors: lower --actor_processes"],
        ),
        (
            [CARTPOLE, "--setting=ddpg", "--replay_shards=2"],
            ["--replay_shards", "one process", "leave it out"],
        ),
        ([CARTPOLE, "--max_minutes=nan"], ["--max_minutes", "finite", "nan"]),
        ([CARTPOLE, "cartpole"], ['"cartpole"', "--"]),
        (
            [CARTPOLE, "--role=leaner"],
            ["--role=leaner", "use one of local, slurm, ray, learner, replay, actor, evaluator"],
        ),
        (
            [CARTPOLE, "--setting=ddpg", "--evaluation_steps=9", "--role=evaluator"],
            ["--role=evaluator has nothing to do in a run with --evaluation_steps=9: do not"],
        ),
        (
            [CARTPOLE, "--actor_processes=1", "--replay=learner", "--role=replay"],
            ["--role=replay has nothing to do in a run with --replay=learner: do not start it"],
        ),
        ([CARTPOLE, "--role=slurm"], ["SLURM_STEP_NUM_TASKS", "srun"]),
        ([CARTPOLE, "--role=ray"], ["--ray_address is missing", "ray start --head"]),
        ([CARTPOLE, "--ray_address=10.0.0.1:6379"], ["--ray_address", "add --role=ray"]),
        (
            [CARTPOLE, "--ray_address=10.0.0.1:6379", "--role=slurm"],
            ["--ray_address has no meaning with --role=slurm", "add --role=ray"],
        ),
    ],
    ids=lambda value: value[-1] if value[0].startswith("-") else "",
)
def test_a_bad_flag(flags, words, tmp_path):
    check_refusal(D4PG, flags, words, tmp_path)


def test_a_missing_workdir():
    assert_refused(run_light(D4PG, [CARTPOLE]), ["--workdir is missing"])


@pytest.mark.parametrize("flag", ["workdir", "init_from"])
def test_a_directory_whose_name_is_too_long(flag, tmp_path):
    words = [f"--{flag}={'x' * 50}", "File name too long", "give another"]
    flags = [CARTPOLE, f"--workdir={tmp_path}/run", f"--{flag}={'x' * 5000}"]
    assert_refused(run_light(D4PG, flags), words)


def test_a_run_of_another_config_stays_as_it_was(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.open({"paper": "d4pg", "config": {"n_step": 1}})
    before = directory.config_json.read_bytes()
    ended = run_light(D4PG, [CARTPOLE, f"--workdir={directory.path}"])
    assert_refused(ended, [str(directory.path), "config.n_step 1 -> 5", "new directory"])
    assert directory.config_json.read_bytes() == before
    assert not directory.run_json.exists()


@pytest.mark.skipif(resources.available_memory() > 700e9, reason="this machine could hold it")
def test_a_replay_that_this_machine_cannot_hold(tmp_path):
    capacity = "--config.replay_capacity"
    flags = ["--environment=control:humanoid:run", f"--workdir={tmp_path}/run"]
    ended = run_light(D4PG, [*flags, f"{capacity}={2**30}"])
    assert_refused(ended, ["not enough memory", capacity, "--ignore_resources"])
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.parametrize(
    "role, variables, words",
    [
        ("learner", {}, ["TF_CONFIG is not set", "--role=local"]),
        # Roles that Ray starts have the user's flags first.
        ("ray --ray_address=a:1 --role=learner --ray_address=", {}, ["TF_CONFIG is not set"]),
        (
            "learner",
            {"TF_CONFIG": tf_config("learner", learner=1)},
            ["no cluster token", "REPLAY_RL_TOKEN"],
        ),
        (
            "actor",
            {"TF_CONFIG": tf_config("learner", learner=1), "REPLAY_RL_TOKEN": TOKEN},
            ["--role=actor", "TF_CONFIG is learner"],
        ),
        (
            "actor",
            {"TF_CONFIG": tf_config("actor", learner=1), "REPLAY_RL_TOKEN": TOKEN},
            ["--actor_processes is missing", "TF_CONFIG does not list the tasks of actor"],
        ),
    ],
)
def test_a_role_without_its_place(role, variables, words, tmp_path):
    flags = [CARTPOLE, *f"--role={role}".split()]
    assert TOKEN not in check_refusal(D4PG, flags, words, tmp_path, **variables)


def test_the_address_of_something_else(tmp_path):
    """A web server where a partner should be is known at once."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    server.RequestHandlerClass.log_message = lambda *_: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_address[1]}"
    cluster = {"learner": ["127.0.0.1:1"], "replay": [address]}
    try:
        check_refusal(
            *(D4PG, [CARTPOLE, "--role=actor", "--actor_processes=1"]),
            *([address, "not a service of a cluster", "TF_CONFIG"], tmp_path),
            TF_CONFIG=json.dumps({"cluster": cluster, "task": {"type": "actor", "index": 0}}),
            REPLAY_RL_TOKEN=TOKEN,
        )
    finally:
        server.shutdown()
        server.server_close()


def test_a_build_without_a_compiler(tmp_path):
    shutil.copy(ROOT / "setup.py", tmp_path)
    shutil.copytree(ROOT / "common/replay/cc", tmp_path / "common/replay/cc")
    (tmp_path / "reproductions").mkdir()
    shutil.copy(ROOT / "reproductions/__init__.py", tmp_path / "reproductions")
    former = tmp_path / "common/replay/_ops.tf-0.0.0.so"
    former.write_text("built before")
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    variables = {"CXX": "g++", "PATH": "/nowhere"}
    options = {"env": os.environ | variables, "capture_output": True, "text": True}
    result = subprocess.run(command, cwd=tmp_path, timeout=60, check=False, **options)
    assert result.returncode != 0
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and "install g++" in errors[0]
    assert "Traceback" not in result.stderr
    assert former.read_text() == "built before"


# A local run.

MIN_SIZE = 1000
FLAGS = (
    "--environment=python:paced:make",
    "--num_actors=2",
    "--actor_processes=1",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--evaluation_seconds=2",
    "--checkpoint_seconds=1",
    "--nocheckpoint_replay",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    "--config.batch_size=32",
    f"--config.min_replay_size={MIN_SIZE}",
    "--config.samples_per_insert=4",
    "--config.updates_per_call=4",
)
PATHS = {"PYTHONPATH": os.pathsep.join([str(ROOT / "tests/roles"), str(ROOT)])}
PROCESSES = {"launcher-0", "learner-0", "replay-0", "actor-0", "evaluator-0"}
SECONDS = 600
"""Patience with a busy machine."""


@pytest.fixture
def start():
    """Starts programs."""
    with launched() as program:
        yield lambda workdir, *flags, **variables: program(
            *("-m", D4PG, *FLAGS, f"--workdir={workdir}", *flags),
            env={**os.environ, **PATHS, TOKEN_VARIABLE: TOKEN, **variables},
        )


def left_open(path):
    """Returns the processes that have created more environments than they have closed."""
    counts = collections.Counter()
    for line in path.read_text().splitlines():
        pid, change = line.split()
        counts[int(pid)] += int(change)
    return {pid for pid, count in counts.items() if count}


def outcomes(run):
    starts = json.loads((run.workdir / "run.json").read_text())["starts"]
    return [each["outcome"] for each in starts]


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
@pytest.mark.timeout(3600)
def test_a_run_survives_kill_9_of_roles_is_stopped_and_goes_on_to_its_end(tmp_path, start):
    run = WatchedRun(tmp_path / "run")
    environments = tmp_path / "environments"
    launcher = start(run.workdir, PACED_LOG=str(environments))
    checkpoint = run.workdir / "checkpoints" / "checkpoint"
    run.wait_for(
        lambda: run.learner("learner_steps") and checkpoint.exists() and run.acting() is not None,
        SECONDS,
        "learning, an episode, a checkpoint",
    )
    assert set(run.pids()) == PROCESSES

    # The actor acts with another incarnation. The replay is empty, and the learner waits until it
    # is filled to its minimum.
    incarnations, killed = run.incarnations(), run.pids()["actor-0"]
    run.kill("actor")
    rows = len(read_rows(run.workdir / "learner.csv"))
    run.wait_for(
        lambda: len(read_rows(run.workdir / "learner.csv")) > rows, SECONDS, "its steps are counted"
    )
    run.kill("replay")
    replay, seen = run.client_when_there("replay", SECONDS), []

    def has_sampled():
        seen.append(Counters.of(replay.call("store_counters")))
        return seen[-1].sampled

    run.wait_for(has_sampled, SECONDS, "the learner samples again")
    assert MIN_SIZE <= seen[-1].items
    assert all(each.sampled == 0 for each in seen if each.items < MIN_SIZE)
    run.wait_for(lambda: run.incarnations() - incarnations, SECONDS, "a new actor")

    launcher.send_signal(signal.SIGINT)
    begin = time.monotonic()
    out, err = launcher.communicate(timeout=SECONDS)
    assert launcher.returncode == 130 and "Traceback" not in err, err
    assert "stopping: the learner saves what it has learnt" in err
    assert "stopped; to resume: " in out and " -m binaries.d4pg " in out.splitlines()[-1]
    assert time.monotonic() - begin < 55  # nobody had to be killed
    for role in ("actor", "replay"):
        assert f"{role} 0 ended with signal 9 (Killed)" in err
    assert "evaluator 0 ended" not in err and "MUJOCO" not in err
    assert not run.pids() and left_open(environments) == {killed}
    run.check_files()
    run.check_accounts(in_order=1)
    assert outcomes(run) == ["stopped"]
    stopped_at, wall_seconds = run.learner("learner_steps"), run.learner("wall_seconds")
    assert f"finished at learner step {stopped_at}" in run.log("learner")

    # It goes on where it was; where the memory lives is no part of the run.
    limit = stopped_at + 200
    flags = ("--replay=learner", f"--max_learner_steps={limit}")
    launcher = start(run.workdir, *flags, PACED_LOG=str(environments))
    out, err = launcher.communicate(timeout=SECONDS)
    assert f"resumed at learner step {stopped_at}" in run.log("learner"), err
    result, picture = out.splitlines()
    assert re.fullmatch(
        rf"finished: evaluator return -?\d+\.\d \+- .* {limit:,} learner steps", result
    )
    assert picture == f"learning curve {run.workdir / 'learning_curve.png'}"
    assert (run.workdir / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert run.learner("learner_steps") == limit and run.learner("wall_seconds") > wall_seconds
    steps = read_rows(run.workdir / "learner.csv")["learner_steps"]
    assert (steps[steps.gt(0).idxmax() :] > 0).all()
    assert outcomes(run) == ["stopped", "finished"]
    assert not run.pids() and left_open(environments) == {killed}
    run.check_files()
    run.check_accounts(in_order=2)


# DDPG: one process acts and learns in turns; it or another one evaluates.

BATCH, DDPG_MIN_SIZE, STEPS, END = 16, 300, 300, 400
DDPG_FLAGS = (
    "--setting=ddpg",
    "--environment=python:reproductions.d4pg.own_environment:make",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--evaluation_seconds=1",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    f"--config.batch_size={BATCH}",
    f"--config.samples_per_insert={BATCH}",
    f"--config.min_replay_size={DDPG_MIN_SIZE}",
)


def test_acts_and_learns_in_turns_and_goes_on(tmp_path):
    with forked() as start:
        run = RunByHand(start, tmp_path / "run", D4PG, DDPG_FLAGS, learner=1)
        limit = f"--max_learner_steps={STEPS}"
        programs = [run.start(role, 0, limit) for role in ("learner", "evaluator")]
        run.ends(programs, SECONDS)
        check_ddpg(run.workdir)
        row = last_row(run.workdir / "learner.csv")
        in_turns = ("--evaluation_steps=40", "--final_episodes=3")
        learner = run.start("learner", 0, f"--max_learner_steps={END}", *in_turns)
        run.ends([learner], SECONDS)
    assert re.search(r"^finished: evaluator return .* 400 learner steps$", learner.output, re.M)
    later = last_row(run.workdir / "learner.csv")
    assert later["learner_steps"] == END
    assert later["actor_steps"] - row["actor_steps"] == later["replay_size"] >= DDPG_MIN_SIZE
    rows = read_rows(run.workdir / "evaluator.csv")
    rows = rows[rows["learner_steps"] > STEPS]
    assert rows["learner_steps"].tolist() == [320, 360, END]
    assert rows["episodes"].tolist() == [1, 1, 3]
    # One update a step: nothing here depends on the clock.
    assert set(rows["learner_steps"].diff().dropna()) == set(rows["actor_steps"].diff().dropna())


def check_ddpg(workdir):
    """Checks the files of the run at its first limit."""
    rows = read_rows(workdir / "learner.csv")
    # An update for each step beyond the minimum, ahead by two calls of one update at most.
    for inserted, learned in zip(rows["actor_steps"], rows["learner_steps"], strict=True):
        if learned:
            assert 0 <= learned - (inserted - DDPG_MIN_SIZE) <= 2
    row = last_row(workdir / "learner.csv")
    assert row["learner_steps"] == STEPS and row["priority_lag_steps"] == 1
    assert row["actor_steps"] == row["replay_size"]
    episodes = read_rows(workdir / "acting.csv")
    assert set(episodes["actor"]) == {0} and set(episodes["episode_length"]) == {100}
    evaluation = last_row(workdir / "evaluator.csv")
    assert evaluation["learner_steps"] == STEPS and evaluation["setting"].startswith("ddpg")
