"""Makes the runs of a list, those first that decide most per hour, for days beside other work.

    make campaign                                   # or python -m binaries.campaign
    python -m binaries.campaign --status            # what is there
    python -m binaries.campaign --alone             # the runs of claims about wall-clock time

Takes the next unfinished run of results/campaign.csv, two at once on a core each, and keeps the
finished ones in results/runs. Ctrl-C ends the current runs in order; the same command resumes them.
"""

import argparse
import pathlib

from common.cluster.processes import StopRequest, usable_cores
from common.experiments.campaign import ATTEMPTS, Campaign, ListedRuns, read_list, slots_of, table
from common.experiments.execute import execute
from common.experiments.paper import RESULTS
from common.reporting.command_line import Parser, exit_with, say
from common.reporting.run_directory import hold
from common.reporting.user_error import UserError
import reproductions

_CORES = 2


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.campaign", description=__doc__)
    parser.add_argument(
        "--cores",
        type=int,
        metavar="N",
        default=min(_CORES, usable_cores()),
        help=f"runs at once, each on a core of its own; default {_CORES}",
    )
    parser.add_argument("--status", action="store_true", help="start nothing, show what is there")
    parser.add_argument(
        "--alone",
        action="store_true",
        help="only runs of claims about wall-clock time, one by one on all cores: run nothing else",
    )
    parser.add_argument(
        "--list",
        type=pathlib.Path,
        metavar="FILE",
        default=RESULTS / "campaign.csv",
        help="the runs; default results/campaign.csv",
    )
    parser.add_argument(
        "--runs",
        type=pathlib.Path,
        metavar="DIR",
        default=pathlib.Path("runs/campaign"),
        help="directory of the run directories; default runs/campaign",
    )
    parser.add_argument(
        "--kept",
        type=pathlib.Path,
        metavar="DIR",
        default=RESULTS / "runs",
        help="where finished runs are kept; default results/runs",
    )
    return parser.parse_args(argv)


def _carry_out(lines: list[ListedRuns], arguments: argparse.Namespace) -> int:
    """Makes the runs to do and returns the exit code."""
    slots = slots_of(arguments.cores, arguments.alone)
    arguments.runs.mkdir(parents=True, exist_ok=True)
    with hold(arguments.runs / ".lock", "campaign", arguments.runs, "--runs"):
        stop = StopRequest().install()
        with Campaign(lines, arguments.kept, len(slots)) as campaign:
            campaign.keep_finished()
            failures = execute(campaign.to_do, stop, campaign, slots, ATTEMPTS)
            left = len(campaign.to_do)
    say(f"{left} runs are left" if left else "every run is finished")
    for failure in failures:
        say(f"failed: {failure.run.name}: {failure.reason}")
    for line in campaign.unkept:
        say(line)
    if stop.requested:
        say("stopped; the same command goes on")
        return stop.exit_code
    return 1 if failures or campaign.unkept else 0


def main(argv: list[str] | None = None) -> int:
    """Shows the state of the runs or makes them; returns the exit code."""
    arguments = _arguments(argv)
    lines, notes = read_list(arguments.list, [arguments.runs, arguments.kept], reproductions.paper)
    for note in notes:
        say(note)
    if arguments.status:
        print("\n".join(table(lines)))
        return 0
    return _carry_out([one for one in lines if one.is_alone == arguments.alone], arguments)


if __name__ == "__main__":
    exit_with(main, (UserError, OSError))
