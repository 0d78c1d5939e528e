"""Reproductions of papers, a directory each."""

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from common.agents.trained import TrainedPolicy
    from common.experiments.claims import Claim
    from common.experiments.paper import Paper

AGENTS = {
    "d4pg": "reproductions.d4pg.agent:D4PG",
    "apex_dqn": "reproductions.apex.dqn.agent:ApexDQN",
    "apex_dpg": "reproductions.apex.dpg.agent:ApexDPG",
    "reactor": "reproductions.reactor.agent:Reactor",
    "refer": "reproductions.refer.agent:Refer",
    "aql": "reproductions.aql.agent:AQL",
}
"""Classes by the "agent" of a run's config.json, or its "paper" where a paper has one agent."""

PAPERS = ("apex", "aql", "d4pg", "reactor", "refer")


def agent_class(directory: str | os.PathLike) -> str:
    """Returns "module:class" of the agent that made a run, without importing it.

    Args:
      directory: the run's --workdir.

    Raises:
      RunDirectoryError: there is no run, or its agent is not here.
      JsonError: its config.json is malformed.
    """
    from common.reporting.run_directory import RunDirectory, RunDirectoryError

    config = RunDirectory(directory).read_config()
    name = config.get("agent", config.get("paper"))
    if name not in AGENTS:
        raise RunDirectoryError(
            f'{directory} holds a run of the agent "{name}", which is not here: there are '
            f"{', '.join(AGENTS)}"
        )
    return AGENTS[name]


def load_policy(directory: str | os.PathLike) -> "TrainedPolicy":
    """Returns the policy of a run's newest checkpoint, without exploration.

    Raises:
      As `agent_class` and `common.agents.trained.load`.
    """
    from common.agents import trained
    from common.program.layout import imported

    return trained.TrainedPolicy(trained.load(directory, imported(agent_class(directory))))


def papers(name: str | None = None) -> tuple["Paper", ...]:
    """Returns the paper of that name, or all; raises as `paper`."""
    return tuple(map(paper, [name] if name else PAPERS))


def paper(name: str) -> "Paper":
    """Returns a paper with its experiments.

    Raises:
      UnknownError: there is no such paper; the message lists all.
    """
    from common.experiments.paper import UnknownError

    if name not in PAPERS:
        raise UnknownError(f'unknown paper "{name}": there are {", ".join(PAPERS)}')
    return importlib.import_module(f"reproductions.{name}.experiments").PAPER


def claims(name: str) -> tuple["Claim", ...]:
    """Returns the claims of a paper, in its order."""
    return importlib.import_module(f"reproductions.{name}.claims").CLAIMS
