"""Speed of a run whose roles are started one by one, beside that of the local launcher.

Both ways run the same on this machine, in turns: learner, replay, one actor process and the
evaluator, once started by `--role=local` and once as separate programs that find each other through
TF_CONFIG. The evaluator has nothing to do before the end.
"""

import contextlib
import dataclasses
import pathlib
import subprocess

from common.benchmarks.report import Row
from common.benchmarks.roles import BenchmarkedProgram, role_variables
from common.benchmarks.whole_runs import SPEEDS, WholeRun, compare, start_local, start_role
from common.cluster import token as token_lib
from common.cluster.topology import Topology
from common.program import layouts

_ROLES = ("learner", "replay", "actor", "evaluator")


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
    # Both get what the launcher would choose by the number of cores.
    flags = {
        "environment": sizes.environment,
        "num_actors": sizes.num_actors,
        "actor_processes": 1,
        "learner_threads": 2,
    }
    config = {
        "min_replay_size": sizes.min_replay_size,
        "samples_per_insert": sizes.samples_per_insert,
    }
    run = WholeRun(program, sizes.seconds, flags, config)
    ways = {"separate": (run, _start_separately), "local": (run, start_local)}
    speeds = compare("cluster", ways, repeats)
    return [
        Row(
            f"cluster/{name}",
            speeds["separate"][name],
            "steps/s",
            "local launcher",
            speeds["local"][name],
        )
        for name in SPEEDS
    ]


def _start_separately(
    run: WholeRun, directory: pathlib.Path, stack: contextlib.ExitStack
) -> dict[str, subprocess.Popen]:
    topology = Topology.local(layouts.DISTRIBUTED.roles, dict.fromkeys(_ROLES, 1))
    token = token_lib.new_token()
    return {
        role: start_role(run, role, directory, role_variables(topology, role, token), stack)
        for role in _ROLES
    }
