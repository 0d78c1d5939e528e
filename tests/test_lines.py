"""The table of `make lines`."""

import pathlib
import subprocess

import lines

PYTHON = '''"""Of the module."""

import math
from os import (
    path,
)

NAME = 1  # a comment beside code
"""Of a constant: code, as a plain string is."""


class Shape:
    """Of a class,

    with a blank line.
    """

    sides: int = 0

    @property
    def area(
        self,
        unit: str = "m",
    ) -> float:
        """Of a function."""
        # A comment.
        text = """
        # no comment

        """
        return math.pi  # one

    def empty(self): ...

    def nested(self):
        @staticmethod
        def inner():
            return 1

        return inner
'''


def test_of_python_documentation_signatures_and_imports_are_left_out():
    expected = {
        "NAME = 1  # a comment beside code",
        '"""Of a constant: code, as a plain string is."""',
        "class Shape:",
        "sides: int = 0",
        "@property",
        'text = """',
        "# no comment",
        '"""',
        "return math.pi  # one",
        "@staticmethod",
        "return 1",
        "return inner",
    }
    assert lines.python_logic(PYTHON) == len(expected)


def test_of_cpp_comments_and_blank_lines_are_left_out():
    text = """// A comment.

#include <map>  // counts
/* Several
   lines */ int a;
/* One. */
const char* url = "http://a/*b*/";
    // Indented.
"""
    assert lines.cpp_logic(text) == 3


def test_rooms():
    rooms = {
        "common/types.py": "common",
        "common/replay/cc/ops.cc": "common/replay",
        "reproductions/__init__.py": "reproductions",
        "reproductions/apex/dqn/dqn.py": "reproductions/apex",
        "binaries/d4pg.py": "binaries",
        "setup.py": "setup",
        "tests/values/test_multistep.py": "tests",
    }
    assert {path: lines.room_of(pathlib.Path(path)) for path in rooms} == rooms


def test_the_table_adds_up():
    made = subprocess.run(
        ["make", "--no-print-directory", "lines"],
        cwd=lines.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    _, *table = (line.split() for line in made.stdout.splitlines())
    numbers = {room: [int(one.replace(",", "")) for one in rest] for room, *rest in table}
    production, tests = numbers.pop("production"), numbers.pop("tests")
    assert production == [sum(column) for column in zip(*numbers.values())]
    assert {"common", "common/replay", "reproductions/d4pg", "binaries", "setup"} <= {*numbers}
    physical = len((lines.ROOT / "setup.py").read_text().splitlines())
    assert numbers["setup"][0] == physical > numbers["setup"][1] > 0
    assert tests[0] > tests[1] > 0
