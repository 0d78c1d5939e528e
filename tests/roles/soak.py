"""Trains through faults: D4PG on cartpole swingup by default, attacked while it learns.

    make soak
    .venv/bin/python tests/roles/soak.py --minutes=5 --actor_kills=20 --replay_kills=2 \\
        --learner_kills=2 --json=soak.json
    .venv/bin/python tests/roles/soak.py --module=binaries.apex_dqn \\
        --flagfile=reproductions/apex/dqn/ten_minutes.flags --replay_shards=2 \\
        --actor_kills=20 --replay_kills=3 --learner_kills=0
    .venv/bin/python tests/roles/soak.py --module=binaries.reactor \\
        --flagfile=tests/roles/soak_reactor.flags --actor_processes=2

Its roles and its launcher are killed with -9, its roles are frozen, its disk is full for a while.
When is random; of several acting processes, or shards of the replay, each has its turn. Ends with
exit code 1 if the run does not come through: a role that does not come back, learning that stands
still after the last fault, an exit code other than 0, a last return below that of undisturbed runs,
counters that do not add up, a file that is not whole, a process, thread or file that is left over.
No test: it takes as long as it says. The full disk is a tmpfs; without the right to mount one, that
fault is skipped, and the record says so.
"""

import argparse
import collections
import contextlib
import dataclasses
import importlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
from typing import Any

from soak_faults import Disk, Fault, Faults, has_replay, schedule
from watched_run import WatchedRun

from common.reporting.command_line import Parser, check_writable
from common.reporting.csv_rows import last_row
from common.reporting.run_directory import RunDirectory

_ROOT = pathlib.Path(__file__).parents[2]
_FLAGFILE = "tests/roles/soak.flags"
_UNDISTURBED = _ROOT / "results/runs/d4pg/quickstart/d4pg_prioritized_n5"
"""Kept runs of the default flagfile: a run through faults is to return what the worst of them did.
"""
_QUIET_BEGIN_SECONDS = 30.0
_FREEZE_SECONDS = 30.0
_FULL_SECONDS = 60.0
_MAX_MORE_THREADS = 32
"""Of a process, beside those before the first fault. A role that waited for partners once made 190
in a minute."""
_COUNTS = {
    "actor_kills": (100, "kills of acting processes, which are actors or workers"),
    "replay_kills": (10, "kills of the replay, in layouts that have it as a process"),
    "learner_kills": (10, "kills of what keeps the run, the learner or the parameter server"),
    "launcher_kills": (1, "kills of the launcher, which is started again"),
    "freezes": (1, f"freezes of each role, of {_FREEZE_SECONDS:g} s"),
    "full_disks": (1, f"times that the disk is full, for {_FULL_SECONDS:g} s"),
}
_FILES = re.compile(
    r"(config|run)\.json|(learner|acting|lives|evaluator)\.csv|learning_curve\.png|"
    r"logs/\w+-\d+\.log|tensorboard/events\..*|"
    r"checkpoints/(checkpoint|learner\.lock|ckpt-\d+\.(index|data-.*))"
)
"""Files of a run that has ended."""


def _arguments() -> argparse.Namespace:
    parser = Parser(prog="python tests/roles/soak.py", description=__doc__)
    parser.add_argument(
        "--module", default="binaries.d4pg", help="the agent's program, default %(default)s"
    )
    parser.add_argument(
        "--flagfile",
        type=pathlib.Path,
        default=pathlib.Path(_FLAGFILE),
        help="its flags, default %(default)s",
    )
    parser.add_argument(
        "--minutes", type=float, default=15.0, help="length of the run, default %(default)g"
    )
    for name, (count, text) in _COUNTS.items():
        parser.add_argument(
            f"--{name}", type=int, default=count, metavar="N", help=f"{text}; default {count}"
        )
    parser.add_argument(
        "--actor_processes", type=int, default=4, metavar="N", help="to choose from, default 4"
    )
    parser.add_argument(
        "--replay_shards", type=int, default=1, metavar="N", help="to choose from, default 1"
    )
    parser.add_argument(
        "--min_return",
        type=float,
        metavar="RETURN",
        help="of the last evaluation; default that of the worst undisturbed run with the default "
        "flagfile, else any",
    )
    parser.add_argument(
        "--quiet_seconds",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="without faults at the end, for the roles to come back; default 60, "
        "more where an episode takes long",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the run and of the times of the faults, default 0"
    )
    parser.add_argument(
        "--workdir",
        type=pathlib.Path,
        metavar="DIR",
        help="gets the run; a temporary directory by default",
    )
    parser.add_argument(
        "--json", type=pathlib.Path, metavar="FILE", help="gets the faults and what came out"
    )
    arguments = parser.parse_args()
    least = dict.fromkeys(_COUNTS, 0) | {
        "quiet_seconds": 0,
        "actor_processes": 1,
        "replay_shards": 1,
    }
    for name, lowest in least.items():
        if getattr(arguments, name) < lowest:
            parser.error(f"--{name} must be at least {lowest}, is {getattr(arguments, name)}")
    if not arguments.flagfile.is_file():
        parser.error(f"--flagfile={arguments.flagfile} is no file")
    if arguments.json is not None:
        check_writable("--json", arguments.json)
    if arguments.min_return is None and arguments.flagfile == pathlib.Path(_FLAGFILE):
        rows = [last_row(path) for path in _UNDISTURBED.rglob("evaluator.csv")]
        arguments.min_return = min(row["episode_return_mean"] for row in rows if row)
    program = importlib.import_module(arguments.module).PROGRAM
    arguments.layout = program.layout(program.settings.configuration(program.settings.default))
    try:
        arguments.faults = _planned(arguments)
    except ValueError as error:
        parser.error(f"{error}: raise --minutes")
    return arguments


def _planned(arguments: argparse.Namespace) -> list[Fault]:
    rng = random.Random(arguments.seed)
    layout = arguments.layout
    acting, keeper = layout.acting_role.name, layout.keeper.name
    processes = {acting: arguments.actor_processes, "replay": arguments.replay_shards}
    faults = []

    def add(kind: str, role: str, count: int, seconds: float = 0.0) -> None:
        there, is_alone = processes.get(role, 1), (kind, role) != ("kill", acting)
        while count > 0:  # each process in turn, the turns in random orders
            turn = rng.sample(range(there), there)[:count]
            faults.extend(Fault(kind, role, index, seconds, is_alone) for index in turn)
            count -= there

    add("kill", acting, arguments.actor_kills)
    if has_replay(layout):
        add("kill", "replay", arguments.replay_kills)
    add("kill", keeper, arguments.learner_kills)
    add("kill", "launcher", arguments.launcher_kills)
    for role in layout.roles:
        add("freeze", role.name, arguments.freezes, _FREEZE_SECONDS)
    add("fill", "disk", arguments.full_disks, _FULL_SECONDS)
    end = 60 * arguments.minutes - arguments.quiet_seconds
    return schedule(faults, _QUIET_BEGIN_SECONDS, end, rng)


class Threads:
    """The largest number of threads of a process, by role.

    Attributes:
      before: until `mark`.
      most: of all time.
    """

    def __init__(self):
        self.before: dict[str, int] = {}
        self.most: dict[str, int] = collections.defaultdict(int)

    def observe(self, running: dict[str, int]) -> None:
        """Counts the threads of processes that run."""
        for name, pid in running.items():
            role = name.rpartition("-")[0]
            with contextlib.suppress(OSError):  # it has just ended
                self.most[role] = max(self.most[role], len(os.listdir(f"/proc/{pid}/task")))

    def mark(self) -> None:
        """Ends the time without faults, in which every role has made the threads that it needs."""
        self.before = dict(self.most)


def _check(
    run: WatchedRun, faults: Faults, arguments: argparse.Namespace, threads: Threads, tmp: str
) -> tuple[dict, list[str]]:
    """Returns the numbers at the end, and what is wrong."""
    evaluation = last_row(run.workdir / "evaluator.csv") or {}
    accounts = run.accounts()
    directory = RunDirectory(run.workdir)
    paths = [path for path in run.workdir.rglob("*") if path.is_socket() or not path.is_dir()]
    names = [str(path.relative_to(run.workdir)) for path in paths]
    numbers = {
        "exit_code": faults.launcher.returncode,
        "outcome": directory.read_starts()[-1]["outcome"],
        "starts_of_learner": len(directory.read_starts()),
        "return": evaluation.get("episode_return_mean"),
        "least_return": arguments.min_return,
        "wall_seconds": run.learner("wall_seconds"),
        "learner_steps": run.learner("learner_steps"),
        "actor_steps": run.learner("actor_steps"),
        "min_replay_size": directory.read_config()["config"]["min_replay_size"],
        "lives_of_actors": len(accounts),
        "accepted_from_all_lives": sum(accounts.values()),
        "processes_left": len(run.pids()),
        "files_left": [name for name in names if not _FILES.fullmatch(name)] + os.listdir(tmp),
        "threads_before": threads.before,
        "threads_at_most": dict(threads.most),
    }
    wrong = []
    if numbers["exit_code"] != 0 or numbers["outcome"] != "finished":
        wrong.append(f"exit code {numbers['exit_code']}, outcome {numbers['outcome']}")
    if not numbers["learner_steps"] > faults.steps_at_last:
        wrong.append(f"nothing was learnt after the last fault, at step {faults.steps_at_last:,}")
    least = arguments.min_return
    if least is not None and not (numbers["return"] is not None and numbers["return"] >= least):
        wrong.append(f"the last return is {numbers['return']}, below {least:g}")
    if numbers["processes_left"]:
        wrong.append(f"processes are left: {run.pids()}")
    if numbers["files_left"]:
        wrong.append(f"files are left: {numbers['files_left']}")
    for role, count in threads.before.items():
        if threads.most[role] > count + _MAX_MORE_THREADS:
            wrong.append(f"threads of the {role} grew from {count} to {threads.most[role]}")
    in_order = arguments.actor_processes
    # A worker acts without the parameter server until its own replay is filled.
    unreported = 0 if has_replay(arguments.layout) else numbers["min_replay_size"]
    checks = {
        "files": run.check_files,
        "accounts": lambda: run.check_accounts(in_order, unreported),
    }
    for name, check in checks.items():
        try:
            check()
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(f"{name}: {error!r}")
    return numbers, wrong


def _attack(
    arguments: argparse.Namespace, run: WatchedRun, disk: Disk
) -> tuple[dict[str, Any], list[str]]:
    """Runs through the faults; returns the numbers at the end, and what is wrong."""
    command = [
        *(sys.executable, "-m", arguments.module, f"--flagfile={arguments.flagfile.absolute()}"),
        *(f"--workdir={run.workdir}", f"--max_minutes={arguments.minutes}"),
        f"--{arguments.layout.acting_flag}={arguments.actor_processes}",
        *(f"--seed={arguments.seed}", "--checkpoint_seconds=20"),
    ]
    if has_replay(arguments.layout):
        command.append(f"--replay_shards={arguments.replay_shards}")
    with tempfile.TemporaryDirectory(prefix="soak_tmp_") as tmp:
        variables = {**os.environ, "TMPDIR": tmp}
        faults = Faults(
            run,
            lambda: subprocess.Popen(command, cwd=_ROOT, env=variables),
            arguments.layout,
            arguments.actor_processes,
            disk,
        )
        threads = Threads()

        def observe(running: dict[str, int]) -> None:
            threads.observe(running)
            if not any(fault.done for fault in arguments.faults):
                threads.mark()

        try:
            run.wait_for(
                lambda: run.learner("learner_steps") or faults.launcher.poll() is not None,
                600,
                "the learner's first updates",
            )
            faults.go(arguments.faults, observe)
        finally:
            faults.launcher.terminate()  # of one that has ended, nothing
            faults.launcher.wait()
        if not run.learner("learner_steps"):
            sys.exit(
                f"error: {arguments.module} ended before its learner's first updates; "
                f"the logs are in {run.workdir / 'logs'}"
            )
        return _check(run, faults, arguments, threads, tmp)


def main() -> None:
    """Runs, attacks, checks, prints a table and writes the JSON file."""
    arguments = _arguments()
    folder = (arguments.workdir or pathlib.Path(tempfile.mkdtemp(prefix="soak_"))).absolute()
    disk, skipped = Disk(folder / "disk"), {}
    with disk.mounted() as why_not:
        if why_not and arguments.full_disks:
            skipped["fill disk"] = why_not
            print(f"skipped: a full disk, because it cannot be mounted: {why_not}", flush=True)
            arguments.faults = [fault for fault in arguments.faults if fault.kind != "fill"]
        run = WatchedRun(disk.path / "run")
        numbers, wrong = _attack(arguments, run, disk)
    wrong += [
        f"{fault}: {'not over' if fault.done else 'did not happen'} before the end"
        for fault in arguments.faults
        if fault.recovered is None
    ]
    arguments.faults.sort(key=lambda fault: fault.at)  # some waited
    print("\nfault                 at  over after")
    for fault in arguments.faults:
        over = "-" if fault.recovered is None else f"{fault.recovered:.0f} s"
        print(f"{fault!s:18} {fault.at:5.0f} s {over:>9}   {fault.note}")
    for name, value in numbers.items():
        print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")
    print(f"run directory {run.workdir}")
    if arguments.json:
        records = [dataclasses.asdict(fault) for fault in arguments.faults]
        result = {
            "program": arguments.module,
            "flags": arguments.flagfile.name,
            "kills": [one for one in records if one["kind"] == "kill"],
            "other_faults": [one for one in records if one["kind"] != "kill"],
            "skipped": skipped,
            "end": numbers,
            "wrong": wrong,
        }
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    if wrong:
        sys.exit("\n".join(["", *(f"error: {one}" for one in wrong)]))
    print("all is well")


if __name__ == "__main__":
    main()
