import pathlib

import pytest

from common.cluster.errors import ClusterError
from common.program import resources

GB = 10**9
WORKDIR = pathlib.Path("runs/humanoid")


@pytest.fixture
def machine(monkeypatch):
    """Sets what this machine has left."""

    def has(memory, disk=100 * GB):
        monkeypatch.setattr(resources.available, "memory", lambda: memory)
        monkeypatch.setattr(resources.available, "disk", lambda path: disk)

    return has


def test_a_replay_that_fits(machine):
    machine(12 * GB)
    said = "replay needs about 3.1 GB of 12 GB of memory available when full"
    assert resources.check(3_100_000_000, WORKDIR, ignore=False) == said
    assert resources.check(12 * GB, WORKDIR, ignore=False)


def test_a_replay_that_does_not_fit(machine):
    machine(12 * GB)
    with pytest.raises(ClusterError) as caught:
        resources.check(12 * GB + 1, WORKDIR, ignore=False)
    line = str(caught.value)
    for word in (
        "not enough memory",
        "replay needs about 12 GB when full, but 12 GB are",
        "--config.replay_capacity",
        "--ignore_resources",
    ):
        assert word in line
    assert "\n" not in line
    assert resources.check(13 * GB, WORKDIR, ignore=True).endswith("(ignored)")


def test_hardly_any_disk(machine):
    machine(12 * GB, disk=40_000_000)
    with pytest.raises(ClusterError, match="not enough disk: 40 MB free at runs/humanoid.*workdir"):
        resources.check(0, WORKDIR, ignore=False)
    assert resources.check(0, WORKDIR, ignore=True).endswith("(ignored)")


def test_without_a_replay(machine):
    machine(0)
    assert resources.check(0, WORKDIR, ignore=False) == "no replay here"


def test_what_is_not_known_is_not_checked(machine):
    machine(None, None)
    assert resources.check(GB, WORKDIR, ignore=False) == "replay needs about 1.0 GB when full"


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
    assert resources.replay_steps(share, 1000, 2, max_actor_steps) == steps


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
