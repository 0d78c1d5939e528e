"""`binaries.environments` as its user meets it."""

import subprocess
import sys

from launched import ROOT
import pytest
from refusals import refusal, variables

from binaries import environments


def shown(capsys, *flags):
    environments.main(list(flags))
    return capsys.readouterr().out.splitlines()


def test_all_names_without_a_suite(capsys):
    lines = shown(capsys)
    assert {"control:cartpole:swingup", "atari:pong", "gym:HalfCheetah-v4"} < set(lines)
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    "name, words",
    [
        (
            "control:cartpole:swingup",
            "5 -> 1 continuous apex_dpg, aql, d4pg, d4pg_ppo, refer, refer_ppo",
        ),
        ("gym:CartPole-v1", "4 -> 2 discrete apex_dqn --config.torso=mlp, aql, reactor --config"),
        ("atari:pong", "image [84, 84, 4] -> 18 discrete apex_dqn, reactor"),
    ],
)
def test_which_agents_can_act_in_one(capsys, name, words):
    (line,) = shown(capsys, name)
    assert " ".join(line.split()).startswith(f"{name} {words}")


def test_a_suite_whose_package_is_missing_says_so_and_goes_on(capsys):
    lines = shown(capsys, "dmlab")
    assert len(lines) > 1 and all("deepmind_lab is not installed" in line for line in lines)


@pytest.mark.parametrize(
    "which, words",
    [
        ("contrl", "there are atari, control"),
        ("python", "give a whole name, python:..."),
        ("gym:Nope-v1", 'unknown environment "gym:Nope-v1"'),
    ],
)
def test_bad_input_is_one_line(capsys, which, words):
    assert words in refusal(capsys, environments.main, which)


def test_it_needs_no_tensorflow(tmp_path):
    command = [sys.executable, "-m", "binaries.environments", "gym:Pendulum-v1"]
    done = subprocess.run(
        command, cwd=ROOT, env=variables(tmp_path), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and "d4pg" in done.stdout, done
