"""The user's own environments, named "MODULE:FUNCTION".

The module is imported from the working directory or the installed packages. `FUNCTION(seed)` must
return a `dm_env.Environment` or a `gymnasium.Env` of one of two kinds: observations are a float
array or a nest of them, and an action is one bounded array of floats or integers; or observations
are uint8 images [height, width, channels] and actions discrete.
"""

from collections.abc import Callable, Iterator
import contextlib
import difflib
import functools
import importlib
from importlib import machinery
import inspect
import os
import pathlib
import sys
import sysconfig
import traceback
from typing import Any, get_type_hints

import dm_env
import numpy as np

from common.environments.canonical import as_agents_take_it
from common.environments.spec import UnusableEnvironmentError, kind_of


def names() -> list[str]:
    """Returns no names, since they cannot be listed."""
    return []


def make(
    name: str, seed: int, evaluation: bool = False, frames: int | None = None
) -> dm_env.Environment:
    """Calls `FUNCTION(seed)` and makes the environment canonical, unless it has images.

    Tries a reset and a step, so that most mistakes show here and not in an actor's log.

    Raises:
      UnusableEnvironmentError: something failed; the message says what and where.
    """
    del evaluation, frames  # evaluations follow the rules of training; images stay as they are
    with _in_one_line(name):
        function = _function(name)
    with _in_one_line(name, function):
        wrapped = _Fresh(_of_dm_env(function(seed), seed))
    with _in_one_line(name, _class_of(wrapped)):
        environment = as_agents_take_it(wrapped)
        first = environment.reset()
        if not first.first():
            raise UnusableEnvironmentError(f"its reset() must return a FIRST step, it gave {first}")
        environment.observation_spec().validate(first.observation)
        _try(environment, 0)
    wrapped.is_fresh = True
    return environment


def source_of(environment: str) -> pathlib.Path | None:
    """Returns the file from which the module of a user's environment would be imported.

    Imports nothing. Returns None if the environment is not a user's, or its module is not there.

    Args:
      environment: its whole name, such as "python:MODULE:FUNCTION".
    """
    spec, _, modules = _found(environment)
    source = None
    for place in _folders(spec) or ([spec.origin] if spec and spec.origin else []):
        path = pathlib.Path(place, *modules)
        files = (path / "__init__.py", path.with_suffix(".py"))
        file = next((file for file in files if file.is_file()), None)
        if file is not None:
            return file.resolve()
        source = source or path.resolve()
    return source


def require_trusted(environment: str, directory: str | os.PathLike) -> None:
    """Raises if an environment that a run directory names may be code of whoever sent it.

    Imports nothing. Environments of the other suites pass, and so does a module that is not there.

    Args:
      environment: its whole name, as config.json has it.
      directory: of the run.

    Raises:
      UnusableEnvironmentError: the code lies inside the run directory, or in a package around it,
        or it is the standard library's.
    """
    spec, package, _ = _found(environment)
    source, run = source_of(environment), pathlib.Path(directory).resolve()
    around = [pathlib.Path(folder).resolve() for folder in _folders(spec)]
    library = pathlib.Path(os.__file__).resolve().parent
    if source is not None and source.is_relative_to(run):
        place = "from the run directory"
    elif any(run.is_relative_to(folder) for folder in around):
        place = "from a package that contains the run directory"
    elif package in sys.stdlib_module_names and (source or library).is_relative_to(library):
        place = "of Python's standard library"
    else:
        return
    raise UnusableEnvironmentError(
        f"the run's environment {environment} would import code {place}, {source or package}: read "
        "it, then give --trust_environment, in Python trust_environment=True"
    )


def _found(environment: str) -> tuple[machinery.ModuleSpec | None, str, list[str]]:
    """Returns where a user's environment has its package or module, its name, and those below."""
    suite, _, name = environment.partition(":")
    if suite != "python":
        return None, "", []
    package, *modules = name.partition(":")[0].split(".")
    return machinery.PathFinder.find_spec(package, [os.getcwd(), *sys.path]), package, modules


def _folders(spec: machinery.ModuleSpec | None) -> list[str]:
    """Returns the folders of a package; none of a module."""
    return list(spec.submodule_search_locations or ()) if spec else []


def rehearse(name: str, environment: dm_env.Environment) -> None:
    """Tries the extreme actions in an environment that no run uses: its episodes would be others.

    Raises:
      UnusableEnvironmentError: something failed; the message says what and where.
    """
    action = environment.action_spec()
    with _in_one_line(name, _class_of(environment)):
        for extreme in (action.minimum, action.maximum):
            environment.reset()
            _try(environment, extreme)


class _Fresh(dm_env.Environment):
    """A user's environment whose first step begins an episode, also after what `make` has tried.

    Attributes:
      is_fresh: whether no episode has begun.
      unwrapped: the user's object.
    """

    def __init__(self, environment: dm_env.Environment):
        self.is_fresh = True
        self.unwrapped = getattr(environment, "unwrapped", environment)
        self._environment = environment

    def reset(self) -> dm_env.TimeStep:
        self.is_fresh = False
        return self._environment.reset()

    def step(self, action: Any) -> dm_env.TimeStep:
        return self.reset() if self.is_fresh else self._environment.step(action)

    def observation_spec(self) -> Any:
        return self._environment.observation_spec()

    def action_spec(self) -> Any:
        return self._environment.action_spec()

    def reward_spec(self) -> Any:
        return self._environment.reward_spec()

    def discount_spec(self) -> Any:
        return self._environment.discount_spec()

    def close(self) -> None:
        self._environment.close()

    def __getattr__(self, name: str) -> Any:  # render, control_timestep, engine_bytes
        return getattr(self._environment, name)


def _of_dm_env(made: object, seed: int) -> dm_env.Environment:
    """Returns the user's environment, one of Gymnasium as one of dm_env.

    Raises:
      UnusableEnvironmentError: it is neither.
    """
    if isinstance(made, dm_env.Environment):
        return made
    if not isinstance(made, _kinds()):
        raise UnusableEnvironmentError(
            f"it gave {kind_of(made)}, neither a dm_env.Environment nor a gymnasium.Env"
        )
    from common.environments.gym_suite import GymEnvironment

    return GymEnvironment(made, seed)


def _kinds() -> tuple[type, ...]:
    """Returns the classes of environments that are taken."""
    gymnasium = sys.modules.get("gymnasium")  # whose import takes seconds
    return (dm_env.Environment, *([gymnasium.Env] if gymnasium else []))


def _function(name: str) -> Callable[[int], dm_env.Environment]:
    module_name, _, function_name = name.partition(":")
    if module_name == "__main__":
        raise UnusableEnvironmentError(
            "the processes of a run cannot import __main__, which is the notebook or the script "
            f"itself: write {function_name or 'the function'} into a module of its own, such as "
            f'my_module.py, and name it "python:my_module:{function_name or "make"}"'
        )
    if not all(part.isidentifier() for part in [*module_name.split("."), function_name]):
        raise UnusableEnvironmentError('a name looks like "python:my_package.my_module:make"')
    if not {"", os.getcwd()} & set(sys.path):  # the program was not started with python -m
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if f"{module_name}.".startswith(f"{error.name}."):
            raise UnusableEnvironmentError(
                f'there is no module "{error.name}", neither in {os.getcwd()} nor installed'
            ) from None
        raise  # the missing module is one that this module imports
    function = getattr(module, function_name, None)
    if not callable(function):
        callables = [key for key, value in vars(module).items() if callable(value)]
        near = difflib.get_close_matches(function_name, callables, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise UnusableEnvironmentError(f'{module_name} has no function "{function_name}"{hint}')
    _require_maker(function, module_name)
    return function


def _require_maker(function: Callable, module_name: str) -> None:
    """Raises if a callable makes no environments, before it is called: it may end the process.

    Raises:
      UnusableEnvironmentError: it is a class of something else, says that it returns something
        else, is compiled, or is imported from the standard library.
    """
    while isinstance(function, functools.partial):
        function = function.func
    makes: Any = Any
    if isinstance(function, type):
        makes = function
    elif inspect.isfunction(function):
        try:
            makes = get_type_hints(function).get("return", Any)
        except NameError:  # of an import for type checkers alone
            pass
    owner = str(getattr(function, "__module__", "")).partition(".")[0]
    if (
        inspect.isbuiltin(function)
        or (owner in sys.stdlib_module_names and owner != module_name.partition(".")[0])
        or (inspect.isclass(makes) and makes is not Any and not issubclass(makes, _kinds()))
    ):
        raise UnusableEnvironmentError(
            f"{function!r} makes neither a dm_env.Environment nor a gymnasium.Env: name a function "
            "of yours, or an environment's class"
        )


def _try(environment: dm_env.Environment, action: Any) -> None:
    """Raises UnusableEnvironmentError if something is wrong with a step."""
    spec = environment.action_spec()
    timestep = environment.step(np.full(spec.shape, action, spec.dtype))
    environment.observation_spec().validate(timestep.observation)
    if timestep.first():
        return
    for name, value in (("reward", timestep.reward), ("discount", timestep.discount)):
        if np.shape(value) != () or value is None or not np.isfinite(value):
            raise UnusableEnvironmentError(
                f"the {name} of a step must be a finite number, it is {value!r}"
            )
    if not 0 <= timestep.discount <= 1:
        raise UnusableEnvironmentError(f"a discount must be in [0, 1], it is {timestep.discount!r}")


_LIBRARIES = (
    *(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")),
    str(pathlib.Path(__file__).parents[1]),
    "<frozen",
)
"""Beginnings of the names of files that are not the user's."""


@contextlib.contextmanager
def _in_one_line(name: str, code: Any = None) -> Iterator[None]:
    """Raises UnusableEnvironmentError, with the user's line, for whatever the block raises.

    Args:
      name: of the environment.
      code: the function or class that the block calls.
    """
    try:
        yield
    except UnusableEnvironmentError as error:
        text = f'environment "python:{name}": {_one_line(error)}{_place(code)}'
        raise UnusableEnvironmentError(text) from None
    except (Exception, SystemExit) as error:
        text = f"{type(error).__name__}: {_one_line(error)}"
        if not isinstance(error, SyntaxError):  # whose message names the place
            frames = traceback.extract_tb(error.__traceback__)
            users = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
            places = [f" ({frame.filename}, line {frame.lineno})" for frame in users[-1:]]
            text += places[0] if places else _place(code)
        raise UnusableEnvironmentError(f'environment "python:{name}" failed: {text}') from error


def _class_of(environment: Any) -> type:
    """Returns the user's class of an environment, without wrappers."""
    environment = getattr(environment, "wrapped", environment)
    return type(getattr(environment, "unwrapped", environment))


def _place(code: Any) -> str:
    """Returns the file and line of a function or class in brackets; "" if they are not known."""
    try:
        return f" ({inspect.getsourcefile(code)}, line {inspect.getsourcelines(code)[1]})"
    except (OSError, TypeError):  # there is no source, as in a console
        return ""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
