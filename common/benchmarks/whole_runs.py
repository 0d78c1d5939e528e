"""Speeds of whole runs of a program that are started in several ways."""

from collections.abc import Callable, Mapping
import contextlib
import dataclasses
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from common.benchmarks.report import say
from common.benchmarks.roles import BenchmarkedProgram, flag_text, last_words, start_process
from common.reporting.csv_rows import read_rows

SPEEDS = ("learner_steps_per_second", "actor_steps_per_second")
_END_SECONDS = 180.0


@dataclasses.dataclass(frozen=True)
class WholeRun:
    """A run, in a directory of its own.

    Attributes:
      program: the program of its roles.
      seconds: length from the start of the role that keeps the run, filling and compilation
        included.
      flags: of all roles, without --workdir and limits.
      config: fields of the config that differ from the program's own.
    """

    program: BenchmarkedProgram
    seconds: float
    flags: Mapping[str, Any]
    config: Mapping[str, Any]

    def command(self, directory: pathlib.Path) -> list[str]:
        """Returns the command of a role, without --role."""
        config = {**self.config, **self.program.config}
        flags = {
            **self.flags,
            "workdir": directory / "run",
            "max_minutes": self.seconds / 60,
            "evaluation_seconds": 1e6,
            "evaluation_episodes": 1,
            **{f"config.{name}": flag_text(value) for name, value in config.items()},
        }
        return [
            sys.executable,
            "-m",
            self.program.module,
            *(f"--{name}={value}" for name, value in flags.items()),
        ]


Start = Callable[[WholeRun, pathlib.Path, contextlib.ExitStack], dict[str, subprocess.Popen]]
"""Function that starts a run in a directory and returns its processes by name."""


def compare(
    title: str, ways: Mapping[str, tuple[WholeRun, Start]], repeats: int
) -> dict[str, dict[str, float]]:
    """Makes runs in turns; returns for each way the medians of SPEEDS, by their names.

    The speeds of a run are the medians of those in learner.csv, from the second row with updates
    on, since the first one holds the compilation.

    Raises:
      RuntimeError: a run failed, did not end in time, or made no update.
    """
    speeds: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for repeat in range(repeats):
        for way, (run, start) in ways.items():
            with tempfile.TemporaryDirectory(prefix="benchmark_") as directory:
                speeds[way].append(_speeds(run, start, pathlib.Path(directory)))
            latest = ", ".join(f"{name} {speed:.0f}" for name, speed in speeds[way][-1].items())
            say(f"{title} {repeat + 1}/{repeats}, {way}: {latest}")
    return {
        way: {name: statistics.median(speed[name] for speed in measured) for name in SPEEDS}
        for way, measured in speeds.items()
    }


def start_local(
    run: WholeRun, directory: pathlib.Path, stack: contextlib.ExitStack
) -> dict[str, subprocess.Popen]:
    """Starts a run by its local launcher."""
    return {"local": start_role(run, "local", directory, {}, stack)}


def start_role(
    run: WholeRun,
    role: str,
    directory: pathlib.Path,
    variables: Mapping[str, str],
    stack: contextlib.ExitStack,
) -> subprocess.Popen:
    """Starts a role, which ends with `stack` at the latest."""
    command = [*run.command(directory), f"--role={role}"]
    process = start_process(command, variables, directory / f"{role}.log")
    stack.callback(process.wait)
    stack.callback(process.kill)  # first, and of no effect on one that has ended
    return process


def _speeds(run: WholeRun, start: Start, directory: pathlib.Path) -> dict[str, float]:
    """Runs to the end and returns the medians of the speeds."""
    with contextlib.ExitStack() as stack:
        for role, process in start(run, directory, stack).items():
            try:
                code = process.wait(run.seconds + _END_SECONDS)
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"{role} did not end in time") from None
            if code != 0:
                words = last_words(directory / f"{role}.log")
                raise RuntimeError(f"{role} ended with exit code {code}: {words}")
    rows = read_rows(directory / "run" / "learner.csv")
    rows = rows[rows["learner_steps_per_second"] > 0]
    if len(rows) == 0:
        raise RuntimeError(f"the learner made no update in {run.seconds:g} s")
    return {
        name: float(rows[name][1:].median() if len(rows) > 1 else rows[name].iloc[0])
        for name in SPEEDS
    }
