"""Executes planned runs, each in its own process and one at a time in each slot.

A session executes the runs of a figure, or those of a list such as results/campaign.csv.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
import contextlib
import dataclasses
import math
import os
import pathlib
import queue
import reprlib
import shutil
import signal
import subprocess
from typing import TextIO

import tabulate

from common.cluster.processes import StopRequest, set_parent_death_signal
from common.evidence.keep import keep_run
from common.evidence.paper import Paper
from common.evidence.plan import Plan, PlannedRun, Speeds, State, Status, last_progress, make_plan
from common.evidence.runs import KeptRuns, Progress
from common.reporting.budget import duration
from common.reporting.csv_rows import numbered_rows
from common.reporting.progress import LiveLine, shortened
from common.reporting.records import as_typed
from common.reporting.run_directory import RunDirectory
from common.user_error import UserError

COLUMNS = ("paper", "scale", "experiment", "settings", "tasks", "seeds", "claims")
"""The columns of a list of runs, which docs/campaign.md explains."""
RETRY_SECONDS = 20.0
"""Time before a second attempt. Processes that a killed run left behind have ended by then."""
_POLL_SECONDS = 0.2
_LINE_SECONDS = 1.0
"""Time between two updates of the progress line."""
_NICENESS = 10
"""Added to the niceness of runs in quiet slots, so that the machine's other programs go first."""


class ListError(UserError):
    """A malformed list of runs, or an impossible number of cores or slots."""


@dataclasses.dataclass(frozen=True)
class ListedRuns:
    """The runs of a line of a list, or of a figure.

    Attributes:
      name: line number, paper, experiment and scale, for the table of states; "" for a figure.
      plan: the plan of the runs.
      claims: names of the paper's claims that depend on the runs.
    """

    name: str
    plan: Plan
    claims: tuple[str, ...] = ()


def read_list(
    path: pathlib.Path, runs: pathlib.Path, kept: KeptRuns, paper: Callable[[str], Paper]
) -> tuple[list[ListedRuns], list[str]]:
    """Reads a list of runs.

    Args:
      path: the CSV file.
      runs: root of the run directories.
      kept: the kept runs.
      paper: looks up a paper by its name.

    Returns:
      The lines, and a note for each line that is left out because it is wrong, or because its agent
      or scale does not exist yet.

    Raises:
      CsvError: the file lacks a column, or is not CSV.
    """
    lines, notes = [], []
    speeds: dict[tuple[str, str], Speeds] = {}
    for number, cells in numbered_rows(path, COLUMNS, may_be_torn=False):
        try:
            lines.append(_line(number, cells, speeds, runs, kept, paper))
        except UserError as error:
            notes.append(f"{as_typed([str(path)])[0]}:{number}: {error}: the line is left out")
    return lines, notes


def _line(
    number: int,
    cells: Mapping[str, str],
    speeds: dict[tuple[str, str], Speeds],
    runs: pathlib.Path,
    kept: KeptRuns,
    paper: Callable[[str], Paper],
) -> ListedRuns:
    """Returns the runs of a line; `speeds` has the speeds of the scales of earlier lines."""
    of = paper(cells["paper"])
    experiment, scale = of.experiment(cells["experiment"]), of.scale(cells["scale"])
    if why := experiment.at(scale.name).unavailable:
        raise ListError(why)
    if scale.is_compact and scale.name not in experiment.substitutes:
        raise ListError(f"{experiment.name} of {of.title} has no runs at the scale {scale.name}")
    if cells["seeds"] and not (cells["seeds"].isdecimal() and len(cells["seeds"]) <= 3):
        raise ListError(f"seeds is {reprlib.repr(cells['seeds'])}, not a number below 1000")
    tasks, settings = (cells[name].split() or None for name in ("tasks", "settings"))
    seeds, known = int(cells["seeds"] or 0) or None, speeds.get((of.name, scale.name))
    plan = make_plan(of, experiment, scale, runs, kept, tasks, settings, seeds, known)
    speeds[of.name, scale.name] = plan.speeds
    name = f"{number}: {of.title}, {experiment.name}, {scale.name}"
    return ListedRuns(name, plan, tuple(cells["claims"].split()))


Slot = frozenset[int] | None
"""The cores for one run at a time, quiet and of low priority; None: as this process, in view."""


def slots_of(cores: int | None, jobs: int | None = None) -> tuple[Slot, ...]:
    """Returns quiet slots of low priority.

    Args:
      cores: number of cores to use; None: all.
      jobs: number of slots, which share the cores evenly; None: one per core.

    Raises:
      ListError: this process may not use that many cores, or there are more slots than cores.
    """
    usable = sorted(os.sched_getaffinity(0))
    cores = len(usable) if cores is None else cores
    if not 1 <= cores <= len(usable):
        raise ListError(f"--cores={cores}: this machine has {len(usable)} usable cores")
    jobs = cores if jobs is None else jobs
    if not 1 <= jobs <= cores:
        raise ListError(f"--jobs={jobs}: there are only {cores} cores, and each job needs one")
    used = usable[-cores:]
    return tuple(frozenset(used[i::jobs]) for i in range(jobs))


def log_of(planned: PlannedRun) -> pathlib.Path:
    """Returns the log of a run in a quiet slot: a file next to the run directory."""
    return planned.directory.with_name(planned.directory.name + ".log")


@dataclasses.dataclass(eq=False)
class _Job:
    """A run of a session.

    Attributes:
      number: its place in the session, from 1.
      planned: the run.
      plan: the plan that contains the run.
      claims: names of the claims that depend on the run.
      attempts: number of attempts that are left.
      is_finished: whether the run is finished.
      process: the program of the newest attempt; None before the first.
    """

    number: int
    planned: PlannedRun
    plan: Plan
    claims: tuple[str, ...]
    attempts: int
    is_finished: bool
    process: subprocess.Popen | None = None

    @property
    def progress(self) -> Progress:
        """The current progress of the run; zeros if learner.csv cannot be read."""
        try:
            return last_progress(RunDirectory(self.planned.directory).learner_csv)
        except UserError:  # `read_status` names the error when the run has ended
            return Progress()

    @property
    def minutes(self) -> float | None:
        """The minutes that the run still needs; None if unknown."""
        progress = self.planned.status.progress if self.process is None else self.progress
        return self.plan.speeds.minutes_left(self.planned.run.curve, self.planned.budget, progress)


class Session(LiveLine):
    """A session that executes planned runs, keeps finished ones, and shows a progress line.

    Args:
      lines: the runs, in order. A run in several lines is executed once, for the first.
      slots: the slots, at least one.
      attempts: maximum number of attempts for each run.
      kept: root of the tables of kept runs; None: finished runs are not kept.
      stream: where to print; standard error by default.
    """

    def __init__(
        self,
        lines: Iterable[ListedRuns],
        slots: Sequence[Slot] = (None,),
        attempts: int = 1,
        kept: pathlib.Path | None = None,
        stream: TextIO | None = None,
    ):
        jobs: dict[pathlib.Path, _Job] = {}
        for listed in lines:
            for run in listed.plan.runs:
                done = run.status.state is State.FINISHED
                new = _Job(len(jobs) + 1, run, listed.plan, (), attempts, done)
                job = jobs.setdefault(run.directory, new)
                job.claims = tuple(dict.fromkeys((*job.claims, *listed.claims)))
        self._jobs = tuple(jobs.values())
        self._free: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        for slot in slots:
            self._free.put(slot)
        self._num_slots = len(slots)
        self._kept = kept
        self._running: list[_Job] = []
        self._problems: list[str] = []
        super().__init__(stream, may_redraw=None not in slots)

    @property
    def result(self) -> str:
        """The number of finished runs, in words."""
        done = sum(job.is_finished for job in self._jobs)
        return f"{done} of {len(self._jobs)} runs are finished"

    def execute(self, stop: StopRequest) -> list[str]:
        """Starts missing runs and resumes cut ones, in order; does not repeat finished ones.

        A failed run does not end the others. On `stop` the current runs stop cleanly and no other
        run starts. They also stop cleanly if this process dies.

        Args:
          stop: an installed request to stop. Call this function from the main thread.

        Returns:
          A line for each run that failed in all of its attempts, or cannot be kept.
        """
        for job in self._jobs:
            if job.is_finished:
                self._keep(job, job.planned.status)
        with futures.ThreadPoolExecutor(self._num_slots) as pool:
            made = [pool.submit(self._make, job, stop) for job in self._jobs if not job.is_finished]
            try:
                while futures.wait(made, _LINE_SECONDS).not_done:
                    self.refresh()
            except KeyboardInterrupt:  # the second Ctrl-C
                for job in self._running:
                    job.process.send_signal(signal.SIGINT)
                raise
        for future in made:
            future.result()
        return self._problems

    def line(self, width: int | None) -> str:
        """See base class."""
        claims = dict.fromkeys(claim for job in self._running for claim in job.claims)
        numbers = " and ".join(str(job.number) for job in self._running) or "-"
        head = f"run {numbers} of {len(self._jobs)}"
        parts = [f"{job.planned.budget.fraction(*job.progress):.0%}" for job in self._running]
        names = [f"{job.planned.name} {part}" for job, part in zip(self._running, parts)]
        full = [head, *names, self._time_left(), *[f"for {', '.join(claims)}"] * bool(claims)]
        forms = [" · ".join(form) for form in (full, [head, *parts, self._time_left()])]
        if width is None or len(forms[0]) <= width:
            return forms[0]
        return shortened(forms[1], width)

    def _time_left(self) -> str:
        minutes = [job.minutes for job in self._jobs if not job.is_finished]
        known = [needed for needed in minutes if needed is not None]
        if not known:
            return "time left unknown" if minutes else "nothing left"
        # A run of unknown speed counts as the mean of the others.
        total = sum(known) * len(minutes) / len(known) / self._num_slots
        return f"about {duration(math.ceil(total))} left"

    def _make(self, job: _Job, stop: StopRequest) -> None:
        """Executes a run, with all its attempts, in a thread; keeps the run if it finishes."""
        while job.attempts and not stop.requested:
            status = job.planned.read_status()  # hours may have passed since the plan
            reason = status.note
            if status.state in (State.CUT, State.MISSING):
                status, reason = self._run(job, stop)
            if status.state is State.FINISHED:
                job.is_finished = True
                job.plan.speeds.add(job.planned.run, status.progress)
                self._keep(job, status)
                return
            if not stop.requested:
                # A second attempt would find the run unusable again.
                job.attempts = 0 if status.state is State.UNUSABLE else job.attempts - 1
                line = f"failed: {job.planned.name}: {reason}"
                if job.attempts:
                    self.print(f"{line}; the run is tried once more")
                    stop.wait(RETRY_SECONDS)
                else:
                    self._name(line)

    def _run(self, job: _Job, stop: StopRequest) -> tuple[Status, str]:
        """Runs the program once; returns the run's status, and why it is not finished."""
        slot = self._free.get()
        try:
            job.process = start(job.planned, slot)
            self._running.append(job)
            if not self.is_live:
                self.print(self.line(None))
            wait(job.process, stop)
            self._running.remove(job)
        except OSError as error:  # a full disk, no memory
            return job.planned.status, f"it cannot be started: {error}"
        finally:
            self._free.put(slot)
        after = job.planned.read_status()
        return after, after.note or _reason(job, slot)

    def _keep(self, job: _Job, status: Status) -> None:
        """Keeps a finished run; removes its directory at a compact scale, which has many runs."""
        if self._kept is None or status.is_kept:
            return
        try:
            keep_run(job.planned, self._kept)
            if job.planned.scale.is_compact:
                _remove(job.planned)
        except (UserError, OSError) as error:
            self._name(f"not kept: {job.planned.name}: {error}")

    def _name(self, problem: str) -> None:
        self._problems.append(problem)
        self.print(problem)


def _reason(job: _Job, slot: Slot) -> str:
    """Returns why a run that ended is not finished."""
    log, words, where = log_of(job.planned), "", "above"
    if slot:
        lines = log.read_text(errors="replace").split("\n")
        words = next((f" ({line.strip()})" for line in reversed(lines) if line.strip()), "")
        where = f"in {log}"
    return (
        f"it ended with exit code {job.process.returncode} before its budget was used up{words}; "
        f"its output is {where}, its logs in {job.planned.directory / 'logs'}"
    )


def start(planned: PlannedRun, slot: Slot) -> subprocess.Popen:
    """Starts a run's program.

    The program leads its own process group. Otherwise Ctrl-C would reach it twice, and it would
    end without a checkpoint.
    """
    parent = os.getpid()

    def prepare() -> None:
        set_parent_death_signal(parent, signal.SIGTERM)
        if slot:
            os.sched_setaffinity(0, slot)
            os.nice(_NICENESS)

    log = contextlib.nullcontext()
    if slot:
        log_of(planned).parent.mkdir(parents=True, exist_ok=True)
        log = open(log_of(planned), "wb")
    with log as output:
        return subprocess.Popen(
            planned.command,
            stdin=subprocess.DEVNULL if slot else None,
            stdout=output,
            stderr=output,
            process_group=0,
            preexec_fn=prepare,
        )


def wait(
    process: subprocess.Popen, stop: StopRequest, watch: Callable[[], object] = lambda: None
) -> None:
    """Waits for a run's program to end; stops it cleanly on `stop`, or if `watch` raises."""
    try:
        while process.poll() is None and not stop.wait(_POLL_SECONDS):
            watch()
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()


def _remove(planned: PlannedRun) -> None:
    """Removes the directory of a kept run; if this is interrupted, the kept run still counts."""
    os.sync()  # the kept run must be on disk before its directory goes, as the power may fail
    shutil.rmtree(planned.directory)
    log_of(planned).unlink(missing_ok=True)


def table(rows: Iterable[tuple[str, Sequence[PlannedRun], str]]) -> list[str]:
    """Returns the table of states: a line with each name, its runs and words, then the totals.

    A run in several rows counts only in the first.
    """
    header = ("", "runs", "finished", "cut", "running", "missing", "spent", "left", "")
    lines: list[tuple[str, ...]] = []
    seen: dict[pathlib.Path, PlannedRun] = {}
    for name, runs, words in rows:
        new = {run.directory: run for run in runs if run.directory not in seen}
        seen |= new
        lines.append((name, *_counts(list(new.values())), words))
    lines.append(("all", *_counts(list(seen.values())), ""))
    sides = ("left", *["right"] * 7, "left")
    text = tabulate.tabulate(lines, header, "plain", colalign=sides, disable_numparse=True)
    return [line.rstrip() for line in text.splitlines()]


def _counts(runs: Sequence[PlannedRun]) -> tuple[str, ...]:
    """Returns the number of runs, the number in each state, and the time spent and left."""
    states = [run.status.state for run in runs]
    counts = map(states.count, (State.FINISHED, State.CUT, State.RUNNING))
    missing = states.count(State.MISSING) + states.count(State.UNUSABLE)
    spent = sum(run.status.progress.wall_seconds for run in runs) / 3600
    left = [run.minutes for run in runs if run.status.state is not State.FINISHED]
    known = [minutes for minutes in left if minutes is not None]
    time = duration(math.ceil(sum(known) / len(known) * len(left))) if known else "?"
    return (*map(str, (len(runs), *counts, missing)), f"{spent:.1f} h", time if left else "-")
