"""Users' own environments, named "MODULE:FUNCTION".

`FUNCTION(seed, **arguments)` must return a `dm_env.Environment` or a `gymnasium.Env`. It receives a
seed if it has a parameter for one; a Gymnasium environment also receives it at its first reset.
`CanonicalEnvironment` describes the supported observations and actions.
"""

from collections.abc import Callable, Mapping
import difflib
import inspect
import sys
from types import MappingProxyType
from typing import Any

import dm_env

from common.environments import user_code
from common.environments.canonical import CanonicalEnvironment, Wrapper
from common.environments.spec import UnusableEnvironmentError, kind_of
from common.environments.user_code import class_of, in_one_line


def names() -> list[str]:
    """Returns no names, since they cannot be listed."""
    return []


def make(
    name: str, seed: int, arguments: Mapping[str, Any] = MappingProxyType({})
) -> dm_env.Environment:
    """Calls `FUNCTION(seed, **arguments)` and wraps the environment in `CanonicalEnvironment`.

    Tries a reset and a step, so that most mistakes show here and not in an actor's log.

    Raises:
      UnusableEnvironmentError: something failed; the message says what and where.
    """
    whole = f"python:{name}"
    with in_one_line(whole):
        function = _function(name)
    with in_one_line(whole, function):
        wrapped = _Fresh(_made(function, seed, arguments))
    with in_one_line(whole, class_of(wrapped)):
        environment = CanonicalEnvironment(wrapped)
        first = environment.reset()
        if not first.first():
            raise UnusableEnvironmentError(
                f"its reset() must return a FIRST step, but returned {first}"
            )
        environment.observation_spec().validate(first.observation)
        user_code.try_step(environment, 0)
    wrapped.is_fresh = True
    return environment


class _Fresh(Wrapper):
    """A user's environment whose first step starts an episode, also after `make` has tried it.

    Attributes:
      is_fresh: whether no episode has started.
    """

    def __init__(self, environment: dm_env.Environment):
        super().__init__(environment)
        self.is_fresh = True

    def reset(self) -> dm_env.TimeStep:
        self.is_fresh = False
        return self.wrapped.reset()

    def step(self, action: Any) -> dm_env.TimeStep:
        return self.reset() if self.is_fresh else self.wrapped.step(action)


def _made(function: Callable, seed: int, arguments: Mapping[str, Any]) -> dm_env.Environment:
    """Returns the environment that the user's function creates; wraps a `gymnasium.Env`.

    Raises:
      UnusableEnvironmentError: it is neither dm_env's nor Gymnasium's, or it cannot be seeded.
    """
    parameters = inspect.signature(function).parameters
    is_of_gymnasium = isinstance(function, type) and not issubclass(function, dm_env.Environment)
    first = next(iter(parameters.values()), None)
    if "seed" in parameters and parameters["seed"].kind is not inspect.Parameter.POSITIONAL_ONLY:
        made = function(**{"seed": seed, **arguments})
    elif (
        first is None
        or first.default is not first.empty
        or first.kind in (first.KEYWORD_ONLY, first.VAR_KEYWORD)
        or first.name in arguments
        or is_of_gymnasium
    ):
        made = function(**arguments)
        if isinstance(made, dm_env.Environment):
            raise UnusableEnvironmentError(
                "it takes no seed, so all actors would see the same episodes: add a seed parameter"
            )
    else:  # as in make(_)
        made = function(seed, **arguments)
    if isinstance(made, dm_env.Environment):
        return made
    gymnasium = sys.modules.get("gymnasium")  # whose import takes seconds
    if gymnasium is None or not isinstance(made, gymnasium.Env):
        raise UnusableEnvironmentError(
            f"it returned {kind_of(made)}, neither a dm_env.Environment nor a gymnasium.Env"
        )
    from common.environments.gym_suite import GymEnvironment

    return GymEnvironment(made, seed)


def _function(name: str) -> Callable[[int], dm_env.Environment]:
    module_name, _, function_name = name.partition(":")
    if module_name == "__main__":
        raise UnusableEnvironmentError(
            "the processes of a run cannot import __main__, which is the notebook or the script "
            f"itself: move {function_name or 'the function'} into a module, such as my_module.py, "
            f'and name the environment "python:my_module:{function_name or "make"}"'
        )
    if not all(part.isidentifier() for part in [*module_name.split("."), function_name]):
        raise UnusableEnvironmentError('a name looks like "python:my_package.my_module:make"')
    module = user_code.module(module_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        callables = [key for key, value in vars(module).items() if callable(value)]
        near = difflib.get_close_matches(function_name, callables, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise UnusableEnvironmentError(f'{module_name} has no function "{function_name}"{hint}')
    return function
