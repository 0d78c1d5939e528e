"""The one line that a program ends with when its user made a mistake."""

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
