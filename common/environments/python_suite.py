"""The user's own environments, named "MODULE:FUNCTION".

The module is imported from the working directory or the installed packages. `FUNCTION(seed)` must
return a `dm_env.Environment` or a `gymnasium.Env` of one of two kinds: observations are a float
array or a nest of them, and an action is one bounded array of floats or integers; or observations
are uint8 images [height, width, channels] and actions discrete.
"""

from collections.abc import Callable
import difflib
import functools
import importlib
from importlib import machinery
import inspect
import os
import pathlib
import sys
import traceback
import typing

import dm_env
import numpy as np

from common.environments.canonical import as_agents_take_it
from common.environments.spec import UnusableEnvironmentError


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
    try:
        environment = as_agents_take_it(_of_dm_env(_function(name)(seed), seed))
        _rehearse(environment)
    except UnusableEnvironmentError as error:
        raise UnusableEnvironmentError(f'environment "python:{name}": {_one_line(error)}') from None
    except (Exception, SystemExit) as error:
        raise UnusableEnvironmentError(
            f'environment "python:{name}" failed: {_describe(error)}'
        ) from error
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


def _of_dm_env(made: object, seed: int) -> dm_env.Environment:
    """Returns the user's environment, one of Gymnasium as one of dm_env.

    Raises:
      UnusableEnvironmentError: it is neither.
    """
    if isinstance(made, dm_env.Environment):
        return made
    if not isinstance(made, _kinds()):
        raise UnusableEnvironmentError(
            f"it gave a {type(made).__name__}, neither a dm_env.Environment nor a gymnasium.Env"
        )
    from common.environments.gym_suite import GymEnvironment

    return GymEnvironment(made, seed)


def _kinds() -> tuple[type, ...]:
    """Returns the classes of environments that are taken."""
    gymnasium = sys.modules.get("gymnasium")  # whose import takes seconds
    return (dm_env.Environment, *([gymnasium.Env] if gymnasium else []))


def _function(name: str) -> Callable[[int], dm_env.Environment]:
    module_name, _, function_name = name.partition(":")
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
    makes: typing.Any = typing.Any
    if isinstance(function, type):
        makes = function
    elif inspect.isfunction(function):
        try:
            makes = typing.get_type_hints(function).get("return", typing.Any)
        except NameError:  # of an import for type checkers alone
            pass
    owner = str(getattr(function, "__module__", "")).partition(".")[0]
    if (
        inspect.isbuiltin(function)
        or (owner in sys.stdlib_module_names and owner != module_name.partition(".")[0])
        or (inspect.isclass(makes) and makes is not typing.Any and not issubclass(makes, _kinds()))
    ):
        raise UnusableEnvironmentError(
            f"{function!r} makes neither a dm_env.Environment nor a gymnasium.Env: name a function "
            "of yours, or an environment's class"
        )


def _rehearse(environment: dm_env.Environment) -> None:
    """Raises UnusableEnvironmentError if something is wrong with the first two time steps."""
    first = environment.reset()
    if not first.first():
        raise UnusableEnvironmentError(f"its reset() must return a FIRST step, it gave {first}")
    action = environment.action_spec()
    second = environment.step(np.zeros(action.shape, action.dtype))
    for timestep in (first, second):
        environment.observation_spec().validate(timestep.observation)
    for name, value in (("reward", second.reward), ("discount", second.discount)):
        if np.shape(value) != () or value is None or not np.isfinite(value):
            raise UnusableEnvironmentError(
                f"the {name} of a step must be a finite number, it is {value!r}"
            )
    if not 0 <= second.discount <= 1:
        raise UnusableEnvironmentError(f"a discount must be in [0, 1], it is {second.discount!r}")


def _describe(error: BaseException) -> str:
    """Returns the error and the line that raised it, on one line."""
    text = f"{type(error).__name__}: {_one_line(error)}"
    frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if not frame.filename.startswith("<frozen")]
    if isinstance(error, SyntaxError):
        return text  # the message names the place
    return f"{text} ({frames[-1].filename}, line {frames[-1].lineno})"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
