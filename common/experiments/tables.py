"""The papers' tables: what they report, beside it what this code gives.

What a paper's tables are compared with is in `reproductions/<paper>/tables.py`, as `TABLES`.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import importlib
from typing import Protocol

import pandas

from common.experiments import captions, scales, selection
from common.experiments.registry import Experiment, Paper
from common.experiments.reported_numbers import ReportedNumbers
from common.experiments.runs import KeptRun
from common.reporting import reported

OURS, DIFFERENCE, FRAMES, SEEDS = "ours", "difference", "frames", "seeds"


@dataclasses.dataclass(frozen=True)
class Cell:
    """A number of ours.

    frames: that its runs saw, mean. seeds: how many of them. None where it is not made of runs.
    """

    value: float
    frames: float | None = None
    seeds: int | None = None


class Comparison(Protocol):
    """What stands beside the numbers of a table."""

    columns: tuple[str, ...]
    """Of the paper's, those beside which ours stand."""
    is_of_runs: bool
    """Whether ours have frames and seeds."""

    def cells(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: ReportedNumbers
    ) -> Mapping[tuple[str, str], Cell]:
        """Returns our numbers by the paper's row and column.

        Args:
          runs: of one scale.
        """

    def summary(
        self, experiment: Experiment, runs: Sequence[KeptRun], numbers: ReportedNumbers
    ) -> pandas.DataFrame | None:
        """Returns what sums the table up, as text, or None."""


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as text: `rows`, and what sums them up, if anything does."""

    title: str
    rows: pandas.DataFrame
    summary: pandas.DataFrame | None
    note: str


def file_name(paper: str, name: str, scale: str | None) -> str:
    """Without suffix: "apex_table_2"; with "_smoke" if its runs are of that scale."""
    stem = f"{paper}_{name.replace(' ', '_')}"
    return stem if scale in (None, scales.PAPER.name) else f"{stem}_{scale}"


def comparison(paper: str, name: str) -> Comparison | None:
    """What stands beside a table; None if nothing does."""
    try:
        module = importlib.import_module(f"reproductions.{paper}.tables")
    except ModuleNotFoundError:
        return None
    return module.TABLES.get(name)


def build(
    paper: Paper,
    experiment: Experiment,
    scale: str | None,
    runs: Sequence[KeptRun],
    numbers: ReportedNumbers,
) -> Table:
    """Puts ours beside the reported numbers.

    Args:
      experiment: the table.
      scale: of the runs; None if there are none.
      runs: of that scale.

    Raises:
      reported.ReportedError: the paper's text has no numbers of this table.
    """
    if not numbers.has(paper.name, experiment.name):
        raise reported.ReportedError(
            f"{paper.title} {experiment.name} ({experiment.title}): results/reported has no "
            f"numbers of it: {experiment.unavailable or 'the text of the paper has none'}"
        )
    texts = numbers.table(paper.name, experiment.name, "value")
    values = numbers.table(paper.name, experiment.name)
    beside = comparison(paper.name, experiment.name)
    cells = beside.cells(experiment, runs, numbers) if beside else {}
    columns = {}
    for name in texts:
        columns[name] = texts[name].fillna("")
        if beside and name in beside.columns:
            columns |= _ours(name, texts[name], values[name], cells, beside)
    rows = pandas.DataFrame(columns, index=texts.index)
    rows.index.name = ""
    return Table(
        f"{paper.title}, {experiment.name}: {experiment.title}",
        rows,
        beside.summary(experiment, runs, numbers) if beside else None,
        _note(paper, experiment, scale, bool(cells), runs),
    )


def markdown(table: Table) -> str:
    """The table as a page."""
    parts = [f"# {table.title}", table.note, _grid(table.rows)]
    if table.summary is not None:
        parts.append(_grid(table.summary))
    return "\n\n".join(filter(None, parts)) + "\n"


def csv(table: Table) -> str:
    """The table's rows as CSV, then an empty line and what sums them up."""
    text = table.rows.to_csv(lineterminator="\n")
    if table.summary is not None:
        text += "\n" + table.summary.to_csv(lineterminator="\n")
    return text


def _grid(frame: pandas.DataFrame) -> str:
    header = [name.replace("|", "\\|") for name in frame]
    return frame.to_markdown(headers=[frame.index.name, *header], disable_numparse=True)


def _ours(name: str, texts, numbers, cells, beside: Comparison) -> dict[str, list[str]]:
    """The columns that follow the reported one."""
    digits = max((len(text.partition(".")[2]) for text in texts.dropna()), default=0)
    prefix = f"{name}: " if len(beside.columns) > 1 else ""
    columns = {OURS: [], DIFFERENCE: []}
    if beside.is_of_runs:
        columns |= {FRAMES: [], SEEDS: []}
    for row in texts.index:
        cell = cells.get((row, name))
        if cell is None:
            filled = dict.fromkeys(columns, "")
        else:
            difference = cell.value - numbers[row]
            filled = {
                OURS: f"{cell.value:.{digits}f}",
                DIFFERENCE: "" if pandas.isna(difference) else f"{difference:+.{digits}f}",
                FRAMES: "" if cell.frames is None else f"{cell.frames:,.0f}",
                SEEDS: "" if cell.seeds is None else str(cell.seeds),
            }
        for column, values in columns.items():
            values.append(filled[column])
    return {prefix + column: values for column, values in columns.items()}


def _note(
    paper: Paper, experiment: Experiment, scale: str | None, has_ours: bool, runs: Sequence[KeptRun]
) -> str:
    tasks = {run.environment for run in selection.runs_of(experiment, runs)}
    words = []
    obstacle = paper.obstacle(experiment)
    if obstacle:
        words.append(obstacle)
    elif experiment.runs and not has_ours and tasks:
        words.append(
            f"runs of {len(tasks)} of {len(experiment.environments)} tasks at the scale "
            f"{scale}: not enough for what is ours"
        )
    elif experiment.runs and not has_ours:
        words.append("no runs yet: what is ours is empty")
    elif scale is not None and has_ours:
        words.append(f"runs of the scale {scale}")
    words += [experiment.note] if experiment.note else []
    sentences = [f"{word[0].upper()}{word[1:]}." for word in words]
    if experiment.runs and comparison(paper.name, experiment.name):
        whose = captions.what(experiment)
        sentences.append(f"Ours: {whose[0].lower()}{whose[1:]}")
    return " ".join(sentences)
