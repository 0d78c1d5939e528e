"""The soak's faults: which there are, when they come, and when a run has got over them."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

from soaks import Soak
from watched_run import WatchedRun

from common.cluster.errors import ClusterError
from common.cluster.layout import Layout
from common.reporting.csv_rows import last_row, read_rows

_APART_SECONDS = 20.0
"""From the end of a fault that comes alone to the next one, at least; that one also waits until the
run has got over it. What an actor adds while the learner is down is in the replay's account and its
own: if both die before the learner is back, nobody can know it."""
QUIET_BEGIN_SECONDS = 30.0
"""From the learner's first updates to the first fault."""
_FREEZE_SECONDS = 30.0
_FULL_SECONDS = 60.0
CHECKPOINT_SECONDS = 20.0
_SAVE_SECONDS = 0.03
"""A kill amid a save comes at a random time within these, so that it hits any part of the save."""
_POLL_SECONDS = 0.0005
_DISK_BYTES = 10**9


@dataclasses.dataclass
class Fault:
    """One fault. Times are seconds since the learner's first updates.

    Attributes:
      kind: "kill" (-9), "kill_in_save", which waits until a checkpoint is being written, "freeze"
        (SIGSTOP, then SIGCONT) or "fill" of the disk.
      role: the role of the process, also "launcher", or "disk" for no process.
      index: the task index of the process.
      seconds: length.
      is_alone: whether it keeps apart from others; kills of acting processes come at any time.
      at: when it began; before that, when it is planned.
      done: whether it took place.
      recovered: seconds from its end until the role's work was seen to go on, None while it was
        not: an episode of the process's actors, a sample from a new replay, a row with new updates
        of the learner, an evaluation, a checkpoint.
      note: what was lost.
    """

    kind: str
    role: str
    index: int = 0
    seconds: float = 0.0
    is_alone: bool = True
    at: float = 0.0
    done: bool = False
    recovered: float | None = None
    note: str = ""

    def __str__(self) -> str:
        """Returns "kill actor-3"."""
        return f"{self.kind} {self.role}-{self.index}"


def plan(soak: Soak, layout: Layout, seed: int) -> list[Fault]:
    """Returns the faults of a soak, with the times of `schedule`.

    Raises:
      ValueError: see `schedule`.
    """
    rng = random.Random(seed)
    acting, keeper = layout.acting_role.name, layout.keeper.name
    processes = {acting: soak.actor_processes, "replay": soak.replay_shards, keeper: 1}
    faults = []

    def add(kind: str, role: str, count: int, seconds: float = 0.0, is_alone: bool = True) -> None:
        there = processes.get(role, 1)
        while count > 0:  # each process in turn, the turns in random orders
            turn = rng.sample(range(there), there)[:count]
            faults.extend(Fault(kind, role, index, seconds, is_alone) for index in turn)
            count -= there

    if acting != keeper:
        add("kill", acting, soak.actor_kills, is_alone=False)
    if has_replay(layout):
        add("kill", "replay", soak.replay_kills)
    add("kill", keeper, soak.learner_kills)
    add("kill_in_save", keeper, soak.save_kills)
    add("kill", "launcher", soak.launcher_kills)
    for role in layout.roles:
        add("freeze", role.name, soak.freezes, _FREEZE_SECONDS)
    add("fill", "disk", soak.full_disks, _FULL_SECONDS)
    return schedule(faults, QUIET_BEGIN_SECONDS, 60 * soak.minutes - soak.quiet_seconds, rng)


def schedule(faults: Sequence[Fault], begin: float, end: float, rng: random.Random) -> list[Fault]:
    """Returns the faults with random times, in their order; `at` is set.

    Kills of actors are spread evenly over time and processes, but for the time of a full disk: rows
    of what they did would be missing.

    Raises:
      ValueError: there are too many for the time from `begin` to `end`.
    """
    alone = [fault for fault in faults if fault.is_alone]
    crowd = [fault for fault in faults if not fault.is_alone]
    rng.shuffle(alone)
    free = end - begin - sum(fault.seconds + _APART_SECONDS for fault in alone)
    if free < 0:
        raise ValueError(
            f"{len(alone)} faults, {_APART_SECONDS:g} s apart, take {-free:.0f} s more"
        )
    taken = 0.0
    for fault, offset in zip(alone, sorted(rng.uniform(0, free) for _ in alone)):
        fault.at = begin + offset + taken
        taken += fault.seconds + _APART_SECONDS
    fills = [fault for fault in alone if fault.kind == "fill"]
    left = end - begin - sum(fault.seconds + _APART_SECONDS for fault in fills)
    for number, fault in enumerate(crowd):
        fault.at = begin + (number + rng.random()) * left / len(crowd)
        for fill in fills:
            if fault.at >= fill.at:
                fault.at += fill.seconds + _APART_SECONDS
    return sorted(faults, key=lambda fault: fault.at)


def has_replay(layout: Layout) -> bool:
    """Returns whether a process of the layout is a replay for all actors."""
    return any(role.name == "replay" for role in layout.roles)


class Disk:
    """A small file system of its own, which can be filled: a tmpfs, which only root can mount.

    Args:
      path: the directory to create.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path
        self._filler = path / "filler"

    @contextlib.contextmanager
    def mounted(self) -> Iterator[str]:
        """Mounts it in the context; afterwards `path` is a usual directory with the same files.

        Yields:
          Why it cannot be mounted, and `path` is a usual directory from the start; "" if it was.
        """
        self.path.mkdir(parents=True)
        why_not = self._mount()
        try:
            yield why_not
        finally:
            if not why_not:
                copy = self.path.with_name("copy")
                shutil.copytree(self.path, copy, symlinks=True)
                subprocess.run(["umount", str(self.path)], check=True)
                copy.rename(self.path)

    def _mount(self) -> str:
        command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "tmpfs", str(self.path)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            return error.stderr.strip()
        except OSError as error:
            return str(error)
        return ""

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Leaves no byte free in the context."""
        try:
            with open(self._filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 20))
            yield
        finally:
            self._filler.unlink()


class Faults:
    """The faults of a run, carried out by their schedule.

    Args:
      run: to attack.
      launch: starts the launcher of the run.
      layout: the layout of the run's processes.
      acting_processes: number of processes that share the run's actors.
      disk: the disk that holds the run.

    Attributes:
      launcher: the newest one.
      steps_at_last: learner's steps when the last fault began; what follows was learnt through all.
      uncounted: incarnations of actors that may have died together with what counts their steps, or
        less than a checkpoint before it, if no replay knows them.
    """

    def __init__(
        self,
        run: WatchedRun,
        launch: Callable[[], subprocess.Popen],
        layout: Layout,
        acting_processes: int,
        disk: Disk,
    ):
        self._run = run
        self._launch = launch
        self._acting, self._keeper = layout.acting_role.name, layout.keeper.name
        self._has_replay = has_replay(layout)
        self._acting_processes = acting_processes
        self._disk = disk
        self.launcher = launch()
        self.steps_at_last = 0
        self.uncounted: set[int] = set()
        self._begin = time.monotonic()

    def go(self, faults: Sequence[Fault], each_time: Callable[[dict[str, int]], None]) -> None:
        """Carries the faults out, each when its process is up; returns when the run has ended.

        Args:
          faults: from `schedule`; the time begins now.
          each_time: called twice a second with the processes that run.
        """
        self._begin = time.monotonic()
        planned, begun = list(faults), []
        while self.launcher.poll() is None:
            running = self._run.pids()
            each_time(running)
            # A slow machine comes behind the plan.
            waits = any(fault.is_alone for fault, _ in begun)
            # Without a replay nobody but the keeper knows what a killed process has done.
            waits_all = not self._has_replay and any(
                fault.role == self._keeper for fault, _ in begun
            )
            due = (
                fault
                for fault in planned
                if fault.at <= self._now()
                and (fault.role == "disk" or _name(fault) in running)
                and not (waits_all or (fault.is_alone and waits))
            )
            fault = next(due, None)
            if fault is not None:  # one at a time, for it changes what runs
                planned.remove(fault)
                fault.at, fault.done = round(self._now(), 1), True
                self.steps_at_last = self._run.learner("learner_steps")
                print(f"{fault.at:6.0f} s  {fault}", flush=True)
                begun.append((fault, getattr(self, f"_{fault.kind}")(fault)))
            for started in list(begun):
                if next(started[1], "over") == "over":
                    started[0].recovered = round(
                        self._now() - started[0].at - started[0].seconds, 1
                    )
                    begun.remove(started)
            time.sleep(0.5)

    def _now(self) -> float:
        return time.monotonic() - self._begin

    # Each of these yields until the run has got over the fault.

    def _kill(self, fault: Fault, until: Callable[[], None] = lambda: None) -> Iterator[None]:
        self._run.kill(fault.role, fault.index, until)
        if fault.role == "launcher":
            self._run.wait_for(lambda: not self._run.pids(), 10, "no process outlives the launcher")
            self.launcher.wait()
        if fault.role == "launcher" or fault.role == self._acting == self._keeper:
            self.uncounted |= self._run.newest_incarnations()
        elif fault.role == self._keeper and not self._has_replay:
            self.uncounted |= self._run.recent_incarnations(2 * CHECKPOINT_SECONDS)
        # The learner's process may act as well: it is then back when it learns.
        is_back = {
            "launcher": self._is_resumed,
            self._acting: self._acts,
            "replay": self._is_refilled,
            self._keeper: self._is_resumed,
        }[fault.role](fault)
        if fault.role == "launcher":
            self.launcher = self._launch()
        while not is_back():
            yield

    def _kill_in_save(self, fault: Fault) -> Iterator[None]:
        folder = self._run.workdir / "checkpoints"
        before = {*os.listdir(folder)}

        def wait_for_save() -> None:
            seconds = 5 * CHECKPOINT_SECONDS
            self._run.wait_for(
                lambda: {*os.listdir(folder)} - before, seconds, "a save", _POLL_SECONDS
            )
            time.sleep(random.uniform(0, _SAVE_SECONDS))

        kill = self._kill(fault, wait_for_save)
        next(kill, None)
        fault.at = round(self._now(), 1)  # it has waited for the save
        self.steps_at_last = self._run.learner("learner_steps")
        left = ", ".join(sorted({*os.listdir(folder)} - before)) or "nothing"
        yield from kill
        fault.note += f", amid a save that left {left}"

    def _freeze(self, fault: Fault) -> Iterator[None]:
        pid = self._run.pids()[_name(fault)]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield from self._pass(fault.seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):  # it may have been killed
                os.kill(pid, signal.SIGCONT)
        is_back = {
            self._acting: self._acts,
            "replay": self._learns,
            self._keeper: self._learns,
            "evaluator": self._evaluates,
        }[fault.role](fault)
        while not is_back():
            yield

    def _fill(self, fault: Fault) -> Iterator[None]:
        with self._disk.full():
            yield from self._pass(fault.seconds)
        names = self._run.workdir / "checkpoints" / "checkpoint"
        before = names.read_text()
        while names.read_text() == before:
            yield

    def _pass(self, seconds: float) -> Iterator[None]:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            yield

    # Each of these returns the condition for the work of a role to have gone on since this call.

    def _acts(self, fault: Fault) -> Callable[[], bool]:
        # Which of the paper's actors live in this process.
        count = json.loads((self._run.workdir / "config.json").read_text())["num_actors"]
        first = fault.index * count // self._acting_processes
        last = (fault.index + 1) * count // self._acting_processes

        def episodes() -> int:
            rows = self._run.acting()
            if rows is None:  # a slow machine: no episode has ended yet
                return 0
            fault.note = f"{len(set(rows['incarnation']))} lives of actors so far"
            return int(rows["actor"].between(first, last - 1).sum())

        before = episodes()
        return lambda: episodes() > before

    def _is_refilled(self, fault: Fault) -> Callable[[], bool]:
        from common.replay.store import Counters

        before, client, sampled = self._run.learner("replay_size"), None, None

        def is_back() -> bool:
            nonlocal client, sampled
            try:
                client = client or self._run.client("replay", fault.index)
                if client is None:
                    return False
                counters = Counters.of(client.call("store_counters"))
            except ClusterError:
                client = None  # it was killed again
                return False
            fault.note = f"{before:,} items, {counters.items:,} when learning went on"
            sampled = counters.sampled if sampled is None else sampled  # of its file
            return counters.sampled > sampled

        return is_back

    def _is_resumed(self, fault: Fault) -> Callable[[], bool]:
        steps, wall, starts = (
            self._run.learner("learner_steps"),
            self._run.learner("wall_seconds"),
            len(self._resumptions()),
        )

        def is_back() -> bool:
            resumptions = self._resumptions()
            if len(resumptions) == starts:
                return False
            fault.note = f"at step {steps:,} or later, resumed at step {resumptions[-1]:,}"
            row = last_row(self._run.workdir / "learner.csv")
            return row["wall_seconds"] > wall and row["learner_steps"] > resumptions[-1]

        return is_back

    def _resumptions(self) -> list[int]:
        found = re.findall(r"resumed at learner step (\d+)", self._run.log(self._keeper))
        return [int(step) for step in found]

    def _learns(self, fault: Fault) -> Callable[[], bool]:
        before = self._run.learner("learner_steps")
        return lambda: self._run.learner("learner_steps") > before

    def _evaluates(self, fault: Fault) -> Callable[[], bool]:
        path = self._run.workdir / "evaluator.csv"

        def evaluations() -> int:
            return len(read_rows(path)) if path.exists() else 0

        before = evaluations()
        return lambda: evaluations() > before


def _name(fault: Fault) -> str:
    return f"{fault.role}-{fault.index}"
