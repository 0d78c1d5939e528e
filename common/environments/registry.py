"""Environments by name."""

from collections.abc import Iterable, Iterator, Sequence
import contextlib
import difflib
import importlib
import inspect
import re
from types import ModuleType
from typing import Any

import dm_env

from common import names as common_names
from common.environments import lab_actions, watch
from common.environments.atari_games import FRAMES_PER_STEP
from common.environments.batch import BatchedEnvironment, EnvironmentBatch
from common.environments.canonical import CanonicalBatch, CanonicalEnvironment
from common.environments.spec import (
    BrokenSpecError,
    UnknownEnvironmentError,
    UnusableEnvironmentError,
)
from common.environments.user_code import class_of, in_one_line, is_users, try_extremes

# The suites. The suite "atari" is the module `atari_suite` of this room. Such a module defines
#   names() -> list[str]: the names that may follow "atari:"; empty if they cannot be listed.
#   make(name, seed) -> dm_env.Environment; with the parameter `arguments` if names may have any,
#     and with `evaluation` and `frames` if they have an effect, as for `make` below
# and may define
#   is_known(name) -> bool: whether there is an environment of this name, if not all are listed
#   make_batch(name, seeds) -> EnvironmentBatch; with the parameters of `make`
#   batch_of(name, environments) -> EnvironmentBatch | None: a faster batch of `make`'s environments
#   near(name) -> list[str]: names that may be meant, if not all are listed
#   why_unknown(name) -> str | None: a reason for the error about an unknown name.
# Modules are imported on first use, since simulators are slow to import.
_SUITES = tuple("atari control dmlab flow gym hand maze minatar parkour python".split())
_EXTRAS = {"hand": "control", "parkour": "control"}
"""The extra of setup.py with a suite's packages, if its name differs from the suite's."""
_FRAMES_PER_STEP = {
    "atari": FRAMES_PER_STEP,
    "dmlab": lab_actions.FRAMES_PER_STEP,
    "maze": lab_actions.FRAMES_PER_STEP,
}


def make(
    name: str, seed: int, evaluation: bool = False, frames: int | None = None
) -> dm_env.Environment:
    """Creates the environment called `name`.

    Args:
      name: the suite and the suite's own name, such as "control:cartpole:swingup"; for "gym" and
        "python" also arguments, such as "gym:LunarLander-v3(gravity=-5)".
      seed: seed of the environment's randomness, in [0, 2**32). The same seed and actions give the
        same episodes.
      evaluation: whether to follow the suite's rules for evaluations: Atari's episodes are longer.
      frames: number of images stacked in an Atari observation; None: 4. Other suites ignore it.

    Raises:
      UnknownEnvironmentError: there is no environment of this name.
      UnusableEnvironmentError: the environment cannot be created, or a package is missing.
    """
    suite, rest, arguments = _find(name)
    return suite.make(rest, seed, **_rules(suite, evaluation, frames), **arguments)


def make_batch(
    name: str, seeds: Sequence[int], evaluation: bool = False, frames: int | None = None
) -> EnvironmentBatch:
    """Creates an environment for each seed, as one batch; see `make`.

    Raises:
      BrokenSpecError: the environments' specs differ.
    """
    suite, rest, arguments = _find(name)
    rules = _rules(suite, evaluation, frames)
    if hasattr(suite, "make_batch"):
        return suite.make_batch(rest, seeds, **rules)
    made = [suite.make(rest, seed, **rules, **arguments) for seed in watch.each(seeds)]
    if not arguments and (batch := getattr(suite, "batch_of", lambda *made: None)(rest, made)):
        return batch
    is_canonical = all(isinstance(environment, CanonicalEnvironment) for environment in made)
    try:
        return CanonicalBatch(made) if is_canonical else BatchedEnvironment(made)
    except BrokenSpecError as error:
        raise BrokenSpecError(f"{name}: {error}") from None


@contextlib.contextmanager
def opened(name: str, seed: int, frames: int | None = None) -> Iterator[dm_env.Environment]:
    """Creates an environment that no run uses, and closes it afterwards; a hang ends this process.

    A user's own environment is tried first, so that mistakes show.

    Args:
      name: name of the environment, as in `make`.
      seed: seed of the environment, as in `make`.
      frames: number of images in an observation, as in `make`.

    Raises:
      As `make`; UnusableEnvironmentError: the environment cannot be closed.
    """
    suite, rest, arguments = _find(name)
    with watch.Call.of_making(name):
        environment = suite.make(rest, seed, **_rules(suite, False, frames), **arguments)
        if is_users(name):
            with in_one_line(name.partition("(")[0], class_of(environment)):
                try_extremes(environment)
    yield environment
    with watch.Call(name, "close()"), in_one_line(name, class_of(environment)):
        environment.close()


def frames_per_step(name: str) -> int:
    """Returns the number of simulator frames in an actor step; does not check the name."""
    return _FRAMES_PER_STEP.get(name.partition(":")[0], 1)


def names() -> list[str]:
    """Returns the sorted names of all environments that can be listed and are installed."""
    return sorted(name for suite in _installed() for name in names_of(suite))


def suites() -> tuple[str, ...]:
    """Returns the sorted names of the suites."""
    return _SUITES


def names_of(suite: str) -> list[str]:
    """Returns the names, as `make` takes them, of a suite's environments that can be listed."""
    return [f"{suite}:{name}" for name in _module(suite).names()]


def _find(name: str) -> tuple[ModuleType, str, dict[str, Any]]:
    """Returns the suite's module, its own name of an environment, and more arguments of `make`."""
    try:
        plain, arguments = common_names.split(name)
    except ValueError as error:
        raise UnusableEnvironmentError(f'environment "{name}": {error}') from None
    suite, _, rest = plain.partition(":")
    if suite not in _SUITES:
        known = names()
        first_of_each = {known_name.partition(":")[0]: known_name for known_name in reversed(known)}
        raise _unknown(name, _near_of_all(name, known), sorted(first_of_each.values()))
    module = _module(suite)
    known = module.names()
    is_known = getattr(module, "is_known", lambda name: not known or name in known)
    if not is_known(rest):
        # Without the suite, with which all of its names would look near.
        near = [
            f"{suite}:{near_name}"
            for near_name in _near_unlisted(suite, rest) or _near(rest, known)
        ]
        if not near and _plain(rest) != rest:  # in another suite's spelling
            near = _near_of_all(rest, names())
        why = getattr(module, "why_unknown", lambda _: None)(rest)
        raise _unknown(name, near, [f"{suite}:{known[0]}"], why)
    if not arguments:
        return module, rest, {}
    if "arguments" not in inspect.signature(module.make).parameters:
        raise UnusableEnvironmentError(
            f'environment "{name}": environments of {suite} take no arguments; only those of gym '
            "and python do"
        )
    return module, rest, {"arguments": arguments}


def _rules(suite: ModuleType, evaluation: bool, frames: int | None) -> dict[str, Any]:
    """Returns the options that a suite's `make` takes."""
    takes = inspect.signature(suite.make).parameters
    rules = {"evaluation": evaluation, "frames": frames}
    return {name: value for name, value in rules.items() if name in takes}


def _installed() -> list[str]:
    """Returns the suites whose packages are installed."""
    found = []
    for suite in _SUITES:
        with contextlib.suppress(UnusableEnvironmentError):
            _module(suite)
            found.append(suite)
    return found


def _module(suite: str) -> ModuleType:
    try:
        return importlib.import_module(f"common.environments.{suite}_suite")
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(suite, suite)
        raise UnusableEnvironmentError(
            f"the environments of {suite} need the package {error.name}, which is not installed: "
            f'pip install -e ".[{extra}]", or `make setup` for all'
        ) from None


def _plain(name: str) -> str:
    """Converts a game's name from Gymnasium's spelling to the suite's.

    "ALE/MsPacman-v5", "MsPacmanNoFrameskip-v4" and "MsPacman-ram-v4" become "ms_pacman".
    """
    name = re.sub(
        r"^ALE/|(NoFrameskip|Deterministic)?(-ram)?(NoFrameskip|Deterministic)?-v\d+$", "", name
    )
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _near_of_all(name: str, known: list[str]) -> list[str]:
    """Returns the names that a name without a suite, or with an unknown suite, may mean."""
    without_suite = {known_name.partition(":")[2]: known_name for known_name in known}
    plain = _plain(name)
    if plain in without_suite:
        return [without_suite[plain]]
    return (
        [
            f"{near_suite}:{meant}"
            for near_suite in _installed()
            for meant in _near_unlisted(near_suite, name.rpartition(":")[2])
        ]
        or _near(name, known)
        or [without_suite[near_name] for near_name in _near(name, without_suite)]
    )


def _near(name: str, known: Iterable[str]) -> list[str]:
    first, _, _ = name.partition(":")
    if _plain(name) in known:
        return [_plain(name)]
    return difflib.get_close_matches(name, known) or difflib.get_close_matches(first, known)


def _near_unlisted(suite: str, name: str) -> list[str]:
    return getattr(_module(suite), "near", lambda _: [])(name)


def _unknown(
    name: str, near: list[str], examples: list[str], why: str | None = None
) -> UnknownEnvironmentError:
    if near:
        hint = "did you mean " + " or ".join(f'"{near_name}"' for near_name in near) + "?"
    else:
        looks = ", ".join(f'"{example}"' for example in examples)
        hint = f'a name looks like {looks}, or "python:MODULE:FUNCTION" for your own environment'
    reason = f"{why}; " if why else ""
    return UnknownEnvironmentError(
        f'unknown environment "{name}": {reason}{hint} (python -m binaries.environments lists all)'
    )
