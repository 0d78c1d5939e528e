import dataclasses
import pathlib

import pytest

from common.cluster.errors import ClusterError
from common.program import resources
from common.replay.footprint import memory_bytes

GB, MB = 10**9, 10**6
WORKDIR = pathlib.Path("runs/humanoid")
HUMANOID = resources.Sizes(bytes_per_step=628, replay_capacity=1_000_000, parameters=257_472)
SOFT = dataclasses.replace(HUMANOID, soft_capacity=True)
LOCAL = resources.Plan(
    processes=4, environments=42, learner=True, replay=1, launcher=True, hours=1.0
)
REPLAY = resources.Plan(processes=1, environments=0, learner=False, replay=1)


def compare(plan, memory, disk, ignore=False):
    wanted = resources.needs(HUMANOID, plan)
    return resources.compare(wanted, plan, memory, disk, WORKDIR, ignore)


def test_a_local_run_is_what_was_measured():
    """Humanoid run, 32 actors in one process, before the replay fills; the RSS of all roles."""
    plan = dataclasses.replace(LOCAL, max_actor_steps=24_832)
    private = 61 + 678 + 336 + 695 + 421  # launcher, learner, replay, actor, evaluator
    assert resources.needs(HUMANOID, plan).memory == pytest.approx((private + 460) * MB, rel=0.1)


def test_the_replay_counts_as_a_full_one_or_up_to_the_last_step():
    full = resources.needs(HUMANOID, LOCAL)
    assert full.replay == memory_bytes(1_000_000, 1_000_000, 628)
    short = resources.needs(HUMANOID, dataclasses.replace(LOCAL, max_actor_steps=1000))
    assert short.replay == memory_bytes(1000, 1_000_000, 628)
    assert full.memory - short.memory == full.replay - short.replay
    long = dataclasses.replace(LOCAL, max_actor_steps=10**9)
    assert resources.needs(HUMANOID, long).replay == full.replay


def test_a_role_needs_its_own_share_only():
    def needs(**plan):
        default = {"processes": 1, "environments": 0, "learner": False, "replay": 0}
        return resources.needs(HUMANOID, resources.Plan(**{**default, **plan}))

    actor, learner = needs(environments=32), needs(learner=True)
    assert actor.disk == actor.replay == 0
    assert learner.disk > 3 * HUMANOID.learner_bytes
    assert needs(learner=True, replay=1).memory - learner.memory == needs(replay=1).replay > 0
    shares = learner.memory + needs(replay=1).memory + actor.memory + needs(environments=10).memory
    assert 0 < shares - resources.needs(HUMANOID, LOCAL).memory < 3 * 500 * MB  # each maps the code


def test_a_replay_in_shards_takes_as_much_on_as_many_machines():
    third = dataclasses.replace(REPLAY, shards=3)
    needs = resources.needs(HUMANOID, third)
    assert needs.replay == memory_bytes(333_334, 333_334, 628)
    three = dataclasses.replace(REPLAY, processes=3, replay=3, shards=3)
    assert resources.needs(HUMANOID, three).replay == 3 * needs.replay
    assert 3 * needs.replay == pytest.approx(resources.needs(HUMANOID, REPLAY).replay, rel=0.02)


def test_a_soft_capacity_is_a_tenth_more_and_twice_as_much_without_a_learner():
    soft = resources.needs(SOFT, REPLAY)
    assert soft.replay == memory_bytes(1_100_000, 2_000_000, 628)
    assert soft.replay + soft.away == memory_bytes(2_000_000, 2_000_000, 628)
    longer = resources.needs(SOFT, dataclasses.replace(REPLAY, max_actor_steps=1_200_000))
    assert longer.replay == soft.replay
    assert longer.replay + longer.away == memory_bytes(1_200_000, 2_000_000, 628)
    short = resources.needs(SOFT, dataclasses.replace(REPLAY, max_actor_steps=1000))
    assert (short.replay, short.away) == (memory_bytes(1000, 2_000_000, 628), 0)
    assert resources.needs(HUMANOID, REPLAY).away == 0


def test_a_soft_capacity_that_fits_only_with_a_learner_is_a_warning():
    soft = resources.needs(SOFT, LOCAL)

    def say(memory):
        return resources.compare(soft, LOCAL, memory, None, WORKDIR, False)

    with pytest.raises(ClusterError, match="not enough memory"):
        say(soft.memory - 1)
    assert say(soft.memory).endswith("this may become tight")
    # What a machine needs so that it is not tight with a learner is more than this one takes alone.
    small = dataclasses.replace(soft, away=soft.memory)
    line = resources.compare(small, LOCAL, 2 * soft.memory - 1, None, WORKDIR, False)
    assert "the learner, who removes from the replay, is away" in line
    assert "--config.replay_capacity" in line
    assert "replay 771 MB when full, up to" in line
    assert resources.compare(small, LOCAL, 2 * soft.memory, None, WORKDIR, False).endswith(
        "of disk"
    )


def test_environments_are_those_of_their_suite():
    needs = resources.needs(HUMANOID, LOCAL)
    atari = resources.needs(HUMANOID, dataclasses.replace(LOCAL, environment_bytes=1_600_000))
    assert needs.memory - atari.memory == 42 * (13 * MB - 1_600_000)


def test_what_is_drawn_ahead_is_the_learners():
    ahead = dataclasses.replace(HUMANOID, ahead_bytes=GB)
    learner = dataclasses.replace(REPLAY, learner=True, replay=0)
    assert resources.needs(ahead, learner).memory - resources.needs(HUMANOID, learner).memory == GB
    assert resources.needs(ahead, REPLAY) == resources.needs(HUMANOID, REPLAY)


def test_a_longer_run_needs_more_disk():
    day = dataclasses.replace(LOCAL, hours=24.0)
    endless = dataclasses.replace(LOCAL, hours=None)
    assert (
        resources.needs(HUMANOID, endless).disk
        == resources.needs(HUMANOID, day).disk
        > resources.needs(HUMANOID, LOCAL).disk
    )


def test_enough():
    assert compare(LOCAL, 22 * GB, 100 * GB) == (
        "needs about 3.4 GB of memory (replay 687 MB when full, 4 processes) of 22 GB available, "
        "19 MB of disk of 100 GB free"
    )
    assert compare(REPLAY, 22 * GB, 0) == (
        "needs about 1.5 GB of memory (replay 687 MB when full, 1 process) of 22 GB available"
    )


def test_close_is_a_warning():
    need = resources.needs(HUMANOID, LOCAL).memory
    assert compare(LOCAL, round(need / 0.79), GB).endswith("free")
    assert compare(LOCAL, round(need / 0.81), GB).endswith("this may become tight")
    assert compare(LOCAL, need, GB).endswith("this may become tight")


def test_too_little_memory_is_refused():
    need = resources.needs(HUMANOID, LOCAL).memory
    with pytest.raises(ClusterError) as caught:
        compare(LOCAL, need - 1, GB)
    line = str(caught.value)
    for word in (
        "not enough memory",
        "3.4 GB of memory",
        "--config.replay_capacity",
        "--num_actors",
        "--actor_processes",
        "--replay=learner",
        "--ignore_resources",
    ):
        assert word in line
    assert "\n" not in line and "--workdir" not in line
    assert compare(LOCAL, need - 1, GB, ignore=True).endswith("not enough memory, ignored")


def test_too_little_disk_is_refused():
    need = resources.needs(HUMANOID, LOCAL).disk
    assert compare(LOCAL, 22 * GB, need)
    with pytest.raises(ClusterError, match="not enough disk.*--workdir.*runs/humanoid") as caught:
        compare(LOCAL, 22 * GB, need - 1)
    assert "--config.replay_capacity" not in str(caught.value)
    assert compare(LOCAL, 22 * GB, 0, ignore=True).endswith("not enough disk, ignored")


def test_a_role_is_told_what_helps_there():
    with pytest.raises(ClusterError) as caught:
        compare(REPLAY, GB, GB)
    assert "--config.replay_capacity" in str(caught.value)
    assert "--replay=learner" not in str(caught.value)
    assert "--num_actors" not in str(caught.value)


def test_what_is_not_known_is_not_checked():
    assert compare(LOCAL, None, None) == (
        "needs about 3.4 GB of memory (replay 687 MB when full, 4 processes), 19 MB of disk"
    )


@pytest.mark.parametrize(
    "number, text",
    [
        (0, "1 MB"),
        (40_000_000, "40 MB"),
        (999_000_000, "999 MB"),
        (3_140_000_000, "3.1 GB"),
        (119_600_000_000, "120 GB"),
    ],
)
def test_size(number, text):
    assert resources.size(number) == text
