"""Trains with kills: a run, D4PG's quickstart by default, whose roles are killed with -9.

    make soak
    .venv/bin/python tests/roles/soak.py --minutes=10 --json=soak.json
    .venv/bin/python tests/roles/soak.py --module=binaries.apex_dqn \\
        --flagfile=reproductions/apex/dqn/ten_minutes.flags --replay_shards=2 \\
        --actor_kills=20 --replay_kills=3 --learner_kills=0

When is random; of several actor processes, or shards of the replay, it is a random one. Ends with
exit code 1 if the run does not come through: a role that does not come back, learning that stands
still after the last kill, an exit code other than 0, a last evaluation below --min_return, counters
that do not add up, a file that is not whole, a process that is left over. No test: it takes as long
as it says.
"""

import argparse
import dataclasses
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

from watched_run import WatchedRun

from common.cluster.errors import ClusterError
from common.replay.memory import Statistics
from common.reporting.command_line import Parser, check_writable
from common.reporting.csv_rows import last_row

_ROOT = pathlib.Path(__file__).parents[2]
_FLAGFILE = "reproductions/d4pg/quickstart.flags"
_RETURN_OF_FLAGFILE = 750.0
_MIN_MINUTES = 3.0
_QUIET_BEGIN_SECONDS = 30.0
_APART_SECONDS = 30.0
"""Between kills of the replay and of the learner. What an actor adds while the learner is down is
in the replay's account and its own: if both die before the learner is back, nobody can know it."""


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
        "--minutes",
        type=float,
        default=10.0,
        help=f"length of the run, default 10, at least {_MIN_MINUTES:g}",
    )
    for role, count in (("actor", 10), ("replay", 2), ("learner", 2)):
        parser.add_argument(
            f"--{role}_kills",
            type=int,
            default=count,
            metavar="N",
            help=f"of the {role}, default {count}",
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
        help="that the last evaluation has to pass, default "
        f"{_RETURN_OF_FLAGFILE:g} with the default flagfile, else any",
    )
    parser.add_argument(
        "--quiet_seconds",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="without kills at the end, for the roles to come back; default 60, "
        "more where an episode takes long",
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of the run and of the times of the kills, default 0"
    )
    parser.add_argument(
        "--workdir",
        type=pathlib.Path,
        metavar="DIR",
        help="gets the run; a temporary directory by default",
    )
    parser.add_argument(
        "--json", type=pathlib.Path, metavar="FILE", help="gets the kills and what came out"
    )
    arguments = parser.parse_args()
    if arguments.minutes < _MIN_MINUTES:
        parser.error(f"--minutes must be at least {_MIN_MINUTES:g}, is {arguments.minutes:g}")
    for name, least in (
        ("actor_kills", 0),
        ("replay_kills", 0),
        ("learner_kills", 0),
        ("quiet_seconds", 0),
        ("actor_processes", 1),
        ("replay_shards", 1),
    ):
        if getattr(arguments, name) < least:
            parser.error(f"--{name} must be at least {least}, is {getattr(arguments, name)}")
    if not arguments.flagfile.is_file():
        parser.error(f"--flagfile={arguments.flagfile} is no file")
    if arguments.json is not None:
        check_writable("--json", arguments.json)
    if arguments.min_return is None and arguments.flagfile == pathlib.Path(_FLAGFILE):
        arguments.min_return = _RETURN_OF_FLAGFILE
    return arguments


@dataclasses.dataclass
class Kill:
    """One kill -9. Times are seconds since the learner's first row.

    done: whether it took place; before that, `at` is what was planned.
    recovered: seconds until the role's work was seen to go on, None while it was not: an episode
      of an actor's new life, a sample from a new replay, a row with a learner's new update.
    note: what was lost.
    """

    role: str
    index: int
    at: float
    done: bool = False
    recovered: float | None = None
    note: str = ""


def _schedule(arguments: argparse.Namespace, rng: random.Random) -> list[Kill]:
    end = 60 * arguments.minutes - arguments.quiet_seconds
    # How many there are to choose from, and to kill.
    roles = {
        "actor": (arguments.actor_processes, arguments.actor_kills),
        "replay": (arguments.replay_shards, arguments.replay_kills),
        "learner": (1, arguments.learner_kills),
    }
    for _ in range(1000):
        kills = [
            Kill(
                role,
                rng.randrange(processes) if processes > 1 else 0,
                rng.uniform(_QUIET_BEGIN_SECONDS, end),
            )
            for role, (processes, count) in roles.items()
            for _ in range(count)
        ]
        times = {role: [kill.at for kill in kills if kill.role == role] for role in roles}
        if all(
            abs(one - other) >= _APART_SECONDS
            for one in times["replay"]
            for other in times["learner"]
        ):
            return sorted(kills, key=lambda kill: kill.at)
    sys.exit(
        f"error: too many kills of replay and learner for --minutes={arguments.minutes:g}: "
        f"they are {_APART_SECONDS:g} s apart"
    )


class Soak:
    """Kills by the schedule, or when the process is up after that, and sees each role come back."""

    def __init__(self, run: WatchedRun, launcher: subprocess.Popen, actor_processes: int):
        self._run = run
        self._launcher = launcher
        self._actor_processes = actor_processes
        self.steps_at_last_kill = 0
        """Of the learner; what comes after it was learnt through all kills."""
        self._begin = time.monotonic()

    def go(self, kills: list[Kill]) -> None:
        """Returns when the run has ended."""
        scheduled, watched = list(kills), []
        while self._launcher.poll() is None:
            running = self._run.pids()
            for kill in [one for one in scheduled if one.at <= self._now()]:
                if f"{kill.role}-{kill.index}" in running:
                    scheduled.remove(kill)
                    watched.append((kill, self._kill(kill)))
                    break  # who runs has changed
            for kill, is_back in watched:
                if kill.recovered is None and is_back():
                    kill.recovered = round(self._now() - kill.at, 1)
            time.sleep(0.2)

    def _kill(self, kill: Kill):
        is_back = getattr(self, f"_{kill.role}_is_back")(kill)
        kill.at, kill.done = round(self._now(), 1), True
        self.steps_at_last_kill = self._run.learner("learner_steps")
        self._run.kill(kill.role, kill.index)
        print(f"{kill.at:6.0f} s  kill -9 {kill.role}-{kill.index}", flush=True)
        return is_back

    def _now(self) -> float:
        return time.monotonic() - self._begin

    def _actor_is_back(self, kill: Kill):
        lives = set(self._run.acting()["incarnation"])
        # Which of the paper's actors live in this process.
        count = json.loads((self._run.workdir / "config.json").read_text())["num_actors"]
        first = kill.index * count // self._actor_processes
        last = (kill.index + 1) * count // self._actor_processes

        def is_back():
            rows = self._run.acting()
            new = rows[~rows["incarnation"].isin(lives) & rows["actor"].between(first, last - 1)]
            kill.note = f"{len(set(rows['incarnation']))} lives of actors so far"
            return len(new) > 0

        return is_back

    def _replay_is_back(self, kill: Kill):
        before, client = self._run.learner("replay_size"), None

        def is_back():
            nonlocal client
            try:
                client = client or self._run.client("replay", kill.index)
                if client is None:
                    return False
                statistics = Statistics.of(client.call("replay_statistics"))
            except ClusterError:
                client = None  # it was killed again
                return False
            kill.note = f"{before:,} items, {statistics.items:,} when learning went on"
            return statistics.sampled > 0

        return is_back

    def _learner_is_back(self, kill: Kill):
        lives = len(self._resumptions())

        def is_back():
            if len(self._resumptions()) == lives:
                return False
            resumed_at = self._resumptions()[-1]
            kill.note = f"at step {steps:,} or later, resumed at step {resumed_at:,}"
            row = last_row(self._run.workdir / "learner.csv")
            return row["wall_seconds"] > wall and row["learner_steps"] > resumed_at

        steps, wall = self._run.learner("learner_steps"), self._run.learner("wall_seconds")
        return is_back

    def _resumptions(self) -> list[int]:
        found = re.findall(r"resumed at learner step (\d+)", self._run.log("learner"))
        return [int(step) for step in found]


def _check(
    run: WatchedRun, exit_code: int, arguments: argparse.Namespace, steps_at_last_kill: int
) -> tuple[dict, list[str]]:
    """Returns the numbers at the end, and what is wrong."""
    evaluation = last_row(run.workdir / "evaluator.csv") or {}
    accounts = run.accounts()
    numbers = {
        "exit_code": exit_code,
        "return": evaluation.get("episode_return_mean"),
        "wall_seconds": run.learner("wall_seconds"),
        "learner_steps": run.learner("learner_steps"),
        "actor_steps": run.learner("actor_steps"),
        "min_replay_size": json.loads((run.workdir / "config.json").read_text())["config"][
            "min_replay_size"
        ],
        "lives_of_actors": len(accounts),
        "accepted_from_all_lives": sum(accounts.values()),
        "processes_left": len(run.pids()),
    }
    wrong = []
    if exit_code != 0:
        wrong.append(f"the launcher ended with exit code {exit_code}")
    if not numbers["learner_steps"] > steps_at_last_kill:
        wrong.append(f"nothing was learnt after the last kill, at step {steps_at_last_kill:,}")
    least = arguments.min_return
    if least is not None and not (numbers["return"] is not None and numbers["return"] > least):
        wrong.append(f"the last return is {numbers['return']}, not above {least:g}")
    if numbers["processes_left"]:
        wrong.append(f"processes are left: {run.pids()}")
    in_order = arguments.actor_processes
    checks = {"files": run.check_files, "accounts": lambda: run.check_accounts(in_order)}
    for name, check in checks.items():
        try:
            check()
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(f"{name}: {error!r}")
    return numbers, wrong


def main() -> None:
    """Runs, kills, checks, prints a table and writes the JSON file."""
    arguments = _arguments()
    workdir = (arguments.workdir or pathlib.Path(tempfile.mkdtemp(prefix="soak_"))) / "run"
    workdir = workdir.absolute()
    run, kills = WatchedRun(workdir), _schedule(arguments, random.Random(arguments.seed))
    launcher = subprocess.Popen(
        [
            sys.executable,
            "-m",
            arguments.module,
            f"--flagfile={arguments.flagfile.absolute()}",
            f"--workdir={workdir}",
            f"--max_minutes={arguments.minutes}",
            f"--actor_processes={arguments.actor_processes}",
            f"--replay_shards={arguments.replay_shards}",
            f"--seed={arguments.seed}",
            "--checkpoint_seconds=20",
        ],
        cwd=_ROOT,
    )
    try:
        run.wait_for(
            lambda: run.learner("wall_seconds") or launcher.poll() is not None,
            180,
            "the learner's first row",
        )
        soak = Soak(run, launcher, arguments.actor_processes)
        soak.go(kills)
    finally:
        launcher.terminate()  # of one that has ended, nothing
        launcher.wait()
    if not run.learner("wall_seconds"):
        sys.exit(
            f"error: {arguments.module} ended before its learner's first row; "
            f"the logs are in {workdir / 'logs'}"
        )
    numbers, wrong = _check(run, launcher.returncode, arguments, soak.steps_at_last_kill)
    wrong += [
        f"{kill.role} {kill.index} was not {'back' if kill.done else 'killed'} before the end"
        for kill in kills
        if kill.recovered is None
    ]
    print("\nkilled      at      back after")
    for kill in kills:
        back = "-" if kill.recovered is None else f"{kill.recovered:.0f} s"
        print(f"{kill.role + '-' + str(kill.index):10} {kill.at:5.0f} s {back:>9}   {kill.note}")
    for name, value in numbers.items():
        print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")
    print(f"run directory {workdir}")
    if arguments.json:
        result = {
            "program": arguments.module,
            "flags": arguments.flagfile.name,
            "kills": [dataclasses.asdict(kill) for kill in kills],
            "end": numbers,
            "wrong": wrong,
        }
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    if wrong:
        sys.exit("\n".join(["", *(f"error: {one}" for one in wrong)]))
    print("all is well")


if __name__ == "__main__":
    main()
