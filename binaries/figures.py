"""Draws a paper's figures from the kept runs.

    python -m binaries.figures --paper=d4pg --figure=2
    python -m binaries.figures --paper=d4pg --figure=2 --scale=two_cores
    python -m binaries.figures --paper=d4pg --section=4
    python -m binaries.figures --paper=d4pg --figure=runs --scale=two_cores
    python -m binaries.figures --all

Writes a PNG and a PDF and prints their names. --figure=runs shows everything that was run at a
scale, task by task. --all draws every figure and section that compares runs of one of its paper's
scales, and --figure=runs of each scale that has curves in none of these.
"""

import argparse

from common.experiments import figures, forests, selection
from common.experiments.arguments import (
    add_choice_of_runs,
    add_directory,
    add_one_or_all,
    check_one_or_all,
)
from common.experiments.claims import Evidence
from common.experiments.main_effects import MainEffects
from common.experiments.paper import RESULTS, Experiment, Paper
from common.experiments.plan import DEFAULT_SCALE
from common.experiments.runs import KeptRuns
from common.reporting.command_line import Parser, as_it_runs, exit_with, fail
from common.reporting.reported import Reported
from common.reporting.user_error import UserError
import reproductions

_KINDS = {
    "figure": 'its number, or "runs"',
    "section": "its number or name: a result that the paper tells without a figure, or one of ours",
}


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.figures", description=__doc__)
    add_choice_of_runs(parser, reproductions.PAPERS)
    add_one_or_all(parser, _KINDS, "of one paper with --paper, at one scale with --scale")
    add_directory(parser, "--output", "results/figures", "for the pictures")
    parser.add_argument(
        "--whole_axis",
        action="store_true",
        help="draw the paper's horizontal axis even if our runs cover little of it",
    )
    arguments = parser.parse_args(argv)
    arguments.asked = check_one_or_all(arguments, _KINDS, "draws")
    return arguments


def _one(paper: Paper, kept: KeptRuns, name: str, scale: str | None) -> tuple[Experiment, str]:
    """Returns the figure that is asked for and its scale, or says what it lacks."""
    if name == f"figure {figures.ALL_RUNS}":
        scale = scale or selection.nearest_scale(paper, kept)
        everything = figures.all_runs(paper, scale, kept.of(paper.name, scale)) if scale else None
        if everything is None or not everything.runs:
            fail(f"there are no runs of {paper.title} in {kept.root / paper.name / (scale or '')}")
        return everything, scale
    experiment = paper.experiment(name)
    if not experiment.runs:
        fail(f"{paper.title} {experiment.name} ({experiment.title}): {experiment.unavailable}")
    scale = scale or selection.nearest_scale(paper, kept, experiment)
    if scale is None or not selection.runs_of(experiment, kept.of(paper.name, scale)):
        fail(_how_to_make(paper, experiment, scale, kept))
    return experiment, scale


def _how_to_make(paper: Paper, experiment: Experiment, scale: str | None, kept: KeptRuns) -> str:
    where = f"at the scale {scale} in {kept.root}" if scale else f"in {kept.root}"
    problem = f"there are no runs of {paper.title} {experiment.name} {where}"
    if experiment.unavailable:
        return f"{problem}: {experiment.unavailable}"
    listed = scale in [one.name for one in paper.scales]
    command = as_it_runs(
        f"python -m binaries.experiment --paper={paper.name} {experiment.flag} "
        f"--scale={scale if listed else DEFAULT_SCALE}"
    )
    if kept.root.resolve() != RESULTS / "runs":
        return f"{problem}; make them by {command} --runs={kept.root}"
    return f"{problem}; make them by {command}, and copy the finished ones there with --keep"


def main(argv: list[str] | None = None) -> None:
    """Draws what is asked for."""
    arguments = _arguments(argv)
    kept = KeptRuns(arguments.runs)
    papers = reproductions.papers(arguments.paper)
    selection.check_scale(papers, kept, arguments.scale)
    if arguments.all:
        chosen = [
            (paper, experiment, scale)
            for paper in papers
            for scale in selection.scales_of(paper, kept)
            if arguments.scale in (None, scale)
            for experiment in figures.drawn(paper, scale, kept.of(paper.name, scale))
        ]
    else:
        chosen = [(*papers, *_one(*papers, kept, arguments.asked, arguments.scale))]
    for paper, experiment, scale in chosen:
        runs = kept.of(paper.name, scale)
        try:
            files = figures.draw(
                paper, experiment, scale, runs, arguments.output, arguments.whole_axis
            )
        except figures.NothingToDraw:
            if not arguments.all:
                raise
            continue
        print(*files, sep="\n")
    if arguments.all:
        evidence = Evidence(kept, arguments.scale, Reported(), RESULTS / "benchmarks")
        for paper in papers:
            findings = [
                (claim, claim.judge(paper, evidence))
                for claim in reproductions.claims(paper.name)
                if isinstance(claim.test, MainEffects)
            ]
            if forests.has_effects(findings):
                print(*forests.draw(paper, findings, arguments.output), sep="\n")


if __name__ == "__main__":
    exit_with(main, (UserError, OSError))
