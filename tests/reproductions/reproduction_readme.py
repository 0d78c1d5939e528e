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


def columns(text):
    """Returns the names in the first cells of a table's rows."""
    cells = re.findall(r"^\| (`.+?) \| .+ \|$", text, re.M)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


class Readme:
    """The pages of a directory below `reproductions`, README.md first."""

    def __init__(self, directory):
        self._here = ROOT / "reproductions" / directory
        pages = (self._here / name for name in ("README.md", "REFERENCE.md", "RESULTS.md"))
        self.text = "\n".join(page.read_text() for page in pages if page.exists())

    def section(self, title):
        """Returns the text under a heading."""
        return self.text.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]

    def metrics(self, separator):
        """Returns the columns of learner.csv of each part, which lines with `separator` divide."""
        section = self.section("Columns of learner.csv")
        return map(columns, re.split(f"^(?:{separator})", section, flags=re.M))

    def check_flags(self, config, settings):
        """Asserts that the hyperparameters and settings in flags exist, and that there are some."""
        fields = {field.name for field in dataclasses.fields(config)}
        named = re.findall(r"--config\.(\w+)=", self.text)
        assert named and set(named) <= fields
        chosen = re.findall(r"--setting=([\w.-]+)", self.text)
        assert chosen and set(chosen) <= set(settings)

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

    def check_tests(self):
        """Asserts that the tests that the page names exist; returns their names."""
        there = set()
        for path in (ROOT / "tests").rglob("test_*.py"):
            there |= names_in(path)
        named = set(re.findall(r"`(test_\w+)`", self.text))
        assert named <= there, named - there
        for file, name in re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", self.text):
            assert (ROOT / file).exists(), file
            assert not name or name in names_in(ROOT / file), f"{file}::{name}"
        return named

    def check_equations(self, numbers):
        """Asserts that the list of equations has these numbers, and its table their places."""
        section = self.section("Equations and where they are")
        listed = re.findall(r"^- \(([\d, ]+)\) ", section, re.M)
        assert [int(number) for each in listed for number in each.split(", ")] == numbers
        rows = re.findall(r"^\| .+? \| ([\d, ]*)\| `", section, re.M)
        assert {int(number) for row in rows for number in re.findall(r"\d+", row)} == set(numbers)
