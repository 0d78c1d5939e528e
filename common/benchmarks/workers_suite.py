"""Speed of a whole run with two workers, beside that with one.

Both are started by the local launcher, in turns. Each worker has one thread for TensorFlow beside
its acting thread, and all share the machine's cores with the parameter server. The evaluator has
nothing to do before the end.
"""

import dataclasses
import pathlib
import statistics
import subprocess
import sys
import tempfile

from common.benchmarks.report import Row, say
from common.benchmarks.roles import BenchmarkedProgram, flag_text, last_words, start_process
from common.reporting.csv_rows import read_rows

_SPEEDS = ("learner_steps_per_second", "actor_steps_per_second")
_END_SECONDS = 180.0


@dataclasses.dataclass(frozen=True)
class WorkersSizes:
    """A run.

    Attributes:
      environment: its name.
      seconds: length of each run from the start of its server, filling and compilation included.
      replay_capacity: steps in the memory of a worker.
      min_replay_size: items there before its first update.
    """

    environment: str = "atari:pong"
    seconds: float = 90.0
    replay_capacity: int = 20_000
    min_replay_size: int = 500


FULL = WorkersSizes()
QUICK = WorkersSizes(seconds=30.0, min_replay_size=100)


def measure(program: BenchmarkedProgram, sizes: WorkersSizes, repeats: int) -> list[Row]:
    """Returns the rows of the workers suite, applied updates and actor steps a second.

    Raises:
      RuntimeError: a run failed, did not end in time, or made no update.
    """
    runs: dict[int, list[dict[str, float]]] = {2: [], 1: []}
    for repeat in range(repeats):
        for workers, speeds in runs.items():
            speeds.append(_run(program, sizes, workers))
            latest = ", ".join(f"{name} {speed:.0f}" for name, speed in speeds[-1].items())
            say(f"workers {repeat + 1}/{repeats}, {workers} workers: {latest}")

    def median(workers: int, name: str) -> float:
        return statistics.median(speeds[name] for speeds in runs[workers])

    return [
        Row(f"workers/two_{name}", median(2, name), "steps/s", "one worker", median(1, name))
        for name in _SPEEDS
    ]


def _run(program: BenchmarkedProgram, sizes: WorkersSizes, workers: int) -> dict[str, float]:
    """Makes a run; returns the medians of its speeds.

    The medians are of learner.csv, from the second row with updates on, since the first one holds
    the tracing.
    """
    with tempfile.TemporaryDirectory(prefix="benchmark_") as name:
        directory = pathlib.Path(name)
        config = {
            **program.config,
            "replay_capacity": sizes.replay_capacity,
            "min_replay_size": sizes.min_replay_size,
        }
        flags = {
            "role": "local",
            "environment": sizes.environment,
            "num_workers": workers,
            "worker_threads": 1,
            "workdir": directory / "run",
            "max_minutes": sizes.seconds / 60,
            "evaluation_seconds": 1e6,
            "evaluation_episodes": 1,
            **{f"config.{name}": flag_text(value) for name, value in config.items()},
        }
        command = [sys.executable, "-m", program.module]
        command += [f"--{name}={value}" for name, value in flags.items()]
        process = start_process(command, {}, directory / "log")
        try:
            code = process.wait(sizes.seconds + _END_SECONDS)
        except subprocess.TimeoutExpired:
            raise RuntimeError("the run did not end in time") from None
        finally:
            process.kill()  # of no effect on one that has ended
            process.wait()
        if code != 0:
            raise RuntimeError(
                f"a run ended with exit code {code}: {last_words(directory / 'log')}"
            )
        rows = read_rows(directory / "run" / "learner.csv")
    rows = rows[rows["learner_steps_per_second"] > 0]
    if len(rows) == 0:
        raise RuntimeError(f"the run made no update in {sizes.seconds:g} s")
    return {
        name: float(rows[name][1:].median() if len(rows) > 1 else rows[name].iloc[0])
        for name in _SPEEDS
    }
