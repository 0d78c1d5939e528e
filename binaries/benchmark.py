"""Measures the speeds and sizes of replay, learner, actor and parameter server.

    python -m binaries.benchmark                    # all except whole runs and mazes
    python -m binaries.benchmark replay --peers     # compared with another library
    python -m binaries.benchmark learner --json learner.json
    python -m binaries.benchmark workers --repeats=3     # whole runs, three minutes a repeat
    python -m binaries.benchmark refer      # the benchmarks of an agent

Prints a table; progress goes to standard error. The docstrings of the functions in
`common/benchmarks/*_cases.py` say what each number means and under which conditions it is measured.
Other load on the machine lowers every number. A row and its peer are measured in turns, so other
load changes their ratio least. Each value is a median.
"""

import argparse
from collections.abc import Sequence
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

from common.benchmarks import learner_peers, report
from common.cluster import processes
from common.cluster.errors import ClusterError
from common.reporting.command_line import Parser, check_writable, exit_with, fail
from common.user_error import UserError
from reproductions import declared

_DECLARED, _BY_FOLDER = declared("config", "AGENT"), declared("benchmarks", "CASES")
_CASES = {case.name: case for cases in _BY_FOLDER.values() for case in cases}
_AGENTS = {case.name: _DECLARED[folder] for folder, cases in _BY_FOLDER.items() for case in cases}
_MEASURED_AGENTS = tuple(dict.fromkeys(agent.name for agent in _AGENTS.values()))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    width = max(map(len, _CASES))
    cases = "\n".join(f"  {case.name:{width}}  {case.measures}" for case in _CASES.values())
    parser = Parser(
        prog="python -m binaries.benchmark", description=__doc__, epilog=f"benchmarks:\n{cases}"
    )
    parser.add_argument(
        "case",
        nargs="?",
        choices=(*_CASES, *_MEASURED_AGENTS),
        metavar="NAME",
        help=f"only this benchmark, or those of an agent: {', '.join(_MEASURED_AGENTS)}",
    )
    parser.add_argument(
        "--peers",
        action="store_true",
        help="also measure other libraries, which `make peers` installs: cpprb in replay and "
        "image_replay; JAX, PyTorch and Stable-Baselines3 in learner",
    )
    parser.add_argument(
        "--json",
        type=pathlib.Path,
        metavar="FILE",
        help="write the rows to this file, as a list of objects",
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=7,
        metavar="N",
        help="repeats of each measurement, of which the median is shown; default 7",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes and few calls: shows that the benchmarks work, not how fast the code is",
    )
    arguments = parser.parse_args(argv)
    if arguments.repeats < 1:
        parser.error(f"--repeats must be at least 1, is {arguments.repeats}")
    if arguments.json is not None:
        check_writable("--json", arguments.json)
    needed = {case.peer for case in _chosen(arguments.case)}
    installed = {"": True, "learners": learner_peers.PYTHON.exists()}
    installed["cpprb"] = importlib.util.find_spec("cpprb") is not None
    if arguments.peers and not all(map(installed.get, needed)):
        parser.error("--peers needs the libraries that `make peers` installs: run it first")
    return arguments


def _chosen(name: str | None) -> Sequence[report.Case]:
    """Returns the benchmarks that a request names."""
    if name in _CASES:
        return [_CASES[name]]
    chosen = [case for case in _CASES.values() if name in (None, _AGENTS[case.name].name)]
    return [case for case in chosen if not case.by_name_only]


def _measure(case: report.Case, arguments: argparse.Namespace) -> list[report.Row]:
    """Measures a benchmark in this process."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if not case.uses_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    # Before NumPy is imported.
    processes.limit_threads(1 if case.one_thread else processes.usable_cores())
    from common.replay import library

    library.ops()  # raises UserError if they are not built
    bench = report.Bench(_AGENTS[case.name], arguments.repeats, arguments.peers)
    return case.measure(bench, arguments.quick)


def _measure_all(cases: Sequence[report.Case], arguments: argparse.Namespace) -> list[report.Row]:
    """Measures each benchmark in its own process, since a process can limit its threads once."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="benchmark_") as directory:
        for case in cases:
            path = pathlib.Path(directory, f"{case.name}.json")
            command = [sys.executable, "-m", "binaries.benchmark", case.name]
            command += [f"--json={path}", f"--repeats={arguments.repeats}"]
            command += ["--quick"] * arguments.quick + ["--peers"] * arguments.peers
            ended = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
            if ended.returncode:
                fail(f"{case.name} ended with exit code {ended.returncode}, see above")
            rows += report.read_json(path)
    return rows


def main(argv: list[str] | None = None) -> None:
    """Measures the requested benchmarks; prints and writes their rows."""
    arguments = _arguments(argv)
    if arguments.case in _CASES:
        rows = _measure(_CASES[arguments.case], arguments)
    else:
        rows = _measure_all(_chosen(arguments.case), arguments)
    if arguments.json is not None:
        report.write_json(arguments.json, rows)
    print(report.table(rows))
    if arguments.quick:
        report.say("--quick: sizes are too small for these numbers to mean anything")


if __name__ == "__main__":
    exit_with(main, (UserError, RuntimeError, ClusterError))
