"""Ape-X DQN and DPG from their binaries: flags, roles through the death of a shard, one process."""

import json
import re
import signal

from launched import ROOT, forked
import pytest
from refusals import check_refusal
from watched_run import RunByHand

from common.replay.store import Counters
from common.reporting.csv_rows import last_row, read_rows

# Flags: a mistake is one line, without TensorFlow.

PONG = "--environment=atari:pong"
FOLDER = ROOT / "reproductions/apex/dqn"
FLAGFILES = {
    "cartpole.flags": "--actor_processes has no meaning",
    "ten_minutes.flags": "9 actor processes for 8 actors",
    "two_cores.flags": "9 actor processes for 8 actors",
}
"""The error of each with nine actor processes."""


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--environment=atari:pung"], ['unknown environment "atari:pung"', '"atari:pong"']),
        (["--environment=control:cartpole:swingup"], ["needs discrete", "atari:pong"]),
        ([PONG, "--setting=dqn_unifrm"], ["did you mean dqn_uniform?"]),
        ([PONG, "--config.epsilons=(0.4,2)"], ["--config.epsilons", "in [0, 1]", "(0.4, 2)"]),
        ([PONG, "--config.epsilons=wide"], ["--config.epsilons", "numbers in [0, 1]"]),
        ([PONG, "--config.epsilon=2"], ["--config.epsilon", "in [0, 1]"]),
        # More processes than actors: the error says how many actors there are by default.
        (
            [PONG, "--setting=dqn_two_cores", "--actor_processes=9"],
            ["9 actor processes for 8 actors: lower --actor_processes"],
        ),
        ([PONG, "--actor_processes=361"], ["361 actor processes for 360 actors"]),
        *[
            ([f"--flagfile={FOLDER / name}", "--actor_processes=9"], [words])
            for name, words in FLAGFILES.items()
        ],
    ],
    ids=lambda value: value[-1] if value[0].startswith("-") else "",
)
def test_a_bad_flag(flags, words, tmp_path):
    check_refusal("binaries.apex_dqn", flags, words, tmp_path)


def test_there_are_flagfiles():
    assert sorted(path.name for path in FOLDER.glob("*.flags")) == list(FLAGFILES)


# Roles: two actors and two shards of a replay.

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
        assert "the replay goes on with the" in programs["replay", 1].output
        more = f"{kept.inserted} and more in the shard that went on"
        run.wait_for(lambda: counters(first).inserted > kept.inserted > 0, SECONDS, more)
        saved_at = checkpoint.stat().st_mtime_ns
        run.wait_for(lambda: checkpoint.stat().st_mtime_ns > saved_at, SECONDS, "another save")
        run.stops(programs.values(), SECONDS)
        run.check_files()
        run.check_accounts(in_order=2)
        assert file.exists()

        # It goes on to its end with the memory in the learner, which draws and decodes ahead there.
        rows_before = len(read_rows(run.workdir / "learner.csv"))
        limit = run.learner("learner_steps") + 300
        run = run_dqn(start, run.workdir, learner=1)
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


# One process: as many actors as the paper's processes, whose turns the ratio sets.

ACTORS, BATCH, MIN_SIZE, STEPS, PERIOD = 4, 16, 100, 320, 40
"""Patience with a busy machine."""
COMMON = (
    f"--num_actors={ACTORS}",
    f"--max_learner_steps={STEPS}",
    "--learner_threads=1",
    "--evaluation_steps=160",
    "--evaluation_episodes=1",
    "--final_episodes=2",
    "--config.single_process",
    f"--config.batch_size={BATCH}",
    f"--config.min_replay_size={MIN_SIZE}",
    f"--config.actor_period={PERIOD}",
    "--config.replay_capacity=200",
    "--config.removal_period=32",
)
PROGRAMS = {
    "binaries.apex_dqn": (
        "--environment=python:sides_task:Sides",
        "--config.torso=minatar",
        "--config.num_copies=2",
    ),
    "binaries.apex_dpg": (
        "--environment=python:reproductions.d4pg.own_environment:make",
        "--config.policy_sizes=(16,16)",
        "--config.critic_sizes=(16,16)",
    ),
}


@pytest.mark.parametrize("module", PROGRAMS)
def test_acts_learns_and_evaluates_in_turns(module, tmp_path):
    ratio = 8.0
    flags = (*COMMON, *PROGRAMS[module], f"--config.samples_per_insert={ratio}")
    with forked() as start:
        run = RunByHand(start, tmp_path / "run", module, flags, learner=1)
        run.ends([run.start("learner", **PATHS)], SECONDS)
    config = json.loads((run.workdir / "config.json").read_text())
    copies = config["config"].get("num_copies", 1)
    row = last_row(run.workdir / "learner.csv")
    assert row["learner_steps"] == STEPS and row["priority_lag_steps"] == 16
    # Either side is ahead by two calls of 16 updates at most.
    inserted = copies * row["actor_steps"]
    assert abs(STEPS * BATCH - ratio * (inserted - MIN_SIZE)) <= 2 * 16 * BATCH + ratio * 2 * ACTORS
    # The capacity is soft: what came in since the last removal exceeds it.
    assert 200 <= row["replay_size"] <= 200 + (32 + 16) * BATCH / ratio + 2 * ACTORS
    episodes = read_rows(run.workdir / "acting.csv")
    assert set(episodes["actor"]) == set(range(ACTORS))
    updates_a_step = ACTORS * copies * ratio / BATCH
    assert 0 < episodes["parameter_age_steps"].max() <= (PERIOD - 1) * updates_a_step + 32
    evaluations = read_rows(run.workdir / "evaluator.csv")
    assert evaluations["learner_steps"].tolist() == [0, 160, STEPS]
    assert evaluations["episodes"].tolist() == [1, 1, 2]
