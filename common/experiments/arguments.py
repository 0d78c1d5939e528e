"""Arguments that the programs of figures, tables and claims share."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
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


def add_one_or_all(parser: argparse.ArgumentParser, kinds: Mapping[str, str], all_of: str) -> None:
    """Adds --figure or the like for each of `kinds`, with its help, and --all."""
    which = parser.add_mutually_exclusive_group()
    for kind, named in kinds.items():
        which.add_argument(f"--{kind}", metavar="N", help=named)
    parser.add_argument("--all", action="store_true", help=f"every {' and '.join(kinds)}, {all_of}")


def check_one_or_all(arguments: argparse.Namespace, kinds: Iterable[str], made: str) -> str:
    """Ends the program unless one of some kind is asked for, or --all of them are `made`.

    Returns:
      The name of the one, such as "figure 2"; "" for all.
    """
    first, *_ = kinds = tuple(kinds)
    asked = [kind for kind in kinds if getattr(arguments, kind) is not None]
    if not arguments.all and (arguments.paper is None or not asked):
        fail(f"give --paper and --{first}, or --all (see --help)")
    if arguments.all and asked:
        fail(f"--all {made} every {asked[0]}: leave --{asked[0]} out")
    return "".join(f"{kind} {getattr(arguments, kind)}" for kind in asked)


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
