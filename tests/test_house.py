"""The rooms of the house: imports go down, and one name stands for one thing."""

import ast
import collections
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
ROOMS = (
    "types",
    "config",
    "values",
    "environments",
    "reporting",
    "cluster",
    "networks",
    "replay",
    "acting",
    "learning",
    "agents",
    "roles",
    "program",
    "figures",
    "experiments",
    "benchmarks",
)
"""From the ground up: a room imports those before it."""
VAGUE = {
    "What",
    "How",
    "Of",
    "Whether",
    "By",
    "For",
    "Where",
    "Which",
    "As",
    "That",
    "Those",
    "One",
}
FILES = sorted(
    path
    for folder in ("common", "reproductions", "binaries")
    for path in (ROOT / folder).rglob("*.py")
)
TREES = {path.relative_to(ROOT): ast.parse(path.read_text()) for path in FILES}


def imports(tree):
    """Yields (line, dotted name) of every import in a file, also of those inside functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def room_of(path):
    return path.parts[1].removesuffix(".py")


def test_every_room_is_known():
    rooms = {room_of(path) for path in TREES if path.parts[0] == "common"} - {"__init__"}
    assert rooms == set(ROOMS)


def test_no_import_runs_up_the_house():
    upward = []
    for path, tree in TREES.items():
        if path.parts[0] != "common" or room_of(path) not in ROOMS:
            continue
        for line, name in imports(tree):
            parts = name.split(".")
            if parts[0] == "common" and ROOMS.index(parts[1]) > ROOMS.index(room_of(path)):
                upward.append(f"{path}:{line} {name}")
    assert not upward


def test_the_shared_library_knows_no_paper_and_no_paper_another():
    found = []
    for path, tree in TREES.items():
        for line, name in imports(tree):
            parts = name.split(".")
            if parts[0] != "reproductions" or path.parts[0] == "binaries":
                continue
            own = path.parts[0] == "reproductions" and path.parts[1] in (parts[1], "__init__.py")
            if not own:
                found.append(f"{path}:{line} {name}")
    assert not found


@pytest.mark.parametrize("kind", ["class", "module"])
def test_one_name_stands_for_one_thing(kind):
    """Only a role may have the name of a module in another room: `learner.py`."""
    places = collections.defaultdict(set)
    for path, tree in TREES.items():
        if path.parts[0] != "common":
            continue
        if kind == "module" and path.name != "__init__.py" and room_of(path) != "roles":
            places[path.stem].add(str(path))
        elif kind == "class":
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].add(str(path))
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_first_lines_are_sentences():
    vague = []
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                words = (ast.get_docstring(node) or "A").split()
                if words[0] in VAGUE:
                    vague.append(f"{path}:{node.lineno} {' '.join(words[:6])}")
    assert not vague
