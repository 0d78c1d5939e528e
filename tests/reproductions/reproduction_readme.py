"""Comparison of a reproduction's README with the code."""

import ast
import dataclasses
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]


@functools.cache
def names_in(path):
    """Returns the functions, classes and Class.method of a Python file."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (n.name for n in node.body if isinstance(n, ast.FunctionDef))
            found |= {f"{node.name}.{method}" for method in methods}
    return found


def check_flags(text, all_settings):
    """Asserts that the hyperparameters and settings in a text's flags exist in one of `Settings`.

    Returns:
      The names of these hyperparameters and of these settings.
    """
    fields = {
        f.name for settings in all_settings for f in dataclasses.fields(settings.config_class)
    }
    named = set(re.findall(r"--config\.(\w+)=", text))
    assert named <= fields, named - fields
    settings = {name for settings in all_settings for name in settings.names}
    chosen = set(re.findall(r"--setting=([\w.-]+)", text))
    assert chosen <= settings, chosen - settings
    return named, chosen


def check_named_tests(text):
    """Asserts that the tests that a text names exist."""
    there = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        there |= names_in(path)
    named = set(re.findall(r"`(test_\w+)`", text))
    assert named <= there, named - there
    for file, name in re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", text):
        assert (ROOT / file).exists(), file
        assert not name or name in names_in(ROOT / file), f"{file}::{name}"


def columns(text):
    """Returns the names in the first cells of a table's rows."""
    cells = re.findall(r"^\| (`.+?) \| .+ \|$", text, re.M)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


class Readme:
    """The pages of a directory below `reproductions`.

    Attributes:
      text: README.md and all others but RESULTS.md, which may be about several agents.
    """

    def __init__(self, directory):
        self._here = ROOT / "reproductions" / directory
        order = {"README.md": 0, "RESULTS.md": 2}
        paths = sorted(self._here.glob("*.md"), key=lambda path: (order.get(path.name, 1), path))
        self._pages = {path.name: path.read_text() for path in paths}
        self.text = "\n".join(t for name, t in self._pages.items() if name != "RESULTS.md")

    def section(self, title):
        """Returns the text under a heading, in the first page that has it."""
        heading = f"\n## {title}\n"
        page = next(page for page in self._pages.values() if heading in page)
        return page.split(heading, 1)[1].split("\n## ", 1)[0]

    def metrics(self, separator):
        """Returns the columns of learner.csv of each part, which lines with `separator` divide."""
        section = self.section("Columns of learner.csv")
        return map(columns, re.split(f"^(?:{separator})", section, flags=re.M))

    def check_files(self):
        """Asserts that the beginning of the page lists the modules there are, and no other file."""
        files = re.findall(r"^ {4}(\w+\.\w+) {2,}\w", self.text.split("\n## ", 1)[0], re.M)
        assert {path.name for path in self._here.glob("[!_]*.py")} <= set(files)
        assert [file for file in files if not (self._here / file).exists()] == []

    def check_places(self, title):
        """Asserts that functions and classes that a section names exist; returns their number."""
        places = re.findall(r"`([\w/]+\.py):([\w.]+)`", self.section(title))
        for file, name in places:
            path = ROOT / file if "/" in file else self._here / file
            assert name in names_in(path), f"{file}:{name}"
        return len(places)

    def check_equations(self, numbers):
        """Asserts that the list of equations has these numbers, and its table their places."""
        section = self.section("Equations and where they are")
        listed = re.findall(r"^- \(([\d, ]+)\) ", section, re.M)
        assert [int(number) for each in listed for number in each.split(", ")] == numbers
        rows = re.findall(r"^\| .+? \| ([\d, ]*)\| `", section, re.M)
        assert {int(number) for row in rows for number in re.findall(r"\d+", row)} == set(numbers)
