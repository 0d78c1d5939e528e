"""A check that this machine has the memory and disk that a run needs.

A run is checked before it starts. A replay only reserves address space, and fills over hours.
Without the check, a run on a machine that is too small would end late and without a message.
"""

import math
import pathlib
import shutil
from typing import NamedTuple

from common.cluster.errors import ClusterError
from common.reporting import records
from common.reporting.run_directory import RunDirectory

_NAMES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}
"""For each version of control groups: the files with the memory limit and the memory usage, and the
field of memory.stat with the part of the usage that the system can reclaim."""


def available_memory(root: pathlib.Path = pathlib.Path("/")) -> float:
    """Returns the bytes of memory that new processes may take.

    This is the minimum of the machine's available memory and the memory left below the limits of
    this process's control groups, of version 1 or 2. File caches count as available.

    Args:
      root: the directory that contains `proc` and `sys`.
    """
    left: list[float] = [1024 * _fields(root / "proc/meminfo")["MemAvailable"]]
    left += [_left(*group) for group in records.control_groups("memory", root)]
    return min(left)


def available_disk(path: pathlib.Path) -> int:
    """Returns the bytes free for this user at `path`, which need not exist."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free


def _left(folder: pathlib.Path, version: int) -> float:
    """Returns the bytes left below a control group's limit; infinity if it has no limit."""
    limit, usage, cache = _NAMES[version]
    try:
        bound, used = (int(records.text_of(folder / name)) for name in (limit, usage))
    except ValueError:  # "max", or no such file
        return math.inf
    return max(0, bound - used + _fields(folder / "memory.stat").get(cache, 0))


def _fields(path: pathlib.Path) -> dict[str, int]:
    """Returns the numbers in a file of lines "name: number unit" or "name number"."""
    lines = (line.replace(":", " ").split() for line in records.text_of(path).splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}


_MIN_DISK = 500 * 10**6
"""Bytes for checkpoints, CSV files and logs; three checkpoints of Ape-X DQN take 160 MB."""

_LOWER = ("--config.replay_capacity", "the number of actors", "--config.queue_capacity")
"""Settings that reduce the parts of a `Need`, in the order of its fields."""


class Need(NamedTuple):
    """Bytes that a run, or a process of one, needs on this machine.

    Attributes:
      replay: the full replay, or the part of it that is kept here.
      engines: engines of environments, which are separate processes.
      queue: the learner's queue when it is full.
    """

    replay: int
    engines: int = 0
    queue: int = 0


def check_resources(
    need: Need, directory: pathlib.Path, ignore: bool, saves: bool | None
) -> tuple[str, bool]:
    """Returns a line about needed and available resources, and whether the replay is saved.

    Args:
      need: bytes that the run or process needs. Only the replay is saved.
      directory: the run directory, which need not exist yet.
      ignore: whether to start even if memory or disk do not suffice.
      saves: whether to save the replay's contents. None saves them if the disk has room for twice
        the contents, or if an earlier start has saved them.

    Raises:
      ClusterError: memory or disk do not suffice.
    """
    memory, disk = available_memory(), available_disk(directory)
    saved = records.size_of(RunDirectory(directory).replay.glob("*"))
    in_memory, on_disk = sum(need), 2 * need.replay  # old and new file coexist during a save
    fits = on_disk + _MIN_DISK <= disk + saved
    # Contents that an earlier start saved are loaded, even without room to save them again.
    is_saved = need.replay > 0 and ((fits or saved > 0) if saves is None else saves)
    parts = [name for name, number in need._asdict().items() if number]
    verb = "needs" if parts in (["replay"], ["queue"]) else "need"
    needs = f"{', '.join(parts)} {verb} about {size_in_words(in_memory)}"
    line = "no replay on this machine"
    if in_memory:
        line = f"{needs} of memory when full ({size_in_words(memory)} available)"
    kept = f"{size_in_words(on_disk)} of disk ({size_in_words(disk)} free)"
    if is_saved:
        line += f", and {kept} to save the replay"
    elif need.replay and saves is None:
        line += f"; a stop loses the replay: saving it needs {kept} and --checkpoint_replay"
    problem = ""
    if in_memory > memory:
        largest = _LOWER[need.index(max(need))]
        problem = (
            f"not enough memory: {needs} when full, but {size_in_words(memory)} are available: "
            f"lower {largest}"
        )
    elif disk < _MIN_DISK:
        problem = (
            f"not enough disk: {size_in_words(disk)} free at {directory}: give another --workdir"
        )
    elif saves and not fits:
        problem = (
            f"not enough disk: --checkpoint_replay needs {size_in_words(on_disk)}, "
            f"{size_in_words(disk)} are free at {directory}: give another --workdir, "
            "or --nocheckpoint_replay"
        )
    if problem and not ignore:
        raise ClusterError(f"{problem}, or start anyway with --ignore_resources")
    return f"{problem} (ignored)" if problem else line, is_saved


def replay_steps(
    share: float, capacity: int, num_copies: int, max_actor_steps: int | None
) -> float:
    """Returns the number of steps in full replays, or at the run's end if that comes earlier.

    Args:
      share: number of replays of the configured size; less than 1 for a shard.
      capacity: steps in a replay.
      num_copies: steps in a replay for each actor step.
      max_actor_steps: limit of the run's actor steps, for all replays together; None for no limit.
    """
    steps = share * capacity
    if max_actor_steps is None:
        return steps
    return min(steps, min(share, 1) * num_copies * max_actor_steps)


def size_in_words(number: float) -> str:
    """Returns bytes in words, such as "40 MB", "3.1 GB" or "120 GB"."""
    if number < 10**9:
        return f"{max(1, round(number / 10**6))} MB"
    return f"{number / 10**9:.{1 if number < 10**10 else 0}f} GB"
