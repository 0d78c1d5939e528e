"""Speed of a run whose roles are started one by one, beside that of the local launcher.

Both ways run the same on this machine, in turns: learner, replay, one actor process and the
evaluator, once started by `--role=local` and once as separate programs that find each other through
TF_CONFIG. The speeds are those of learner.csv, from the second row with updates on, since the first
one holds the compilation. The evaluator has nothing to do before the end.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import pathlib
import statistics
import subprocess
import sys
import tempfile

from common.benchmarks.report import Row, say
from common.benchmarks.roles import (
    BenchmarkedProgram,
    flag_text,
    last_words,
    role_variables,
    start_process,
)
from common.cluster import token as token_lib
from common.cluster.topology import Topology
from common.program import layouts
from common.reporting.csv_rows import read_rows

_ROLES = ("learner", "replay", "actor", "evaluator")
_SPEEDS = ("learner_steps_per_second", "actor_steps_per_second")
_END_SECONDS = 180.0


@dataclasses.dataclass(frozen=True)
class ClusterSizes:
    """A run.

    Attributes:
      environment: its name.
      seconds: length of each run from the start of its learner, filling and compilation included.
      num_actors: the paper's actors, in one process.
      min_replay_size: transitions before the first update.
      samples_per_insert: the ratio that holds learner and actors together; 0: none.
    """

    environment: str = "control:cartpole:swingup"
    seconds: float = 120.0
    num_actors: int = 8
    min_replay_size: int = 2000
    samples_per_insert: float = 64.0


FULL = ClusterSizes()
QUICK = ClusterSizes(seconds=40.0, num_actors=4, min_replay_size=1000)


def measure(program: BenchmarkedProgram, sizes: ClusterSizes, repeats: int) -> list[Row]:
    """Returns the rows of the cluster suite."""
    ways = {"separate": _start_separately, "local": _start_local}
    speeds = {(way, name): [] for way in ways for name in _SPEEDS}
    for repeat in range(repeats):
        for way, start in ways.items():
            with tempfile.TemporaryDirectory(prefix="benchmark_") as directory:
                run = _run(program, sizes, start, pathlib.Path(directory))
            for name, speed in run.items():
                speeds[way, name].append(speed)
            latest = ", ".join(f"{name} {speed:.0f}" for name, speed in run.items())
            say(f"cluster {repeat + 1}/{repeats}, {way}: {latest}")
    return [
        Row(
            f"cluster/{name}",
            statistics.median(speeds["separate", name]),
            "steps/s",
            "local launcher",
            statistics.median(speeds["local", name]),
        )
        for name in _SPEEDS
    ]


def _run(
    program: BenchmarkedProgram, sizes: ClusterSizes, start, directory: pathlib.Path
) -> dict[str, float]:
    """Runs to the end and returns the medians of the speeds."""
    workdir = directory / "run"
    with contextlib.ExitStack() as stack:
        processes = start(_command(program, sizes, workdir), directory, stack)
        for role, process in processes.items():
            try:
                code = process.wait(sizes.seconds + _END_SECONDS)
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"{role} did not end in time") from None
            if code != 0:
                words = last_words(directory / f"{role}.log")
                raise RuntimeError(f"{role} ended with exit code {code}: {words}")
    rows = read_rows(workdir / "learner.csv")
    rows = rows[rows["learner_steps_per_second"] > 0]
    if len(rows) == 0:
        raise RuntimeError(f"the learner made no update in {sizes.seconds:g} s")
    return {
        name: float(rows[name][1:].median() if len(rows) > 1 else rows[name].iloc[0])
        for name in _SPEEDS
    }


def _command(program: BenchmarkedProgram, sizes: ClusterSizes, workdir: pathlib.Path) -> list[str]:
    config = {
        "min_replay_size": sizes.min_replay_size,
        "samples_per_insert": sizes.samples_per_insert,
        **program.config,
    }
    # Both get what the launcher would choose by the number of cores.
    flags = {
        "environment": sizes.environment,
        "workdir": workdir,
        "max_minutes": sizes.seconds / 60,
        "num_actors": sizes.num_actors,
        "actor_processes": 1,
        "learner_threads": 2,
        "evaluation_seconds": 1e6,
        "evaluation_episodes": 1,
        **{f"config.{name}": flag_text(value) for name, value in config.items()},
    }
    return [
        sys.executable,
        "-m",
        program.module,
        *(f"--{name}={value}" for name, value in flags.items()),
    ]


def _start_local(
    command: list[str], directory: pathlib.Path, stack: contextlib.ExitStack
) -> dict[str, subprocess.Popen]:
    return {"local": _start([*command, "--role=local"], directory / "local.log", {}, stack)}


def _start_separately(
    command: list[str], directory: pathlib.Path, stack: contextlib.ExitStack
) -> dict[str, subprocess.Popen]:
    topology = Topology.local(layouts.DISTRIBUTED.roles, dict.fromkeys(_ROLES, 1))
    token = token_lib.new_token()
    return {
        role: _start(
            [*command, f"--role={role}"],
            directory / f"{role}.log",
            role_variables(topology, role, token),
            stack,
        )
        for role in _ROLES
    }


def _start(
    command: list[str], log: pathlib.Path, variables: Mapping[str, str], stack: contextlib.ExitStack
) -> subprocess.Popen:
    """Starts a process that ends with `stack` at the latest."""
    process = start_process(command, variables, log)
    stack.callback(process.wait)
    stack.callback(process.kill)  # first, and of no effect on one that has ended
    return process
