"""The rooms of the house: imports go down, and one name stands for one thing."""

import ast
import collections
import pathlib
import re

import pytest

import reproductions

ROOT = pathlib.Path(__file__).parents[1]
ROOMS = (
    "types config names user_error values environments reporting cluster networks replay data "
    "remote acting learning agents roles program evidence benchmarks"
).split()
"""From the ground up: a room imports those before it."""
SMALL_LINES = 100
VAGUE = set("What How Of Whether By For Where Which As That Those One".split())
FILES = sorted(
    path
    for folder in ("common", "reproductions", "binaries")
    for path in (ROOT / folder).rglob("*.py")
)
TREES = {path.relative_to(ROOT): ast.parse(path.read_text()) for path in FILES}


NODES = [(path, node) for path, tree in TREES.items() for node in ast.walk(tree)]


def imports():
    """Yields (file, line, dotted name) of every import, also of those inside functions."""
    for path, node in NODES:
        if isinstance(node, ast.Import):
            yield from ((path, node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            for alias in node.names:
                yield path, node.lineno, f"{node.module}.{alias.name}"


def room_of(path):
    return path.parts[1].removesuffix(".py")


def test_every_room_is_known():
    rooms = {room_of(path) for path in TREES if path.parts[0] == "common"} - {"__init__"}
    assert rooms == {*ROOMS}


def test_no_import_runs_up_the_house():
    upward = []
    for path, line, name in imports():
        parts = name.split(".")
        if path.parts[0] == parts[0] == "common" and room_of(path) in ROOMS:
            if ROOMS.index(parts[1]) > ROOMS.index(room_of(path)):
                upward.append(f"{path}:{line} {name}")
    assert not upward


def test_the_shared_library_knows_no_paper_and_no_paper_another():
    found = []
    for path, line, name in imports():
        parts = name.split(".")
        if parts[0] != "reproductions" or path.parts[0] == "binaries":
            continue
        own = path.parts[0] == "reproductions" and path.parts[1] in (parts[1], "__init__.py")
        if not own:
            found.append(f"{path}:{line} {name}")
    assert not found


def test_only_a_papers_directory_and_its_program_name_an_agent():
    """In code, that is: docstrings and help may say which paper something is from."""
    names = "|".join({*reproductions.AGENTS, *reproductions.PAPERS})
    named = re.compile(rf"(?<![\w ])({names})(?![\w ])")  # "d4pg", "runs/d4pg", not "they refer to"
    found = []
    for path, tree in TREES.items():
        own = path.parts[0] == "binaries" and path.stem in reproductions.AGENTS
        if own or (path.parts[0] == "reproductions" and path.name != "__init__.py"):
            continue
        words = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in words:
                if named.search(str(node.value)):
                    found.append(f"{path}:{node.lineno} {node.value}")
    assert not found


def test_roles_know_no_kind_of_agent_and_no_kind_of_data():
    """They ask the agent and its data, so that a new kind of either needs no other role."""
    known = {"common.agents.agent", "common.agents.trained", "common.data.data"}
    found = [
        f"{path}:{line} {name}"
        for path, line, name in imports()
        if path.parts[:2] == ("common", "roles") and name.rpartition(".")[0] not in known
        if name.startswith(("common.agents", "common.data"))
    ]
    found += [
        f"{path}:{node.lineno} {node.id}"
        for path, node in NODES
        if path.parts[:2] == ("common", "roles") and isinstance(node, ast.Name)
        if node.id in ("isinstance", "issubclass", "type")
    ]
    assert not found


def test_calls_between_processes_are_made_in_two_rooms():
    """The others have stores, which may be in another process, and clients of parameters."""
    others = {
        "common/roles/run_context.py",  # makes each role's server and clients
        "common/roles/keeper.py",  # passes the server on
        "common/program/task.py",  # asks a role's partners whether they refuse it
    }
    found = {
        str(path)
        for path, _, name in imports()
        if room_of(path) not in ("cluster", "remote", "benchmarks")  # which measure them
        if name.startswith("common.cluster.rpc")
    }
    assert found == others


def test_graphs_are_traced_without_autograph():
    """It rewrites every function on the way, which takes longer than all else of a run's start."""
    told = {
        node.func
        for _, node in NODES
        if isinstance(node, ast.Call) and "autograph" in [word.arg for word in node.keywords]
    }
    assert not [
        f"{path}:{node.lineno}"
        for path, node in NODES
        if isinstance(node, ast.Attribute) and node.attr == "function"
        if ast.unparse(node) == "tf.function"
        if node not in told
    ]


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


def test_a_small_module_that_only_one_module_imports_is_part_of_it():
    modules = {".".join(path.with_suffix("").parts): path for path in TREES}
    importers = collections.defaultdict(set)
    for path, _, name in imports():
        module = name if name in modules else name.rpartition(".")[0]
        importers[module] |= {path} - {modules.get(module)}
    small = {
        module
        for module, path in modules.items()
        if path.parts[0] == "common" and path.name != "__init__.py"
        if len((ROOT / path).read_text().splitlines()) < SMALL_LINES
        if len(importers[module]) == 1
    }
    assert not small


def test_first_lines_are_sentences():
    vague = []
    for path, node in NODES:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            words = (ast.get_docstring(node) or "A").split()
            if words[0] in VAGUE:
                vague.append(f"{path}:{node.lineno} {' '.join(words[:6])}")
    assert not vague
