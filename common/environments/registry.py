"""Environments by name."""

import difflib
import importlib
from types import ModuleType

import dm_env

from common.environments.errors import UnknownEnvironmentError

# Suite -> a module with `names() -> list[str]` and `make(name, seed) -> dm_env.Environment`, where
# a name is what follows "suite:". A suite that nobody can list has no names; its `make` then says
# what is wrong with one. Modules are imported on first use: simulators are slow to import.
_SUITES = {
    "control": "common.environments.control_suite",
    "python": "common.environments.python_suite",
}


def make(name: str, seed: int) -> dm_env.Environment:
    """Builds the environment called `name`.

    Args:
      name: the suite and the suite's own name, such as "control:cartpole:swingup".
      seed: of the environment's randomness, in [0, 2**32). The same seed and actions give the same
        episodes.

    Raises:
      UnknownEnvironmentError: `names()` does not have it.
      UnusableEnvironmentError: it is the user's own ("python:MODULE:FUNCTION") and cannot be made.
    """
    suite, _, rest = name.partition(":")
    if suite not in _SUITES:
        raise _unknown(name, name, names(), prefix="")
    module = _module(suite)
    known = module.names()
    if known and rest not in known:
        # Compared without the suite, which would make every name of it look near.
        raise _unknown(name, rest, known, prefix=f"{suite}:")
    return module.make(rest, seed)


def names() -> list[str]:
    """Returns the name of every environment that can be listed, sorted."""
    return sorted(f"{suite}:{name}" for suite in _SUITES for name in _module(suite).names())


def _module(suite: str) -> ModuleType:
    return importlib.import_module(_SUITES[suite])


def _unknown(name: str, part: str, known: list[str], prefix: str) -> UnknownEnvironmentError:
    near = difflib.get_close_matches(part, known, n=3)
    if near:
        hint = "did you mean " + " or ".join(f'"{prefix}{candidate}"' for candidate in near) + "?"
    else:
        hint = (
            f'a name looks like "{prefix}{known[0]}", or "python:MODULE:FUNCTION" for one of your '
            "own"
        )
    return UnknownEnvironmentError(
        f'unknown environment "{name}": {hint} (common.environments.names() lists them all)')
