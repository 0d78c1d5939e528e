"""kill -9 of each role, in runs of the real program: who comes back, and with what."""

import json
import os
import re
import signal
import subprocess
import sys

from launched import ROOT, launched
import pytest
from watched_run import WatchedRun

from common.cluster.parameters import ParameterClient
from common.cluster.topology import Topology
from common.replay.memory import Statistics

MIN_SIZE = 1000
FLAGS = (
    "--environment=control:cartpole:swingup",
    "--num_actors=2",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--evaluation_seconds=2",
    "--checkpoint_seconds=1",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    "--config.batch_size=32",
    f"--config.min_replay_size={MIN_SIZE}",
    "--config.samples_per_insert=16",
    "--config.updates_per_call=4",
)
TOKEN = "the token of a test that kills"
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")


@pytest.fixture
def programs():
    """Starts programs."""
    with launched() as program:
        yield lambda workdir, *flags, output=subprocess.PIPE, environment=None: program(
            "-m",
            "binaries.d4pg",
            *FLAGS,
            f"--workdir={workdir}",
            *flags,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "REPLAY_RL_TOKEN": TOKEN, **(environment or {})},
        )


@linux_only
@pytest.mark.timeout(900)
def test_a_run_survives_kill_9_of_each_of_its_roles(tmp_path, programs):
    run = WatchedRun(tmp_path / "run")
    launcher = programs(run.workdir, "--actor_processes=1")
    checkpoint = run.workdir / "checkpoints" / "checkpoint"
    run.wait_for(
        lambda: run.learner("learner_steps") and checkpoint.exists() and len(run.acting()) > 0,
        120,
        "learning, an episode, a checkpoint",
    )

    # An actor: another life of it goes on.
    lives = set(run.acting()["incarnation"])
    run.kill("actor")
    run.wait_for(lambda: set(run.acting()["incarnation"]) - lives, 120, "episodes of a new actor")

    # The replay: empty again, and the learner waits until it is filled to its minimum.
    run.kill("replay")
    replay, seen = run.client_when_there("replay", 120), []

    def has_sampled():
        seen.append(Statistics.of(replay.call("replay_statistics")))
        return seen[-1].sampled

    run.wait_for(has_sampled, 120, "the learner samples again")
    assert seen[0].items < MIN_SIZE <= seen[-1].items
    assert all(one.sampled == 0 for one in seen if one.items < MIN_SIZE)
    saved_at = checkpoint.stat().st_mtime_ns
    run.wait_for(lambda: checkpoint.stat().st_mtime_ns > saved_at, 120, "another checkpoint")

    # The learner: goes on from its checkpoint, and the actors get its parameters.
    run.kill("learner")
    version, steps = run.acting()["parameter_version"].max(), run.learner("learner_steps")
    learner = ParameterClient(run.client_when_there("learner", 120))
    resumed_at = int(re.search(r"resumed at learner step (\d+)", run.log("learner"))[1])
    assert resumed_at > 0
    run.wait_for(lambda: learner.latest().learner_steps > max(steps, resumed_at), 120, "learning")
    run.wait_for(
        lambda: run.acting()["parameter_version"].iloc[-1] > version,
        120,
        "acting with new parameters",
    )

    launcher.send_signal(signal.SIGTERM)
    output = launcher.communicate(timeout=60)[0]
    assert launcher.returncode == 0 and "Traceback" not in output, output
    assert "actor 0 restarted 1x" in output and "evaluator 0 restarted" not in output
    assert not run.pids()
    run.check_files()
    run.check_accounts(in_order=1)
    (outcome,) = [
        one["outcome"] for one in json.loads((run.workdir / "run.json").read_text())["starts"]
    ]
    assert outcome == "stopped"
    stopped_at = run.learner("learner_steps")
    assert f"finished at learner step {stopped_at}" in run.log("learner")

    # A cut run goes on where it was, with a limit that lies farther.
    limit = stopped_at + 200
    output = programs(
        run.workdir, "--actor_processes=1", f"--max_learner_steps={limit}"
    ).communicate(timeout=120)[0]
    assert f"resumed at learner step {stopped_at}" in run.log("learner"), output
    assert run.learner("learner_steps") == limit
    assert re.search(rf"^evaluator return .* {limit:,} learner steps$", output, re.M), output
    assert not run.pids()
    run.check_files()
    run.check_accounts(in_order=2)


@linux_only
def test_an_actor_that_nobody_starts_again_is_simply_missing(tmp_path, programs):
    run = WatchedRun(tmp_path / "run")
    topology = Topology.local({"learner": 1, "actor": 2})

    def start(role, index):
        with open(tmp_path / f"{role}-{index}.log", "w", encoding="utf-8") as file:
            return programs(
                run.workdir,
                f"--role={role}",
                output=file,
                environment={"TF_CONFIG": topology.to_tf_config(role, index)},
            )

    learner, lost, other = start("learner", 0), start("actor", 0), start("actor", 1)
    run.wait_for(
        lambda: run.acting() is not None and set(run.acting()["actor"]) == {0, 1},
        120,
        "episodes of two actors",
    )
    lost.kill()
    lost.wait()
    before = len(run.acting())
    steps = run.learner("learner_steps")
    run.wait_for(lambda: set(run.acting()["actor"][before:]) == {1}, 120, "another episode")
    run.wait_for(lambda: run.learner("learner_steps") > steps, 120, "more updates")
    learner.send_signal(signal.SIGTERM)
    assert learner.wait(30) == 128 + signal.SIGTERM, run.logs()
    other.send_signal(signal.SIGINT)
    assert other.wait(30) == 128 + signal.SIGINT, run.logs()
    run.check_files()


# Forks lives that restore, check, and save without a pause; every save is of one number throughout.
# A life says the number it restored, -1 for none, and each that it has saved.
SAVER = """
import os, pathlib, random, signal, sys, time
import numpy as np, tensorflow as tf
from common.learning.checkpoint import Checkpoints

def live(say):
    state = tf.Module()
    state.values = [tf.Variable(tf.zeros([100_000]), trainable=False) for _ in range(20)]
    checkpoints = Checkpoints(pathlib.Path(sys.argv[1]), {"learner": state})
    say(int(state.values[0][0]) if checkpoints.restore() else -1)
    step = state.values[0][0]
    assert all(np.all(value == step) for value in state.values), "the parts of several saves"
    while True:
        step += 1
        for value in state.values:
            value.assign(tf.fill([100_000], step))
        checkpoints.save()
        say(int(step))

random.seed(0)
seconds_a_save = None
for _ in range(int(sys.argv[2])):
    read, write = os.pipe()
    life = os.fork()
    if life == 0:
        live(lambda number: os.write(write, b"%d " % number))
    os.close(write)
    said = os.read(read, 10)  # it has restored
    if seconds_a_save is None:  # the first life tells how fast this machine saves
        begin = time.monotonic()
        while said.count(b" ") < 5:
            said += os.read(read, 1000)
        seconds_a_save = (time.monotonic() - begin) / 4
    else:
        time.sleep(random.uniform(0.0, 6.0) * seconds_a_save)
    os.kill(life, signal.SIGKILL)
    os.waitpid(life, 0)
    while more := os.read(read, 1000):
        said += more
    os.close(read)
    print(said.decode(), flush=True)
"""


def test_kill_9_in_the_middle_of_a_save_leaves_one_to_restore(tmp_path):
    kills = 12
    saver = subprocess.run(
        [sys.executable, "-c", SAVER, str(tmp_path), str(kills)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lives = [[int(number) for number in line.split()] for line in saver.stdout.splitlines()]
    assert len(lives) == kills and all(lives), saver.stderr
    assert lives[0][0] == -1
    for before, after in zip(lives, lives[1:]):
        # A save may have been done whose end could not be told any more.
        assert after[0] in (before[-1], max(before[-1], 0) + 1)
    assert sum(map(len, lives)) > 2 * kills  # it was saves that were cut, and some went through
