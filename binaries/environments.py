"""Lists the names for --environment, and the agents that can act in each.

    python -m binaries.environments                    # every name
    python -m binaries.environments control            # a suite: sizes, and the agents
    python -m binaries.environments gym:CartPole-v1    # a single environment, also your own
    python -m binaries.environments "gym:Pendulum-v1(g=1.6)"    # with arguments
    python -m binaries.environments --check python:my_environment:make    # tests it, with advice

If an agent needs a change of a hyperparameter there, it is shown with the flag. Suites whose
packages are not installed say so. --check plays at random, also runs Gymnasium's checker on your
own environments of Gymnasium, and says what is wrong or hard to learn from.
"""

import argparse
from collections.abc import Iterator, Mapping
import dataclasses
import itertools
import re
import sys
import warnings

from absl import logging
import dm_env

from common import environments
from common.agents.declaration import AgentDeclaration
from common.environments import advice, watch
from common.environments.registry import names_of, suites
from common.environments.spec import EnvironmentSpec
from common.reporting.command_line import Parser, exit_with, fail
from reproductions import declared

_STEPS = 2_000
"""Steps of random play with --check."""


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.environments", description=__doc__)
    parser.add_argument(
        "which",
        nargs="?",
        metavar="SUITE",
        help=f"one of {', '.join(suites())}, or the full name of an environment",
    )
    parser.add_argument(
        "--check", action="store_true", help="test an environment, and say what should be changed"
    )
    parser.add_argument(
        "--steps",
        type=int,
        metavar="N",
        help=f"steps of random play with --check; default {_STEPS:,}",
    )
    arguments = parser.parse_args(argv)
    if arguments.steps is not None:
        if not arguments.check:
            fail("--steps needs --check")
        if arguments.steps < 1:
            fail(f"--steps must be at least 1, is {arguments.steps}")
    return arguments


def _agents(spec: EnvironmentSpec) -> list[str]:
    """Returns the agents that can act in an environment, each with a flag if it needs one."""
    found = []
    for agent in declared("config", "AGENT").values():
        if _can_act(agent, spec, {}):
            found.append(agent.name)
            continue
        choices = (
            (each.name, choice)
            for each in dataclasses.fields(agent.settings.config_class)
            for choice in each.metadata["choices"]
        )
        able = (change for change in choices if _can_act(agent, spec, dict([change])))
        found += [
            f"{agent.name} --config.{name}={choice}" for name, choice in itertools.islice(able, 1)
        ]
    return found


def _can_act(agent: AgentDeclaration, spec: EnvironmentSpec, changes: Mapping[str, str]) -> bool:
    """Returns whether an agent's default setting, with these changes, can act with this spec."""
    default = agent.settings.configuration(agent.settings.default)
    try:
        agent.require_spec(dataclasses.replace(default, **changes), spec)
    except ValueError:
        return False
    return True


def _describe(name: str) -> str:
    """Returns the sizes of an environment and its agents.

    Raises:
      UnusableEnvironmentError: it cannot be made.
    """
    with environments.opened(name, seed=0) as environment:
        return _line(name, EnvironmentSpec.of(environment))


def _line(name: str, spec: EnvironmentSpec) -> str:
    seen, vector = f"{spec.observation_size}", spec.vector_size
    if spec.picture_shape:
        seen = f"image {list(spec.picture_shape)}" + f" + {vector}" * bool(vector)
    able = ", ".join(_agents(spec)) or "no agent"
    return f"{name:40} {seen:>18} -> {spec.action_size:3} {spec.action_kind:10}  {able}"


def _check(name: str, steps: int) -> Iterator[str]:
    """Yields the lines of --check.

    Raises:
      UnusableEnvironmentError: it cannot be made.
    """
    with environments.opened(name, seed=0) as environment:
        spec = EnvironmentSpec.of(environment)
        yield _line(name, spec)
        seen = advice.play(name, environment, steps, max_seconds=20.0)
        with watch.Call(name, "Gymnasium's checker"):
            complaints = _of_gymnasium(environment)
    lengths = (
        f"episodes of {min(seen.lengths)} to {max(seen.lengths)} steps" if seen.lengths else ""
    )
    yield (
        f"random play: {len(seen.rewards):,} steps, {seen.steps_per_second:,.0f} a second; rewards "
        f"from {seen.rewards.min():.4g} to {seen.rewards.max():.4g}; {lengths or 'no end'}"
    )
    yield from (f"Gymnasium: {line}" for line in complaints)
    yield from (f"fault: {line}" for line in advice.faults(seen))
    for agent in declared("config", "AGENT").values():
        config = agent.settings.configuration(agent.settings.default)
        line = advice.return_range(seen, config) if _can_act(agent, spec, {}) else None
        if line:
            yield f"fault, with {agent.name}: {line}"
    yield from (f"hint: {line}" for line in advice.hints(seen))


def _of_gymnasium(environment: dm_env.Environment) -> list[str]:
    """Returns the complaints of Gymnasium's checker about an environment from elsewhere."""
    made = getattr(getattr(environment, "wrapped", None), "unwrapped", None)
    gymnasium = sys.modules.get("gymnasium")  # its import takes seconds
    is_own = not type(made).__module__.startswith("gymnasium.")
    if gymnasium is None or not isinstance(made, gymnasium.Env) or not is_own:
        return []
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            check_env(made, skip_render_check=True)
        except Exception as error:  # assertions, and whatever the environment raises
            warnings.warn(f"{type(error).__name__}: {error}", stacklevel=1)
    texts = (re.sub(r"\x1b\[\d*m|^WARN: ", "", str(each.message)) for each in found)
    return list(dict.fromkeys(" ".join(text.split()).removeprefix("WARN: ") for text in texts))


def main(argv: list[str] | None = None) -> None:
    """Prints names, or a line for each environment of a suite."""
    arguments = _arguments(argv)
    watch.limit_seconds = watch.DEFAULT_SECONDS
    which = arguments.which
    if arguments.check and (which is None or ":" not in which):
        fail("--check needs a full name, such as gym:CartPole-v1")
    logging.set_verbosity(logging.ERROR)  # simulators log messages when imported
    if which is None:
        print(*environments.names(), sep="\n")
    elif which in suites():
        names = names_of(which)
        if not names:
            fail(f"the suite {which} has no list of names: give a full name, {which}:...")
        for name in names:
            try:
                print(_describe(name), flush=True)
            except environments.UnusableEnvironmentError as error:
                print(f"{name:40} {error}", flush=True)
    elif ":" in which:
        lines = _check(which, arguments.steps or _STEPS) if arguments.check else [_describe(which)]
        for line in lines:
            print(line, flush=True)
    else:
        fail(f'there is no suite "{which}": there are {", ".join(suites())}')


if __name__ == "__main__":
    exit_with(main)
