"""The reproduction's README says what the code says."""

import ast
import dataclasses
import pathlib
import re

from reproductions.d4pg import config as config_lib
from reproductions.d4pg import settings

ROOT = pathlib.Path(config_lib.__file__).parents[2]
HERE = ROOT / "reproductions" / "d4pg"
README = (HERE / "README.md").read_text()


def section(title):
    """The text under a heading."""
    return README.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]


def names_in(path):
    """Functions, classes and Class.method of a file."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (n.name for n in node.body if isinstance(n, ast.FunctionDef))
            found |= {f"{node.name}.{method}" for method in methods}
    return found


def test_table_of_hyperparameters_is_the_configuration():
    rows = re.findall(r"^\| `(\w+)` \| `(.+?)` \| (.+) \|$", section("Hyperparameters"), re.M)
    fields = {field.name: field for field in dataclasses.fields(config_lib.D4PGConfig)}
    assert [name for name, _, _ in rows] == list(fields)
    for name, value, source in rows:
        assert ast.literal_eval(value) == fields[name].default, name
        in_config = "Not in the paper" in fields[name].metadata["help"]
        assert ("Not in the paper" in source) == in_config, name
    assert f"K = {config_lib.NUM_ACTORS} " in section("Hyperparameters")


def test_flags_in_the_text_exist():
    fields = {field.name for field in dataclasses.fields(config_lib.D4PGConfig)}
    named = re.findall(r"--config\.(\w+)=", README)
    assert named and set(named) <= fields
    chosen = re.findall(r"--setting=([\w-]+)", README)
    assert chosen and set(chosen) <= set(settings.SETTINGS)


def test_every_place_in_the_maps_exists():
    places = re.findall(r"`([\w/]+\.py):([\w.]+)`", section("Equations and where they are"))
    assert len(places) > 25
    for file, name in places:
        path = ROOT / file if "/" in file else HERE / file
        assert name in names_in(path), f"{file}:{name}"


def test_every_test_that_is_named_exists():
    there = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        there |= names_in(path)
    named = re.findall(r"`(test_\w+)`", README)
    assert len(named) > 15
    assert set(named) <= there, set(named) - there
    for file in re.findall(r"tests/[\w/]+\.py", README):
        assert (ROOT / file).exists(), file


def test_every_pitfall_is_there():
    numbers = re.findall(r"^(\d+)\. ", section("Pitfalls, and how each is handled"), re.M)
    assert [int(number) for number in numbers] == list(range(1, 17))
