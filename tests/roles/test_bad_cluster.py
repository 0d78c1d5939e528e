"""Roles that do not belong: real programs beside a real run, which must go on undisturbed."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from common.cluster.topology import free_ports
from common.learning import checkpoint as checkpoint_lib
from common.reporting.csv_rows import last_row

ROOT = pathlib.Path(__file__).parents[2]
TOKEN = "a token for this test"
ENVIRONMENT = "--environment=control:cartpole:swingup"
FLAGS = (
    "--num_actors=2",
    "--actor_processes=1",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--config.policy_sizes=(8,8)",
    "--config.critic_sizes=(8,8)",
    "--config.batch_size=16",
    "--config.min_replay_size=100",
    "--config.samples_per_insert=4",
    "--config.updates_per_call=2",
    "--checkpoint_seconds=1",
)
LEARNER, REPLAY, OTHER = (f"127.0.0.1:{port}" for port in free_ports(3))
CLUSTER = {"learner": [LEARNER], "replay": [REPLAY]}


def start(role, workdir, *flags, cluster=None, environment=ENVIRONMENT):
    """Starts a program, its output in `workdir`.txt."""
    task = {"cluster": cluster or CLUSTER, "task": {"type": role, "index": 0}}
    variables = {**os.environ, "REPLAY_RL_TOKEN": TOKEN, "TF_CONFIG": json.dumps(task)}
    with open(f"{workdir}.{role}.txt", "wb") as output:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "binaries.d4pg",
                environment,
                *FLAGS,
                f"--role={role}",
                f"--workdir={workdir}",
                *flags,
            ],
            cwd=ROOT,
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def contents(directory):
    return {
        path.relative_to(directory): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def steps(workdir):
    row = last_row(workdir / "learner.csv")
    return row["learner_steps"] if row else 0


def wait_for(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.1)


def error_of(workdir, role):
    """The one line that says what is wrong; that there is no other is checked."""
    text = pathlib.Path(f"{workdir}.{role}.txt").read_text()
    errors = [line for line in text.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "Traceback" not in text and TOKEN not in text, text
    return errors[0]


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """Starts what does not belong beside a run, all at once.

    Returns:
      The folder, in which each has a directory of its name, the exit codes by name, and the
      learner steps of the run before and after them.
    """
    folder = tmp_path_factory.mktemp("bad")
    run = folder / "run"
    started = {role: start(role, run) for role in ("replay", "learner", "actor")}
    try:
        wait_for(lambda: steps(run) > 0, 200, "the run learns")
        before = steps(run)
        started["sizes"] = start(
            "actor",
            folder / "sizes",
            "--config.n_step=3",
            environment="--environment=control:cheetah:run",
        )
        started["swapped"] = start(
            "evaluator", folder / "swapped", cluster={"learner": [REPLAY], "replay": [LEARNER]}
        )
        started["lacking"] = start("actor", folder / "lacking", cluster={"learner": [LEARNER]})
        started["shards"] = start(
            "actor",
            folder / "shards",
            "--actor_processes=2",
            cluster={"learner": [LEARNER], "replay": [REPLAY, OTHER]},
        )
        started["alone"] = start(
            "actor", folder / "alone", "--patience_minutes=0.01", cluster={"learner": [OTHER]}
        )
        started["second"] = start(
            "learner", folder / "second", cluster={"learner": [OTHER], "replay": [REPLAY]}
        )
        started["same_port"] = start(
            "learner", folder / "same_port", cluster={"learner": [LEARNER]}
        )
        (folder / "same_workdir").symlink_to(run)
        started["same_workdir"] = start(
            "learner", folder / "same_workdir", cluster={"learner": [OTHER]}
        )
        roles = ("replay", "learner", "actor")
        codes = {name: process.wait(200) for name, process in started.items() if name not in roles}
        after = steps(run)
        wait_for(lambda: steps(run) > after, 60, "the run goes on")
        assert all(started[role].poll() is None for role in roles)
        for role in roles:
            started[role].send_signal(signal.SIGTERM)
        for role in roles:
            started[role].wait(60)
        yield folder, codes, (before, after)
    finally:
        for process in started.values():
            if process.poll() is None:
                process.kill()
                process.wait()


def test_an_actor_of_another_config_and_action_size_is_refused(bad):
    folder, codes, _ = bad
    error = error_of(folder / "sizes", "actor")
    assert codes["sizes"] == 2
    assert f"this actor and the learner at {LEARNER} belong to different runs" in error
    for words in (
        "action_size is 6 here and 1 there",
        "observation_size is 17 here and 5 there",
        "config.n_step is 3 here and 5 there",
        "control:cheetah:run",
        "same flags",
    ):
        assert words in error
    assert "config.batch_size" not in error  # only what differs
    assert list(contents(folder / "sizes")) == [pathlib.Path("config.json")]


def test_the_address_of_another_role_is_refused(bad):
    folder, codes, _ = bad
    error = error_of(folder / "swapped", "evaluator")
    assert codes["swapped"] == 2
    assert f"this evaluator and the replay at {REPLAY}" in error
    assert f'cluster.learner is ["{REPLAY}"] here and ["{LEARNER}"] there' in error


def test_another_number_of_actor_processes_is_refused(bad):
    folder, _, _ = bad
    error = error_of(folder / "shards", "actor")
    assert "actor_processes is 2 here and 1 there" in error
    assert "actor_processes" not in error_of(folder / "lacking", "actor")


@pytest.mark.parametrize("name, here", [("lacking", []), ("shards", [REPLAY, OTHER])])
def test_another_list_of_replays_is_refused(bad, name, here):
    folder, codes, _ = bad
    error = error_of(folder / name, "actor")
    assert codes[name] == 2
    assert f"this actor and the learner at {LEARNER}" in error and "TF_CONFIG" in error
    assert f'cluster.replay is {json.dumps(here)} here and ["{REPLAY}"] there' in error


def test_a_role_that_is_left_alone_ends_after_its_patience(bad):
    folder, codes, _ = bad
    error = error_of(folder / "alone", "actor")
    assert codes["alone"] == 1  # another try may help
    for words in ("no answer from the learner", OTHER, "--patience_minutes"):
        assert words in error
    said = (folder / "alone.actor.txt").read_text()
    assert re.search(f"waiting for the learner: .*{OTHER}", said)


@pytest.mark.parametrize(
    "name, words",
    [
        ("second", ("the replay at", REPLAY, f'["{OTHER}"] here', f'["{LEARNER}"] there')),
        ("same_port", ("another process serves", LEARNER, "another port")),
        ("same_workdir", ("another learner uses", "same_workdir", "another --workdir")),
    ],
)
def test_a_second_learner_is_refused(bad, name, words):
    folder, codes, _ = bad
    error = error_of(folder / name, "learner")
    assert codes[name] == (1 if name == "same_port" else 2)  # a port may be free again
    for word in words:
        assert word in error
    if name != "same_workdir":
        found = contents(folder / name)
        assert not [path for path in found if path.suffix == ".csv" or "ckpt" in path.name]


def test_the_run_went_on_undisturbed(bad):
    folder, _, (before, after) = bad
    assert after > before
    lines = (folder / "run" / "learner.csv").read_text().splitlines()
    assert len({line.count(",") for line in lines}) == 1
    counts = [int(line.split(",")[1]) for line in lines[1:]]
    assert counts == sorted(counts)
    for role in ("replay", "learner", "actor"):
        text = (folder / f"run.{role}.txt").read_text()
        assert "Traceback" not in text and "\nerror: " not in text


def test_a_truncated_checkpoint_ends_a_local_run_at_once(bad):
    """One line of the launcher that names the file; no restarts, nothing overwritten."""
    folder, _, _ = bad
    checkpoints = folder / "run" / "checkpoints"
    newest = checkpoints / f"{checkpoint_lib.newest(checkpoints).name}.data-00000-of-00001"
    newest.write_bytes(newest.read_bytes()[:100])
    logs = folder / "run" / "learner.csv"
    before, rows = contents(checkpoints), logs.read_bytes()
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "binaries.d4pg",
            ENVIRONMENT,
            *FLAGS,
            f"--workdir={folder}/run",
            "--replay=learner",
        ],
        cwd=ROOT,
        timeout=200,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert result.returncode == 2 and len(errors) == 1, result.stderr
    assert "Traceback" not in result.stderr and "restarted" not in result.stderr
    prefix = newest.name.partition(".")[0]
    for words in (
        "learner 0: the checkpoint",
        f"{prefix} cannot be read",
        f"remove {newest.name}",
        "to continue from ckpt-",
    ):
        assert words in errors[0]
    assert contents(checkpoints) == before and logs.read_bytes() == rows
