"""Draws figures, writes tables and judges claims, from the kept runs and the reported numbers.

    python -m binaries.results --paper=d4pg --figure=2
    python -m binaries.results --paper=d4pg --figure=2 --scale=two_cores --pdf
    python -m binaries.results --paper=d4pg --figure=runs --scale=two_cores
    python -m binaries.results --paper=d4pg --section=4
    python -m binaries.results --paper=apex --table=2
    python -m binaries.results --paper=d4pg --claims
    python -m binaries.results --evaluations=evaluations.csv.gz
    python -m binaries.results --all

Writes files below --output, in figures/ and tables/, and prints their names: figures as PNG, tables
as Markdown and CSV. A table without runs has only the reported numbers. --figure=runs shows all
runs of a scale, task by task.

--figures draws every figure and section that compares runs of one of its paper's scales, and
--figure=runs for each scale with curves that none of these show. --tables writes every table, at
each scale that has runs for it. --claims prints the verdicts on all claims, or writes them if
--output is given; --claim=NAME prints everything about a claim. --all makes figures, tables and
claims; for all papers and scales, if --output has a README.md, it also updates the overview there
and writes a page for each paper. docs/verdicts.md has the rules of the verdicts. Unfinished runs do
not count.
"""

import argparse
from collections.abc import Callable, Iterator
import contextlib
import functools
import pathlib

from common.evidence import aggregate_figure, figures, selection, tables, verdicts
from common.evidence.claims import Evidence
from common.evidence.paper import DEFAULT_SCALE, RESULTS, Experiment, Paper
from common.evidence.reported import DIRECTORY, Reported
from common.evidence.runs import KeptRuns
from common.reporting.command_line import Parser, as_it_runs, check_writable, exit_with, fail
from common.reporting.records import with_part
from common.user_error import UserError
import reproductions

_ONE = {
    "figure": 'the figure with this number, or "runs" for all runs',
    "section": "the result with this number or name, if it is neither a figure nor a table",
    "table": "the table with this number",
}
_EVERY = {
    "figures": "every figure and section that compares runs",
    "tables": "every table",
    "claims": "the verdicts on all claims, a line each",
    "all": "figures, tables and claims",
}


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.results", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    for kind, words in _ONE.items():
        which.add_argument(f"--{kind}", metavar="N", help=f"{words}; with --paper")
    for kind, words in _EVERY.items():
        which.add_argument(f"--{kind}", action="store_true", help=words)
    which.add_argument("--claim", metavar="NAME", help="everything about a claim in --claims")
    words = "write all evaluations to this file, a row each; FILE.csv.gz is compressed"
    which.add_argument("--evaluations", type=pathlib.Path, metavar="FILE.csv", help=words)
    papers = ", ".join(reproductions.PAPERS)
    parser.add_argument("--paper", metavar="PAPER", help=f"one of {papers}; default all")
    parser.add_argument(
        "--scale",
        metavar="SCALE",
        help="scale of the runs; default: for a figure or a table, the scale with runs that is "
        "nearest to the paper's; for a claim, the nearest scale that decides it, but not smoke",
    )
    for flag, default, words in (
        ("--runs", "results/runs", "of the runs"),
        ("--reported", DIRECTORY, "of the reported numbers"),
        ("--benchmarks", "results/benchmarks", "of the benchmarks' JSON files"),
    ):
        words = f"directory {words}; default {default}"
        parser.add_argument(flag, type=pathlib.Path, default=default, metavar="DIR", help=words)
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        metavar="DIR",
        help="directory for figures/ and tables/; default results",
    )
    parser.add_argument("--pdf", action="store_true", help="also draw figures as PDF")
    arguments = parser.parse_args(argv)
    asked = [kind for kind in _ONE if getattr(arguments, kind) is not None]
    if asked and arguments.paper is None:
        fail(f"--{asked[0]} needs --paper")
    arguments.asked = "".join(f"{kind} {getattr(arguments, kind)}" for kind in asked)
    return arguments


class _Results:
    """The figures, tables and claims that the arguments ask for."""

    def __init__(self, arguments: argparse.Namespace):
        self._arguments, self._scale = arguments, arguments.scale
        self._kept, self._numbers = KeptRuns(arguments.runs), Reported(arguments.reported)
        self._papers = reproductions.papers(arguments.paper)
        self._output = arguments.output or pathlib.Path("results")
        self._figures, self._tables = self._output / "figures", self._output / "tables"
        self._suffixes = (*figures.PNG, ".pdf") if arguments.pdf else figures.PNG
        selection.check_scale(self._papers, self._kept, self._scale)

    def one(self, name: str) -> None:
        """Draws a figure or a section of the requested paper, or writes a table."""
        (paper,) = self._papers
        if name.startswith("table"):
            table = paper.experiment(name)
            scale = self._scale or selection.nearest_scale(paper, self._kept, table)
            self._write_table(paper, table, scale)
        else:
            self._draw(paper, *self._figure_and_scale(paper, name))

    def figures(self) -> None:
        """Draws every figure, and the effects of every paper's claims.

        Scales of smoke tests and of replaced runs are drawn only if --scale names them.
        """
        scales_of = selection.scales_of if self._scale else selection.deciding_scales
        for paper, scale in self._scales(scales_of):
            for experiment in figures.drawn(paper, scale, self._kept.of(paper.name, scale)):
                with contextlib.suppress(figures.NothingToDraw):
                    self._draw(paper, experiment, scale)
        for paper in self._papers:
            findings = self._findings[paper.name]
            _say(*figures.draw_effects(paper, findings, self._figures, self._suffixes))
            _say(*aggregate_figure.draw(paper, self._evidence, self._figures, self._suffixes))

    def tables(self) -> None:
        """Writes every table, at each scale that has runs for it."""
        for paper in self._papers:
            for table in paper.of_kind("table"):
                if self._numbers.has(paper.name, table.name):
                    scales = [scale for of, scale in self._scales() if of is paper]
                    there = [scale for scale in scales if self._runs(paper, table, scale)]
                    for scale in there or [None]:
                        self._write_table(paper, table, scale)

    def evaluations(self, file: pathlib.Path) -> None:
        """Writes the evaluations of all runs."""
        check_writable("--evaluations", file)
        runs = (run for paper, scale in self._scales() for run in self._kept.of(paper.name, scale))
        tables.evaluations(runs, self._numbers).to_csv(file, index=False, lineterminator="\n")
        _say(file)

    def _scales(
        self, scales_of: Callable[[Paper, KeptRuns], tuple[str, ...]] = selection.scales_of
    ) -> Iterator[tuple[Paper, str]]:
        """Yields each paper with each of its requested scales."""
        for paper in self._papers:
            for scale in scales_of(paper, self._kept):
                if self._scale in (None, scale):
                    yield paper, scale

    def claim(self, name: str) -> None:
        """Prints everything about the claims with a name."""
        verdicts.show_claim(self._papers, self._findings, name)

    def claims(self) -> None:
        """Prints the verdicts, or writes them and the pages."""
        arguments = self._arguments
        is_whole = arguments.all and not (arguments.paper or arguments.scale)
        if arguments.output is None and not is_whole:
            verdicts.show(self._papers, self._findings)
            return
        _say(*verdicts.write(self._papers, self._findings, self._tables))
        if is_whole and (file := self._output / "README.md").exists():
            text = verdicts.overview(self._papers, self._kept, self._findings, self._numbers)
            file.write_text(with_part(file, verdicts.BEGIN, verdicts.END, text))
            _say(file)
            for paper in self._papers:
                page = self._output / f"{paper.name}.md"
                page.write_text(verdicts.page(paper, self._kept, self._findings[paper.name]))
                _say(page)

    @functools.cached_property
    def _findings(self) -> verdicts.Findings:
        if not self._arguments.benchmarks.is_dir():
            fail(f"--benchmarks={self._arguments.benchmarks} is not a directory")
        return {
            paper.name: [
                (claim, claim.judge(paper, self._evidence))
                for claim in reproductions.claims(paper.name)
            ]
            for paper in self._papers
        }

    @functools.cached_property
    def _evidence(self) -> Evidence:
        return Evidence(self._kept, self._scale, self._numbers, self._arguments.benchmarks)

    def _runs(self, paper: Paper, experiment: Experiment, scale: str) -> tuple:
        return selection.runs_of(experiment, self._kept.of(paper.name, scale))

    def _draw(self, paper: Paper, experiment: Experiment, scale: str) -> None:
        runs = self._kept.of(paper.name, scale)
        of = (paper, experiment, scale, runs, self._figures)
        _say(*figures.draw(*of, suffixes=self._suffixes, reported=self._numbers))

    def _write_table(self, paper: Paper, experiment: Experiment, scale: str | None) -> None:
        runs = self._kept.of(paper.name, scale) if scale else ()
        table = tables.build(paper, experiment, scale, runs, self._numbers)
        self._tables.mkdir(parents=True, exist_ok=True)
        name = selection.file_name(paper.name, experiment.name, scale)
        for suffix, text in ((".md", tables.page(table)), (".csv", tables.csv(table))):
            file = self._tables / f"{name}{suffix}"
            file.write_text(text)
            _say(file)

    def _figure_and_scale(self, paper: Paper, name: str) -> tuple[Experiment, str]:
        """Returns the requested figure and its scale; ends the program if it has no runs."""
        kept = self._kept
        if name == f"figure {selection.ALL_RUNS}":
            scale = self._scale or selection.nearest_scale(paper, kept)
            if scale is not None:
                everything = figures.all_runs(paper, scale, kept.of(paper.name, scale))
                if everything.runs:
                    return everything, scale
            fail(f"there are no runs of {paper.title} in {kept.root / paper.name / (scale or '')}")
        experiment = paper.experiment(name)
        if not experiment.runs:
            fail(f"{paper.title} {name} ({experiment.title}): {experiment.unavailable}")
        scale = self._scale or selection.nearest_scale(paper, kept, experiment)
        if scale is None or not self._runs(paper, experiment.at(scale), scale):
            fail(self._how_to_make(paper, experiment, scale))
        return experiment, scale

    def _how_to_make(self, paper: Paper, experiment: Experiment, scale: str | None) -> str:
        root = self._kept.root
        where = f"at the scale {scale} in {root}" if scale else f"in {root}"
        problem = f"there are no runs of {paper.title} {experiment.name} {where}"
        if why := experiment.at(scale or DEFAULT_SCALE).unavailable:
            return f"{problem}: {why}"
        is_listed = scale in [listed.name for listed in paper.scales]
        command = as_it_runs(
            f"python -m binaries.experiment --paper={paper.name} {experiment.flag} "
            f"--scale={scale if is_listed else DEFAULT_SCALE}"
        )
        if root.resolve() != RESULTS / "runs":
            command += f" --kept={root}"
        return f"{problem}; make them with {command}, and add the finished ones with --keep"


def _say(*files: pathlib.Path) -> None:
    """Prints the names of files."""
    for file in files:
        print(file)


def main(argv: list[str] | None = None) -> None:
    """Draws, writes or prints the requested figures, tables and claims."""
    arguments = _arguments(argv)
    results = _Results(arguments)
    if arguments.asked:
        results.one(arguments.asked)
    if arguments.claim:
        results.claim(arguments.claim)
    if arguments.evaluations:
        results.evaluations(arguments.evaluations)
    if arguments.figures or arguments.all:
        results.figures()
    if arguments.tables or arguments.all:
        results.tables()
    if arguments.claims or arguments.all:
        results.claims()


if __name__ == "__main__":
    exit_with(main, (UserError, OSError))
