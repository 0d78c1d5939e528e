"""Runs that are stopped, or killed, and go on with the replay that they had."""

import re
import signal

from by_hand import RunByHand
from launched import ROOT, forked
import pytest

from common.program.layouts import ONE_PROCESS
from common.reporting.csv_rows import last_row

SECONDS = 600
"""Patience with a busy machine."""
PATHS = {"PYTHONPATH": str(ROOT / "tests/learning")}
ONE = ("--learner_threads=1", "--evaluation_steps=100000", "--evaluation_episodes=1")
SMALL = ("--config.batch_size=16", "--checkpoint_seconds=0.2", "--seed=3")
PROGRAMS = {
    "binaries.refer": (
        "--environment=gym:InvertedDoublePendulum-v4",
        "--config.min_replay_size=300",
        "--config.replay_capacity=500",
        "--config.hidden_size=8",
    ),
    "binaries.d4pg": (
        "--environment=python:reproductions.d4pg.own_environment:make",
        "--config.single_process",
        "--config.min_replay_size=300",
        "--config.replay_capacity=500",
        "--config.samples_per_insert=16",
        "--config.policy_sizes=8,8",
        "--config.critic_sizes=8,8",
    ),
}


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("module", PROGRAMS)
def test_one_process(module, how, tmp_path):
    with forked() as start:
        run = RunByHand(
            start,
            tmp_path / "run",
            module,
            (*ONE, *SMALL, *PROGRAMS[module]),
            ONE_PROCESS,
            learner=1,
        )
        file = run.workdir / "replay/learner_0.replay"
        learner = run.start("learner", **PATHS)
        run.wait_for(lambda: run.learner("learner_steps") > 400, SECONDS, "it learns")
        run.wait_for(file.exists, SECONDS, "the replay is saved")
        learner.stop(how)
        assert learner.wait(SECONDS) == (-how if how == signal.SIGKILL else 128 + how)
        before = last_row(run.workdir / "learner.csv")
        steps = int(before["learner_steps"]) + 200
        learner = run.start("learner", 0, f"--max_learner_steps={steps}", **PATHS)
        run.ends([learner], SECONDS)
        assert re.search(r"the replay goes on with the (3\d\d|4\d\d|500) items", learner.output)
    row = last_row(run.workdir / "learner.csv")
    assert row["learner_steps"] >= steps and row["replay_size"] >= 300
    # As an uncut run: the replay was not filled again. After a kill the last checkpoint counts.
    if how == signal.SIGTERM:
        ratio = (row["actor_steps"] - 300) / row["learner_steps"]
        assert ratio == pytest.approx(1, abs=40 / steps)
    assert not list(file.parent.iterdir())  # the run is over
