r"""Makes the runs of a paper's figure or table, of a list of such runs, of a sweep or a search.

    python -m binaries.experiment --paper=d4pg                        # all experiments, their runs
    python -m binaries.experiment --paper=d4pg --figure=2 --scale=smoke --dry_run
    python -m binaries.experiment --paper=d4pg --figure=2 --tasks cartpole:swingup --seeds 1
    python -m binaries.experiment --paper=d4pg --figure=2 --keep      # in results/runs
    python -m binaries.experiment --paper=d4pg --figure=2 --vary config.learning_rate=1e-4,3e-4
    python -m binaries.experiment --agent=apex_dqn --tasks atari:pong --vary config.n_step=1,3
    python -m binaries.experiment --agent=d4pg --tasks gym:Pendulum-v1 --jobs=4 \
        --search=optuna --trials=50 --vary config.learning_rate config.n_step=1,3,5
    python -m binaries.experiment --paper=d4pg --figure=2 --scale=paper --emit=slurm > runs.sbatch
    python -m binaries.experiment --list=results/campaign.csv         # for days, next to other work
    python -m binaries.experiment --list=results/campaign.csv --status

Shows the plan, then makes missing runs and resumes interrupted runs. Finished runs, in --runs or
--kept, are not made again. Ctrl-C stops the current runs cleanly; the same command resumes them. A
run that fails does not end the others and is named at the end.

Runs are made one after the other on all cores. With --jobs=N, N runs at once share the cores
evenly; --emit prints an array job of Slurm with a task for each run. Runs of a list are kept as
soon as they are finished; docs/campaign.md describes lists. With --vary, a figure of the sweep is
drawn at the end, and a table is written, best values first. With --search, the search chooses
values of the flags in --vary: config.learning_rate alone (the range of the hyperparameter),
config.learning_rate=1e-5..1e-3, or config.n_step=1,3,5.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import pathlib
import shlex
import tomllib
from typing import TYPE_CHECKING

from common.cluster.layout import imported
from common.cluster.processes import StopRequest, usable_cores
from common.evidence.paper import (
    DEFAULT_SCALE,
    DEFAULT_SEEDS,
    EARLIER,
    PAPER_SCALE,
    RESULTS,
    Paper,
    run_folder,
)
from common.reporting.command_line import Parser, exit_with, fail, say
from common.reporting.run_directory import hold
from common.user_error import UserError
import reproductions

if TYPE_CHECKING:  # they import pandas, which takes seconds: functions import what they use
    from common.evidence.execute import ListedRuns, Slot
    from common.evidence.plan import Plan, PlannedRun
    from common.evidence.runs import KeptRuns

_KINDS = ("figure", "table", "section")
_LIST_CORES = 2
_LIST_ATTEMPTS = 2
_TRIALS = 50


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    scales = [PAPER_SCALE.name]
    for paper in reproductions.PAPERS:
        file = pathlib.Path(reproductions.__file__).parent / paper / "figures.toml"
        scales += tomllib.loads(file.read_text())["scales"]
    parser = Parser(prog="python -m binaries.experiment", description=__doc__)
    of = parser.add_mutually_exclusive_group(required=True)
    of.add_argument("--paper", choices=reproductions.PAPERS)
    words = "with --vary: an agent instead of a paper's figure, on any --tasks (full names)"
    of.add_argument("--agent", choices=reproductions.AGENTS, help=words)
    of.add_argument("--list", type=pathlib.Path, metavar="FILE", help="the runs in this CSV file")
    which = parser.add_mutually_exclusive_group()
    for kind in _KINDS:
        which.add_argument(f"--{kind}", metavar="N", help=f"the paper's {kind} N")
    for name, words in (
        ("task", "only these environments, with or without their suite"),
        ("setting", "only these curves"),
    ):
        parser.add_argument(f"--{name}s", nargs="+", metavar=name.upper(), help=words)
    words = "make each run with each combination of values of flags: config.learning_rate=1e-4,3e-4"
    parser.add_argument("--vary", nargs="+", metavar="NAME=VALUES", help=words)
    words = "search for the best values of the flags in --vary, on a single task and setting"
    parser.add_argument("--search", choices=("optuna",), help=words)
    words = "runs of the search, including those of earlier starts; default 50"
    parser.add_argument("--trials", type=int, metavar="N", help=words)
    words = f"seeds 0 to N - 1; default: the paper's number, or {DEFAULT_SEEDS} if it gives none"
    parser.add_argument("--seeds", type=int, metavar="N", help=words)
    words = f"size of the runs: {', '.join(dict.fromkeys(scales))}; default {DEFAULT_SCALE}. "
    words += "--status lists its changes"
    parser.add_argument("--scale", metavar="NAME", help=words)
    words = (
        "runs at once, which share the cores evenly; default: 1, or with --cores one for each core"
    )
    parser.add_argument("--jobs", type=int, metavar="N", help=words)
    words = f"cores to use; default: all, or {_LIST_CORES} for a list"
    parser.add_argument("--cores", type=int, metavar="N", help=words)
    words = "directory with files of start states, such as atari-pong.json for atari:pong, from "
    words += "which runs are also evaluated at their end (see --starts of an agent's program)"
    parser.add_argument("--starts", type=pathlib.Path, metavar="DIR", help=words)
    for flag, default, words in (
        ("--runs", pathlib.Path("runs/experiments"), "of the run directories"),
        ("--kept", RESULTS / "runs", "of the tables of kept runs"),
    ):
        words = f"directory {words}; default {default}"
        parser.add_argument(flag, type=pathlib.Path, metavar="DIR", default=default, help=words)
    instead = parser.add_mutually_exclusive_group()
    for flag, words in (
        ("--status", "show the states of the runs"),
        ("--dry_run", "show the states of the runs, and print the commands of the runs to do"),
        ("--keep", "add finished runs to --kept, the source of figures, tables and verdicts"),
        ("--set_aside", "move kept runs to the scale SCALE_earlier, so that new ones can be kept"),
    ):
        instead.add_argument(flag, action="store_true", help=f"start nothing, {words}")
    words = "start nothing, print a script for sbatch: an array job with a task for each run to do"
    instead.add_argument("--emit", choices=("slurm",), help=words)
    arguments = parser.parse_args(argv)
    _check(arguments)
    return arguments


def _check(arguments: argparse.Namespace) -> None:
    """Ends the program if the arguments cannot be combined."""
    chosen = [f"{kind} {getattr(arguments, kind)}" for kind in _KINDS if getattr(arguments, kind)]
    arguments.experiment = next(iter(chosen), "")
    for name in ("seeds", "jobs", "cores"):
        if (number := getattr(arguments, name)) is not None and number < 1:
            fail(f"--{name} must be at least 1, is {number}")
    if arguments.experiment and not arguments.paper:
        fail("--figure, --table and --section need a --paper")
    if not (arguments.experiment or arguments.agent):
        for name in ("tasks", "settings", "seeds", "scale"):
            if getattr(arguments, name) is not None:
                fail(f"--{name} needs --figure, --table or --section of the --paper, or --agent")
        if (arguments.dry_run or arguments.emit) and not arguments.list:
            fail("--dry_run and --emit need --figure, --table or --section, --agent or --list")
    if arguments.agent and not (arguments.vary and arguments.tasks):
        fail("--agent needs --vary and --tasks (see --help)")
    if arguments.vary and not (arguments.agent or arguments.experiment):
        fail("--vary needs --figure, --table or --section of the --paper, or --agent and --tasks")
    if arguments.vary and (arguments.keep or arguments.set_aside):
        fail("--keep and --set_aside do not apply to --vary: sweeps stay in --runs")
    if (arguments.keep or arguments.set_aside) and not arguments.experiment:
        fail("--keep and --set_aside need --figure, --table or --section")
    if arguments.search and not (arguments.vary and arguments.tasks):
        fail("--search needs --vary, with the flags to search, and --tasks")
    if arguments.search and (arguments.status or arguments.dry_run or arguments.emit):
        fail("--status, --dry_run and --emit do not apply to --search, which has no fixed runs")
    if arguments.search and (arguments.seeds or 1) > 1:
        fail("--seeds does not apply to --search, whose runs have seed 0")
    if arguments.trials is not None and not (arguments.search and arguments.trials > 0):
        fail("--trials needs --search, and must be at least 1")
    if arguments.starts and (arguments.search or not arguments.experiment):
        fail("--starts needs --figure, --table or --section, without --search")
    if not arguments.runs.is_dir() and (arguments.keep or arguments.runs.exists()):
        fail(f"--runs={arguments.runs} is not a directory")


def _list(paper: Paper, runs: pathlib.Path, kept: "KeptRuns") -> None:
    """Prints every experiment with the numbers of its runs at each scale."""
    from common.evidence.plan import State, make_plan

    counted = (State.FINISHED, State.CUT, State.MISSING)
    print(f"{paper.title}, {paper.citation}: runs finished/cut/missing at each scale")
    print("  ".join([" " * 12, *(f"{scale.name:>12}" for scale in paper.scales)]))
    notes = []
    for experiment in paper.experiments:
        if experiment.unavailable:
            print(f"{experiment.name:12}  {experiment.title}: {experiment.unavailable}")
            continue
        plans = [make_plan(paper, experiment, scale, runs, kept) for scale in paper.scales]
        counts = ["/".join(str(len(plan.of(state))) for state in counted) for plan in plans]
        columns = [f"{experiment.name:12}", *map("{:>12}".format, counts), experiment.title]
        print("  ".join(columns))
        notes += [run.status.note for plan in plans for run in plan.of(State.UNUSABLE)]
    for note in dict.fromkeys(notes):
        print(f"unusable: {note}")


def _base(paper: Paper, arguments: argparse.Namespace, kept: "KeptRuns") -> "Plan":
    """Returns the plan of a figure or an agent, whose runs a sweep varies."""
    from common.evidence.plan import make_plan
    from common.evidence.sweep import of_agent

    scale = paper.scale(DEFAULT_SCALE if arguments.scale is None else arguments.scale)
    if arguments.agent:
        agent = imported(reproductions.AGENTS[arguments.agent])
        base = of_agent(agent, arguments.settings or (), arguments.tasks, scale)
        num_seeds = arguments.seeds or DEFAULT_SEEDS
        return make_plan(paper, base, scale, arguments.runs, num_seeds=num_seeds)
    base = paper.experiment(arguments.experiment)
    for experiment in (base, base.at(scale.name)):
        if experiment.unavailable:
            fail(f"{experiment.unavailable} ({experiment.name} of {paper.title})")
    choice = (arguments.tasks, arguments.settings, arguments.seeds)
    return make_plan(paper, base, scale, arguments.runs, kept, *choice)


def _plan(paper: Paper, arguments: argparse.Namespace, kept: "KeptRuns") -> "Plan":
    """Returns the plan of a figure, or of a sweep of a figure or an agent."""
    from common.evidence.sweep import parse_varied

    plan = _base(paper, arguments, kept)
    if arguments.vary:
        plan = _swept(plan, parse_varied(arguments.vary), arguments.runs)
    return _started(plan, arguments.starts) if arguments.starts else plan


def _started(plan: "Plan", directory: pathlib.Path) -> "Plan":
    """Returns the plan with flags for the files of start states that a directory has."""
    files = {path.stem: path for path in directory.glob("*.json")}
    runs = []
    for planned in plan.runs:
        path = files.get(run_folder(planned.run.environment))
        flags = (f"--starts={path}",) if path else ()
        runs.append(dataclasses.replace(planned, flags=(*planned.flags, *flags)))
    if tuple(runs) == plan.runs:
        fail(f"--starts={directory} has no file for these runs, such as atari-pong.json")
    return dataclasses.replace(plan, runs=tuple(runs))


def _swept(
    plan: "Plan",
    varied: Mapping[str, Sequence[str]],
    runs: pathlib.Path,
    num_seeds: int | None = None,
) -> "Plan":
    """Returns the plan of a sweep over the runs of a plan."""
    from common.evidence.plan import make_plan
    from common.evidence.sweep import sweep

    chosen = tuple(dict.fromkeys(planned.run for planned in plan.runs))
    experiment = sweep(dataclasses.replace(plan.experiment, runs=chosen), varied)
    num_seeds = num_seeds or len({planned.seed for planned in plan.runs})
    return make_plan(plan.paper, experiment, plan.scale, runs, num_seeds=num_seeds)


def _described(plan: "Plan") -> Iterator[str]:
    """Yields a plan's title, the changes of its scale, and the states of its runs, as lines."""
    from common.evidence.execute import table
    from common.evidence.plan import State

    experiment, scale = plan.experiment, plan.scale
    yield f"{experiment.name} of {plan.paper.title}: {experiment.title}"
    yield from [f"  note: {experiment.note}"] * bool(experiment.note)
    yield f"scale {scale.name}: {scale.title}"
    for change in dict.fromkeys(change for run in plan.runs for change in run.changes):
        everywhere = all(change in run.changes for run in plan.runs)
        yield f"  {change}{'' if everywhere else ' (not in all settings)'}"
    rows: dict[str, list[PlannedRun]] = {}
    for planned in plan.runs:
        rows.setdefault(planned.run.setting, []).append(planned)
    yield from table([(setting, runs, "") for setting, runs in rows.items()])
    for planned in plan.of(State.RUNNING, State.UNUSABLE):
        yield f"{planned.status.state}: {planned.status.note}"
    if scale.name == PAPER_SCALE.name and len(plan.to_do) > 1:
        yield "  note: these runs take too long one by one: --emit=slurm prints an array job"


def _show(lines: Iterable[str], plans: "Iterable[Plan]", arguments: argparse.Namespace) -> int:
    """Prints lines on plans, and with --dry_run the commands of the runs to do."""
    for line in lines:
        print(f"{'# ' * arguments.dry_run}{line}")
    for planned in [run for plan in plans for run in plan.to_do] if arguments.dry_run else ():
        print(shlex.join(planned.command))
    return 0


def _emit(plans: "Iterable[Plan]", name: str, arguments: argparse.Namespace) -> int:
    """Prints the script of an array job with a task for each run to do."""
    from common.program.slurm import array_script

    commands = {run.directory: run.command for plan in plans for run in plan.to_do}
    if not commands:
        fail("there are no runs to do")
    print(array_script([*commands.values()], name.replace(" ", "_"), arguments.jobs), end="")
    say(f"{len(commands)} runs; --status instead of --emit shows their progress")
    return 0


def _slots(arguments: argparse.Namespace) -> "tuple[Slot, ...]":
    """Returns the slots of the runs that are made at once."""
    from common.evidence.execute import slots_of

    cores = arguments.cores
    if arguments.list and not cores:
        cores = min(_LIST_CORES, usable_cores())
    return slots_of(cores, arguments.jobs) if cores or arguments.jobs else (None,)


def _make(lines: "Sequence[ListedRuns]", arguments: argparse.Namespace) -> int:
    """Makes the runs to do, says how many are finished, and returns the exit code."""
    from common.evidence.execute import Session

    is_list = bool(arguments.list)
    with contextlib.ExitStack() as stack:
        if is_list:
            arguments.runs.mkdir(parents=True, exist_ok=True)
            lock = arguments.runs / ".lock"
            stack.enter_context(hold(lock, "campaign", arguments.runs, "--runs"))
        stop = StopRequest().install()
        kept, attempts = (arguments.kept, _LIST_ATTEMPTS) if is_list else (None, 1)
        session = stack.enter_context(Session(lines, _slots(arguments), attempts, kept))
        problems = session.execute(stop)
    for line in (session.result, *problems):
        say(line)
    return _code(stop, 1 if problems else 0)


def _code(stop: StopRequest, otherwise: int) -> int:
    if stop.requested:
        say("stopped; the same command continues")
    return stop.exit_code if stop.requested else otherwise


def _search(plan: "Plan", arguments: argparse.Namespace) -> int:
    """Searches for values of the flags in --vary for the single run of a plan."""
    from common.evidence import search
    from common.evidence.sweep import require_flags, write_table

    runs = {planned.run for planned in plan.runs}
    if len(runs) != 1:
        fail(f"--search needs one task and setting, not {len(runs)}: give --tasks and --settings")
    (run,) = runs
    settings = run.agent.settings
    config = settings.configuration(run.agent_setting or settings.default)
    tried = search.ranges(arguments.vary, config)
    require_flags(run, tried)
    folder = arguments.runs / plan.paper.name / plan.scale.name
    names = ["search", run.setting, run_folder(run.environment), *tried]
    stem = folder / "_".join(names).replace("config.", "")
    stop = StopRequest().install()
    rows = search.run(
        lambda values: _swept(
            plan, {name: (value,) for name, value in values.items()}, arguments.runs, num_seeds=1
        ),
        tried,
        arguments.trials or _TRIALS,
        _slots(arguments),
        stem.with_name(stem.name + ".sqlite"),
        stop,
    )
    if rows:
        print(*write_table(rows, stem), sep="\n")
    return _code(stop, 0 if rows else 1)


def main(argv: list[str] | None = None) -> int:
    """Lists, shows, keeps or makes runs; returns the exit code."""
    arguments = _arguments(argv)
    from common.evidence import sweep
    from common.evidence.execute import ListedRuns, read_list, table
    from common.evidence.keep import keep, set_aside
    from common.evidence.plan import State
    from common.evidence.runs import KeptRuns

    kept = KeptRuns(arguments.kept)
    if arguments.list:
        lines, notes = read_list(arguments.list, arguments.runs, kept, reproductions.paper)
        for note in notes:
            say(note)
        if arguments.emit:
            return _emit([line.plan for line in lines], arguments.list.stem, arguments)
        if arguments.status or arguments.dry_run:
            rows = table([(line.name, line.plan.runs, " ".join(line.claims)) for line in lines])
            return _show(rows, [line.plan for line in lines], arguments)
        return _make(lines, arguments)
    name = arguments.paper or imported(reproductions.AGENTS[arguments.agent]).paper
    paper = reproductions.paper(name)
    if not (arguments.experiment or arguments.agent):
        _list(paper, arguments.runs, kept)
        return 0
    if arguments.search:
        return _search(_base(paper, arguments, kept), arguments)
    plan = _plan(paper, arguments, kept)
    if arguments.emit:
        return _emit([plan], f"{paper.name} {plan.experiment.name} {plan.scale.name}", arguments)
    if arguments.keep:
        added = len(keep(plan, arguments.kept))
        print(f"{added} runs added, {len(plan.of(State.FINISHED)) - added} were already kept")
    elif arguments.set_aside:
        moved = set_aside(plan, arguments.kept)
        scales = sorted({*moved.values()}) or [plan.scale.name + EARLIER]
        print(f"{len(moved)} runs moved to the scale {' and '.join(scales)}")
    elif arguments.status or arguments.dry_run:
        _show(_described(plan), [plan], arguments)
    else:
        for line in _described(plan):
            say(line)
        code = _make([ListedRuns("", plan)], arguments)
        if code == 0 and arguments.vary:
            names = sweep.parse_varied(arguments.vary)
            print(*sweep.show(_plan(paper, arguments, kept), [*names], arguments.runs), sep="\n")
        return code
    return 0


if __name__ == "__main__":
    exit_with(main, (UserError, OSError))
