"""A run as one sees it from outside: its processes, its files, its accounts."""

import argparse
import os
import pathlib
import re
import signal
import time

from common.cluster import rpc
from common.cluster.topology import Topology, connect
from common.program.layouts import DISTRIBUTED
from common.program.local import temporary_path
from common.reporting.command_line import Parser, check_writable
from common.reporting.csv_rows import last_row, read_rows
from common.reporting.run_directory import RunDirectory

TOKEN = "the token of a run in a test"
"""Of runs that a test starts with it, as it must to call their roles."""
_VARIABLE = "/.ATTRIBUTES/VARIABLE_VALUE"


def parse(parser: Parser) -> argparse.Namespace:
    """Returns the arguments of a program that watches a run, among them --workdir and --json."""
    parser.add_argument(
        "--workdir",
        type=pathlib.Path,
        metavar="DIR",
        help="gets runs and logs; a temporary directory by default",
    )
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="gets what came out")
    arguments = parser.parse_args()
    if arguments.json is not None:
        check_writable("--json", arguments.json)
    return arguments


class WatchedRun:
    """The run in `workdir`, whoever started it."""

    def __init__(self, workdir: pathlib.Path):
        self.workdir = workdir

    def pids(self, role: str | None = None) -> dict[str, int]:
        """Processes that name this workdir: {"actor-0": pid, ...}, the launcher is "launcher-0"."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = path.read_bytes().decode().split("\0")
                if f"--workdir={self.workdir}" not in arguments:
                    continue
                roles = [argument for argument in arguments if argument.startswith("--role=")]
                name = roles[-1].removeprefix("--role=") if roles else "launcher"
                log = pathlib.Path(os.readlink(path.with_name("fd") / "1"))
            except OSError:
                continue  # it has just ended
            if role in (None, name):
                task = "launcher-0" if name == "launcher" else log.stem
                found[task] = int(path.parent.name)
        return found

    def client(self, role: str, index: int = 0):
        """A client of a role, by `TOKEN`; None while nobody listens there.

        It is worth asking first: a client that has met nobody tries again only after seconds.
        """
        if f"{role}-{index}" not in self.pids(role):
            return None
        try:
            address = f"unix:{temporary_path(RunDirectory(self.workdir))}/{role}-{index}"
            connect(address, 1).close()
        except OSError:
            return None
        return rpc.Client(address, TOKEN)

    def client_when_there(self, role: str, seconds: float, index: int = 0):
        """`client`, when somebody listens there; AssertionError after so many seconds."""
        clients = []

        def is_there():
            clients.append(self.client(role, index))
            return clients[-1] is not None

        self.wait_for(is_there, seconds, f"{role} {index} is there")
        return clients[-1]

    def kill(self, role: str, index: int = 0, until=lambda: None) -> None:
        """kill -9 of one process once `until` returns; the process is gone when this returns."""
        pid = self.pids(role)[f"{role}-{index}"]
        until()
        os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: pid not in self.pids(role).values(), 10, f"{role} {index} is gone")

    def learner(self, column: str):
        """A value of learner.csv's last row; 0 where there is none."""
        return (last_row(self.workdir / "learner.csv") or {}).get(column) or 0

    def updates(self):
        """The rows of learner.csv since whose last one there were updates, which have metrics."""
        rows = read_rows(self.workdir / "learner.csv")
        return rows[rows["learner_steps"].diff() > 0]

    def acting(self):
        """acting.csv as a table; None before it has a row."""
        path = self.workdir / "acting.csv"
        return read_rows(path) if last_row(path) else None

    def incarnations(self) -> set[int]:
        """Starts of acting processes that have finished an episode."""
        return set() if self.acting() is None else set(self.acting()["incarnation"])

    def acted(self):
        """Steps by incarnation and actor, as the actors wrote them down at ends of episodes."""
        return self.acting().groupby(["incarnation", "actor"])["actor_steps"].max()

    def newest_incarnations(self) -> set[int]:
        """Of each actor, the start in which it has finished its last episode."""
        rows = self.acting()
        return set() if rows is None else set(rows.groupby("actor")["incarnation"].last())

    def recent_incarnations(self, seconds: float) -> set[int]:
        """Those that have finished an episode within the last seconds of the run's clock."""
        rows = self.acting()
        if rows is None:
            return set()
        return set(
            rows[rows["wall_seconds"] >= rows["wall_seconds"].max() - seconds]["incarnation"]
        )

    def log(self, role: str, index: int = 0) -> str:
        """What a process, and its former lives, have logged."""
        path = self.workdir / "logs" / f"{role}-{index}.log"
        return path.read_text() if path.exists() else ""

    def logs(self) -> str:
        """The ends of all logs, also of roles by hand, which log next to the workdir."""
        return "".join(
            f"\n== {path.name}\n{path.read_text()[-1500:]}"
            for path in sorted(self.workdir.parent.rglob("*.log"))
        )

    def wait_for(self, condition, seconds: float, what: str, poll_seconds: float = 0.2) -> None:
        """Returns when a condition holds; AssertionError after so many seconds."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}{self.logs()}"
            time.sleep(poll_seconds)

    def check_files(self) -> None:
        """Every row of every CSV file is whole, and every checkpoint can be read."""
        import tensorflow as tf

        for path in self.workdir.glob("*.csv"):
            text = path.read_text()
            lines = text.splitlines()
            assert text.endswith("\n") and len({line.count(",") for line in lines}) == 1, path
        saves = list((self.workdir / "checkpoints").glob("*.index"))
        assert saves
        for path in saves:
            save = tf.train.load_checkpoint(str(path.with_suffix("")))
            for name in save.get_variable_to_shape_map():
                save.get_tensor(name)

    def saved(self):
        """The newest checkpoint's variables, by their names in it."""
        import tensorflow as tf

        save = tf.train.load_checkpoint(str(self.workdir / "checkpoints"))
        names = [name for name in save.get_variable_to_shape_map() if name.endswith(_VARIABLE)]
        return {name.removesuffix(_VARIABLE): save.get_tensor(name) for name in names}

    def saved_steps(self) -> int:
        """Learner steps of the newest checkpoint; 0 while there is none, or it is replaced."""
        import tensorflow as tf

        try:
            return int(self.saved()["learner/steps"])
        except (ValueError, tf.errors.OpError):
            return 0

    def accounts(self) -> dict[int, int]:
        """Steps accepted from each incarnation of the actors, by the newest checkpoint."""
        saved = self.saved()
        columns = saved["progress/incarnations"].tolist(), saved["progress/accepted"].tolist()
        return dict(zip(*columns, strict=True))

    def check_accounts(self, in_order: int, unreported: int = 0, uncounted=()) -> None:
        """The counters add up, in a run that has ended in order.

        Args:
          in_order: acting processes that ended in order, which say themselves what was accepted.
          unreported: steps that a killed process may have made since its last report.
          uncounted: incarnations that died together with what counts their steps.
        """
        accounts = self.accounts()
        assert sum(accounts.values()) == self.learner("actor_steps")
        rows = read_rows(self.workdir / "learner.csv")
        for column in ("actor_steps", "wall_seconds"):
            assert rows[column].is_monotonic_increasing, column
        said = 0
        for path in sorted(self.workdir.parent.rglob("*.log")):
            ends = re.findall(r"acted for (\d+) steps, (\d+) accepted", path.read_text())
            for acted, accepted in ends:
                said += 1
                assert int(accepted) in accounts.values(), (accepted, accounts)
                assert int(accepted) <= int(acted)
        assert said == in_order
        # By the episodes that the actors wrote down themselves. Beyond them a life has acted for
        # less than an episode an actor; what it had not sent when it was killed is less, too.
        longest = int(self.acting()["episode_length"].max())
        for incarnation, steps in self.acted().groupby("incarnation"):
            slack = longest * len(steps) + unreported
            excess = accounts.get(incarnation, 0) - steps.sum()
            assert excess <= slack, (incarnation, accounts)
            if incarnation not in uncounted:
                assert incarnation in accounts and -excess <= slack, (incarnation, accounts)


class RunByHand(WatchedRun):
    """A run.

    Args:
      start: starts forks, see `forked`.
      workdir: the run directory; logs go to its parent.
      module: the agent's program.
      flags: flags of all roles.
      layout: the layout of the processes.
      **counts: tasks by job that the cluster lists.
    """

    def __init__(self, start, workdir, module, flags, layout=DISTRIBUTED, **counts):
        super().__init__(workdir)
        self.topology = Topology.local(layout.roles, counts)
        self._start, self._module, self._flags = start, module, flags

    def start(self, role, index=0, *flags, **variables):
        """Starts a task of a role, with more flags."""
        return self._start(
            self.workdir.parent / f"{role}-{index}.log",
            *(self._module, *self._flags, f"--workdir={self.workdir}", f"--role={role}", *flags),
            TF_CONFIG=self.topology.to_tf_config(role, index),
            REPLAY_RL_TOKEN=TOKEN,
            **variables,
        )

    def client(self, role, index=0):
        """A client of a service."""
        return rpc.Client(self.topology.address(role, index), TOKEN)

    def ends(self, programs, seconds):
        """Waits until all have ended with exit code 0."""
        for program in programs:
            assert program.wait(seconds) == 0, program.output
            assert "Traceback" not in program.output, program.output

    def stops(self, programs, seconds):
        """Stops all with SIGTERM and waits until they have ended in order."""
        for program in programs:
            program.stop()
        for program in programs:
            assert program.wait(seconds) == 128 + signal.SIGTERM, program.output
            assert "Traceback" not in program.output, program.output
