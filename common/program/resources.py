"""The check that this machine can hold a run's replay and games, before the run starts.

A replay reserves address space and fills over hours. Without the check, a run on a machine that is
too small would end late and without a message.
"""

import pathlib
from typing import NamedTuple

from common.cluster.errors import ClusterError
from common.program import available
from common.reporting.run_directory import RunDirectory

_MIN_DISK = 500 * 10**6
"""Bytes for checkpoints, CSV files and logs; three checkpoints of Ape-X DQN take 160 MB."""

_LOWER = ("--config.replay_capacity", "the number of actors", "--config.queue_capacity")
"""By what each part of a `Need` becomes smaller."""


class NotEnoughError(ClusterError):
    """A machine that cannot hold the run; the message is one line that says what to do."""


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


def check(
    need: Need, directory: pathlib.Path, ignore: bool, saves: bool | None
) -> tuple[str, bool]:
    """Returns a line that says what the replay needs and what is left, and whether it is saved.

    Args:
      need: of the run, of which the replay alone is saved.
      directory: the run's directory, which need not exist yet.
      ignore: whether to start anyway if that is not enough.
      saves: whether the replay's contents are saved; None: if the disk has room for them.

    Raises:
      NotEnoughError: memory or disk do not suffice.
    """
    memory, disk = available.memory(), available.disk(directory)
    saved = sum(file.stat().st_size for file in RunDirectory(directory).replay.glob("*"))
    in_memory, needed = sum(need), 2 * need.replay  # a file is written before the last one goes
    fits = disk is None or needed + _MIN_DISK <= disk + saved
    line, is_saved = "no replay here", need.replay > 0 and (fits if saves is None else saves)
    parts = [name for name, number in need._asdict().items() if number]
    verb = "needs" if parts in (["replay"], ["queue"]) else "need"
    needs = f"{', '.join(parts)} {verb} about {size(in_memory)}"
    if in_memory:
        there = "" if memory is None else f" of {size(memory)} of memory available"
        line = f"{needs}{there} when full"
    if need.replay:
        kept = f"{size(needed)} of disk" + ("" if disk is None else f", of {size(disk)}")
        if is_saved:
            line += f", and {kept}, to survive a stop"
        elif saves is None:
            line += f"; it is lost with a stop: to survive it needs {kept} (--checkpoint_replay)"
    problem = ""
    if memory is not None and in_memory > memory:
        largest = _LOWER[need.index(max(need))]
        problem = (
            f"not enough memory: {needs} when full, but {size(memory)} are available: lower "
            f"{largest}"
        )
    elif disk is not None and disk < _MIN_DISK:
        problem = f"not enough disk: {size(disk)} free at {directory}: give another --workdir"
    elif saves and not fits and disk is not None:
        problem = (
            f"not enough disk: --checkpoint_replay needs {size(needed)}, {size(disk)} are free at "
            f"{directory}: give another --workdir, or --nocheckpoint_replay"
        )
    if problem and not ignore:
        raise NotEnoughError(f"{problem}, or start anyway with --ignore_resources")
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


def size(number: int) -> str:
    """Returns bytes in words, such as "40 MB", "3.1 GB" or "120 GB"."""
    if number < 10**9:
        return f"{max(1, round(number / 10**6))} MB"
    return f"{number / 10**9:.{1 if number < 10**10 else 0}f} GB"
