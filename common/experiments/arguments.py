"""Arguments that figures, tables and claims have alike: which runs they are of."""

import argparse
import pathlib

from common.experiments.registry import paper_names
from common.reporting import reported
from common.reporting.command_line import fail


def add_choice_of_runs(
    parser: argparse.ArgumentParser, default_scale: str = "the nearest to the paper's that has some"
) -> None:
    """Adds --paper, --scale and --runs; `default_scale` says which one is taken by itself."""
    parser.add_argument("--paper", metavar="PAPER", help=f"one of {', '.join(paper_names())}")
    parser.add_argument("--scale", metavar="SCALE", help=f"of the runs; default {default_scale}")
    parser.add_argument(
        "--runs",
        type=pathlib.Path,
        default=pathlib.Path("results/runs"),
        metavar="DIR",
        help="where the runs are; default results/runs",
    )


def add_one_or_all(parser: argparse.ArgumentParser, what: str, named: str, all_of: str) -> None:
    """Adds --figure or --table, as `what` says, and --all; `check_one_or_all` when parsed."""
    parser.add_argument(f"--{what}", metavar="N", help=named)
    parser.add_argument("--all", action="store_true", help=f"every {what}, {all_of}")


def check_one_or_all(arguments: argparse.Namespace, what: str, made: str) -> None:
    """Ends the program unless there is one to make, of --paper, or --all of them are `made`."""
    one = getattr(arguments, what)
    if not arguments.all and (arguments.paper is None or one is None):
        fail(f"give --paper and --{what}, or --all (see --help)")
    if arguments.all and one is not None:
        fail(f"--all {made} every {what}: leave --{what} out")


def add_reported(parser: argparse.ArgumentParser) -> None:
    """Adds --reported."""
    parser.add_argument(
        "--reported",
        type=pathlib.Path,
        default=reported.DIRECTORY,
        metavar="DIR",
        help="where the reported numbers are; default this code's results/reported",
    )
