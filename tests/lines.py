"""Prints how long this project is, a room a row: physical lines, and lines of logic.

    make lines                                      # or python tests/lines.py

Logic is what is left of Python without docstrings, blank lines, signatures of functions, imports
and comments, and of C++ without blank lines and comments.
"""

import ast
import collections
from collections.abc import Iterator
import io
import pathlib
import re
import tokenize

ROOT = pathlib.Path(__file__).parents[1]
PLACES = ("common", "reproductions", "binaries", "setup.py", "tests")
SUFFIXES = {".py", ".cc", ".h"}
_CPP_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def python_logic(text: str) -> int:
    """Returns the number of lines of logic in a Python file."""
    left = {number for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    for node in ast.walk(ast.parse(text)):
        left.difference_update(_left_out(node))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
            left.discard(token.start[0])
    return len(left)


def _left_out(node: ast.AST) -> Iterator[int]:
    """Yields the lines of a node that are no logic."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from range(node.lineno, node.end_lineno + 1)
    if isinstance(node, ast.FunctionDef):
        first = node.body[0]
        begin = min(part.lineno for part in (first, *getattr(first, "decorator_list", ())))
        yield from range(node.lineno, max(begin, node.lineno + 1))
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        if ast.get_docstring(node) is not None:
            yield from range(node.body[0].lineno, node.body[0].end_lineno + 1)


def cpp_logic(text: str) -> int:
    """Returns the number of lines of a C++ file that hold more than a comment."""
    code = _CPP_COMMENT.sub(lambda found: found[1] or "\n" * found[0].count("\n"), text)
    return sum(bool(line.strip()) for line in code.splitlines())


def room_of(path: pathlib.Path) -> str:
    """Returns the row of a file, whose path begins at the root: a folder of `common`, a paper."""
    parts = path.parts
    if parts[0] in ("common", "reproductions") and len(parts) > 2:
        return "/".join(parts[:2])
    return path.stem if len(parts) == 1 else parts[0]


def counted(root: pathlib.Path) -> dict[str, tuple[int, int]]:
    """Returns {room: (physical lines, lines of logic)} of the project in `root`."""
    sums: dict[str, tuple[int, int]] = collections.defaultdict(lambda: (0, 0))
    for path in _files(root):
        text = path.read_text()
        room, logic = (
            room_of(path.relative_to(root)),
            python_logic if path.suffix == ".py" else cpp_logic,
        )
        sums[room] = sums[room][0] + len(text.splitlines()), sums[room][1] + logic(text)
    return dict(sums)


def _files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    for place in PLACES:
        found = (root / place).rglob("*") if (root / place).is_dir() else [root / place]
        yield from sorted(path for path in found if path.suffix in SUFFIXES and path.is_file())


def main() -> None:
    """Prints the table and its two totals."""
    rooms = counted(ROOT)
    tests = rooms.pop("tests")
    production = tuple(map(sum, zip(*rooms.values())))
    print(f"{'room':24}{'lines':>9}{'logic':>9}")
    for room, (lines, logic) in (*rooms.items(), ("production", production), ("tests", tests)):
        print(f"{room:24}{lines:9,}{logic:9,}")


if __name__ == "__main__":
    main()
