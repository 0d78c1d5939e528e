"""Trains with kills: D4PG's quickstart, whose roles are killed with -9 at random moments.

    make soak
    .venv/bin/python tests/cluster/soak.py --minutes=10 --json=soak.json

Ends with exit code 1 if the run does not come through: a role that does not come back, an exit code
other than 0, a last evaluation below --min_return, counters that do not add up, a file that is not
whole, a process that is left over. No test: it takes as long as it says.
"""

import dataclasses
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

from absl import app
from absl import flags

from common.cluster.errors import ClusterError
from common.replay.memory import Statistics
from common.reporting.csv_rows import last_row
from watched_run import WatchedRun

_MINUTES = flags.DEFINE_float("minutes", 10.0, "Length of the run.", lower_bound=3)
_KILLS = {
    "actor": flags.DEFINE_integer("kills_of_actors", 10, "Of random ones.", lower_bound=0),
    "replay": flags.DEFINE_integer("kills_of_replay", 2, "Of the memory.", lower_bound=0),
    "learner": flags.DEFINE_integer("kills_of_learner", 2, "Of the learner.", lower_bound=0),
}
_ACTOR_PROCESSES = flags.DEFINE_integer("actor_processes", 4, "To choose from.", lower_bound=1)
_MIN_RETURN = flags.DEFINE_float("min_return", 750.0, "That the last evaluation has to pass.")
_SEED = flags.DEFINE_integer("seed", 0, "Of the run and of the times of the kills.")
_WORKDIR = flags.DEFINE_string("workdir", None, "Of the run; a temporary directory by default.")
_JSON = flags.DEFINE_string("json", None, "File for the kills and what came out.")

_ROOT = pathlib.Path(__file__).parents[2]
_QUIET_BEGIN_SECONDS, _QUIET_END_SECONDS = 30.0, 60.0
_APART_SECONDS = 30.0
"""Between kills of the replay and of the learner. What an actor adds while the learner is down is
in the replay's account and its own: if both die before the learner is back, nobody can know it."""


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


def _schedule(rng: random.Random) -> list[Kill]:
    end = 60 * _MINUTES.value - _QUIET_END_SECONDS
    for _ in range(1000):
        kills = [
            Kill(role, rng.randrange(_ACTOR_PROCESSES.value) if role == "actor" else 0,
                 rng.uniform(_QUIET_BEGIN_SECONDS, end))
            for role, count in _KILLS.items() for _ in range(count.value)
        ]
        times = {role: [kill.at for kill in kills if kill.role == role] for role in _KILLS}
        if all(abs(one - other) >= _APART_SECONDS
               for one in times["replay"] for other in times["learner"]):
            return sorted(kills, key=lambda kill: kill.at)
    sys.exit(f"error: too many kills of replay and learner for --minutes={_MINUTES.value:g}: they "
             f"are {_APART_SECONDS:g} s apart")


class Soak:
    """Kills by the schedule, or when the process is up after that, and sees each role come back."""

    def __init__(self, run: WatchedRun, launcher: subprocess.Popen):
        self._run = run
        self._launcher = launcher
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
        self._run.kill(kill.role, kill.index)
        print(f"{kill.at:6.0f} s  kill -9 {kill.role}-{kill.index}", flush=True)
        return is_back

    def _now(self) -> float:
        return time.monotonic() - self._begin

    def _actor_is_back(self, kill: Kill):
        lives = set(self._run.acting()["incarnation"])
        # Which of the paper's actors live in this process.
        count = json.loads((self._run.workdir / "config.json").read_text())["num_actors"]
        first = kill.index * count // _ACTOR_PROCESSES.value
        last = (kill.index + 1) * count // _ACTOR_PROCESSES.value

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


def _check(run: WatchedRun, exit_code: int, lives_in_order: int) -> tuple[dict, list[str]]:
    """Returns the numbers at the end, and what is wrong."""
    evaluation = last_row(run.workdir / "evaluator.csv") or {}
    accounts = run.accounts()
    numbers = {
        "exit_code": exit_code,
        "return": evaluation.get("episode_return_mean"),
        "wall_seconds": run.learner("wall_seconds"),
        "learner_steps": run.learner("learner_steps"),
        "actor_steps": run.learner("actor_steps"),
        "lives_of_actors": len(accounts),
        "accepted_from_all_lives": sum(accounts.values()),
        "processes_left": len(run.pids()),
    }
    wrong = []
    if exit_code != 0:
        wrong.append(f"the launcher ended with exit code {exit_code}")
    if not (numbers["return"] or 0.0) > _MIN_RETURN.value:
        wrong.append(f'the last return is {numbers["return"]}, not above {_MIN_RETURN.value:g}')
    if numbers["processes_left"]:
        wrong.append(f"processes are left: {run.pids()}")
    checks = {"files": run.check_files, "accounts": lambda: run.check_accounts(lives_in_order)}
    for name, check in checks.items():
        try:
            check()
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(f"{name}: {error!r}")
    return numbers, wrong


def main(argv: list[str]) -> None:
    """Runs, kills, checks, prints a table and writes the JSON file."""
    if len(argv) > 1:
        raise app.UsageError(f"unknown argument {argv[1]!r}")
    workdir = pathlib.Path(_WORKDIR.value or tempfile.mkdtemp(prefix="soak_")) / "run"
    run, kills = WatchedRun(workdir), _schedule(random.Random(_SEED.value))
    launcher = subprocess.Popen(
        [sys.executable, "-m", "binaries.d4pg",
         "--flagfile=reproductions/d4pg/quickstart.flags", f"--workdir={workdir}",
         f"--max_minutes={_MINUTES.value}", f"--actor_processes={_ACTOR_PROCESSES.value}",
         f"--seed={_SEED.value}", "--checkpoint_seconds=20"], cwd=_ROOT)
    try:
        run.wait_for(lambda: run.learner("wall_seconds"), 120, "the learner's first row")
        Soak(run, launcher).go(kills)
    finally:
        launcher.terminate()  # of one that has ended, nothing
        launcher.wait()
    numbers, wrong = _check(run, launcher.returncode, _ACTOR_PROCESSES.value)
    wrong += [f"{kill.role} {kill.index} was not {'back' if kill.done else 'killed'} before the end"
              for kill in kills if kill.recovered is None]
    print("\nkilled      at      back after")
    for kill in kills:
        back = "-" if kill.recovered is None else f"{kill.recovered:.0f} s"
        print(f"{kill.role + '-' + str(kill.index):10} {kill.at:5.0f} s {back:>9}   {kill.note}")
    for name, value in numbers.items():
        print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")
    print(f"run directory {workdir}")
    if _JSON.value:
        result = {"kills": [dataclasses.asdict(kill) for kill in kills], "end": numbers,
                  "wrong": wrong}
        pathlib.Path(_JSON.value).write_text(json.dumps(result, indent=2) + "\n")
    if wrong:
        sys.exit("\n".join(["", *(f"error: {one}" for one in wrong)]))
    print("all is well")


if __name__ == "__main__":
    app.run(main)
