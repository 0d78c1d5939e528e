"""What tests of environments share."""

import pytest

from common.environments import UnusableEnvironmentError


@pytest.fixture
def refusal():
    """A function that returns the one line with which a call of another function is refused."""

    def line(function, *arguments, error=UnusableEnvironmentError):
        with pytest.raises(error) as raised:
            function(*arguments)
        assert "\n" not in str(raised.value)
        return str(raised.value)

    return line
