"""Writes a paper's tables: what it reports, beside it what the runs that are kept give.

    python -m binaries.tables --paper=apex --table=2
    python -m binaries.tables --all

Writes Markdown and CSV and prints their names. Without runs what is ours is empty. --all writes
every table of every paper, at each scale that has runs of it.
"""

import argparse
import pathlib

from common.experiments import selection, tables
from common.experiments.arguments import (
    add_choice_of_runs,
    add_one_or_all,
    add_reported,
    check_one_or_all,
)
from common.experiments.checked_rows import Once
from common.experiments.registry import Experiment, Paper, UnknownError, paper, papers
from common.experiments.reported_numbers import ReportedNumbers
from common.experiments.runs import KeptRuns
from common.reporting import reported
from common.reporting.command_line import Parser, exit_with, fail


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.tables", description=__doc__)
    add_choice_of_runs(parser)
    add_one_or_all(parser, "table", "its number", "of one paper with --paper")
    add_reported(parser)
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("results/tables"),
        metavar="DIR",
        help="where the tables go; default results/tables",
    )
    arguments = parser.parse_args(argv)
    check_one_or_all(arguments, "table", "writes")
    return arguments


def _one(arguments: argparse.Namespace, kept: KeptRuns, numbers: ReportedNumbers) -> None:
    of = paper(arguments.paper)
    selection.check_scale(of, kept, arguments.scale)
    experiment = of.experiment(f"table {arguments.table}")
    scale = arguments.scale or selection.nearest_scale_of(of, experiment, kept)
    _write(arguments.output, of, experiment, scale, kept, numbers)


def _all(arguments: argparse.Namespace, kept: KeptRuns, numbers: ReportedNumbers) -> None:
    chosen = papers(arguments.paper)
    selection.check_scale_of_any(chosen, kept, arguments.scale)
    for of in chosen:
        for experiment in of.experiments:
            if not (experiment.name.startswith("table") and numbers.has(of.name, experiment.name)):
                continue
            there = [
                scale
                for scale in selection.scales_of(of, kept)
                if arguments.scale in (None, scale)
                and selection.runs_of(experiment, kept.of(of.name, scale))
            ]
            for scale in there or [None]:
                _write(arguments.output, of, experiment, scale, kept, numbers)


def _write(
    output: pathlib.Path,
    of: Paper,
    experiment: Experiment,
    scale: str | None,
    kept: KeptRuns,
    numbers: ReportedNumbers,
) -> None:
    runs = kept.of(of.name, scale) if scale else ()
    table = tables.build(of, experiment, scale, runs, numbers)
    output.mkdir(parents=True, exist_ok=True)
    stem = output / tables.file_name(of.name, experiment.name, scale)
    for suffix, text in ((".md", tables.markdown(table)), (".csv", tables.csv(table))):
        file = stem.with_name(stem.name + suffix)
        file.write_text(text)
        print(file)


def main(argv: list[str] | None = None) -> None:
    """Writes what is asked for; ends with one line on a user's mistake."""
    arguments = _arguments(argv)
    kept = KeptRuns(arguments.runs, Once())
    numbers = ReportedNumbers(kept.warn, arguments.reported)
    try:
        (_all if arguments.all else _one)(arguments, kept, numbers)
    except BrokenPipeError:
        raise  # see `exit_with`
    except (UnknownError, reported.ReportedError, OSError) as error:
        fail(str(error))


if __name__ == "__main__":
    exit_with(main)
