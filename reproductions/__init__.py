"""Reproductions of papers, one directory per paper."""

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
    """Returns the folders, such as "apex/dqn", whose module named `module` assigns `name`."""
    files = sorted(_FOLDER.rglob(f"{module}.py"))
    declaring = [file for file in files if f"\n{name} = " in file.read_text()]
    return [file.parent.relative_to(_FOLDER).as_posix() for file in declaring]


PAPERS = tuple(file.parent.name for file in sorted(_FOLDER.glob("*/figures.toml")))
AGENTS = {
    folder.replace("/", "_"): f"reproductions.{folder.replace('/', '.')}.config:AGENT"
    for folder in _folders("config", "AGENT")
}
"""Import paths of the declarations of this repository's agents, by the agents' names."""


def declared(module: str, name: str) -> dict[str, Any]:
    """Returns the values that modules named `module` assign to `name`, by folder."""
    found = {}
    for folder in _folders(module, name):
        path = f"{__name__}.{folder.replace('/', '.')}.{module}"
        found[folder] = getattr(importlib.import_module(path), name)
    return found


def agent_of(directory: str | os.PathLike) -> "AgentDeclaration":
    """Returns the agent of a run; another distribution may declare it by an entry point.

    Args:
      directory: the run's --workdir.

    Raises:
      RunDirectoryError: the directory has no run, or the run's agent is not installed or cannot be
        imported.
      JsonError: the run's config.json is malformed.
    """
    from common.cluster.layout import imported
    from common.reporting.run_directory import RunDirectory, RunDirectoryError

    config = RunDirectory(directory).read_config()
    name = str(config.get("agent", config.get("paper")))
    points = metadata.entry_points(group="replay_rl.agents")
    found = AGENTS | {point.name: point.value for point in points if point.name not in AGENTS}
    if name not in found:
        raise RunDirectoryError(
            f'{directory} holds a run of the agent "{name}", which is not installed: there are '
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
      agent: name of the agent, a key of `AGENTS`.
      environment: name of the environment, see `common.environments.make`, or a function or class
        at the top level of a module, which creates a `gymnasium.Env` or a `dm_env.Environment`.
      env_kwargs: keyword arguments of the environment.
      workdir: the run directory; None creates a temporary one.
      setting: setting of the agent; None for the agent's default.
      **values: hyperparameters, such as n_step=3, and flags of the agent's program.

    Raises:
      ValueError: there is no such agent, setting or keyword, or a value is not allowed.
    """
    from common.cluster.layout import imported
    from common.program.notebook import NotebookAgent

    if agent not in AGENTS:
        raise ValueError(f'unknown agent "{agent}": there are {", ".join(AGENTS)}')
    found = imported(AGENTS[agent])
    return NotebookAgent(found, environment, env_kwargs, workdir, setting, **values)


def load_policy(
    directory: str | os.PathLike, checkpoint: str | None = None, trust_environment: bool = False
) -> "TrainedPolicy":
    """Returns the policy that a run has learnt, without exploration.

    Args:
      directory: the run's --workdir, or a policy in `results/policies`.
      checkpoint: "newest", "best" for the parameters of the best evaluation, or "step_N" for a kept
        checkpoint. None loads the newest, or the best if there is no newest.
      trust_environment: whether an environment of your own may be imported from `directory`.

    Raises:
      The errors of `agent_of` and `common.agents.trained.load`.
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
    """Returns the named paper, or all papers; raises the errors of `paper`."""
    return tuple(map(paper, [name] if name else PAPERS))


@functools.cache
def paper(name: str) -> "Paper":
    """Returns a paper with its experiments; reading one takes a fifth of a second.

    Raises:
      UnknownError: there is no such paper; the message lists the papers.
    """
    from common.cluster.layout import imported
    from common.evidence import figures_file
    from common.evidence.paper import UnknownError

    if name not in PAPERS:
        raise UnknownError(f'unknown paper "{name}": there are {", ".join(PAPERS)}')
    file = _FOLDER / name / "figures.toml"
    return figures_file.read(file, lambda agent: imported(AGENTS[agent]))


def claims(name: str) -> tuple["Claim", ...]:
    """Returns the claims of a paper, in the paper's order.

    Raises:
      FileMistakeError: the paper's claims.toml is invalid.
    """
    from common.evidence import claims_file

    folder = _FOLDER / name
    checks = None
    if (folder / "checks.py").exists():
        checks = importlib.import_module(f"reproductions.{name}.checks")
    return claims_file.read(folder / "claims.toml", paper(name), checks)
