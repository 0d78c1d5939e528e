"""Reactor from its binary: two workers and a parameter server, through the death of each."""

import re
import signal

from launched import forked
import pytest
from watched_run import RunByHand

from common.program.layouts import WORKERS
from common.reporting.csv_rows import read_rows
import reproductions

CATCH = "--environment=python:reproductions.reactor.catch:make"
SMALL = (
    CATCH,
    "--evaluation_episodes=2",
    "--evaluation_seconds=2",
    "--checkpoint_seconds=2",
    "--config.sequence_length=9",
    "--config.batch_size=2",
    "--config.min_replay_size=60",
    "--config.replay_capacity=400",
    "--config.target_period=10",
)
SECONDS = 600
"""Patience with a busy machine."""
SERVER = "parameter_server"


@pytest.mark.timeout(3600)
def test_updates_add_up_through_the_death_of_a_worker_and_of_the_server(tmp_path):
    with forked() as start:
        # A worker that gets back what it had stored acts less, by when that was saved.
        flags = (*SMALL, "--num_workers=2", "--worker_threads=1", "--nocheckpoint_replay")
        run = RunByHand(
            start, tmp_path / "run", "binaries.reactor", flags, layout=WORKERS, parameter_server=1
        )
        tasks = [(SERVER, 0), ("worker", 0), ("worker", 1)]
        programs = {task: run.start(*task) for task in tasks}
        checkpoint = run.workdir / "checkpoints" / "checkpoint"
        run.wait_for(
            lambda: (
                checkpoint.exists()
                and run.learner("learner_steps") > 20
                and run.learner("num_workers") == 2
                and len(run.incarnations()) == 2
            ),
            SECONDS,
            "updates of two workers, and a checkpoint",
        )

        before = run.incarnations()
        programs["worker", 1].stop(signal.SIGKILL)
        assert programs["worker", 1].wait(SECONDS) == -signal.SIGKILL
        programs["worker", 1] = run.start("worker", 1)
        run.wait_for(lambda: len(run.incarnations()) == 3, SECONDS, "the worker acts anew")
        (returned,) = run.incarnations() - before
        # Beyond what fills its memory it acts only for updates of its own.
        run.wait_for(
            lambda: run.acting().groupby("incarnation")["actor_steps"].max()[returned] > 80,
            SECONDS,
            "its first update",
        )
        steps = run.learner("learner_steps")
        run.wait_for(lambda: run.learner("learner_steps") > steps + 20, SECONDS, "more updates")

        programs[SERVER, 0].stop(signal.SIGKILL)
        assert programs[SERVER, 0].wait(SECONDS) == -signal.SIGKILL
        rows_before = len(read_rows(run.workdir / "learner.csv"))
        programs[SERVER, 0] = run.start(SERVER, 0)
        run.wait_for(
            lambda: (
                len(read_rows(run.workdir / "learner.csv")) > rows_before + 1
                and run.learner("num_workers") == 2
            ),
            SECONDS,
            "the server goes on with both workers",
        )
        rows = read_rows(run.workdir / "learner.csv")
        assert rows["learner_steps"][rows_before] > 0  # from its checkpoint
        run.stops(programs.values(), SECONDS)
        run.check_files()
        # The killed worker's last steps may be in learner.csv only: the server's count died too.
        assert sum(run.accounts().values()) <= run.learner("actor_steps")

        # It is resumed, and ends.
        limit = run.learner("learner_steps") + 40
        ending = [
            run.start(role, index, f"--max_learner_steps={limit}")
            for role, index in (*tasks, ("evaluator", 0))
        ]
        run.ends(ending, SECONDS)
    result = rf"^finished: evaluator return .* {limit:,} learner steps$"
    assert re.search(result, ending[-1].output, re.M), ending[-1].output
    run.check_files()
    rows = read_rows(run.workdir / "learner.csv")
    assert rows["learner_steps"].iloc[-1] == limit
    assert rows["actor_steps"].is_monotonic_increasing
    assert (rows["num_refused"].dropna() == 0).all()
    assert rows["staleness_max"].max() >= 1 and rows["staleness"].min() >= 0
    accounts = run.accounts()
    assert sum(accounts.values()) <= rows["actor_steps"].iloc[-1]
    # The killed worker returned with an empty memory: it had to fill it with 60 timesteps again,
    # and then to act for 5 an update. Of the 9 timesteps of an episode 8 are actor steps.
    saved = run.saved()
    numbers = dict(zip(saved["updates/incarnations"], saved["updates/numbers"], strict=True))
    # If its updates all came between the server's last save and its death, there is no number.
    assert accounts[returned] - 8 / 9 * 5 * (numbers.get(returned, 1) - 1) > 40
    # A worker that ends in order says itself how far it acted.
    logs = "".join(path.read_text() for path in tmp_path.glob("worker-*.log"))
    said = [int(steps) for steps in re.findall(r"acted for (\d+) steps", logs)]
    assert len(said) == 4 and set(said) <= set(accounts.values())
    policy = reproductions.load_policy(run.workdir)
    assert policy.learner_steps == limit
