"""A campaign: the runs of a list, those first that decide most per hour."""

from collections.abc import Callable, Sequence
import dataclasses
import math
import os
import pathlib
import reprlib
import shutil
import tempfile
import time
from typing import TextIO

from common.experiments.execute import Failure, Observer, Slot, log_of
from common.experiments.keep import keep_run
from common.experiments.paper import Paper
from common.experiments.plan import Plan, PlannedRun, make_plan
from common.experiments.status import Progress, State, read_progress
from common.reporting.budget import duration
from common.reporting.csv_rows import read_lines
from common.reporting.progress import LiveLine, shortened
from common.reporting.records import as_typed
from common.reporting.user_error import UserError

COLUMNS = ("paper", "scale", "experiment", "settings", "tasks", "seeds", "alone", "claims")
"""The columns of a list; docs/campaign.md explains each."""
ATTEMPTS = 2
"""Starts of a run in a session before it is given up."""
_NICENESS = 10
"""Other programs of the machine go first."""
_SECONDS_BETWEEN_LINES = 1.0


class CampaignError(UserError):
    """A list that is no list of runs."""


@dataclasses.dataclass(frozen=True)
class ListedRuns:
    """The runs of a line of a list.

    Attributes:
      where: "FILE:LINE".
      plan: its runs.
      claims: names of the paper's claims that hang on it.
      is_alone: whether a claim is about wall-clock time, so that nothing may run beside it.
    """

    where: str
    plan: Plan
    claims: tuple[str, ...]
    is_alone: bool


def read_list(
    path: pathlib.Path, roots: Sequence[pathlib.Path], paper: Callable[[str], Paper]
) -> tuple[list[ListedRuns], list[str]]:
    """Reads a list of runs.

    Args:
      path: of the CSV file.
      roots: where runs are looked for; new ones are in the first.
      paper: finds a paper by its name.

    Returns:
      its lines, and a note for each one that is left out: it is wrong, or its agent or scale does
      not exist yet.

    Raises:
      CampaignError, CsvError: the file has other columns, or is no CSV.
    """
    lines, notes = [], []
    (_, header), *listed = read_lines(path, may_be_torn=False)
    if tuple(header) != COLUMNS:
        raise CampaignError(f"{path}:1: the columns are not {','.join(COLUMNS)}")
    for number, cells in listed:
        where = f"{as_typed([str(path)])[0]}:{number}"
        if not cells:
            continue
        try:
            lines.append(_line(where, cells, roots, paper))
        except UserError as error:
            notes.append(f"{where}: {error}: the line is left out")
    return lines, notes


def _line(
    where: str, found: Sequence[str], roots: Sequence[pathlib.Path], paper: Callable[[str], Paper]
) -> ListedRuns:
    cells = dict(zip(COLUMNS, found))
    if len(found) != len(COLUMNS):
        raise CampaignError(f"it does not have {len(COLUMNS)} cells")
    of = paper(cells["paper"])
    experiment, scale = of.experiment(cells["experiment"]), of.scale(cells["scale"])
    if why := experiment.at(scale.name).unavailable:
        raise CampaignError(why)
    if scale.is_compact and scale.name not in experiment.substitutes:
        raise CampaignError(
            f"{experiment.name} of {of.title} has no runs at the scale {scale.name}"
        )
    if cells["seeds"] and not (cells["seeds"].isdecimal() and len(cells["seeds"]) <= 3):
        raise CampaignError(f"seeds is {reprlib.repr(cells['seeds'])}, not a number below 1000")
    if cells["alone"] not in ("", "yes"):
        raise CampaignError(f"alone is {cells['alone']!r}, neither yes nor empty")
    plan = make_plan(
        of,
        experiment,
        scale,
        roots,
        cells["tasks"].split() or None,
        cells["settings"].split() or None,
        int(cells["seeds"] or 0) or None,
    )
    return ListedRuns(where, plan, tuple(cells["claims"].split()), cells["alone"] == "yes")


def slots_of(cores: int, alone: bool) -> tuple[Slot, ...]:
    """Returns as many slots as `cores`, of a core each; `alone`: one of all cores.

    Raises:
      CampaignError: this process may not use as many.
    """
    usable = sorted(os.sched_getaffinity(0))
    if alone:
        return (Slot(is_quiet=True),)
    if not 1 <= cores <= len(usable):
        raise CampaignError(f"{cores} cores are not among the {len(usable)} that there are")
    return tuple(
        Slot(frozenset([core]), niceness=_NICENESS, is_quiet=True) for core in usable[-cores:]
    )


class Campaign(LiveLine, Observer):
    """The runs of a list as they are made: keeps the finished ones and shows a line.

    Args:
      lines: in order; a run in several of them is made for the first.
      kept: root of the kept runs.
      num_slots: number of runs at once.
      stream: where to print; standard error by default.

    Attributes:
      unkept: a line for each finished run that could not be kept.
    """

    def __init__(
        self,
        lines: Sequence[ListedRuns],
        kept: pathlib.Path,
        num_slots: int,
        stream: TextIO | None = None,
    ):
        self._kept = kept
        self._num_slots = num_slots
        self._plans: dict[pathlib.Path, Plan] = {}
        self._claims: dict[pathlib.Path, tuple[str, ...]] = {}
        self._runs: dict[pathlib.Path, PlannedRun] = {}
        for listed in lines:
            for run in listed.plan.runs:
                place = run.directory
                self._runs.setdefault(place, run)
                self._plans.setdefault(place, listed.plan)
                claims = (*self._claims.get(place, ()), *listed.claims)
                self._claims[place] = tuple(dict.fromkeys(claims))
        states = {place: run.status.state for place, run in self._runs.items()}
        self._finished = {place for place in states if states[place] is State.FINISHED}
        self._running: list[PlannedRun] = []
        self._shown_at = 0.0
        self.unkept: list[str] = []
        super().__init__(stream)

    @property
    def to_do(self) -> list[PlannedRun]:
        """The runs that are not finished, in order."""
        return [run for place, run in self._runs.items() if place not in self._finished]

    def keep_finished(self) -> None:
        """Keeps what was finished before, and not kept."""
        for place in self._finished:
            self._keep(self._runs[place])

    def begins(self, planned: PlannedRun, is_resumed: bool) -> None:
        """See base class."""
        self._running.append(planned)
        if not self.is_live:
            self.print(self.line(None))

    def ends(self, planned: PlannedRun) -> None:
        """See base class."""
        place = planned.directory
        self._forget(planned)
        self._finished.add(place)
        of = self._plans[place]
        for plan in {id(plan): plan for plan in self._plans.values()}.values():
            if (plan.paper, plan.scale.name) == (of.paper, of.scale.name):
                plan.speeds.add(planned.run, read_progress(place))
        self._keep(planned)

    def fails(self, failure: Failure, is_retried: bool) -> None:
        """See base class."""
        self._forget(failure.run)
        again = "; it is tried once more" if is_retried else ""
        self.print(f"failed: {failure.run.name}: {failure.reason}{again}")

    def watches(self, running: Sequence[PlannedRun]) -> None:
        """See base class."""
        self._running = list(running)
        if time.monotonic() - self._shown_at >= _SECONDS_BETWEEN_LINES:
            self._shown_at = time.monotonic()
            self.refresh()

    def line(self, width: int | None) -> str:
        """See base class."""
        numbers = [self._number(run) for run in self._running]
        head = f"run {' and '.join(numbers) or '-'} of {len(self._runs)}"
        runs = [f"{run.name} {self._fraction(run):.0%}" for run in self._running]
        short = [
            f"{run.run.setting} {run.run.environment.rpartition(':')[2]} {self._fraction(run):.0%}"
            for run in self._running
        ]
        left = self._time_left()
        claims = dict.fromkeys(
            claim for run in self._running for claim in self._claims[run.directory]
        )
        decides = [f"for {', '.join(claims)}"] if claims else []
        forms = [
            " · ".join(parts)
            for parts in (
                [head, *runs, left, *decides],
                [head, *short, left, *decides],
                [head, *short, left],
                [head, left],
            )
        ]
        if width is None:
            return forms[0]
        return next((form for form in forms if len(form) <= width), shortened(forms[-1], width))

    def _forget(self, ended: PlannedRun) -> None:
        self._running = [run for run in self._running if run is not ended]

    def _number(self, run: PlannedRun) -> str:
        return str(list(self._runs).index(run.directory) + 1)

    def _fraction(self, run: PlannedRun) -> float:
        return run.budget.fraction(*_progress(run))

    def _time_left(self) -> str:
        running = {run.directory: _progress(run) for run in self._running}
        minutes = [
            self._plans[run.directory].minutes_of(
                run, running.get(run.directory, run.status.progress)
            )
            for run in self.to_do
        ]
        known = [one for one in minutes if one is not None]
        if not known:
            return "time left unknown" if minutes else "nothing left"
        # A run of unknown speed counts as the mean of the others.
        total = sum(known) * len(minutes) / len(known) / self._num_slots
        return f"about {duration(math.ceil(total))} left"

    def _keep(self, planned: PlannedRun) -> None:
        """Keeps a finished run; removes its directory if the run is kept compactly."""
        try:
            keep_run(self._plans[planned.directory].paper, planned, self._kept)
            if planned.scale.is_compact and not planned.directory.is_relative_to(self._kept):
                _remove(planned)
        except (UserError, OSError) as error:
            self.unkept.append(f"not kept: {planned.name}: {error}")
            self.print(self.unkept[-1])


def _progress(run: PlannedRun) -> Progress:
    try:
        return read_progress(run.directory)
    except UserError:  # `read_status` names the error when the run has ended
        return Progress()


def _remove(planned: PlannedRun) -> None:
    """Removes a run's directory, of which nothing is seen as a run if this is interrupted."""
    directory = planned.directory
    os.sync()  # what is kept of it comes first, if the power fails
    removed = tempfile.mkdtemp(prefix=f"{directory.name}.removed_", dir=directory.parent)
    directory.rename(removed)
    shutil.rmtree(removed)
    log_of(planned).unlink(missing_ok=True)


def table(lines: Sequence[ListedRuns]) -> list[str]:
    """Returns the status table: a line for each entry of the list, then the totals."""
    rows = [("", "runs", "finished", "cut", "running", "missing", "spent", "left", "claims")]
    seen: dict[pathlib.Path, PlannedRun] = {}
    for listed in lines:
        plan, first = listed.plan, [run for run in listed.plan.runs if run.directory not in seen]
        seen |= {run.directory: run for run in first}
        line = listed.where.rpartition(":")[2]
        name = f"{line}: {plan.paper.title}, {plan.experiment.name}, {plan.scale.name}"
        alone = ["alone on the machine"] if listed.is_alone else []
        rows.append((name, *_counts(first), " ".join([*listed.claims, *alone])))
    rows.append(("all", *_counts(list(seen.values())), ""))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *map(str.rjust, row[1:-1], widths[1:-1]), row[-1]]
        ).rstrip()
        for row in rows
    ]


def _counts(runs: Sequence[PlannedRun]) -> tuple[str, ...]:
    """Returns the number of runs, of those in each state, and the hours spent and left."""
    states = [run.status.state for run in runs]
    counts = (
        states.count(State.FINISHED),
        states.count(State.CUT),
        states.count(State.RUNNING),
        states.count(State.MISSING) + states.count(State.UNUSABLE),
    )
    spent = sum(run.status.progress.wall_seconds for run in runs) / 60
    left = [run.minutes for run in runs if run.status.state is not State.FINISHED]
    known = [one for one in left if one is not None]
    mean = sum(known) / len(known) if known else None
    hours = "-" if not left else "?" if mean is None else f"{mean * len(left) / 60:.1f} h"
    return (str(len(runs)), *map(str, counts), f"{spent / 60:.1f} h", hours)
