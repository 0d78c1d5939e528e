"""Measures the speeds and sizes of replay, learner, actor and parameter server.

    python -m binaries.benchmark                    # all of them, each in a process of its own
    python -m binaries.benchmark replay --peers     # beside cpprb and a sum tree in NumPy
    python -m binaries.benchmark learner --json learner.json
    python -m binaries.benchmark workers --repeats=3     # whole runs, three minutes a repeat
    python -m binaries.benchmark refer      # the suites of a paper: reactor, refer or aql

Prints a table; progress goes to standard error. The docstrings of `common/benchmarks/` say what
each number means and under which conditions it is taken. Other load on the machine lowers every
number; those of a row and its peer were taken in turns, so their ratio suffers least. Each value is
a median.
"""

import argparse
from collections.abc import Sequence
import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

from common.benchmarks import report
from common.cluster import processes
from common.cluster.errors import ClusterError
from common.reporting.command_line import Parser, check_writable, exit_with, fail
from common.reporting.user_error import UserError
from reproductions import AGENTS

_SUITES = (
    "replay",
    "image_replay",
    "episode_memory",
    "learner",
    "image_learner",
    "sequence_learner",
    "priority_tree",
    "actor",
    "image_actor",
    "sequence_actor",
    "parameter_server",
    "episodes",
    "unroll_actor",
    "unroll_learner",
)
_LONG_SUITE = "workers"
"""Minutes long, so only by name."""
_SUITES_WITH_PEERS = ("replay", "image_replay")
_PAPERS = {
    "reactor": ("sequence_learner", "priority_tree", "sequence_actor", "parameter_server"),
    "refer": ("episodes", "episode_memory"),
    "aql": ("unroll_actor", "unroll_learner"),
}
"""The suites of a paper but the long one."""
_AGENTS = {
    "apex_dqn": ("image_replay", "image_learner", "image_actor"),
    **_PAPERS,
    "reactor": (*_PAPERS["reactor"], _LONG_SUITE),
}
"""The suites that measure an agent; D4PG has all others."""


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.benchmark", description=__doc__)
    parser.add_argument(
        "suite",
        nargs="?",
        choices=(*_SUITES, _LONG_SUITE, *_PAPERS),
        help="only this one, or those of a paper",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="replay, image_replay: also measure cpprb and NumPy (`make peers` installs cpprb)",
    )
    parser.add_argument(
        "--json",
        type=pathlib.Path,
        metavar="FILE",
        help="write the rows there, as a list of objects",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=7,
        metavar="N",
        help="of each measurement, whose median counts; default 7",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes and few calls: shows that it works, not how fast",
    )
    arguments = parser.parse_args(argv)
    if arguments.repeats < 1:
        parser.error(f"--repeats must be at least 1, is {arguments.repeats}")
    if arguments.json is not None:
        check_writable("--json", arguments.json)
    if arguments.peers and arguments.suite in (None, *_SUITES_WITH_PEERS) and not _has("cpprb"):
        parser.error("--peers needs cpprb, which is not installed: run `make peers`")
    return arguments


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _measure(arguments: argparse.Namespace) -> list[report.Row]:
    """Measures one suite in this process."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if not arguments.suite.endswith("learner") and arguments.suite != _LONG_SUITE:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # as its role
    # Before NumPy is imported. An actor's process has one thread in the real layout too.
    is_actor = arguments.suite.endswith("actor")
    processes.limit_threads(1 if is_actor else processes.usable_cores())
    from common.replay import library

    try:
        library.ops()
    except library.ReplayLibraryError as error:
        fail(str(error))
    suite = importlib.import_module(f"common.benchmarks.{arguments.suite}_suite")
    sizes = suite.QUICK if arguments.quick else suite.FULL
    has_peers = arguments.suite in _SUITES_WITH_PEERS
    options = {"with_peers": arguments.peers} if has_peers else {}
    return suite.measure(_program(arguments.suite), sizes, arguments.repeats, **options)


def _program(suite: str):
    from common.benchmarks.roles import BenchmarkedProgram
    from common.program.layout import imported

    agent = next((name for name, suites in _AGENTS.items() if suite in suites), "d4pg")
    return BenchmarkedProgram(f"binaries.{agent}", imported(AGENTS[agent]))


def _measure_all(arguments: argparse.Namespace, suites: Sequence[str]) -> list[report.Row]:
    """Measures suites, each in a process of its own: thread limits are set once."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="benchmark_") as directory:
        for suite in suites:
            path = pathlib.Path(directory, f"{suite}.json")
            command = [
                sys.executable,
                "-m",
                "binaries.benchmark",
                suite,
                f"--json={path}",
                f"--repeats={arguments.repeats}",
            ]
            command += ["--quick"] * arguments.quick + ["--peers"] * arguments.peers
            ended = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
            if ended.returncode:
                fail(f"the {suite} suite ended with exit code {ended.returncode}, see above")
            rows += report.read_json(path)
    return rows


def main(argv: list[str] | None = None) -> None:
    """Measures, prints and writes."""
    arguments = _arguments(argv)
    if arguments.suite in (None, *_PAPERS):
        rows = _measure_all(arguments, _PAPERS.get(arguments.suite, _SUITES))
    else:
        rows = _measure(arguments)
    if arguments.json is not None:
        report.write_json(arguments.json, rows)
    print(report.table(rows))
    if arguments.quick:
        report.say("--quick: sizes are too small for these numbers to mean anything")


if __name__ == "__main__":
    exit_with(main, (UserError, RuntimeError, ClusterError))
