"""Makes the runs of a paper's figure or table.

    python -m binaries.experiment --paper=d4pg                        # what there is, how far it is
    python -m binaries.experiment --paper=d4pg --figure=2 --scale=smoke --dry_run
    python -m binaries.experiment --paper=d4pg --figure=2 --tasks cartpole:swingup --seeds 1
    python -m binaries.experiment --paper=d4pg --figure=2 --keep      # for results/runs

Shows the plan, then runs what is missing, one run after the other, and goes on with what was cut;
what is finished, here or in results/runs, is not touched. Ctrl-C ends the run of the moment in
order; the same command goes on later. A run that fails is left behind and named at the end.
"""

import argparse
from collections.abc import Callable
import pathlib
import shlex
import sys

from common.cluster.processes import StopRequest
from common.experiments import keep, registry
from common.experiments.execute import execute
from common.experiments.plan import DEFAULT_SCALE, Plan, PlanError, check_disk, disk_line, make_plan
from common.experiments.registry import Paper, UnknownError
from common.experiments.status import State
from common.reporting.budget import duration
from common.reporting.command_line import Parser, exit_with, fail

_KEPT = registry.RESULTS / "runs"
_COUNTED = (State.FINISHED, State.CUT, State.MISSING)


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.experiment", description=__doc__)
    parser.add_argument("--paper", required=True, choices=registry.paper_names())
    which = parser.add_mutually_exclusive_group()
    for kind in ("figure", "table", "section"):
        which.add_argument(f"--{kind}", metavar="N", help=f"the paper's {kind} N")
    parser.add_argument(
        "--tasks",
        nargs="+",
        metavar="TASK",
        help="only these environments, with or without their suite",
    )
    parser.add_argument("--settings", nargs="+", metavar="SETTING", help="only these curves")
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="0 to N - 1; default: as many as the paper has, 3 if it does not say",
    )
    parser.add_argument(
        "--scale",
        metavar="NAME",
        help=f"how large the runs are: {_scales()}; default {DEFAULT_SCALE}. What "
        "each changes from the paper is shown and kept in each run's "
        "run.json",
    )
    parser.add_argument(
        "--runs",
        type=pathlib.Path,
        metavar="DIR",
        default=pathlib.Path("runs/experiments"),
        help="where the run directories are; default runs/experiments",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--dry_run", action="store_true", help="start nothing, print the commands")
    instead.add_argument(
        "--keep",
        action="store_true",
        help="start nothing, copy CSV and JSON files of finished runs to "
        "results/runs, where figures, tables and claims look",
    )
    arguments = parser.parse_args(argv)
    if arguments.seeds is not None and arguments.seeds < 1:
        fail(f"--seeds must be at least 1, is {arguments.seeds}")
    return arguments


def _scales() -> str:
    """Every scale, and which papers have it: "smoke (apex, d4pg), ..."."""
    having: dict[str, list[str]] = {}
    for paper in registry.papers(None):
        for scale in paper.scales:
            having.setdefault(scale.name, []).append(paper.name)
    return ", ".join(f"{scale} ({', '.join(papers)})" for scale, papers in having.items())


def _name(arguments: argparse.Namespace) -> str | None:
    """The experiment that is asked for, None if there is none."""
    for kind in ("figure", "table", "section"):
        if (number := getattr(arguments, kind)) is not None:
            return f"{kind} {number}"
    return None


def _list(paper: Paper, roots: list[pathlib.Path]) -> None:
    """Prints every experiment with its runs at each scale."""
    scales = [scale.name for scale in paper.scales]
    print(f"{paper.title}, {paper.citation}: runs finished/cut/missing at each scale")
    print("  ".join([" " * 12, *(f"{scale:>12}" for scale in scales)]))
    notes = []
    for experiment in paper.experiments:
        obstacle = paper.obstacle(experiment)
        if obstacle:
            print(f"{experiment.name:12}  {experiment.title}: {obstacle}")
            continue
        plans = [make_plan(paper, experiment, scale, roots) for scale in paper.scales]
        counts = ["/".join(str(len(plan.of(state))) for state in _COUNTED) for plan in plans]
        print(
            "  ".join(
                [f"{experiment.name:12}", *(f"{one:>12}" for one in counts), experiment.title]
            )
        )
        notes += [run.status.note for plan in plans for run in plan.of(State.UNUSABLE)]
    for note in dict.fromkeys(notes):
        print(f"unusable: {note}")


def _show(plan: Plan, disk: str, say: Callable[[str], None]) -> None:
    """Prints what will be done."""
    experiment, scale = plan.experiment, plan.scale
    say(f"{experiment.name} of {plan.paper.title}: {experiment.title}")
    if experiment.note:
        say(f"  note: {experiment.note}")
    say(f"scale {scale.name}: {scale.title}")
    for change in dict.fromkeys(change for run in plan.runs for change in run.changes):
        everywhere = all(change in run.changes for run in plan.runs)
        say(f"  {change}{'' if everywhere else ' (not in all settings)'}")
    width = max(len(setting) for setting in experiment.settings)
    say(f"{'setting':{width}}  " + "  ".join(f"{state:>8}" for state in State))
    for setting in dict.fromkeys(run.run.setting for run in plan.runs):
        counts = (sum(run.run.setting == setting for run in plan.of(state)) for state in State)
        say(f"{setting:{width}}  " + "  ".join(f"{count:8}" for count in counts))
    for run in plan.of(State.UNUSABLE):
        say(f"unusable: {run.status.note}")
    if plan.to_do:
        time = (
            "the time is not known (the budget is in steps, and no run of this scale says how "
            "fast it is)"
            if plan.minutes is None
            else f"about {duration(plan.minutes)}, one after the other"
        )
        say(f"{len(plan.to_do)} of {len(plan.runs)} runs to do: {time}; {disk}")
    else:
        finished = len(plan.of(State.FINISHED))
        say(f"{finished} of {len(plan.runs)} runs are finished: nothing to do")


def _carry_out(plan: Plan) -> int:
    """Runs what is left and returns the exit code."""
    stop = StopRequest().install()
    failures = execute(plan, stop, _say)
    finished = sum(run.look().state is State.FINISHED for run in plan.runs)
    _say(
        f"{finished} of {len(plan.runs)} runs are finished; with --keep the same command copies "
        "them to results/runs"
    )
    for failure in failures:
        _say(f"failed: {failure.run.name}: {failure.reason}")
    if stop.requested:
        _say("stopped; the same command goes on")
        return stop.exit_code
    return 1 if failures else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Lists, prints commands, keeps, or runs; returns the exit code."""
    arguments = _arguments(argv)
    roots = [arguments.runs, _KEPT]
    try:
        paper = registry.paper(arguments.paper)
        name = _name(arguments)
        if name is None:
            _list(paper, roots)
            return 0
        experiment = paper.experiment(name)
        if obstacle := paper.obstacle(experiment):
            fail(f"{obstacle} ({name} of {paper.title})")
        plan = make_plan(
            paper,
            experiment,
            paper.scale(arguments.scale or DEFAULT_SCALE),
            roots,
            arguments.tasks,
            arguments.settings,
            arguments.seeds,
        )
        if arguments.keep:
            kept = keep.keep(plan, _KEPT)
            print(
                f"{len(kept)} runs copied to {_KEPT}, "
                f"{len(plan.of(State.FINISHED)) - len(kept)} were there"
            )
            return 0
    except UnknownError as error:
        fail(str(error))
    disk, problem = disk_line(plan, arguments.runs), ""
    try:
        check_disk(plan, arguments.runs)
    except PlanError as error:
        problem = str(error)
    if arguments.dry_run:
        _show(plan, disk, lambda line: print(f"# {line}"))
        if problem:
            print(f"# warning: {problem}")
        for run in plan.to_do:
            print(shlex.join(run.command))
        return 0
    if problem:
        fail(problem)
    _show(plan, disk, _say)
    return _carry_out(plan) if plan.to_do else int(bool(plan.of(State.UNUSABLE)))


if __name__ == "__main__":
    try:
        exit_with(main)
    except KeyboardInterrupt:
        fail("interrupted")
