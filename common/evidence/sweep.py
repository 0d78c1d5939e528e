"""Sweeps: the runs of an experiment, or of an agent, with hyperparameters that vary."""

import ast
from collections.abc import Mapping, Sequence
import dataclasses
import difflib
import itertools
import re

from common.agents.declaration import AgentDeclaration
from common.evidence.paper import Experiment, Run, Scale, flag_name
from common.reporting.budget import Budget
from common.reporting.user_error import UserError

_PREFIX = "config."
_COMMA = re.compile(r",(?![^(]*\))")  # outside of parentheses


class SweepError(UserError):
    """A sweep that cannot be; the message is one line that names the flag."""


def parse(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Returns the values by flag of texts such as "config.learning_rate=1e-4,3e-4".

    Raises:
      SweepError: a text is no such thing, or names a flag that another one names.
    """
    varied: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, _, values = text.removeprefix("--").partition("=")
        varied_values = tuple(dict.fromkeys(_COMMA.split(values)))
        if not name or not all(varied_values) or name in varied:
            raise SweepError(
                f"--vary {text}: give each flag once with its values, as in "
                "config.learning_rate=1e-4,3e-4"
            )
        varied[name] = varied_values
    return varied


def of_agent(
    agent: AgentDeclaration, settings: Sequence[str], environments: Sequence[str], scale: Scale
) -> Experiment:
    """Returns an experiment of an agent alone, which is in no paper.

    Args:
      agent: to run.
      settings: of the agent; empty: its default.
      environments: any.
      scale: of the runs, whose limits decide what the horizontal axis is.

    Raises:
      SweepError: there is no such setting, or the scale sets no limit.
    """
    for setting in settings:
        if setting not in agent.settings.names:
            known = ", ".join(agent.settings.names)
            raise SweepError(f'{agent.name} has no setting "{setting}": there are {known}')
    budget = scale.budget
    if budget is None:
        raise SweepError(
            f"the scale {scale.name} has the limits of each figure: give another --scale"
        )
    clocks = {"learner_steps": budget.learner_steps, "actor_steps": budget.actor_steps}
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
        x=next((name for name, limit in clocks.items() if limit), "wall_seconds"),
    )


def sweep(experiment: Experiment, varied: Mapping[str, Sequence[str]]) -> Experiment:
    """Returns the experiment of every run with every combination of values: a panel a task.

    Args:
      experiment: with the runs that it has at the scale.
      varied: values by flag, as of `parse`.

    Raises:
      SweepError: a run's agent has no such flag, a value is not allowed, or the agent cannot act in
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
    """Returns a run with other values of flags, which are in its name."""
    kept = tuple(flag for flag in run.flags if flag_name(flag) not in chosen)
    suffix = "".join(
        f"_{name.removeprefix(_PREFIX)}_{re.sub(r'[^A-Za-z0-9.+-]+', '_', value).strip('_')}"
        for name, value in chosen.items()
    )
    flags = tuple(f"--{name}={value}" for name, value in chosen.items())
    return dataclasses.replace(run, setting=run.setting + suffix, flags=(*kept, *flags))


def _check(run: Run, chosen: Mapping[str, str]) -> None:
    """Raises SweepError unless the run's agent takes the values, and can act in its environment."""
    settings, actors = run.agent.settings, run.agent.num_actors_flag
    config = settings.configuration(run.agent_setting or settings.default)
    names = [f"{_PREFIX}{each.name}" for each in dataclasses.fields(config)]
    changes = {}
    for name, value in chosen.items():
        if name not in (*names, actors):
            near = difflib.get_close_matches(name, [*names, actors], n=3) or [names[0], actors]
            raise SweepError(
                f"--vary {name}: {run.agent.name} has no such hyperparameter to vary: give "
                f"{' or '.join(near)}"
            )
        if name != actors:
            changes[name.removeprefix(_PREFIX)] = _value(value)
    for flag in run.flags:
        if (name := flag_name(flag)) in names and name not in chosen:
            changes[name.removeprefix(_PREFIX)] = _value(flag.partition("=")[2])
    try:
        config = dataclasses.replace(config, **changes)
    except ValueError as error:
        raise SweepError(f"--vary: {error}") from None
    try:
        run.agent.require_environment(config, run.environment)
    except ValueError as error:
        raise SweepError(str(error)) from None


def _value(text: str) -> object:
    """Returns the value that a flag's text stands for."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
