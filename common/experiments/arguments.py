"""Arguments that the programs of figures, tables and claims share."""

import argparse
from collections.abc import Sequence
import pathlib

from common.reporting import reported
from common.reporting.command_line import fail


def add_choice_of_runs(
    parser: argparse.ArgumentParser,
    papers: Sequence[str],
    default_scale: str = "the nearest to the paper's that has some",
) -> None:
    """Adds --paper, --scale and --runs.

    Args:
      parser: of the program.
      papers: names.
      default_scale: the scale without the flag, in words.
    """
    parser.add_argument("--paper", metavar="PAPER", help=f"one of {', '.join(papers)}")
    parser.add_argument("--scale", metavar="SCALE", help=f"of the runs; default {default_scale}")
    add_directory(parser, "--runs", "results/runs", "of the runs")


def add_one_or_all(parser: argparse.ArgumentParser, what: str, named: str, all_of: str) -> None:
    """Adds --figure or --table, as `what` says, and --all."""
    parser.add_argument(f"--{what}", metavar="N", help=named)
    parser.add_argument("--all", action="store_true", help=f"every {what}, {all_of}")


def check_one_or_all(arguments: argparse.Namespace, what: str, made: str) -> None:
    """Ends the program unless one figure or table is asked for, or --all of them are `made`."""
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
        help="directory of the reported numbers; default this code's results/reported",
    )


def add_directory(parser: argparse.ArgumentParser, flag: str, default: str, whose: str) -> None:
    """Adds a directory with a default."""
    parser.add_argument(
        flag,
        type=pathlib.Path,
        default=pathlib.Path(default),
        metavar="DIR",
        help=f"directory {whose}; default {default}",
    )
