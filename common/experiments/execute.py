"""Executes planned runs, each in a process of its own, as many at once as there are slots."""

from collections.abc import Callable, Iterable, Sequence
import dataclasses
import os
import pathlib
import signal
import subprocess
import time
from typing import IO

from common.cluster.processes import StopRequest, set_parent_death_signal
from common.experiments.plan import PlannedRun
from common.experiments.status import State

RETRY_SECONDS = 20.0
"""The time before a second attempt: what a killed run left behind has ended by then."""
_POLL_SECONDS = 0.2


@dataclasses.dataclass(frozen=True)
class Slot:
    """A place for one run at a time.

    Attributes:
      cores: that its programs may use; None: those of this process.
      niceness: added to that of this process for its programs; 19 is the most polite.
      is_quiet: whether output goes to `log_of` the run instead of this process's.
    """

    cores: frozenset[int] | None = None
    niceness: int = 0
    is_quiet: bool = False


@dataclasses.dataclass(frozen=True)
class Failure:
    """A run that is not finished although it should be, and why in one line."""

    run: PlannedRun
    reason: str


class Observer:
    """A watcher of an execution, called from the thread that executes."""

    def begins(self, planned: PlannedRun, is_resumed: bool) -> None:
        """Handles the start of a run."""

    def ends(self, planned: PlannedRun) -> None:
        """Handles the end of a finished run."""

    def fails(self, failure: Failure, is_retried: bool) -> None:
        """Handles the failure of a run, which may be started once more."""

    def watches(self, running: Sequence[PlannedRun]) -> None:
        """Handles a look at the running ones, a few times a second."""


def execute(
    runs: Iterable[PlannedRun],
    stop: StopRequest,
    observer: Observer,
    slots: Sequence[Slot] = (Slot(),),
    attempts: int = 1,
) -> list[Failure]:
    """Makes missing runs and resumes cut ones, in order; leaves the finished ones alone.

    A run that fails does not end the others. On `stop` the current runs end in order and no other
    starts. If this process dies, its runs end in order, too.

    Args:
      runs: to execute.
      stop: installed; call this function from the main thread.
      observer: of what happens.
      slots: one or more.
      attempts: number of times that a run may fail.

    Returns:
      The failures of the runs that used all of their attempts.
    """
    return _Execution(runs, stop, observer, slots, attempts).run()


def log_of(planned: PlannedRun) -> pathlib.Path:
    """Returns the file of a run's output in a quiet slot, beside its directory."""
    return planned.directory.with_name(planned.directory.name + ".log")


@dataclasses.dataclass
class _Waiting:
    """A run to make.

    Attributes:
      planned: the run.
      attempts: that it still has.
      not_before: on the monotonic clock.
    """

    planned: PlannedRun
    attempts: int
    not_before: float = 0.0


@dataclasses.dataclass
class _Running:
    """A run that is made.

    Attributes:
      one: the run.
      slot: its place.
      process: its program.
      is_told: whether it was told to stop.
    """

    one: _Waiting
    slot: Slot
    process: subprocess.Popen
    is_told: bool = False


class _Execution:
    """The state of `execute`: runs that wait, runs that run, failures."""

    def __init__(
        self,
        runs: Iterable[PlannedRun],
        stop: StopRequest,
        observer: Observer,
        slots: Sequence[Slot],
        attempts: int,
    ):
        self._waiting = [_Waiting(planned, attempts) for planned in runs]
        self._stop = stop
        self._observer = observer
        self._free = list(reversed(slots))
        self._running: list[_Running] = []
        self._failures: list[Failure] = []

    def run(self) -> list[Failure]:
        """Returns when nothing runs and nothing is left to run, or the stop was requested."""
        try:
            while self._go_on():
                time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt:  # the second Ctrl-C
            for running in self._running:
                running.process.send_signal(signal.SIGINT)
            for running in self._running:
                running.process.wait()
            raise
        return self._failures

    def _go_on(self) -> bool:
        """Collects what has ended and fills the slots; returns whether there is more to do."""
        for running in [one for one in self._running if one.process.poll() is not None]:
            self._running.remove(running)
            self._free.append(running.slot)
            self._collect(running)
        while self._free and not self._stop.requested and (one := self._next()):
            self._begin(one)
        for running in self._running:
            if self._stop.requested and not running.is_told:
                running.process.terminate()
                running.is_told = True
        self._observer.watches([running.one.planned for running in self._running])
        return bool(self._running) or (bool(self._waiting) and not self._stop.requested)

    def _next(self) -> _Waiting | None:
        now = time.monotonic()
        one = next((one for one in self._waiting if one.not_before <= now), None)
        if one is not None:
            self._waiting.remove(one)
        return one

    def _begin(self, one: _Waiting) -> None:
        before = one.planned.read_status()  # hours may have passed since the plan
        if before.state in (State.UNUSABLE, State.RUNNING):
            self._fail(one, before.note)
        elif before.state is State.FINISHED:
            self._observer.ends(one.planned)
        else:
            self._observer.begins(one.planned, before.state is State.CUT)
            slot = self._free[-1]
            try:
                self._running.append(_Running(one, slot, _start(one.planned, slot)))
                self._free.pop()
            except OSError as error:  # a full disk, no memory
                self._fail(one, f"it cannot be started: {error}")

    def _collect(self, running: _Running) -> None:
        planned, code = running.one.planned, running.process.returncode
        after = planned.read_status()
        if after.state is State.FINISHED:
            self._observer.ends(planned)
        elif not self._stop.requested:
            self._fail(running.one, after.note or _reason(running, code))

    def _fail(self, one: _Waiting, reason: str) -> None:
        failure = Failure(one.planned, reason)
        one.attempts -= 1
        self._observer.fails(failure, one.attempts > 0)
        if one.attempts > 0:
            one.not_before = time.monotonic() + RETRY_SECONDS
            self._waiting.insert(0, one)
        else:
            self._failures.append(failure)


def _reason(running: _Running, code: int) -> str:
    """Returns why a run that ended is not finished."""
    planned, words, where = running.one.planned, "", "above"
    if running.slot.is_quiet:
        lines = log_of(planned).read_text(errors="replace").split("\n")
        words = next((f" ({line.strip()})" for line in reversed(lines) if line.strip()), "")
        where = f"in {log_of(planned)}"
    return (
        f"it ended with exit code {code} before its budget was used up{words}; its output is "
        f"{where}, its logs in {planned.directory / 'logs'}"
    )


def _start(planned: PlannedRun, slot: Slot) -> subprocess.Popen:
    """Starts a run's program.

    It leads a process group of its own. Otherwise Ctrl-C would reach it twice, which ends it
    without a checkpoint.
    """
    if not slot.is_quiet:
        return _popen(planned, slot, None)
    log_of(planned).parent.mkdir(parents=True, exist_ok=True)
    with open(log_of(planned), "wb") as log:
        return _popen(planned, slot, log)


def _popen(planned: PlannedRun, slot: Slot, output: IO[bytes] | None) -> subprocess.Popen:
    return subprocess.Popen(
        planned.command,
        stdin=subprocess.DEVNULL if slot.is_quiet else None,
        stdout=output,
        stderr=output,
        process_group=0,
        preexec_fn=_in_child(os.getpid(), slot),
    )


def _in_child(parent_pid: int, slot: Slot) -> Callable[[], None]:
    def prepare() -> None:
        set_parent_death_signal(parent_pid, signal.SIGTERM)
        if slot.cores is not None:
            os.sched_setaffinity(0, slot.cores)
        os.nice(slot.niceness)

    return prepare
