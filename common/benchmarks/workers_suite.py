"""Speed of a whole run with two workers, beside that with one.

Both are started by the local launcher, in turns. Each worker has one thread for TensorFlow beside
its acting thread, and all share the machine's cores with the parameter server. The evaluator has
nothing to do before the end.
"""

import dataclasses

from common.benchmarks.report import Row
from common.benchmarks.roles import BenchmarkedProgram
from common.benchmarks.whole_runs import SPEEDS, WholeRun, compare, start_local


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
    """Returns the rows of the workers suite, applied updates and actor steps a second."""
    config = {"replay_capacity": sizes.replay_capacity, "min_replay_size": sizes.min_replay_size}

    def run(workers: int) -> WholeRun:
        flags = {"environment": sizes.environment, "num_workers": workers, "worker_threads": 1}
        return WholeRun(program, sizes.seconds, flags, config)

    ways = {workers: (run(number), start_local) for workers, number in (("two", 2), ("one", 1))}
    speeds = compare("workers", ways, repeats)
    return [
        Row(
            f"workers/two_{name}", speeds["two"][name], "steps/s", "one worker", speeds["one"][name]
        )
        for name in SPEEDS
    ]
