"""The packages that setup.py asks for, those that the code imports, and those of the lock."""

import ast
from importlib import metadata
import pathlib
import re
import subprocess
import sys
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
import pytest

import reproductions

ROOT = pathlib.Path(__file__).parents[1]
OURS = {"common", "reproductions", "binaries"}
OPTIONAL = {"av", "cpprb", "jax", "optax", "optuna", "ray", "stable_baselines3", "torch"}
"""From `make video` and `make peers`, and the extras `ray` and `search`."""
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


VALUES = {
    node.targets[0].id: node.value
    for node in ast.parse((ROOT / "setup.py").read_text()).body
    if isinstance(node, ast.Assign)
}
REQUIRED, EXTRAS, ALL = (ast.literal_eval(VALUES[name]) for name in ("REQUIRED", "EXTRAS", "ALL"))


def declared():
    """The requirements that `make setup` installs for programs, and for tests."""
    programs = [*REQUIRED, *(requirement for name in ALL for requirement in EXTRAS[name])]
    return [*map(Requirement, programs)], [*map(Requirement, EXTRAS["test"])]


def applies(requirement):
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def locked():
    """The versions that the lock has for this Python, by name."""
    lines = re.findall(r"^(\w.*?) \\$", (ROOT / "requirements.lock").read_text(), re.M)
    return {
        canonicalize_name(requirement.name): str(requirement.specifier).removeprefix("==")
        for requirement in map(Requirement, lines)
        if applies(requirement)
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
    names = {canonicalize_name(requirement.name) for requirement in declared()[0]}
    packages = set(imported()) - OURS - OPTIONAL - sys.stdlib_module_names
    homes = metadata.packages_distributions()
    assert {"PIL", "tensorflow"} <= packages
    assert not {
        package: homes.get(package)
        for package in packages
        if not names & {canonicalize_name(home) for home in homes.get(package, [package])}
    }


def test_the_lock_has_what_is_declared_in_versions_that_are_asked_for():
    build = PYPROJECT["build-system"]["requires"]
    install, test = declared()
    versions, wrong = locked(), []
    for requirement in filter(applies, (*install, *test, *map(Requirement, build))):
        version = versions.get(canonicalize_name(requirement.name))
        if version is None or version not in requirement.specifier:
            wrong.append(f"{requirement}: {version}")
    assert not wrong


def test_the_lock_has_what_its_packages_require():
    """An install from the lock then takes no package in a version that nobody chose."""
    overrides = map(Requirement, PYPROJECT["tool"]["uv"]["override-dependencies"])
    overridden = {requirement.name: requirement for requirement in overrides}
    versions, wrong = locked(), []
    for name in versions:
        for line in metadata.requires(name) or ():
            requirement = Requirement(line)
            if applies(requirement) and applies(overridden.get(requirement.name, requirement)):
                version = versions.get(canonicalize_name(requirement.name))
                if version is None or version not in requirement.specifier:
                    wrong.append(f"{name} requires {requirement}: {version}")
    assert not wrong


def test_every_locked_package_has_its_hash():
    """So a changed file is refused. No address is in a lock: each user has an own registry."""
    for lock in ("requirements.lock", "docs/requirements.lock"):
        text = (ROOT / lock).read_text()
        entries = re.findall(
            r"^\w\S*==\S+ .*\\$(\n    --hash=sha256:[0-9a-f]{64}( \\)?$)+", text, re.M
        )
        assert len(entries) == len(re.findall(r"^\w", text, re.M)) > 30
        assert "://" not in text


CORE = """
import gc, importlib, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(name + " is not installed", name=name)

sys.meta_path.insert(0, Blocked())
from common.cluster.processes import limit_threads
limit_threads(1)
print("tensorflow" in sys.modules, "keras" in sys.modules, gc.isenabled())
for name in {modules}:
    importlib.import_module(name)
import tensorflow as tf
print(tf.keras.losses.MeanSquaredError()([1.0], [3.0]).numpy())
from common.replay.memory import Fifo, Memory, Uniform
memory = Memory(tf.TensorSpec([2]), 10, {{"sample": Uniform(), "removal": Fifo()}}, "removal")
memory.insert([7], tf.constant([[1.0, 2.0]]), [1.0])
print(memory.sample(1).steps.numpy().tolist())
from common import environments
try:
    environments.make("control:cartpole:swingup", 0)
except environments.UnusableEnvironmentError as error:
    print(error)
own = environments.make("python:reproductions.d4pg.own_environment:make", 0)
print(own.reset().observation.shape)
"""


def test_replay_values_and_agents_need_the_required_packages_alone():
    """The others are blocked, in the place of an environment without them.

    Keras, which TensorFlow requires, is imported when it is used, since it takes seconds.
    """
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for room in ("values", "replay", "remote", "data", "networks", "learning", "acting")
        for path in sorted((ROOT / "common" / room).glob("*.py"))
    ]
    modules += ["common.agents.trained", "common.program.main", "reproductions.d4pg.d4pg"]
    homes = metadata.packages_distributions()
    names = {canonicalize_name(requirement.name) for requirement in declared()[0]}
    kept, new = set(), {canonicalize_name(Requirement(name).name) for name in REQUIRED}
    while new:  # with all that they require
        kept |= new
        required = [Requirement(line) for name in new for line in metadata.requires(name) or ()]
        new = {
            canonicalize_name(requirement.name) for requirement in required if applies(requirement)
        } - kept
    absent = {
        package
        for package, found in homes.items()
        if {canonicalize_name(home) for home in found} & (names - kept)
    }
    assert {"gymnasium", "pandas", "dm_control", "mujoco", "matplotlib"} <= absent
    done = subprocess.run(
        [sys.executable, "-c", CORE.format(absent=absent, modules=modules)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["True False True", "4.0", "[[1.0, 2.0]]"]
    assert 'pip install -e ".[control]"' in lines[3]
    assert lines[4] == "(2,)"


SIMULATORS = {"dm_control", "mujoco", "ale_py", "minatar"}
REPORTING = "csv_rows, curves, progress, run_directory, tensorboard"


@pytest.mark.parametrize(
    "code, absent",
    [
        ("import common.config", {"tensorflow", "numpy"}),
        (f"from common.reporting import {REPORTING}", {"tensorflow", "pandas", "matplotlib"}),
        ("from common import environments as e; e.frames_per_step('atari:pong')", SIMULATORS),
        (
            "import common.environments as e; e.make('flow:cylinder', 0).observation_spec()",
            {"tensorflow"},
        ),
        ("from common.replay import footprint", {"tensorflow", "numpy"}),  # as the launcher does
        (
            "import numpy, common.replay.png as png; png.encode(numpy.zeros((1, 36, 36, 4), 'u1'))",
            {"tensorflow"},
        ),
        ("import binaries.evaluate", {"tensorflow"}),
        # NumPy reads its number of threads once, when it is imported: a role sets it before.
        (
            "import " + ", ".join(f"binaries.{agent}" for agent in reproductions.AGENTS),
            {"tensorflow", "numpy", "pandas", "matplotlib"},
        ),
    ],
)
def test_what_is_slow_to_import_is_imported_where_it_is_used(code, absent):
    code = f"import sys; {code}; print([name for name in {sorted(absent)} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
