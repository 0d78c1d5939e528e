"""A check of a program's flag file by the program itself."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def check_flag_file(program, path, unknown_environment, *flags):
    """Asserts that a program refuses a flag file's run only for an unknown environment."""
    result = subprocess.run(
        [
            *(sys.executable, "-m", f"binaries.{program}", f"--flagfile={path}", *flags),
            f"--environment={unknown_environment}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert unknown_environment in result.stderr, result.stderr  # nothing else was wrong
