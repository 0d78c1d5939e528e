"""Programs that must refuse their flags with one line, and how that line is checked."""

from launched import run_light
import pytest

from common.reporting.command_line import exit_with
from common.user_error import UserError


def refusal(capsys, main, *flags):
    """Returns the line that `main` ends with."""
    with pytest.raises(SystemExit) as ended:
        exit_with(lambda: main(list(map(str, flags))), (UserError, OSError))
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and out == "" and err.count("\n") == 1
    assert err.startswith("error: ")
    return err


def assert_refused(ended, words):
    """Checks that a program has ended with one line that has all words, and returns the line."""
    lines = ended.output.strip().splitlines()
    assert ended.returncode == 2, ended
    assert len(lines) == 1 and lines[0].startswith("error: "), ended.output
    for word in words:
        assert word in lines[0]
    return lines[0]


def check_refusal(module, flags, words, tmp_path, **variables):
    """Checks that a program ends with such a line and makes no run directory; returns the line."""
    workdir = tmp_path / "run"
    ended = run_light(module, [f"--workdir={workdir}", *flags], **variables)
    line = assert_refused(ended, words)
    assert not workdir.exists()
    return line
