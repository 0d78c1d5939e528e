"""Trains through faults: an agent is attacked while it learns.

    make soak
    make soak SOAK="aql refer"
    .venv/bin/python tests/roles/soak.py aql --minutes=5 --quiet_seconds=90 --freezes=0

Its roles and its launcher are killed with -9, its roles are frozen, its disk is full for a while.
When is random; of several acting processes, or shards of the replay, each has its turn. Ends with
exit code 1 if the run does not come through: a role that does not come back, learning that stands
still after the last fault, another exit code than that of a run that is over, a return below the
soak's, counters that do not add up, a file that is not whole, a process or file that is left over,
memory, threads or descriptors of a role that grow, shared memory or a run directory that grows. No
test: it takes as long as it says. The full disk is a tmpfs; without the right to mount one, that
fault is skipped, and the record says so.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from growth import Growth, excesses
from soak_faults import (
    CHECKPOINT_SECONDS,
    QUIET_BEGIN_SECONDS,
    Disk,
    Fault,
    Faults,
    has_replay,
    plan,
)
from soaks import SOAKS, Soak, layout_of
from watched_run import TOKEN, WatchedRun, parse

from common.cluster.credentials import TOKEN_VARIABLE
from common.cluster.layout import Layout
from common.reporting.command_line import Parser
from common.reporting.csv_rows import last_row, read_rows
from common.reporting.run_directory import RunDirectory

_ROOT = pathlib.Path(__file__).parents[2]
_OVER_CODE = 0
"""Exit code of a run that has reached its limit."""
_FILES = re.compile(
    r"(config|run|evaluation)\.json|(learner|acting|lives|evaluator)\.csv|learning_curve\.png|"
    r"logs/\w+-\d+\.log|events\..*|"
    r"checkpoints/(checkpoint|best\.npz|learner\.lock|ckpt-\d+\.(index|data-.*))"
)
"""Files of a run that has ended."""


def _arguments() -> tuple[Soak, argparse.Namespace]:
    parser = Parser(prog="python tests/roles/soak.py", description=__doc__)
    parser.add_argument("soak", choices=SOAKS, help="the rest are its defaults (soaks.py)")
    for each in dataclasses.fields(Soak):
        parser.add_argument(
            f"--{each.name}",
            type=each.type,
            metavar=each.type.__name__.upper(),
            default=argparse.SUPPRESS,
            help=each.metadata["help"],
        )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the run and of the times of the faults, default 0"
    )
    arguments = parse(parser)
    fields = {each.name for each in dataclasses.fields(Soak)}
    changes = {name: value for name, value in vars(arguments).items() if name in fields}
    try:
        soak = dataclasses.replace(SOAKS[arguments.soak], **changes)
    except ValueError as error:
        parser.error(str(error))
    if not (_ROOT / soak.flagfile).is_file():
        parser.error(f"--flagfile={soak.flagfile} is not a file")
    return soak, arguments


def _check(
    run: WatchedRun, faults: Faults, soak: Soak, layout: Layout, tmp: str
) -> tuple[dict, list[str]]:
    """Returns the numbers at the end, and what is wrong."""
    returns = _returns(run, faults.steps_at_last)
    accounts = run.accounts()
    directory = RunDirectory(run.workdir)
    paths = [path for path in run.workdir.rglob("*") if path.is_socket() or not path.is_dir()]
    names = [str(path.relative_to(run.workdir)) for path in paths]
    numbers = {
        "exit_code": faults.launcher.returncode,
        "outcome": directory.read_starts()[-1]["outcome"],
        "starts_of_learner": len(directory.read_starts()),
        "return": statistics.fmean(returns) if returns else None,
        "least_return": soak.least_return,
        "evaluations": len(returns),
        "wall_seconds": run.learner("wall_seconds"),
        "learner_steps": run.learner("learner_steps"),
        "actor_steps": run.learner("actor_steps"),
        "min_replay_size": directory.read_config()["config"].get("min_replay_size", 0),
        "lives_of_actors": len(accounts),
        "accepted_from_all_lives": sum(accounts.values()),
        "acted_in_all_episodes": int(run.acted().sum()),
        "processes_left": len(run.pids()),
        "files_left": [name for name in names if not _FILES.fullmatch(name)] + os.listdir(tmp),
    }
    wrong = []
    if numbers["exit_code"] != _OVER_CODE or numbers["outcome"] != "finished":
        wrong.append(f"exit code {numbers['exit_code']}, outcome {numbers['outcome']}")
    if not numbers["learner_steps"] > faults.steps_at_last:
        wrong.append(f"nothing was learnt after the last fault, at step {faults.steps_at_last:,}")
    if not returns or numbers["return"] < soak.least_return:
        wrong.append(
            f"the return after the last fault is {numbers['return']}, below {soak.least_return:g}"
        )
    if numbers["processes_left"]:
        wrong.append(f"processes are left: {run.pids()}")
    if numbers["files_left"]:
        wrong.append(f"files are left: {numbers['files_left']}")
    is_apart = layout.acting_role != layout.keeper
    # A worker acts without the parameter server until its own replay is filled.
    unreported = 0 if has_replay(layout) else numbers["min_replay_size"]
    checks = {
        "files": run.check_files,
        "accounts": lambda: run.check_accounts(
            is_apart * soak.actor_processes,
            unreported,
            faults.uncounted - (run.newest_incarnations() if is_apart else set()),
        ),
    }
    for name, check in checks.items():
        try:
            check()
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(f"{name}: {error!r}")
    return numbers, wrong


def _returns(run: WatchedRun, steps: int) -> list[float]:
    """Returns the means of the evaluations of what more than so many learner steps have made."""
    path = run.workdir / "evaluator.csv"
    if not last_row(path):
        return []
    rows = read_rows(path)
    return rows["episode_return_mean"][rows["learner_steps"] > steps].tolist()


def _attack(
    soak: Soak,
    layout: Layout,
    planned: list[Fault],
    seed: int,
    run: WatchedRun,
    disk: Disk,
    growth: Growth,
) -> tuple[dict[str, Any], list[str]]:
    """Runs through the faults; returns the numbers at the end, and what is wrong."""
    command = [
        *(sys.executable, "-m", soak.module, f"--flagfile={_ROOT / soak.flagfile}"),
        *(f"--workdir={run.workdir}", f"--max_minutes={soak.minutes}", f"--seed={seed}"),
        f"--checkpoint_seconds={CHECKPOINT_SECONDS}",
    ]
    if layout.acting_flag:
        command.append(f"--{layout.acting_flag}={soak.actor_processes}")
    if has_replay(layout):
        command.append(f"--replay_shards={soak.replay_shards}")
    with tempfile.TemporaryDirectory(prefix="soak_tmp_") as tmp:
        tempfile.tempdir = tmp  # there `WatchedRun` looks for sockets
        variables = {**os.environ, "TMPDIR": tmp, TOKEN_VARIABLE: TOKEN}
        faults = Faults(
            run,
            lambda: subprocess.Popen(command, cwd=_ROOT, env=variables),
            layout,
            soak.actor_processes,
            disk,
        )
        try:
            run.wait_for(
                lambda: run.learner("learner_steps") or faults.launcher.poll() is not None,
                600,
                "the learner's first updates",
            )
            faults.go(planned, lambda running: growth.observe(running, time.monotonic()))
        finally:
            faults.launcher.terminate()  # of one that has ended, nothing
            faults.launcher.wait()
        if not run.learner("learner_steps"):
            sys.exit(
                f"error: {soak.module} ended before its learner's first updates; "
                f"the logs are in {run.workdir / 'logs'}"
            )
        return _check(run, faults, soak, layout, tmp)


def main() -> None:
    """Runs, attacks, checks, prints tables and writes the JSON file."""
    soak, arguments = _arguments()
    layout = layout_of(soak)
    try:
        planned = plan(soak, layout, arguments.seed)
    except ValueError as error:
        sys.exit(f"error: {error}: raise --minutes")
    folder = (arguments.workdir or pathlib.Path(tempfile.mkdtemp(prefix="soak_"))).absolute()
    disk, skipped = Disk(folder / "disk"), {}
    with disk.mounted() as why_not:
        if why_not and soak.full_disks:
            skipped["fill disk"] = why_not
            print(f"skipped: a full disk, because it cannot be mounted: {why_not}", flush=True)
            planned = [fault for fault in planned if fault.kind != "fill"]
        run = WatchedRun(disk.path / "run")
        growth = Growth(layout.keeper.name, run.workdir, QUIET_BEGIN_SECONDS, soak.warm_up_seconds)
        numbers, wrong = _attack(soak, layout, planned, arguments.seed, run, disk, growth)
    wrong += [
        f"{fault}: {'not over' if fault.done else 'did not happen'} before the end"
        for fault in planned
        if fault.recovered is None
    ]
    table = growth.table()
    wrong += excesses(table)
    planned.sort(key=lambda fault: fault.at)  # some waited
    result = {
        "program": soak.module,
        "flags": pathlib.Path(soak.flagfile).name,
        "kills": [dataclasses.asdict(fault) for fault in planned if "kill" in fault.kind],
        "other_faults": [
            dataclasses.asdict(fault) for fault in planned if "kill" not in fault.kind
        ],
        "skipped": skipped,
        "end": numbers,
        "growth": table,
        "wrong": wrong,
    }
    _print(planned, result)
    growth.write(folder / "growth.csv")
    print(f"run directory {run.workdir}, samples of its processes {folder / 'growth.csv'}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    if wrong:
        sys.exit("\n".join(["", *(f"error: {problem}" for problem in wrong)]))
    print("all is well")


def _print(faults: list[Fault], result: dict[str, Any]) -> None:
    print("\nfault                     at  over after")
    for fault in faults:
        over = "-" if fault.recovered is None else f"{fault.recovered:.0f} s"
        print(f"{fault!s:22} {fault.at:5.0f} s {over:>9}   {fault.note}")
    for name, value in result["end"].items():
        print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")
    for role, row in result["growth"].items():
        print(f"{role}: {row['lives']} lives, {row['minutes']} minutes after warm-up")
        for name, values in list(row.items())[2:]:
            print(f"  {name}: {', '.join(f'{key} {value}' for key, value in values.items())}")


if __name__ == "__main__":
    main()
