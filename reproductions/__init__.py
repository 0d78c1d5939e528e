"""Reproductions of papers, a directory each."""

from collections.abc import Callable, Mapping
import functools
import importlib
from importlib import metadata
import os
import pathlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from common.agents.declaration import AgentDeclaration
    from common.agents.trained import TrainedPolicy
    from common.evidence.claims import Claim
    from common.evidence.paper import Paper
    from common.program.notebook import NotebookAgent

_FOLDER = pathlib.Path(__file__).parent


def _folders(module: str, name: str) -> list[str]:
    """Returns the folders, such as "apex/dqn", in which a module of this name assigns `name`."""
    files = sorted(_FOLDER.rglob(f"{module}.py"))
    declaring = [file for file in files if f"\n{name} = " in file.read_text()]
    return [file.parent.relative_to(_FOLDER).as_posix() for file in declaring]


PAPERS = tuple(file.parent.name for file in sorted(_FOLDER.glob("*/figures.toml")))
AGENTS = {
    folder.replace("/", "_"): f"reproductions.{folder.replace('/', '.')}.config:AGENT"
    for folder in _folders("config", "AGENT")
}
"""The declarations of the agents in this repository, by name."""


def declared(module: str, name: str) -> dict[str, Any]:
    """Returns what modules of the same name declare under `name`, by their folders."""
    found = {}
    for folder in _folders(module, name):
        path = f"{__name__}.{folder.replace('/', '.')}.{module}"
        found[folder] = getattr(importlib.import_module(path), name)
    return found


def agent_of(directory: str | os.PathLike) -> "AgentDeclaration":
    """Returns the agent that made a run; an entry point may declare it in another distribution.

    Args:
      directory: the run's --workdir.

    Raises:
      RunDirectoryError: there is no run, or its agent is not installed or cannot be imported.
      JsonError: its config.json is malformed.
    """
    from common.cluster.layout import imported
    from common.reporting.run_directory import RunDirectory, RunDirectoryError

    config = RunDirectory(directory).read_config()
    name = str(config.get("agent", config.get("paper")))
    points = metadata.entry_points(group="replay_rl.agents")
    found = AGENTS | {point.name: point.value for point in points if point.name not in AGENTS}
    if name not in found:
        raise RunDirectoryError(
            f'{directory} holds a run of the agent "{name}", which is not here: there are '
            f"{', '.join(found)}"
        )
    try:
        return imported(found[name])
    except (ImportError, AttributeError) as error:
        raise RunDirectoryError(
            f'{directory} holds a run of the agent "{name}", whose declaration {found[name]} '
            f"cannot be imported: {error}"
        ) from None


def make(
    agent: str,
    environment: str | Callable[..., Any],
    env_kwargs: Mapping[str, Any] | None = None,
    workdir: str | os.PathLike | None = None,
    setting: str | None = None,
    **values: Any,
) -> "NotebookAgent":
    """Returns an agent to train and to evaluate in a notebook or a script.

    Args:
      agent: one of `AGENTS`.
      environment: its name, see `common.environments.make`; or a function or class at the top of a
        module, which makes a `gymnasium.Env` or a `dm_env.Environment`.
      env_kwargs: arguments of the environment.
      workdir: the run directory; None: a temporary one.
      setting: of the agent; None: its default.
      **values: hyperparameters, such as n_step=3, and flags of the agent's program.

    Raises:
      ValueError: there is no such agent, setting or keyword, or a value is not allowed.
    """
    from common.cluster.layout import imported
    from common.program.notebook import NotebookAgent

    if agent not in AGENTS:
        raise ValueError(f'there is no agent "{agent}": there are {", ".join(AGENTS)}')
    found = imported(AGENTS[agent])
    return NotebookAgent(found, environment, env_kwargs, workdir, setting, **values)


def load_policy(
    directory: str | os.PathLike, checkpoint: str | None = None, trust_environment: bool = False
) -> "TrainedPolicy":
    """Returns the policy that a run has learnt, without exploration.

    Args:
      directory: the run's --workdir, or a policy in `results/policies`.
      checkpoint: "newest", or "best": the parameters of the best evaluation. None: the newest, or
        the best if there is no other.
      trust_environment: whether to import an environment of your own also from inside `directory`.

    Raises:
      As `agent_of` and `common.agents.trained.load`.
    """
    from common.cluster.layout import imported
    from common.reporting.command_line import native_output_only_on_failure

    declaration = agent_of(directory)
    with native_output_only_on_failure():
        from common.agents import trained

        agent_class = imported(declaration.agent_class)
        run = trained.load(directory, agent_class, checkpoint, trust_environment)
        return trained.TrainedPolicy(run)


def papers(name: str | None = None) -> tuple["Paper", ...]:
    """Returns the paper of that name, or all; raises as `paper`."""
    return tuple(map(paper, [name] if name else PAPERS))


@functools.cache
def paper(name: str) -> "Paper":
    """Returns a paper with its experiments; reading one takes a fifth of a second.

    Raises:
      UnknownError: there is no such paper; the message lists all.
    """
    from common.cluster.layout import imported
    from common.evidence import figures_file
    from common.evidence.paper import UnknownError

    if name not in PAPERS:
        raise UnknownError(f'unknown paper "{name}": there are {", ".join(PAPERS)}')
    file = _FOLDER / name / "figures.toml"
    return figures_file.read(file, lambda agent: imported(AGENTS[agent]))


def claims(name: str) -> tuple["Claim", ...]:
    """Returns the claims of a paper, in its order.

    Raises:
      ClaimError: its claims.toml is wrong.
    """
    from common.evidence import claims_file

    folder = _FOLDER / name
    checks = None
    if (folder / "checks.py").exists():
        checks = importlib.import_module(f"reproductions.{name}.checks")
    return claims_file.read(folder / "claims.toml", paper(name), checks)
