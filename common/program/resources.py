"""The memory and disk that a run needs, and those that this machine has left.

A run is checked before it starts. A replay reserves address space and fills over hours: without the
check, a run on a machine that is too small would end late and without a message.
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
"""By version of control groups: the files with the limit and the usage of memory, and the field of
memory.stat with the part of the usage that the system can drop."""


def available_memory(root: pathlib.Path = pathlib.Path("/")) -> float:
    """Returns the bytes of memory that new processes may take.

    This is the least of the machine's available memory and of what the limits of this process's
    control groups, of version 1 or 2, leave. Caches of files count as available.

    Args:
      root: the directory that has `proc` and `sys`.
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
    """Returns what a control group leaves of its limit; infinity if it has no limit."""
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
"""By what each part of a `Need` becomes smaller."""


class Need(NamedTuple):
    """Bytes that a run, or a process of one, needs on this machine.

    Attributes:
      replay: the full replay, or the part of it that is kept here.
      engines: of environments, which are processes of their own.
      queue: the learner's, when it is full.
    """

    replay: int
    engines: int = 0
    queue: int = 0


def check_resources(
    need: Need, directory: pathlib.Path, ignore: bool, saves: bool | None
) -> tuple[str, bool]:
    """Returns a line that says what the replay needs and what is left, and whether it is saved.

    Args:
      need: of the run, of which the replay alone is saved.
      directory: the run's directory, which need not exist yet.
      ignore: whether to start anyway if that is not enough.
      saves: whether the replay's contents are saved; None: if the disk has room for them, or an
        earlier start has saved them.

    Raises:
      ClusterError: memory or disk do not suffice.
    """
    memory, disk = available_memory(), available_disk(directory)
    saved = records.size_of(RunDirectory(directory).replay.glob("*"))
    in_memory, on_disk = sum(need), 2 * need.replay  # a file is written before the last one goes
    fits = on_disk + _MIN_DISK <= disk + saved
    # What an earlier start has saved is loaded, though it may not be saved again.
    is_saved = need.replay > 0 and ((fits or saved > 0) if saves is None else saves)
    parts = [name for name, number in need._asdict().items() if number]
    verb = "needs" if parts in (["replay"], ["queue"]) else "need"
    needs = f"{', '.join(parts)} {verb} about {size_in_words(in_memory)}"
    line = "no replay here"
    if in_memory:
        line = f"{needs} of memory when full ({size_in_words(memory)} available)"
    kept = f"{size_in_words(on_disk)} of disk ({size_in_words(disk)} free)"
    if is_saved:
        line += f", and {kept} to survive a stop"
    elif need.replay and saves is None:
        line += f"; a stop loses the replay: to survive it needs {kept} and --checkpoint_replay"
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
    """Returns the steps in replays when they are full, or when the run ends before that.

    Args:
      share: number of replays of the configured size; less than 1 for a shard.
      capacity: steps in a replay.
      num_copies: steps in a replay for each actor step.
      max_actor_steps: of the run; None for no limit. It is the limit of all replays together.
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
