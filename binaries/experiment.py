"""Makes the runs of a paper's figure or table.

    python -m binaries.experiment --paper=d4pg                        # all of them, and their state
    python -m binaries.experiment --paper=d4pg --figure=2 --scale=smoke --dry_run
    python -m binaries.experiment --paper=d4pg --figure=2 --tasks cartpole:swingup --seeds 1
    python -m binaries.experiment --paper=d4pg --figure=2 --keep      # for results/runs
    python -m binaries.experiment --paper=d4pg --figure=2 --vary config.learning_rate=1e-4,3e-4
    python -m binaries.experiment --agent=apex_dqn --tasks atari:pong --vary config.n_step=1,3

Shows the plan, then makes missing runs and resumes cut ones, one run after the other. Finished
runs, here or in results/runs, are left alone. Ctrl-C ends the current run in order; the same
command resumes it. A run that fails does not end the others and is named at the end. With --vary,
a figure of the sweep is drawn at the end.
"""

import argparse
from collections.abc import Callable
import dataclasses
import pathlib
import shlex

from common.cluster.layout import imported
from common.cluster.processes import StopRequest
from common.experiments import sweep
from common.experiments.execute import Observer, execute
from common.experiments.keep import keep
from common.experiments.paper import DEFAULT_SEEDS, RESULTS, Experiment, Paper
from common.experiments.plan import DEFAULT_SCALE, Plan, PlannedRun, make_plan
from common.experiments.scales import Scale
from common.experiments.status import State
from common.reporting.budget import duration
from common.reporting.command_line import Parser, exit_with, fail, say
from common.reporting.user_error import UserError
import reproductions

_KEPT = RESULTS / "runs"
_COUNTED = (State.FINISHED, State.CUT, State.MISSING)
_KINDS = ("figure", "table", "section")


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    scales: dict[str, list[str]] = {}
    for paper in reproductions.papers():
        for scale in paper.scales:
            scales.setdefault(scale.name, []).append(paper.name)
    names = ", ".join(f"{scale} ({', '.join(papers)})" for scale, papers in scales.items())
    parser = Parser(prog="python -m binaries.experiment", description=__doc__)
    parser.add_argument("--paper", choices=reproductions.PAPERS)
    parser.add_argument(
        "--agent",
        choices=reproductions.AGENTS,
        help="with --vary, in the place of --paper: an agent alone, on any --tasks (full names)",
    )
    which = parser.add_mutually_exclusive_group()
    for kind in _KINDS:
        which.add_argument(f"--{kind}", metavar="N", help=f"the paper's {kind} N")
    parser.add_argument(
        "--tasks",
        nargs="+",
        metavar="TASK",
        help="only these environments, with or without their suite",
    )
    parser.add_argument("--settings", nargs="+", metavar="SETTING", help="only these curves")
    parser.add_argument(
        "--vary",
        nargs="+",
        metavar="NAME=VALUES",
        help="make each run with each combination of these values of hyperparameters, or of the "
        "number of actors: config.learning_rate=1e-4,3e-4",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        metavar="N",
        help="seeds 0 to N - 1; default: as many as the paper has, 3 if it does not say",
    )
    parser.add_argument(
        "--scale",
        metavar="NAME",
        default=DEFAULT_SCALE,
        help=f"size of the runs: {names}; default {DEFAULT_SCALE}. The plan and each run's "
        "run.json say what it changes from the paper",
    )
    parser.add_argument(
        "--runs",
        type=pathlib.Path,
        metavar="DIR",
        default=pathlib.Path("runs/experiments"),
        help="directory of the run directories; default runs/experiments",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--dry_run", action="store_true", help="start nothing, print the commands")
    instead.add_argument(
        "--keep",
        action="store_true",
        help="start nothing, copy CSV and JSON files of finished runs to results/runs, where "
        "figures, tables and claims look",
    )
    arguments = parser.parse_args(argv)
    if arguments.seeds is not None and arguments.seeds < 1:
        fail(f"--seeds must be at least 1, is {arguments.seeds}")
    has_figure = any(getattr(arguments, kind) for kind in _KINDS)
    if (arguments.paper is None) == (arguments.agent is None):
        fail("give --paper, or --agent with --vary and --tasks (see --help)")
    if arguments.agent and (has_figure or not arguments.vary or not arguments.tasks):
        fail("--agent needs --vary and --tasks, and no figure (see --help)")
    if arguments.paper and arguments.vary and not has_figure:
        fail("--vary needs --figure, --table or --section of the --paper, or --agent and --tasks")
    if arguments.vary and arguments.keep:
        fail("--keep is for the runs of papers' figures: sweeps stay in --runs")
    if not arguments.runs.is_dir() and (arguments.keep or arguments.runs.exists()):
        fail(f"--runs={arguments.runs} is no directory")
    return arguments


def _list(paper: Paper, roots: list[pathlib.Path]) -> None:
    """Prints every experiment with the numbers of its runs at each scale."""
    print(f"{paper.title}, {paper.citation}: runs finished/cut/missing at each scale")
    print("  ".join([" " * 12, *(f"{scale.name:>12}" for scale in paper.scales)]))
    notes = []
    for experiment in paper.experiments:
        if experiment.unavailable:
            print(f"{experiment.name:12}  {experiment.title}: {experiment.unavailable}")
            continue
        plans = [make_plan(paper, experiment, scale, roots) for scale in paper.scales]
        counts = ["/".join(str(len(plan.of(state))) for state in _COUNTED) for plan in plans]
        columns = [f"{experiment.name:12}", *(f"{one:>12}" for one in counts), experiment.title]
        print("  ".join(columns))
        notes += [run.status.note for plan in plans for run in plan.of(State.UNUSABLE)]
    for note in dict.fromkeys(notes):
        print(f"unusable: {note}")


def _check(paper: Paper, experiment: Experiment) -> None:
    """Ends the program if an experiment cannot be run."""
    if experiment.unavailable:
        fail(f"{experiment.unavailable} ({experiment.name} of {paper.title})")


def _show(plan: Plan, say: Callable[[str], None]) -> None:
    """Says what will be done."""
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
    for run in plan.of(State.RUNNING, State.UNUSABLE):
        say(f"{run.status.state}: {run.status.note}")
    if not plan.to_do:
        finished = len(plan.of(State.FINISHED))
        say(f"{finished} of {len(plan.runs)} runs are finished: nothing to do")
    elif plan.minutes is None:
        say(
            f"{len(plan.to_do)} of {len(plan.runs)} runs to do, in unknown time: the budget is in "
            "steps, and no run of this scale shows their speed"
        )
    else:
        time = duration(plan.minutes)
        say(f"{len(plan.to_do)} of {len(plan.runs)} runs to do, in about {time} one by one")


def _carry_out(plan: Plan, hint: str) -> int:
    """Makes the runs to do, says how many are finished, and returns the exit code."""
    stop = StopRequest().install()
    runs = [run for run in plan.runs if run.status.state is not State.FINISHED]
    failures = execute(runs, stop, _Lines(len(plan.to_do)))
    finished = sum(run.read_status().state is State.FINISHED for run in plan.runs)
    say(f"{finished} of {len(plan.runs)} runs are finished{hint}")
    for failure in failures:
        say(f"failed: {failure.run.name}: {failure.reason}")
    if stop.requested:
        say("stopped; the same command goes on")
        return stop.exit_code
    return 1 if failures else 0


class _Lines(Observer):
    """Prints a line for each run that starts.

    Args:
      total: number of runs to do.
    """

    def __init__(self, total: int):
        self._total = total
        self._begun = 0

    def begins(self, planned: PlannedRun, is_resumed: bool) -> None:
        """See base class."""
        self._begun += 1
        going_on = " goes on" if is_resumed else ""
        say(f"[{self._begun}/{self._total}] {planned.name}{going_on}")


def main(argv: list[str] | None = None) -> int:
    """Lists, prints commands, keeps or makes runs; returns the exit code."""
    arguments = _arguments(argv)
    if arguments.agent:
        return _sweep_agent(arguments)
    roots = [arguments.runs, _KEPT]
    paper = reproductions.paper(arguments.paper)
    chosen = [f"{kind} {getattr(arguments, kind)}" for kind in _KINDS if getattr(arguments, kind)]
    if not chosen:
        _list(paper, roots)
        return 0
    experiment = paper.experiment(chosen[0])
    _check(paper, experiment)
    scale = paper.scale(arguments.scale)
    _check(paper, experiment.at(scale.name))
    plan = make_plan(
        paper, experiment, scale, roots, arguments.tasks, arguments.settings, arguments.seeds
    )
    if arguments.vary:
        runs = tuple(dict.fromkeys(one.run for one in plan.runs))
        base = dataclasses.replace(plan.experiment, runs=runs)
        return _sweep(paper, base, plan.scale, len({one.seed for one in plan.runs}), arguments)
    if arguments.keep:
        kept = keep(plan, _KEPT)
        there = len(plan.of(State.FINISHED)) - len(kept)
        print(f"{len(kept)} runs copied to {_KEPT}, {there} were there")
        return 0
    return _begin(plan, arguments, "; with --keep the same command copies them to results/runs")


def _begin(plan: Plan, arguments: argparse.Namespace, hint: str = "") -> int:
    """Shows the plan and carries it out, or prints its commands; returns the exit code."""
    if arguments.dry_run:
        _show(plan, lambda line: print(f"# {line}"))
        for run in plan.to_do:
            print(shlex.join(run.command))
        return 0
    _show(plan, say)
    if plan.to_do:
        return _carry_out(plan, hint)
    return int(bool(plan.of(State.RUNNING, State.UNUSABLE)))


def _sweep_agent(arguments: argparse.Namespace) -> int:
    """Makes a sweep of an agent on any environments."""
    agent = imported(reproductions.AGENTS[arguments.agent])
    paper = reproductions.paper(agent.paper)
    scale = paper.scale(arguments.scale)
    experiment = sweep.of_agent(agent, arguments.settings or (), arguments.tasks, scale)
    return _sweep(paper, experiment, scale, arguments.seeds or DEFAULT_SEEDS, arguments)


def _sweep(
    paper: Paper, experiment: Experiment, scale: Scale, seeds: int, arguments: argparse.Namespace
) -> int:
    """Makes the runs of an experiment with values that vary, draws them, returns the exit code."""
    varied = sweep.sweep(experiment, sweep.parse(arguments.vary))
    plan = make_plan(paper, varied, scale, [arguments.runs], num_seeds=seeds)
    code = _begin(plan, arguments)
    if code == 0 and not arguments.dry_run:
        from common.experiments import figures
        from common.experiments.runs import KeptRuns

        runs = KeptRuns(arguments.runs).of(paper.name, scale.name)
        print(*figures.draw(paper, varied, scale.name, runs, arguments.runs), sep="\n")
    return code


if __name__ == "__main__":
    exit_with(main, (UserError, OSError))
