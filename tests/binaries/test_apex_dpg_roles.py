"""Ape-X DPG in its roles, to the end of a short run."""

import re

from by_hand import RunByHand
from launched import forked

STEPS = 200
FLAGS = (
    "--environment=python:reproductions.d4pg.own_environment:make",
    "--num_actors=2",
    "--actor_processes=1",
    "--learner_threads=1",
    "--evaluation_episodes=1",
    "--evaluation_seconds=2",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    "--config.batch_size=32",
    "--config.min_replay_size=400",
    "--config.replay_capacity=800",
    "--config.samples_per_insert=4",
    "--config.updates_per_call=4",
    "--config.removal_period=20",
    f"--max_learner_steps={STEPS}",
)


def test_a_run_ends_with_its_accounts_in_order(tmp_path):
    with forked() as start:
        counts = {"learner": 1, "replay": 1}
        run = RunByHand(start, tmp_path / "run", "binaries.apex_dpg", FLAGS, **counts)
        roles = ("learner", "replay", "actor", "evaluator")
        programs = {role: run.start(role) for role in roles}
        run.ends(programs.values(), 250)
    result = rf"^finished: evaluator return .* {STEPS:,} learner steps$"
    assert re.search(result, programs["evaluator"].output, re.M)
    assert run.learner("learner_steps") == STEPS
    # Removal by priority, every 20 steps, keeps what 400 + 200 * 32 / 4 transitions would exceed.
    assert run.learner("actor_steps") > 1_500 and 800 <= run.learner("replay_size") < 1_500
    run.check_files()
    run.check_accounts(in_order=1)
