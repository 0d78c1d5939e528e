"""Lists the names for --environment, and the agents that can act in each.

    python -m binaries.environments                    # every name
    python -m binaries.environments control            # of a suite: sizes, and the agents
    python -m binaries.environments gym:CartPole-v1    # one, also of your own

An agent that needs another hyperparameter there is shown with it. Suites whose packages are not
installed say so.
"""

import argparse
from collections.abc import Mapping
import dataclasses
import itertools

from absl import logging

from common import environments
from common.agents.declaration import AgentDeclaration
from common.environments.registry import names_of, suites
from common.environments.spec import EnvironmentSpec
from common.reporting.command_line import Parser, exit_with, fail
from reproductions import declared


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m binaries.environments", description=__doc__)
    parser.add_argument(
        "which", nargs="?", metavar="SUITE", help=f"one of {', '.join(suites())}, or a whole name"
    )
    return parser.parse_args(argv)


def _agents(spec: EnvironmentSpec) -> list[str]:
    """Returns the names of the agents that can act there, with a flag where they need it."""
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
    """Returns whether the default setting, with these hyperparameters changed, can act there."""
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
        spec = EnvironmentSpec.of(environment)
    seen = f"image {list(spec.image_shape)}" if spec.image_shape else f"{spec.observation_size}"
    kind = "integers" if spec.action_choices else "continuous"
    kind = "discrete" if spec.is_discrete else "hybrid" if spec.is_hybrid else kind
    able = ", ".join(_agents(spec)) or "no agent"
    return f"{name:40} {seen:>18} -> {spec.action_size:3} {kind:10}  {able}"


def main(argv: list[str] | None = None) -> None:
    """Prints names, or a line for each environment of a suite."""
    which = _arguments(argv).which
    logging.set_verbosity(logging.ERROR)  # simulators announce themselves at their import
    if which is None:
        print(*environments.names(), sep="\n")
    elif which in suites():
        names = names_of(which)
        if not names:
            fail(f"the suite {which} has no list of names: give a whole name, {which}:...")
        for name in names:
            try:
                print(_describe(name), flush=True)
            except environments.UnusableEnvironmentError as error:
                print(f"{name:40} {error}", flush=True)
    elif ":" in which:
        try:
            print(_describe(which))
        except environments.UnusableEnvironmentError as error:
            fail(str(error))
    else:
        fail(f'there is no suite "{which}": there are {", ".join(suites())}')


if __name__ == "__main__":
    exit_with(main)
