"""The papers' tables with our numbers."""

import abc
from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import math

import pandas

from common.environments import frames_per_step
from common.evidence import selection
from common.evidence.paper import EPISODE_RETURN, Experiment, Paper
from common.evidence.reported import Reported, ReportedError
from common.evidence.runs import EVALUATIONS, KeptRun
from common.evidence.selection import task_title
from common.user_error import UserError

OURS, DIFFERENCE = "ours", "difference"
_OF_RUNS = ("frames", "seeds", "episodes", "setting")


@dataclasses.dataclass(frozen=True)
class Cell:
    """Our number in a table.

    Attributes:
      value: the number.
      frames: mean number of frames of its runs; None if it does not come from runs.
      seeds: number of its runs; None if it does not come from runs.
      episodes: number in the final evaluation of each run; None if it does not come from runs.
      setting: the setting of its runs; "" if it does not come from runs.
    """

    value: float
    frames: float | None = None
    seeds: float | None = None
    episodes: float | None = None
    setting: str = ""


class OwnNumbers(abc.ABC):
    """Our numbers for a table of a paper."""

    @property
    @abc.abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The paper's columns for which we have numbers."""

    @abc.abstractmethod
    def cells(
        self, experiment: Experiment, runs: Sequence, numbers: Reported
    ) -> Mapping[tuple[str, str], Cell]:
        """Returns our numbers by the paper's row and column.

        Args:
          experiment: the table.
          runs: `KeptRun`s of one scale.
          numbers: the numbers that papers report.
        """

    def summary(
        self, table: pandas.DataFrame, experiment: Experiment, runs: Sequence, numbers: Reported
    ) -> pandas.DataFrame | None:
        """Returns a text summary of the paper's `table` and our cells, or None. See `cells`."""
        return None


@dataclasses.dataclass(frozen=True)
class Table:
    """A table as text.

    Attributes:
      title: paper, name and title of the table.
      note: sentences on our numbers, and the unit if all columns have the same one.
      rows: the paper's numbers and ours, without our empty columns. The names of the paper's
        columns include their units, unless the names or the note already do.
      summary: a summary of the rows; None if there is none.
    """

    title: str
    note: str
    rows: pandas.DataFrame
    summary: pandas.DataFrame | None

    @property
    def frames(self) -> list[pandas.DataFrame]:
        """The rows, and the summary if there is one."""
        return [self.rows] if self.summary is None else [self.rows, self.summary]


def build(
    paper: Paper,
    experiment: Experiment,
    scale: str | None,
    runs: Sequence[KeptRun],
    numbers: Reported,
) -> Table:
    """Returns a table with the reported numbers, and those of one scale's runs, if any.

    Raises:
      ReportedError: the paper's text has no numbers of this table.
    """
    if not numbers.has(paper.name, experiment.name):
        raise ReportedError(
            f"{paper.title} {experiment.name} ({experiment.title}): results/reported has no "
            f"numbers for it: {experiment.unavailable or 'the text of the paper has none'}"
        )
    ours = experiment.ours
    texts = numbers.table(paper.name, experiment.name, "value")
    names = list(dict.fromkeys([*texts, *(ours.columns if ours else ())]))
    texts = texts.reindex(columns=names, fill_value="")
    values = numbers.table(paper.name, experiment.name).reindex(columns=names)
    cells = ours.cells(experiment, runs, numbers) if ours else {}
    columns = {}
    for name in texts:
        columns[name] = texts[name].fillna("")
        if ours and name in ours.columns:
            columns |= _ours(name, texts[name], values[name], cells, ours)
    of_columns = _units(numbers.table(paper.name, experiment.name, "unit"))
    note = _note(paper, experiment, scale, cells, runs)
    if len(of_columns) == len(texts.columns) and len(set(of_columns.values())) == 1:
        note, of_columns = f"{note} Unit: {of_columns.popitem()[1]}.".strip(), {}
    rows = pandas.DataFrame(columns, index=texts.index).rename_axis("")
    return Table(
        f"{paper.title}, {experiment.name}: {experiment.title}",
        note,
        rows.rename(columns={name: f"{name} [{unit}]" for name, unit in of_columns.items()}),
        ours.summary(values, experiment, runs, numbers) if ours else None,
    )


def page(table: Table) -> str:
    """Returns the table as a page of Markdown."""
    parts = [f"# {table.title}", table.note, *map(_grid, table.frames)]
    return "\n\n".join(filter(None, parts)) + "\n"


def csv(table: Table) -> str:
    """Returns the table's rows as CSV, then an empty line and the summary, if there is one."""
    return "\n".join(frame.to_csv(lineterminator="\n") for frame in table.frames)


def evaluations(runs: Iterable[KeptRun], numbers: Reported) -> pandas.DataFrame:
    """Returns all evaluations of runs, a row each, for other programs.

    Returns:
      paper, scale, setting, environment, seed; the columns of evaluator.csv; score, the return as
      a fraction of the task's scale, NaN without a scale; budget, by_rule and is_final. is_final is
      true for an evaluation of the run's final parameters.
    """
    parts = []
    for run in runs:
        rows, final = run.evaluations, run.final_evaluation
        low, high = numbers.scale(run.environment) or (math.nan, math.nan)
        own = {"paper": run.paper, "scale": run.scale, "budget": str(run.budget)}
        own |= {"by_rule": run.is_by_rule, "score": (rows[EPISODE_RETURN] - low) / (high - low)}
        own["is_final"] = False if final is None else rows.index == final.name
        frames = rows["actor_steps"] * frames_per_step(run.environment)
        parts.append(rows.assign(environment_frames=frames, **own))
    if not parts:
        raise UserError("there are no runs, hence no evaluations: give another --scale")
    counts = ("seed", "actor_steps", "learner_steps", "episodes", "environment_frames")
    columns = ("paper", "scale", *EVALUATIONS, "environment_frames", "score")
    table = pandas.concat(parts)[[*columns, "budget", "by_rule", "is_final"]]
    return table.astype(dict.fromkeys(counts, "int64"))


def markdown_table(header: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Returns a Markdown table without padding, since its cells may be sentences."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    cells = (" | ".join(str(cell).replace("|", "\\|") for cell in line) for line in lines)
    return "\n".join(f"| {line} |" for line in cells)


def details(summary: str, text: str) -> str:
    """Returns Markdown text, folded below its summary."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def _grid(frame: pandas.DataFrame) -> str:
    header = [name.replace("|", "\\|") for name in frame]
    return frame.to_markdown(headers=[frame.index.name, *header], disable_numparse=True)


def _units(units: pandas.DataFrame) -> dict[str, str]:
    """Returns the unit of each column whose numbers have the same one, unless its name says it."""
    found = {}
    for name in units:
        # Text in parentheses is about a single number.
        in_column = {text.partition(" (")[0] for text in units[name].dropna()}
        unit = in_column.pop()
        if not in_column and unit != "-" and unit.lower() not in name.lower():
            found[name] = unit
    return found


def _ours(
    name: str,
    texts: pandas.Series,
    numbers: pandas.Series,
    cells: Mapping[tuple[str, str], Cell],
    ours: OwnNumbers,
) -> dict[str, list[str]]:
    """Returns our columns, which follow the reported one, without empty columns."""
    printed = texts.dropna()
    unit = "M" if printed.str.endswith("M").all() else ""
    digits = 1 if unit else max((len(text.partition(".")[2]) for text in printed), default=0)
    prefix = f"{name}: " if len(ours.columns) > 1 else ""

    def shown(row: str) -> list[str]:
        cell = cells.get((row, name))
        if cell is None:
            return 6 * [""]
        size = 1e6 if unit else 1
        value, apart = cell.value / size, (cell.value - numbers[row]) / size
        difference = "" if pandas.isna(apart) else f"{apart:+.{digits}f}{unit}"
        counts = (cell.frames, cell.seeds, cell.episodes)
        shown = ["" if count is None else f"{count:,.0f}" for count in counts]
        kind = ".2g" if 0 < abs(value) < 0.5 * 10**-digits else f".{digits}f"
        return [f"{value:{kind}}{unit}", difference, *shown, cell.setting]

    names = (OURS, DIFFERENCE, *_OF_RUNS)
    columns = zip(*map(shown, texts.index))
    return {prefix + kind: list(column) for kind, column in zip(names, columns) if any(column)}


def _note(
    paper: Paper,
    experiment: Experiment,
    scale: str | None,
    cells: Mapping[tuple[str, str], Cell],
    runs: Sequence[KeptRun],
) -> str:
    of_table = selection.runs_of(experiment, runs)
    tasks = {run.environment for run in of_table}
    words = experiment.unavailable
    if not words and cells and scale is not None:
        rows = sorted({row for row, _ in cells})
        listed = f", in these rows: {', '.join(rows)}" if len(rows) <= selection.LISTED else ""
        words = f"runs of the scale {scale}{listed}"
    elif not words and experiment.runs and not cells:
        words = "no runs yet"
        if tasks:
            words = f"runs of {len(tasks)} of {len(experiment.environments)} tasks at the scale "
            words += f"{scale}: not enough for our numbers"
    cut = sorted({task_title(run.environment) for run in of_table if run.final_evaluation is None})
    if cut:
        words += f", and runs without an evaluation of their final parameters: {', '.join(cut)}"
    sentences = [f"{text[:1].upper()}{text[1:]}." for text in (words, experiment.note) if text]
    if experiment.runs and cells:
        sentences.append("Our scores are of evaluations of each run's final parameters.")
    played = (run.from_start_states for run in of_table)
    if origins := sorted({each["origin"] for each in played if each}):
        listed = "; ".join(origins)
        sentences.append(f"Where the paper has human starts, ours are states of {listed}.")
    return " ".join(sentences)
