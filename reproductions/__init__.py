"""Reproductions of papers, a directory each."""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from common.experiments.claims import Claim
    from common.experiments.paper import Paper

AGENTS = {
    "d4pg": "reproductions.d4pg.agent",
    "apex_dqn": "reproductions.apex.dqn.agent",
    "apex_dpg": "reproductions.apex.dpg.agent",
    "reactor": "reproductions.reactor.agent",
    "refer": "reproductions.refer.agent",
    "aql": "reproductions.aql.agent",
}
"""Modules by the "agent" of a run's config.json, or its "paper" where a paper has one agent."""

PAPERS = ("apex", "aql", "d4pg", "reactor", "refer")


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
