"""Runs one of the programs: `replay-rl d4pg ...` is `python -m binaries.d4pg ...`."""

import ast
import difflib
import pathlib
import runpy
import sys

from common.reporting.command_line import exit_with, fail

_FOLDER = pathlib.Path(__file__).parent


def main() -> None:
    """Runs the program that the first argument names, with the other arguments."""
    files = {path.stem: path for path in sorted(_FOLDER.glob("[!_]*.py"))}
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print("usage: replay-rl PROGRAM [flags]; replay-rl PROGRAM --help explains its flags\n")
        for program, path in files.items():
            print(f"  {program:14}{_first_line(path)}")
        return
    if name not in files:
        near = difflib.get_close_matches(name, files) or list(files)
        fail(f'there is no program "{name}": did you mean {" or ".join(near)}?')
    del sys.argv[1]
    runpy.run_module(f"binaries.{name}", run_name="__main__", alter_sys=True)


def _first_line(path: pathlib.Path) -> str:
    """Returns the first line of a module's docstring, without importing it."""
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]


if __name__ == "__main__":
    exit_with(main)
