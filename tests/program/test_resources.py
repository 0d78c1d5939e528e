import pathlib

import pytest

from common.cluster.errors import ClusterError
from common.program import local

GB = 10**9
WORKDIR = pathlib.Path("runs/humanoid")


def check(replay_bytes, ignore=False, saves=None):
    """`local.check_resources` in this directory."""
    return local.check_resources(local.Need(replay_bytes), WORKDIR, ignore, saves)


@pytest.fixture
def machine(monkeypatch):
    """Sets what this machine has left."""

    def has(memory, disk=100 * GB):
        monkeypatch.setattr(local.available, "memory", lambda: memory)
        monkeypatch.setattr(local.available, "disk", lambda path: disk)

    return has


def test_a_replay_that_fits(machine):
    machine(12 * GB)
    said = (
        "replay needs about 3.1 GB of 12 GB of memory available when full, and 6.2 GB of disk, of "
        "100 GB, to survive a stop"
    )
    assert check(3_100_000_000) == (said, True)
    assert check(3_100_000_000, saves=True) == (said, True)
    assert check(3_100_000_000, saves=False) == (said.partition(", and")[0], False)
    assert check(12 * GB)


def test_a_replay_that_does_not_fit(machine):
    machine(12 * GB)
    with pytest.raises(ClusterError) as caught:
        check(12 * GB + 1)
    line = str(caught.value)
    for word in (
        "not enough memory",
        "replay needs about 12 GB when full, but 12 GB are",
        "--config.replay_capacity",
        "--ignore_resources",
    ):
        assert word in line
    assert "\n" not in line
    assert check(13 * GB, ignore=True)[0].endswith("(ignored)")


def test_hardly_any_disk(machine):
    machine(12 * GB, disk=40_000_000)
    with pytest.raises(ClusterError, match="not enough disk: 40 MB free at runs/humanoid.*workdir"):
        check(0)
    assert check(0, ignore=True)[0].endswith("(ignored)")


def test_a_disk_without_room_for_the_contents_twice(machine):
    machine(12 * GB, disk=6 * GB)
    line, is_saved = check(3 * GB)
    assert not is_saved
    assert line.endswith(
        "it is lost with a stop: to survive it needs 6.0 GB of disk, of 6.0 GB "
        "(--checkpoint_replay)"
    )
    with pytest.raises(ClusterError, match="--checkpoint_replay needs 6.0 GB, 6.0 GB are free"):
        check(3 * GB, saves=True)
    assert check(3 * GB, ignore=True, saves=True)[1]
    assert check(2 * GB)[1]


def test_what_an_earlier_start_has_saved_is_counted(machine, tmp_path, monkeypatch):
    machine(12 * GB, disk=4 * GB)
    monkeypatch.chdir(tmp_path)
    assert not check(3 * GB)[1]
    (WORKDIR / "replay").mkdir(parents=True)
    with open(WORKDIR / "replay/replay_0.replay", "wb") as file:
        file.truncate(3 * GB)
    assert check(3 * GB)[1] and check(3 * GB, saves=True)[1]


def test_without_a_replay(machine):
    machine(0)
    assert check(0)[0] == "no replay here"


def test_engines_and_a_queue_are_counted_beside_the_replay_but_not_saved(machine):
    def check_need(*need):
        return local.check_resources(local.Need(*need), WORKDIR, ignore=False, saves=None)[0]

    machine(12 * GB)
    said = "replay, engines, queue need about 11 GB of 12 GB of memory available when full, and 16 "
    assert check_need(8 * GB, 2 * GB, GB).startswith(said)
    assert check_need(0, 2 * GB).startswith("engines need about 2.0 GB of 12 GB")
    assert not local.check_resources(local.Need(0, GB), WORKDIR, ignore=False, saves=True)[1]
    with pytest.raises(ClusterError, match="engines need about 13 GB.*: lower the number of"):
        check_need(6 * GB, 7 * GB)


def test_what_is_not_known_is_not_checked(machine):
    machine(None, None)
    said = "replay needs about 1.0 GB when full, and 2.0 GB of disk, to survive a stop"
    assert check(GB) == (said, True)


@pytest.mark.parametrize(
    "share, max_actor_steps, steps",
    [
        (1, None, 1000),
        (0.5, None, 500),
        (4, None, 4000),
        (1, 300, 600),
        (1, 800, 1000),
        (0.5, 300, 300),
        (4, 300, 600),  # four replays hold as many steps as one would
        (4, 5000, 4000),
    ],
)
def test_a_short_run_does_not_fill_its_replays(share, max_actor_steps, steps):
    assert local.replay_steps(share, 1000, 2, max_actor_steps) == steps


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
    assert local.size_in_words(number) == text
