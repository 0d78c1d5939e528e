"""Ape-X DQN in its roles, two actors and two shards of a replay, through the death of a shard."""

import re
import signal

from by_hand import RunByHand
from launched import ROOT, forked
import pytest

from common.replay.store import Counters
from common.reporting.csv_rows import read_rows

FLAGS = (
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


def run_by_hand(start, workdir, **counts):
    return RunByHand(start, workdir, "binaries.apex_dqn", FLAGS, **counts)


def counters(client):
    return Counters.of(client.call("store_counters"))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("is_saved", [False, True])
def test_transitions_add_up_through_the_death_of_a_shard(is_saved, tmp_path):
    saves = f"--checkpoint_replay={is_saved}"
    with forked() as start:
        run = run_by_hand(start, tmp_path / "run", learner=1, replay=2)
        tasks = [("learner", 0), ("replay", 0), ("replay", 1), ("actor", 0), ("actor", 1)]
        programs = {task: run.start(*task, saves, **PATHS) for task in tasks}
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
        if is_saved:
            run.wait_for(file.exists, SECONDS, "the shard that is to die is saved")
        programs["replay", 1].stop(signal.SIGKILL)
        assert programs["replay", 1].wait(SECONDS) == -signal.SIGKILL
        programs["replay", 1] = run.start("replay", 1, saves, **PATHS)
        second = run.client("replay", 1)
        second.wait_until_available(SECONDS)
        drawn = counters(second).sampled if is_saved else 0
        run.wait_for(lambda: counters(second).sampled > drawn, SECONDS, "draws from the new shard")
        assert ("the replay goes on with the" in programs["replay", 1].output) == is_saved
        more = f"{kept.inserted} and more in the shard that went on"
        run.wait_for(lambda: counters(first).inserted > kept.inserted > 0, SECONDS, more)
        saved_at = checkpoint.stat().st_mtime_ns
        run.wait_for(lambda: checkpoint.stat().st_mtime_ns > saved_at, SECONDS, "another save")
        run.stops(programs.values(), SECONDS)
        run.check_files()
        run.check_accounts(in_order=2)
        assert file.exists() == is_saved

        # It goes on to its end with the memory in the learner, which draws and decodes ahead there.
        rows_before = len(read_rows(run.workdir / "learner.csv"))
        limit = run.learner("learner_steps") + 300
        run = run_by_hand(start, run.workdir, learner=1)
        ending = [
            run.start(role, 0, f"--max_learner_steps={limit}", **PATHS)
            for role in ("learner", "actor", "evaluator")
        ]
        run.ends(ending, SECONDS)
    result = rf"^finished: evaluator return .* {limit:,} learner steps$"
    assert re.search(result, ending[-1].output, re.M), ending[-1].output
    assert read_rows(run.workdir / "learner.csv")["priority_lag_steps"][rows_before:].max() > 1
    run.check_files()
    run.check_accounts(in_order=3)
