import subprocess
import sys

import pytest

from common import environments


@pytest.mark.parametrize("name, near", [
    ("control:cartpole:swingpu", "control:cartpole:swingup"),
    ("control:cartpol:swingup", "control:cartpole:swingup"),
    ("controll:cartpole:swingup", "control:cartpole:swingup"),
    ("cartpole:swingup", "control:cartpole:swingup"),
])
def test_an_unknown_name_gets_near_ones_on_one_line(name, near):
    with pytest.raises(environments.UnknownEnvironmentError) as raised:
        environments.make(name, seed=0)
    message = str(raised.value)
    assert message.startswith(f'unknown environment "{name}": did you mean ')
    assert f'"{near}"' in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["", "xyzzy", "control:", "control:123"])
def test_a_name_near_nothing_gets_an_example(name):
    with pytest.raises(ValueError, match='a name looks like "control:acrobot:swingup"') as raised:
        environments.make(name, seed=0)
    assert "\n" not in str(raised.value)


def test_names_are_sorted_and_distinct():
    names = environments.names()
    assert names == sorted(set(names))


def test_importing_the_package_does_not_import_a_simulator():
    program = ("import sys; import common.environments; "
               "sys.exit(any(m in sys.modules for m in ('dm_control', 'mujoco')))")
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
