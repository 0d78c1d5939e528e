"""The roles of D4PG as separate programs over the loopback, started by hand through TF_CONFIG."""

import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

from common.cluster.topology import Topology
from common.reporting import columns
from common.reporting.csv_rows import read_rows

ROOT = pathlib.Path(__file__).parents[2]
BATCH, RATIO, MIN_SIZE, UPDATES_PER_CALL, SEND_BATCH, STEPS = 32, 4, 200, 4, 50, 500
OPEN_ELEMENTS = 2 * 5  # of transitions whose n = 5 steps are not complete, of two actors
FLAGS = (
    "--environment=control:cartpole:swingup",
    "--num_actors=2",
    "--actor_processes=1",
    "--learner_threads=1",
    "--evaluation_episodes=2",
    "--evaluation_seconds=1",
    f"--max_learner_steps={STEPS}",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    f"--config.batch_size={BATCH}",
    f"--config.min_replay_size={MIN_SIZE}",
    f"--config.samples_per_insert={RATIO}",
    f"--config.updates_per_call={UPDATES_PER_CALL}",
    f"--config.send_batch={SEND_BATCH}",
)
ROLES = ("learner", "replay", "actor", "evaluator")


def start(role, topology, token, workdir, output):
    environment = {
        **os.environ,
        "TF_CONFIG": topology.to_tf_config(role, 0),
        "REPLAY_RL_TOKEN": token,
    }
    with open(output, "wb") as file:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "binaries.d4pg",
                *FLAGS,
                f"--role={role}",
                f"--workdir={workdir}",
            ],
            cwd=ROOT,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A run with an impostor beside it: (workdir, exit codes, outputs), each by role."""
    folder = tmp_path_factory.mktemp("roles")
    topology = Topology.local(dict.fromkeys(ROLES, 1))
    started = {}
    try:
        for role in ROLES:
            started[role] = start(
                role, topology, "the token of this run", folder / "run", folder / f"{role}.txt"
            )
        started["impostor"] = start(
            "actor", topology, "the token of another", folder / "run", folder / "impostor.txt"
        )
        deadline = time.monotonic() + 200
        codes = {
            name: process.wait(max(0.1, deadline - time.monotonic()))
            for name, process in started.items()
        }
    except subprocess.TimeoutExpired as error:
        outputs = "".join(
            f"\n== {path.stem}\n{path.read_text()[-2000:]}" for path in folder.glob("*.txt")
        )
        raise AssertionError(f"still running: {error.cmd}{outputs}") from None
    finally:
        for process in started.values():
            if process.poll() is None:
                process.kill()
                process.wait()
    return folder / "run", codes, {name: (folder / f"{name}.txt").read_text() for name in started}


def test_all_roles_end_by_themselves(cluster):
    _, codes, outputs = cluster
    for role in ROLES:
        assert codes[role] == 0, outputs[role]
        assert "Traceback" not in outputs[role]


def test_a_wrong_token_is_refused_in_one_line(cluster):
    _, codes, outputs = cluster
    errors = [line for line in outputs["impostor"].splitlines() if line.startswith("error:")]
    assert codes["impostor"] not in (0, None)
    assert len(errors) == 1, outputs["impostor"]
    assert "token" in errors[0] and "REPLAY_RL_TOKEN" in errors[0]
    assert "Traceback" not in outputs["impostor"]
    for text in outputs.values():
        assert "the token of" not in text


def test_the_csv_files_are_whole(cluster):
    workdir, _, _ = cluster
    wanted = {
        "learner.csv": columns.LEARNER,
        "acting.csv": columns.ACTING,
        "evaluator.csv": columns.EVALUATOR,
    }
    for name, names in wanted.items():
        lines = (workdir / name).read_text().splitlines()
        header = lines[0].split(",")
        assert tuple(header[: len(names)]) == names
        assert len(lines) > 1
        assert all(line.count(",") == len(header) - 1 for line in lines)
    assert set(read_rows(workdir / "acting.csv")["actor"]) == {0, 1}


def test_the_last_evaluation_is_of_the_last_parameters(cluster):
    workdir, _, _ = cluster
    learned = read_rows(workdir / "learner.csv").iloc[-1]["learner_steps"]
    assert learned == STEPS
    assert read_rows(workdir / "evaluator.csv").iloc[-1]["learner_steps"] == STEPS


def test_actor_steps_are_the_transitions_inserted(cluster):
    workdir, _, outputs = cluster
    row = read_rows(workdir / "learner.csv").iloc[-1]
    assert row["actor_steps"] == row["replay_size"] >= MIN_SIZE
    acted, accepted = map(
        int,
        re.search(r"acted for (\d+) steps, (\d+) transitions accepted", outputs["actor"]).groups(),
    )
    assert accepted == row["actor_steps"]
    assert 0 <= acted - accepted <= OPEN_ELEMENTS


def test_the_samples_per_insert_are_kept(cluster):
    """The learner is the faster one here, but while it compiles the actors have to wait for it."""
    workdir, _, _ = cluster
    tolerance = 2 * BATCH * UPDATES_PER_CALL
    on_its_way = RATIO * 12 * SEND_BATCH
    rows = read_rows(workdir / "learner.csv")
    for inserted, steps in zip(rows["actor_steps"], rows["learner_steps"], strict=True):
        paid, sampled = RATIO * max(0, inserted - MIN_SIZE), BATCH * steps
        assert paid - tolerance - on_its_way <= sampled <= paid + tolerance
    assert sampled / paid == pytest.approx(1, abs=0.2)


def test_a_checkpoint_is_left(cluster):
    workdir, _, _ = cluster
    assert (workdir / "checkpoints" / "checkpoint").exists()
    assert list((workdir / "checkpoints").glob("*.index"))
