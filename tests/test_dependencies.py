"""The packages that setup.py asks for, those that the code imports, and those of the lock."""

import ast
from importlib import metadata
import pathlib
import sys
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).parents[1]
OURS = {"common", "reproductions", "binaries"}
OPTIONAL = {"cpprb", "reverb", "ray"}
"""Peers of the benchmarks, from `make peers`, and the extra `ray`."""


def declared():
    """The requirements that `install_requires` of setup.py lists, by name, and the others."""
    calls = [node for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))]
    values = {
        key.arg: key.value for node in calls if isinstance(node, ast.Call) for key in node.keywords
    }
    return (
        [Requirement(one) for one in ast.literal_eval(values["install_requires"])],
        [Requirement(one) for one in ast.literal_eval(values["extras_require"])["test"]],
    )


def locked():
    lines = (ROOT / "requirements.lock").read_text().split()
    return {
        canonicalize_name(name): version for name, version in (one.split("==") for one in lines)
    }


def imported():
    """The packages that the code imports, also within functions, without Python's own."""
    for folder in OURS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Import):
                    yield from (alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield node.module.split(".")[0]


def test_what_is_imported_is_declared():
    names = {canonicalize_name(one.name) for one in declared()[0]}
    packages = set(imported()) - OURS - OPTIONAL - sys.stdlib_module_names
    homes = metadata.packages_distributions()
    assert {"PIL", "tensorflow"} <= packages
    assert not {
        package: homes[package]
        for package in packages
        if not names & {canonicalize_name(home) for home in homes[package]}
    }


def test_the_lock_has_what_is_declared_in_versions_that_are_asked_for():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    install, test = declared()
    versions, wrong = locked(), []
    for one in (*install, *test, *map(Requirement, build)):
        version = versions.get(canonicalize_name(one.name))
        if version is None or version not in one.specifier:
            wrong.append(f"{one}: {version}")
    assert not wrong


def test_the_lock_has_what_its_packages_require():
    """An install from the lock then takes no package in a version that nobody chose."""
    versions, wrong = locked(), []
    for name in versions:
        for line in metadata.requires(name) or ():
            one = Requirement(line)
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                version = versions.get(canonicalize_name(one.name))
                if version is None or version not in one.specifier:
                    wrong.append(f"{name} requires {one}: {version}")
    assert not wrong
