"""Writes a paper's tables: the reported numbers, and those of the kept runs beside them.

    python -m binaries.tables --paper=apex --table=2
    python -m binaries.tables --all

Writes Markdown and CSV and prints their names. Without runs there are no columns of
ours. --all writes every table of every paper, at each scale that has runs of it.
"""

import argparse

from common.experiments import selection, tables
from common.experiments.arguments import (
    add_choice_of_runs,
    add_directory,
    add_one_or_all,
    add_reported,
    check_one_or_all,
)
from common.experiments.paper import Experiment, Paper
from common.experiments.runs import KeptRuns
from common.reporting.command_line import Parser, exit_with
from common.reporting.reported import Reported
from common.reporting.user_error import UserError
import reproductions


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.tables", description=__doc__)
    add_choice_of_runs(parser, reproductions.PAPERS)
    add_one_or_all(parser, {"table": "its number"}, "of one paper with --paper")
    add_reported(parser)
    add_directory(parser, "--output", "results/tables", "for the tables")
    arguments = parser.parse_args(argv)
    arguments.asked = check_one_or_all(arguments, ("table",), "writes")
    return arguments


def _scales(
    paper: Paper, experiment: Experiment, kept: KeptRuns, scale: str | None
) -> list[str | None]:
    """Returns the scales that have runs of a table, or None alone."""
    there = [
        one
        for one in selection.scales_of(paper, kept)
        if scale in (None, one) and selection.runs_of(experiment, kept.of(paper.name, one))
    ]
    return there or [None]


def main(argv: list[str] | None = None) -> None:
    """Writes what is asked for."""
    arguments = _arguments(argv)
    kept, numbers = KeptRuns(arguments.runs), Reported(arguments.reported)
    papers = reproductions.papers(arguments.paper)
    selection.check_scale(papers, kept, arguments.scale)
    if arguments.all:
        chosen = [
            (paper, table, scale)
            for paper in papers
            for table in paper.of_kind("table")
            if numbers.has(paper.name, table.name)
            for scale in _scales(paper, table, kept, arguments.scale)
        ]
    else:
        table = papers[0].experiment(arguments.asked)
        scale = arguments.scale or selection.nearest_scale(papers[0], kept, table)
        chosen = [(papers[0], table, scale)]
    for paper, experiment, scale in chosen:
        runs = kept.of(paper.name, scale) if scale else ()
        table = tables.build(paper, experiment, scale, runs, numbers)
        arguments.output.mkdir(parents=True, exist_ok=True)
        name = tables.file_name(paper.name, experiment.name, scale)
        for suffix, text in ((".md", tables.markdown(table)), (".csv", tables.csv(table))):
            file = arguments.output / f"{name}{suffix}"
            file.write_text(text)
            print(file)


if __name__ == "__main__":
    exit_with(main, (UserError, OSError))
