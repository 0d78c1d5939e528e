"""The table of `make lines`."""

import lines

PYTHON = '''"""Of the module."""

import math
from os import (
    path,
)

NAME = 1  # a comment after code
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
        "NAME = 1  # a comment after code",
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


def test_the_table_adds_up(tmp_path, monkeypatch, capsys):
    sizes = {"common/types.py": 1, "common/replay/store.py": 2, "common/replay/cc/a.h": 3}
    sizes |= {"setup.py": 4, "reproductions/d4pg/config.py": 5, "tests/test_a.py": 1100}
    for name, count in sizes.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        comment = "//" if name.endswith(".h") else "#"
        (tmp_path / name).write_text(f"{comment} A comment.\n" + "a = 1;\n" * count)
    (tmp_path / "common/notes.md").write_text("text\n")
    monkeypatch.setattr(lines, "ROOT", tmp_path)
    lines.main()
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["room", "lines", "logic"],
        ["common/replay", "7", "5"],
        ["common", "2", "1"],
        ["reproductions/d4pg", "6", "5"],
        ["setup", "5", "4"],
        ["production", "20", "15"],
        ["tests", "1,101", "1,100"],
    ]
