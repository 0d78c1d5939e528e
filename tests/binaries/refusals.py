"""Programs that must refuse their flags with one line, and how that line is checked."""

import pathlib
import subprocess
import sys

import pytest

from common.reporting.command_line import exit_with
from common.reporting.user_error import UserError


def refusal(capsys, main, *flags):
    """Returns the line that `main` ends with."""
    with pytest.raises(SystemExit) as ended:
        exit_with(lambda: main(list(map(str, flags))), (UserError, OSError))
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and out == "" and err.count("\n") == 1
    assert err.startswith("error: ")
    return err


ROOT = pathlib.Path(__file__).parents[2]


def variables(tmp_path):
    """Variables under which an import of TensorFlow ends the program."""
    folder = tmp_path / "no_tensorflow"
    folder.mkdir()
    (folder / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')\n")
    return {"PYTHONPATH": str(folder)}


def run(module, flags, tmp_path, **more):
    """Runs a program where an import of TensorFlow ends it, with more variables."""
    return subprocess.run(
        [sys.executable, "-m", module, *flags],
        cwd=ROOT,
        env=variables(tmp_path) | more,
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )


def assert_refused(result, words):
    """Checks that a program has ended with one line that has all words, and returns the line."""
    lines = result.stderr.strip().splitlines()
    assert result.returncode == 2 and result.stdout == "", result
    assert len(lines) == 1 and lines[0].startswith("error: "), result.stderr
    for word in words:
        assert word in lines[0]
    return lines[0]


def check_refusal(module, flags, words, tmp_path, **more):
    """Checks that a program ends with such a line and makes no run directory; returns the line."""
    workdir = tmp_path / "run"
    line = assert_refused(run(module, [f"--workdir={workdir}", *flags], tmp_path, **more), words)
    assert not workdir.exists()
    return line
