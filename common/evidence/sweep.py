"""Sweeps: every run of an experiment or an agent with every combination of values of some flags."""

import ast
from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import itertools
import math
import pathlib
import re
import tempfile

import pandas

from common.agents.declaration import AgentDeclaration
from common.config import near_names
from common.evidence import figures, selection
from common.evidence.effects import interval, late_mean
from common.evidence.keep import keep
from common.evidence.paper import Experiment, Run, Scale, flag_name, flag_values
from common.evidence.plan import Plan
from common.evidence.runs import KeptRuns, frame
from common.evidence.tables import markdown_table
from common.program import flags as flags_lib
from common.reporting.budget import Budget
from common.reporting.records import replace_file
from common.user_error import UserError

_PREFIX = "config."
_COMMA = re.compile(r",(?![^(\[{]*[)\]}])")  # outside of brackets
_KEYS = ["setting", "task", "seed"]


class SweepError(UserError):
    """A sweep that is impossible; the message is one line that names the flag."""


def parse_varied(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parses texts such as "config.learning_rate=1e-4,3e-4" into the values of each flag.

    Raises:
      SweepError: a text has another form, or two texts name the same flag.
    """
    varied: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, _, values = text.removeprefix("--").partition("=")
        varied_values = values_of(values)
        if not name or not all(varied_values) or name in varied:
            raise SweepError(
                f"--vary {text}: give each flag once with its values, as in "
                "config.learning_rate=1e-4,3e-4"
            )
        varied[name] = varied_values
    return varied


def values_of(text: str) -> tuple[str, ...]:
    """Returns the distinct values in a text such as "1e-4,3e-4" or "(64,),(64,64)"."""
    return tuple(dict.fromkeys(_COMMA.split(text)))


def of_agent(
    agent: AgentDeclaration, settings: Sequence[str], environments: Sequence[str], scale: Scale
) -> Experiment:
    """Returns an experiment with one agent, independent of any paper's.

    Args:
      agent: the agent to run.
      settings: names of the agent's settings; empty: its default.
      environments: names of any environments.
      scale: the scale of the runs. Its limits determine the horizontal axis.

    Raises:
      SweepError: the agent has no such setting, or the scale has no budget of its own.
    """
    for setting in settings:
        if setting not in agent.settings.names:
            known = ", ".join(agent.settings.names)
            raise SweepError(f'{agent.name} has no setting "{setting}": there are {known}')
    budget = scale.budget
    if budget is None:
        raise SweepError(
            f"the scale {scale.name} has no limits of its own, only those of the figures: give "
            "another --scale"
        )
    return Experiment(
        "sweep",
        agent.title,
        tuple(
            Run(agent, setting, environment, (f"--setting={setting}",))
            for setting in settings or [agent.settings.default]
            for environment in environments
        ),
        budget=Budget(),
        states_budget=False,
        x=budget.clock,
    )


def sweep(experiment: Experiment, varied: Mapping[str, Sequence[str]]) -> Experiment:
    """Returns an experiment of every run with every combination of values, a panel for each task.

    Args:
      experiment: the experiment, with its runs at the scale.
      varied: values by flag, as `parse_varied` returns them.

    Raises:
      UserError: a run's agent has no such flag, a value is not allowed, or the agent cannot act in
        the environment.
    """
    runs = []
    for values in itertools.product(*varied.values()):
        chosen = dict(zip(varied, values))
        for run in experiment.runs:
            _check(run, chosen)
            runs.append(_varied(run, chosen))
    names = [name.removeprefix(_PREFIX) for name in varied]
    return Experiment(
        f"sweep {' '.join(names)}",
        f"{experiment.title}, by {' and '.join(names)}",
        tuple(runs),
        budget=experiment.budget,
        states_budget=experiment.states_budget,
        x=experiment.x or "wall_seconds",
    )


def _varied(run: Run, chosen: Mapping[str, str]) -> Run:
    """Returns a run with these values of flags, which its setting's name then includes."""
    kept = tuple(flag for flag in run.flags if flag_name(flag) not in chosen)
    flags = tuple(f"--{name}={value}" for name, value in chosen.items())
    setting = run.setting + suffix_of(chosen)
    return dataclasses.replace(run, setting=setting, flags=(*kept, *flags))


def suffix_of(chosen: Mapping[str, str]) -> str:
    """Returns the suffix of a setting's name for these values of flags."""
    return "".join(
        f"_{name.removeprefix(_PREFIX)}_{re.sub(r'[^A-Za-z0-9.+-]+', '_', value).strip('_')}"
        for name, value in chosen.items()
    )


def require_flags(run: Run, chosen: Iterable[str]) -> None:
    """Raises SweepError unless the run's agent has flags of these names that may vary."""
    actors = run.agent.num_actors_flag
    fields = dataclasses.fields(run.agent.settings.config_class)
    names = [f"{_PREFIX}{field.name}" for field in fields]
    known = [*names, *flags_lib.variable(run.agent), actors]
    for name in {*chosen} - {*known}:
        plain = [flag.removeprefix(_PREFIX) for flag in known]
        meant = near_names(name.removeprefix(_PREFIX), plain, 3)
        near = [known[plain.index(flag)] for flag in meant]
        meant = f": did you mean {' or '.join(near)}?" if near else ""
        raise SweepError(
            f"--vary {name}: {run.agent.name} has no such flag to vary{meant} (--tasks, --seeds "
            "and --scale choose environment and its arguments, seeds and limits)"
        )


def _check(run: Run, chosen: Mapping[str, str]) -> None:
    """Raises UserError unless the run's agent accepts the values and can act in its environment."""
    require_flags(run, chosen)
    settings, others = run.agent.settings, flags_lib.variable(run.agent)
    config = settings.configuration(run.agent_setting or settings.default)
    values = flag_values(run.flags) | chosen
    fields = [name for name in values if name.startswith(_PREFIX)]
    changes = {name.removeprefix(_PREFIX): _value(values[name]) for name in fields}
    try:
        for name in chosen.keys() & others.keys():
            others[name].parser.parse(chosen[name])
        config = dataclasses.replace(config, **changes)
    except (ValueError, TypeError) as error:
        raise SweepError(f"--vary: {error}") from None
    run.agent.require_environment(config, run.environment)


def _value(text: str) -> object:
    """Returns the value that a flag's text represents."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def show(plan: Plan, names: Sequence[str], directory: pathlib.Path) -> list[pathlib.Path]:
    """Draws the figure of a finished sweep and writes its table, best first; returns the files.

    Args:
      plan: the plan of the sweep, whose runs are finished.
      names: names of the flags that it varies.
      directory: the directory for the files.
    """
    paper, scale = plan.paper, plan.scale.name
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        keep(plan, root)
        kept = KeptRuns(root)
        files = figures.draw(paper, plan.experiment, scale, kept.of(paper.name, scale), directory)
        values = frame(paper.name, scale, kept)
    stem = directory / selection.file_name(paper.name, plan.experiment.name, scale)
    return [*files, *write_table(ranking(plan, names, values), stem)]


def write_table(rows: Sequence[Mapping[str, object]], stem: pathlib.Path) -> list[pathlib.Path]:
    """Writes rows with the same keys as STEM.md and STEM.csv; returns the two files."""
    header = [name.removeprefix(_PREFIX) for name in rows[0]]
    table, plain = (stem.with_name(stem.name + suffix) for suffix in (".md", ".csv"))
    shown = [[_shown(cell) for cell in row.values()] for row in rows]
    replace_file(table, markdown_table(header, shown) + "\n")
    replace_file(plain, pandas.DataFrame(rows).to_csv(index=False))
    return [table, plain]


def ranking(plan: Plan, names: Sequence[str], values: pandas.DataFrame) -> list[dict[str, object]]:
    """Returns a row for each setting and task of a sweep, the highest late mean of a task first.

    Args:
      plan: the plan of the sweep.
      names: names of the flags that it varies.
      values: the evaluations of its runs, as `common.evidence.runs.frame` returns them.

    Returns:
      task, setting, the flags' values, `late_mean` as a mean over seeds, the ends `low` and `high`
      of its interval, NaN with one seed, and the number of seeds.
    """
    chosen = {}
    for planned in plan.runs:
        flags = flag_values(planned.run.flags)
        chosen[planned.run.setting] = {name: flags[name] for name in names}
    late = values.groupby(_KEYS)[["x", "value"]].apply(late_mean)
    rows = []
    for (setting, task), seeds in late.groupby(level=_KEYS[:2]):
        mean = float(seeds.mean())
        low, high = interval(mean, seeds.sem(), len(seeds) - 1)
        base = setting.removesuffix(suffix_of(chosen[setting]))
        row = {"task": task, "setting": base, **chosen[setting], "late_mean": mean}
        rows.append({**row, "low": low, "high": high, "seeds": len(seeds)})
    return sorted(rows, key=lambda row: (row["task"], -row["late_mean"]))


def _shown(cell: object) -> str:
    """Returns a cell of the Markdown table: floats have four significant digits, NaN is empty."""
    if not isinstance(cell, float):
        return str(cell)
    return "" if math.isnan(cell) else f"{cell:.4g}"
