"""Growth of a run over time: memory, threads and descriptors by role, shared memory, disk."""

import collections
from collections.abc import Iterable, Mapping, Sequence
import contextlib
import os
import pathlib
import re

import numpy as np

_PERIOD_SECONDS = 5.0
_APART_SECONDS = 30.0
"""Between two samples that are compared: longer than from a checkpoint or evaluation to the next,
so that both have as much of what these need for a moment."""
_LEAST_MINUTES = 2.0
"""Of a role, to judge it by."""
BOUNDS: Mapping[str, float] = {
    "rss_mb": 2.0,
    "anonymous_mb": 2.0,
    "threads": 1.0,
    "descriptors": 1.0,
    "shm_mb": 1.0,
    "disk_mb": 1.0,
}
"""Most growth a minute. The rarest work that repeats is an evaluation every 30 s and a checkpoint
every 20 s: a thread, a descriptor or two megabytes that each leaves behind break the bound. 2 MB a
minute are 3 GB in a day's run, where roles of undisturbed runs grow by up to 1.2 between two
collections of garbage. Shared memory is all of /dev/shm, disk the run directory, whose saved replay
is full after the warm-up."""
_MORE_THREADS = 32
"""Most threads of a role beyond those before the first fault. One that waited for partners once
made 190 in a minute."""


def usage(pid: int) -> dict[str, float]:
    """Returns what a process holds now; the keys are of `BOUNDS`.

    Raises:
      OSError: it has ended.
    """
    process = pathlib.Path(f"/proc/{pid}")
    sizes = dict(re.findall(r"(\w+): +(\d+) kB", (process / "smaps_rollup").read_text()))
    return {
        "rss_mb": int(sizes["Rss"]) / 1024,
        # Its own and those that it shares with other forks, whose number changes.
        "anonymous_mb": int(sizes["Anonymous"]) / 1024,
        "threads": len(os.listdir(process / "task")),
        "descriptors": len(os.listdir(process / "fd")),
    }


def space(workdir: pathlib.Path) -> dict[str, float]:
    """Returns what the run holds in /dev/shm and on the disk; the keys are of `BOUNDS`."""
    shared = os.statvfs("/dev/shm")
    size = 0
    for path in workdir.rglob("*"):
        with contextlib.suppress(OSError):  # it has just been removed
            size += path.lstat().st_size
    return {
        "shm_mb": (shared.f_blocks - shared.f_bfree) * shared.f_frsize / 2**20,
        "disk_mb": size / 2**20,
    }


def slope(lives: Iterable[Sequence[tuple[float, float]]]) -> float | None:
    """Returns the growth of a quantity a minute, by Siegel's repeated medians.

    A sample's slope is the median of those to the samples of the same life that are at least half a
    minute apart, and the growth is the median over all samples. A restart does not count, nor does
    a single step, unless it comes in the middle of a life.

    Args:
      lives: pairs of time, in seconds, and value, in order of time.

    Returns:
      None if there are no such samples.
    """
    slopes = []
    for life in lives:
        for time, value in life:
            others = [
                (other - value) / (at - time)
                for at, other in life
                if abs(at - time) >= _APART_SECONDS
            ]
            slopes += [np.median(others)] if others else []
    return 60 * float(np.median(slopes)) if slopes else None


class Growth:
    """Samples of a run's processes. A life is one process, from its start to its end.

    Args:
      keeper: role with whose end the run ends. Samples that come later do not count: an evaluator
        then loads the last checkpoint.
      workdir: run directory, whose size is the run's use of the disk.
      quiet_seconds: after the first sample, in which every role makes the threads that it needs.
      warm_up_seconds: a process's imports, compilation, allocator caches, and its replay,
        which has to be full by then.
    """

    def __init__(
        self, keeper: str, workdir: pathlib.Path, quiet_seconds: float, warm_up_seconds: float
    ):
        self._keeper = keeper
        self._workdir = workdir
        self._quiet_seconds = quiet_seconds
        self._warm_up_seconds = warm_up_seconds
        self._lives: dict[tuple[str, int], list[tuple[float, dict[str, float]]]] = {}
        self._begin: float | None = None
        self._due = 0.0

    def observe(self, running: Mapping[str, int], now: float) -> None:
        """Takes a sample of each process if it is time.

        Args:
          running: identifiers of processes by name, "actor-0".
          now: the time, in seconds.
        """
        if self._begin is None:
            self._begin = self._due = now
        if now < self._due:
            return
        self._due = now + _PERIOD_SECONDS
        for name, pid in running.items():
            with contextlib.suppress(OSError):  # it has just ended
                sample = (now - self._begin, usage(pid))
                self._lives.setdefault((name.rpartition("-")[0], pid), []).append(sample)
        self._lives.setdefault(("run", 0), []).append((now - self._begin, space(self._workdir)))

    def table(self) -> dict[str, dict]:
        """Returns a row for each role, and one for the "run": its shared memory and its disk.

        It has the numbers of lives and of minutes after warm-up, and for each quantity its value
        `at_first`, before any fault, its value at `most`, and its growth `per_minute` after
        warm-up. Values are largest ones of all lives, and None where no life was long enough.
        """
        end = max(
            (life[-1][0] for (role, _), life in self._lives.items() if role == self._keeper),
            default=0.0,
        )
        roles = collections.defaultdict(list)
        for (role, _), life in self._lives.items():
            if life[0][0] <= end:
                roles[role].append([sample for sample in life if sample[0] <= end])
        return {role: self._row(lives) for role, lives in roles.items()}

    def write(self, path: pathlib.Path) -> None:
        """Writes all samples as CSV."""
        lines = [",".join(("role", "pid", "seconds", *BOUNDS))]
        for (role, pid), life in self._lives.items():
            lines += [
                f"{role},{pid},{seconds:.1f},"
                + ",".join(f"{held[name]:.1f}" if name in held else "" for name in BOUNDS)
                for seconds, held in life
            ]
        path.write_text("\n".join(lines) + "\n")

    def _row(self, lives: Sequence[Sequence[tuple[float, dict[str, float]]]]) -> dict:
        warm = [
            [sample for sample in life if sample[0] - life[0][0] >= self._warm_up_seconds]
            for life in lives
        ]
        seconds = sum(life[-1][0] - life[0][0] for life in warm if life)
        row = {"lives": len(lives), "minutes": round(seconds / 60, 1)}
        samples = [sample for life in lives for sample in life]
        first = [sample for sample in samples if sample[0] < self._quiet_seconds]
        for name in samples[0][1]:
            growth = slope([(at, held[name]) for at, held in life] for life in warm)
            row[name] = {
                "at_first": max((round(held[name], 1) for _, held in first), default=None),
                "most": max(round(held[name], 1) for _, held in samples),
                "per_minute": None if growth is None else round(growth, 3),
            }
        return row


def excesses(table: Mapping[str, Mapping]) -> list[str]:
    """Returns what exceeds a bound, of what `Growth.table` returns."""
    found = []
    for role, row in table.items():
        for name in (name for name in BOUNDS if name in row):
            most, growth = BOUNDS[name], row[name]["per_minute"]
            if row["minutes"] >= _LEAST_MINUTES and growth is not None and growth > most:
                found.append(f"{name} of the {role} grows by {growth:g} a minute, above {most:g}")
        threads = row.get("threads", {"at_first": None, "most": None})
        before, most = threads["at_first"], threads["most"]
        if before is not None and most > before + _MORE_THREADS:
            found.append(f"threads of the {role} grew from {before} to {most}")
    return found
