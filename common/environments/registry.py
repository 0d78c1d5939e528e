"""Environments by name."""

from collections.abc import Iterable, Sequence
import difflib
import importlib
import re
from types import ModuleType

import dm_env

from common.environments.batch import BatchedEnvironment, EnvironmentBatch
from common.environments.errors import UnknownEnvironmentError

# Suite -> a module; a name in it is what follows "suite:". It has
#   names() -> list[str]: none where nobody can list them; `make` then says what is wrong with one.
#   make(name, seed, evaluation) -> dm_env.Environment
# and, where it has something to say there,
#   make_batch(name, seeds, evaluation) -> EnvironmentBatch
#   why_unknown(name) -> str | None: more than that there is no such name.
#   FRAMES_PER_STEP
#   ENVIRONMENT_BYTES: of memory that one of them takes, measured; beside the suite's libraries.
# Modules are imported on first use: simulators are slow to import.
_SUITES = {
    "atari": "common.environments.atari_suite",
    "control": "common.environments.control_suite",
    "python": "common.environments.python_suite",
}


def make(name: str, seed: int, evaluation: bool = False, num_frames=None) -> dm_env.Environment:
    """Builds the environment called `name`.

    Args:
      name: the suite and the suite's own name, such as "control:cartpole:swingup".
      seed: of the environment's randomness, in [0, 2**32). The same seed and actions give the same
        episodes.
      evaluation: whether to take the suite's rules for evaluations, where it has any: Atari's
        episodes are longer then.

    Raises:
      UnknownEnvironmentError: `names()` does not have it.
      UnusableEnvironmentError: it is the user's own ("python:MODULE:FUNCTION") and cannot be made.
    """
    suite, rest = _find(name)
    return suite.make(rest, seed, evaluation)


def make_batch(
    name: str, seeds: Sequence[int], evaluation: bool = False, num_frames=None
) -> EnvironmentBatch:
    """Builds an environment for each of the seeds, as one batch; raises as `make` does."""
    suite, rest = _find(name)
    if hasattr(suite, "make_batch"):
        return suite.make_batch(rest, seeds, evaluation)
    return BatchedEnvironment([suite.make(rest, seed, evaluation) for seed in seeds])


def frames_per_step(name: str) -> int:
    """Returns how many simulator frames an action lasts; raises UnknownEnvironmentError."""
    suite, _ = _find(name)
    return getattr(suite, "FRAMES_PER_STEP", 1)


def environment_bytes(name: str) -> int | None:
    """Returns what an environment takes of memory, None if its suite does not say.

    Raises:
      UnknownEnvironmentError: `names()` does not have it.
    """
    suite, _ = _find(name)
    return getattr(suite, "ENVIRONMENT_BYTES", None)


def names() -> list[str]:
    """Returns the name of every environment that can be listed, sorted."""
    return sorted(f"{suite}:{name}" for suite in _SUITES for name in _module(suite).names())


def _find(name: str) -> tuple[ModuleType, str]:
    """The suite's module and the suite's own name."""
    suite, _, rest = name.partition(":")
    if suite not in _SUITES:
        known = names()
        without_suite = {one.partition(":")[2]: one for one in known}
        plain = _plain(name)
        near = (
            [without_suite[plain]]
            if plain in without_suite
            else (_near(name, known) or [without_suite[one] for one in _near(name, without_suite)])
        )
        first_of_each = {one.partition(":")[0]: one for one in reversed(known)}
        raise _unknown(name, near, sorted(first_of_each.values()))
    module = _module(suite)
    known = module.names()
    if known and rest not in known:
        # Compared without the suite, which would make every name of it look near.
        near = [f"{suite}:{one}" for one in _near(rest, known)]
        why = getattr(module, "why_unknown", lambda _: None)(rest)
        raise _unknown(name, near, [f"{suite}:{known[0]}"], why)
    return module, rest


def _module(suite: str) -> ModuleType:
    return importlib.import_module(_SUITES[suite])


def _plain(name: str) -> str:
    """A game's name in Gymnasium's spelling as the suite spells it: "ms_pacman".

    Of "ALE/MsPacman-v5", "MsPacmanNoFrameskip-v4", "MsPacman-ram-v4".
    """
    name = re.sub(
        r"^ALE/|(NoFrameskip|Deterministic)?(-ram)?(NoFrameskip|Deterministic)?-v\d+$", "", name
    )
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _near(name: str, known: Iterable[str]) -> list[str]:
    first, _, _ = name.partition(":")
    if _plain(name) in known:
        return [_plain(name)]
    return difflib.get_close_matches(name, known) or difflib.get_close_matches(first, known)


def _unknown(
    name: str, near: list[str], examples: list[str], why: str | None = None
) -> UnknownEnvironmentError:
    if near:
        hint = "did you mean " + " or ".join(f'"{one}"' for one in near) + "?"
    else:
        looks = ", ".join(f'"{one}"' for one in examples)
        hint = f'a name looks like {looks}, or "python:MODULE:FUNCTION" for one of your own'
    reason = f"{why}; " if why else ""
    return UnknownEnvironmentError(
        f'unknown environment "{name}": {reason}{hint} (common.environments.names() lists them all)'
    )
