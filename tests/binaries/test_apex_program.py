"""Ape-X DQN from its binary: two actors and two shards, through the death of a shard."""

import signal

from launched import ROOT, forked
import pytest
from watched_run import RunByHand

from common.replay.store import Counters

DQN_FLAGS = (
    "--environment=python:sides_task:make_long",
    "--num_actors=4",
    "--actor_processes=2",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--evaluation_seconds=2",
    "--checkpoint_seconds=2",
    "--config.batch_size=16",
    "--config.min_replay_size=400",
    "--config.replay_capacity=3000",
    "--config.samples_per_insert=4",
    "--config.send_batch=20",
    "--config.actor_period=20",
    "--config.target_period=50",
    "--config.prefetch=4",
)
PATHS = {"PYTHONPATH": str(ROOT / "tests/learning")}
SECONDS = 600
"""Patience with a busy machine."""


def run_dqn(start, workdir, **counts):
    return RunByHand(start, workdir, "binaries.apex_dqn", DQN_FLAGS, **counts)


def counters(client):
    return Counters.of(client.call("store_counters"))


@pytest.mark.timeout(3600)
def test_transitions_add_up_through_the_death_of_a_shard(tmp_path):
    with forked() as start:
        run = run_dqn(start, tmp_path / "run", learner=1, replay=2)
        tasks = [("learner", 0), ("replay", 0), ("replay", 1), ("actor", 0), ("actor", 1)]
        programs = {task: run.start(*task, "--checkpoint_replay", **PATHS) for task in tasks}
        first, second = (run.client("replay", shard) for shard in range(2))
        for client in (first, second):
            client.wait_until_available(SECONDS)
        checkpoint = run.workdir / "checkpoints" / "checkpoint"
        run.wait_for(
            lambda: (
                counters(first).sampled
                and counters(second).sampled
                and checkpoint.exists()
                and run.acting() is not None
                and set(run.acting()["actor"]) == {0, 1, 2, 3}
            ),
            SECONDS,
            "draws from both shards, an episode of each actor, a checkpoint",
        )
        kept, file = counters(first), run.workdir / "replay" / "replay_1.replay"
        run.wait_for(file.exists, SECONDS, "the shard that is to die is saved")
        programs["replay", 1].stop(signal.SIGKILL)
        assert programs["replay", 1].wait(SECONDS) == -signal.SIGKILL
        programs["replay", 1] = run.start("replay", 1, "--checkpoint_replay", **PATHS)
        second = run.client("replay", 1)
        second.wait_until_available(SECONDS)
        drawn = counters(second).sampled
        run.wait_for(lambda: counters(second).sampled > drawn, SECONDS, "draws from the new shard")
        assert "the replay resumes with" in programs["replay", 1].output
        more = f"{kept.inserted} and more in the shard that went on"
        run.wait_for(lambda: counters(first).inserted > kept.inserted > 0, SECONDS, more)
        saved_at = checkpoint.stat().st_mtime_ns
        run.wait_for(lambda: checkpoint.stat().st_mtime_ns > saved_at, SECONDS, "another save")
        run.stops(programs.values(), SECONDS)
        run.check_files()
        run.check_accounts(in_order=2)
        assert file.exists()
