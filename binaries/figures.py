"""Draws a paper's figures from the runs that are kept.

    python -m binaries.figures --paper=d4pg --figure=2
    python -m binaries.figures --paper=d4pg --figure=2 --scale=two_cores
    python -m binaries.figures --paper=d4pg --figure=runs --scale=two_cores
    python -m binaries.figures --all

Writes a PNG and a PDF and prints their names. --figure=runs is a picture of everything that was run
at a scale, task by task. --all draws that for every scale, and every figure of a paper of which
there are runs at one of its scales.
"""

import argparse
import pathlib

from common.experiments import figures, selection
from common.experiments.arguments import add_choice_of_runs, add_one_or_all, check_one_or_all
from common.experiments.checked_rows import Once
from common.experiments.plan import DEFAULT_SCALE
from common.experiments.registry import RESULTS, Experiment, Paper, UnknownError, paper, papers
from common.experiments.runs import KeptRuns
from common.reporting.command_line import Parser, exit_with, fail


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.figures", description=__doc__)
    add_choice_of_runs(parser)
    add_one_or_all(
        parser,
        "figure",
        'its number, or "runs"',
        "of one paper with --paper, at one scale with --scale",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=pathlib.Path("results/figures"),
        metavar="DIR",
        help="where the pictures go; default results/figures",
    )
    parser.add_argument(
        "--whole_axis",
        action="store_true",
        help="draw the paper's horizontal axis even if our runs cover little of it",
    )
    arguments = parser.parse_args(argv)
    check_one_or_all(arguments, "figure", "draws")
    return arguments


def _one(arguments: argparse.Namespace, kept: KeptRuns) -> None:
    """Draws the figure that is asked for, or says what it lacks."""
    of = paper(arguments.paper)
    selection.check_scale(of, kept, arguments.scale)
    if arguments.figure == figures.ALL_RUNS:
        scale = arguments.scale or selection.nearest_scale(of, kept, bool)
        everything = figures.all_runs(of, scale, kept.of(of.name, scale)) if scale else None
        if everything is None or not everything.runs:
            fail(f"there are no returns of {of.title} in {kept.root / of.name / (scale or '')}")
        _draw(arguments, of, everything, scale, kept)
        return
    experiment = of.experiment(f"figure {arguments.figure}")
    if not experiment.runs:
        fail(f"{of.title} {experiment.name} ({experiment.title}): {experiment.unavailable}")
    scale = arguments.scale or selection.nearest_scale_of(of, experiment, kept)
    if scale is None or not selection.runs_of(experiment, kept.of(of.name, scale)):
        fail(_how_to_make(of, experiment, scale, kept))
    _draw(arguments, of, experiment, scale, kept)


def _how_to_make(of: Paper, experiment: Experiment, scale: str | None, kept: KeptRuns) -> str:
    where = f"at the scale {scale} in {kept.root}" if scale else f"in {kept.root}"
    obstacle = of.obstacle(experiment)
    if obstacle:
        return f"there are no runs of {of.title} {experiment.name} {where}: {obstacle}"
    listed = scale in [one.name for one in of.scales]
    command = (
        f"python -m binaries.experiment --paper={of.name} "
        f"--figure={experiment.name.removeprefix('figure ')} "
        f"--scale={scale if listed else DEFAULT_SCALE}"
    )
    if kept.root.resolve() == RESULTS / "runs":
        words = f"{command}, and copy the finished ones there by the same command with --keep"
    else:
        words = f"{command} --runs={kept.root}"
    return f"there are no runs of {of.title} {experiment.name} {where}; make them by {words}"


def _all(arguments: argparse.Namespace, kept: KeptRuns) -> None:
    chosen = papers(arguments.paper)
    selection.check_scale_of_any(chosen, kept, arguments.scale)
    for of in chosen:
        for scale in selection.scales_of(of, kept):
            if arguments.scale in (None, scale):
                for experiment in figures.drawn(of, scale, kept.of(of.name, scale)):
                    _draw(arguments, of, experiment, scale, kept)


def _draw(
    arguments: argparse.Namespace, of: Paper, experiment: Experiment, scale: str, kept: KeptRuns
) -> None:
    try:
        files = figures.draw(
            of, experiment, scale, kept.of(of.name, scale), arguments.output, arguments.whole_axis
        )
    except (ValueError, OSError) as error:
        if not arguments.all:
            fail(str(error))
        kept.warn(str(error))
        return
    print(*files, sep="\n")


def main(argv: list[str] | None = None) -> None:
    """Draws what is asked for; ends with one line on a user's mistake."""
    arguments = _arguments(argv)
    kept = KeptRuns(arguments.runs, Once())
    try:
        (_all if arguments.all else _one)(arguments, kept)
    except UnknownError as error:
        fail(str(error))


if __name__ == "__main__":
    exit_with(main)
