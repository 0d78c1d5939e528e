"""Users' modules that create environments: imports, messages of errors, and trust.

They are imported from the working directory or from the installed packages.
"""

from collections.abc import Iterator
import contextlib
import importlib
from importlib import machinery
import inspect
import os
import pathlib
import sys
import sysconfig
import threading
import traceback
from types import ModuleType
from typing import Any

import dm_env
import numpy as np

from common.environments.spec import UnusableEnvironmentError


class _Importing(threading.local):
    """The unfinished imports of a thread.

    Attributes:
      depth: number of users' modules whose import has started and not ended.
    """

    depth = 0


_importing = _Importing()


def module(name: str) -> ModuleType:
    """Imports a user's module.

    Raises:
      UnusableEnvironmentError: there is no such module.
      Exception: whatever its code raises.
    """
    if not {"", os.getcwd()} & set(sys.path):  # the program was not started with python -m
        sys.path.insert(0, os.getcwd())
    _importing.depth += 1
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            raise UnusableEnvironmentError(
                f'there is no module "{error.name}", neither in {os.getcwd()} nor installed'
            ) from None
        raise  # the missing module is imported by this module
    finally:
        _importing.depth -= 1


def is_importing() -> bool:
    """Returns whether this thread is importing a user's module, which should only define things."""
    return _importing.depth > 0


def source_of(environment: str) -> pathlib.Path | None:
    """Returns the file from which the module of a user's environment would be imported.

    Imports nothing. Returns None if the environment is not a user's, or its package is missing. If
    only the module is missing, returns its place in the package, without a suffix.

    Args:
      environment: full name, such as "python:MODULE:FUNCTION" or "gym:MODULE:ID".
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


def is_users(environment: str) -> bool:
    """Returns whether an environment, given by its full name, is a user's own."""
    return bool(_found(environment)[1])


def require_trusted(environment: str, directory: str | os.PathLike) -> None:
    """Raises if a run's environment may be code of whoever sent the run directory.

    Imports nothing. Environments of the other suites pass, and so does a package that is missing,
    unless it has the name of one in the standard library.

    Args:
      environment: the environment's full name, as in config.json.
      directory: the run directory.

    Raises:
      UnusableEnvironmentError: the code is inside the run directory or in a package around it, or
        in the standard library, or in an installed package and would receive arguments.
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
        place = "from Python's standard library"
    elif "(" in environment and source is not None and _is_installed(source):
        place = "from an installed package with arguments chosen by the run"
    else:
        return
    raise UnusableEnvironmentError(
        f"the run's environment {environment} would import code {place}, {source or package}: read "
        "it, then give --trust_environment (in Python: trust_environment=True)"
    )


def _found(environment: str) -> tuple[machinery.ModuleSpec | None, str, list[str]]:
    """Returns the spec and name of a user's top package or module, and the names below it."""
    suite, _, name = environment.partition("(")[0].partition(":")
    path, colon, _ = name.partition(":")
    if suite not in ("python", "gym") or (suite == "gym" and not colon):
        return None, "", []
    package, *modules = path.split(".")
    return machinery.PathFinder.find_spec(package, [os.getcwd(), *sys.path]), package, modules


def _is_installed(source: pathlib.Path) -> bool:
    return any(source.is_relative_to(pathlib.Path(each).resolve()) for each in _LIBRARIES[:-2])


def _folders(spec: machinery.ModuleSpec | None) -> list[str]:
    """Returns the folders of a package; an empty list for a module."""
    return list(spec.submodule_search_locations or ()) if spec else []


def try_extremes(environment: dm_env.Environment) -> None:
    """Raises UnusableEnvironmentError if a step with the lowest or highest actions is invalid.

    The actions change later episodes, so no run may use the environment.
    """
    action = environment.action_spec()
    for extreme in (action.minimum, action.maximum):
        environment.reset()
        try_step(environment, extreme)


def try_step(environment: dm_env.Environment, action: Any) -> None:
    """Raises UnusableEnvironmentError if a step with this action is invalid."""
    spec = environment.action_spec()
    timestep = environment.step(np.full(spec.shape, action, spec.dtype))
    environment.observation_spec().validate(timestep.observation)
    if timestep.first():
        return
    for name, value in (("reward", timestep.reward), ("discount", timestep.discount)):
        if np.shape(value) != () or value is None or not np.isfinite(value):
            raise UnusableEnvironmentError(
                f"the {name} of a step must be a finite number, is {value!r}"
            )
    if not 0 <= timestep.discount <= 1:
        raise UnusableEnvironmentError(f"a discount must be in [0, 1], is {timestep.discount!r}")


_LIBRARIES = (
    *(sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")),
    str(pathlib.Path(__file__).parents[1]),
    "<frozen",
)
"""Prefixes of the paths of files that are not the user's."""


@contextlib.contextmanager
def in_one_line(name: str, code: Any = None) -> Iterator[None]:
    """Converts whatever the block raises to UnusableEnvironmentError, with the user's line.

    Args:
      name: name of the environment, with its suite.
      code: the function or class that the block calls.
    """
    try:
        yield
    except UnusableEnvironmentError as error:
        text = f'environment "{name}": {_one_line(error)}{_place(code)}'
        raise UnusableEnvironmentError(text) from None
    except (Exception, SystemExit) as error:
        raise failure(name, error, code) from error


def failure(name: str, error: BaseException, code: Any = None) -> UnusableEnvironmentError:
    """Returns an error that says in one line what an environment raised, and in which user's line.

    Args:
      name: name of the environment, with its suite.
      error: the exception that it raised.
      code: its function or class, whose line is given if the trace has no line of the user's.
    """
    text = f"{type(error).__name__}: {_one_line(error)}"
    if not isinstance(error, SyntaxError):  # whose message names the place
        frames = traceback.extract_tb(error.__traceback__)
        users = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
        places = [f" ({frame.filename}, line {frame.lineno})" for frame in users[-1:]]
        text += places[0] if places else _place(code)
    return UnusableEnvironmentError(f'environment "{name}" failed: {text}')


def class_of(environment: Any) -> type:
    """Returns the user's class of an environment, inside all wrappers."""
    while "wrapped" in vars(environment):
        environment = environment.wrapped
    return type(getattr(environment, "unwrapped", environment))


def _place(code: Any) -> str:
    """Returns the file and line of a function or class in brackets; "" if not known."""
    try:
        return f" ({inspect.getsourcefile(code)}, line {inspect.getsourcelines(code)[1]})"
    except (OSError, TypeError):  # there is no source, as in a console
        return ""


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
