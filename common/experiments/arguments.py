"""Arguments that figures, tables and claims have alike: which runs they are of."""

import argparse
import pathlib

from common.experiments.registry import paper_names
from common.reporting import reported


def add_choice_of_runs(
    parser: argparse.ArgumentParser,
    default_scale: str = "the nearest to the paper's that has some",
) -> None:
    """Adds --paper, --scale and --runs; `default_scale` says which one is taken by itself."""
    parser.add_argument("--paper", metavar="PAPER", help=f'one of {", ".join(paper_names())}')
    parser.add_argument("--scale", metavar="SCALE", help=f"of the runs; default {default_scale}")
    parser.add_argument("--runs", type=pathlib.Path, default=pathlib.Path("results/runs"),
                        metavar="DIR", help="where the runs are; default results/runs")


def add_reported(parser: argparse.ArgumentParser) -> None:
    """Adds --reported."""
    parser.add_argument("--reported", type=pathlib.Path, default=reported.DIRECTORY, metavar="DIR",
                        help="where the reported numbers are; default this code's results/reported")
