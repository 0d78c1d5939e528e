"""Tests of common.environments.registry."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

from common import environments
from common.environments import (
    UnknownEnvironmentError,
    UnusableEnvironmentError,
    minatar_suite,
    registry,
)
from common.environments.spec import extra_package

EXAMPLES = (
    '"atari:adventure", "control:acrobot:swingup", "dmlab:explore_goal_locations_small", '
    '"flow:cylinder", "gym:Ant-v4", "hand:catch", "maze:goal", "minatar:asterix", '
    '"parkour:humanoid", or '
)


@pytest.mark.parametrize(
    "name, near",
    [
        ("control:cartpol:swingup", "control:cartpole:swingup"),
        ("cartpole:swingup", "control:cartpole:swingup"),
        ("atari:Pong", "atari:pong"),
        ("Atari:breakout", "atari:breakout"),
        ("pong", "atari:pong"),
        ("ALE/Pong-v5", "atari:pong"),
        ("gym:ALE/Pong-v5", "atari:pong"),
        ("PongNoFrameskip-v4", "atari:pong"),
        ("atari:ALE/MsPacman-v5", "atari:ms_pacman"),
        ("atari:Qbert-ramDeterministic-v4", "atari:qbert"),
        ("minatar:SpaceInvaders-v1", "minatar:space_invaders"),
        ("minatr:freeway", "minatar:freeway"),
        ("gym:HalfCheetah", "gym:HalfCheetah-v4"),
        ("gym:half_cheetah", "gym:HalfCheetah-v4"),
        ("HalfCheetah-v4", "gym:HalfCheetah-v4"),
        ("acrobot-v3", "gym:Acrobot-v1"),
        ("gym:hopper-v4", "gym:Hopper-v4"),
        ("gymnasium:Hopper-v4", "gym:Hopper-v4"),
        ("dmlab:explore_goal_locations", "dmlab:explore_goal_locations_small"),
        ("flow:cylindre_16", "flow:cylinder_16"),
    ],
)
def test_an_unknown_name_gets_near_ones_on_one_line(name, near, refusal):
    message = refusal(environments.make, name, 0, error=UnknownEnvironmentError)
    assert message.startswith(f'unknown environment "{name}": did you mean ')
    assert f'"{near}"' in message


@pytest.mark.parametrize(
    "name, example",
    [
        ("", EXAMPLES),
        ("xyzzy", EXAMPLES),
        ("control:", '"control:acrobot:swingup", or "python:MODULE:FUNCTION"'),
        ("atari:123", '"atari:alien", or'),
    ],
)
def test_a_name_near_nothing_gets_an_example(name, example, refusal):
    message = refusal(environments.make, name, 0, error=UnknownEnvironmentError)
    assert "a name looks like " in message and example in message


@pytest.mark.parametrize("name", ["atari:pong:frameskip=3", "atari:pong=4"])
def test_a_frame_skip_is_not_part_of_a_name(name, refusal):
    message = refusal(environments.make_batch, name, [0], error=UnknownEnvironmentError)
    assert message.startswith(
        f'unknown environment "{name}": a game has no parameters, and a step is always 4 frames; '
        'did you mean "atari:pong"'
    )


@pytest.mark.parametrize(
    "name, package, remedy",
    [
        ("dmlab:explore_goal_locations_small", "deepmind_lab", "use the stand-in maze:goal"),
        ("hand:catch", "myosuite", 'run "make hand"'),
        ("maze:goal", "vizdoom", 'run "make maze"'),
        ("minatar:breakout", "minatar", "GPL-3"),
    ],
)
def test_a_missing_package_is_one_line_that_says_how_to_install_it(
    name, package, remedy, monkeypatch, refusal
):
    minatar_suite._module.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    message = refusal(environments.make, name, 0)
    assert message.startswith(f'environment "{name}": the package {package} is not installed: ')
    assert remedy in message


def test_a_package_that_cannot_be_loaded_is_not_called_missing(monkeypatch, refusal):
    def fail(name):
        raise ImportError("libOSMesa.so.8: cannot open shared object file")

    monkeypatch.setattr(importlib, "import_module", fail)
    message = refusal(extra_package, "deepmind_lab", "dmlab:stairway", "build it")
    assert "the package deepmind_lab cannot be loaded: libOSMesa.so.8: cannot open" in message


@pytest.mark.parametrize(
    "name, package, extra",
    [
        ("control:cartpole:swingup", "dm_control", "control"),
        ("gym:CartPole-v1", "mujoco", "gym"),
        ("hand:catch", "mujoco", "control"),
        ("parkour:planar", "dm_control", "control"),
    ],
)
def test_a_suite_without_its_simulator_names_the_package_and_the_extra(
    name, package, extra, monkeypatch, refusal
):
    """An install without extras, or with others, has none of the simulators."""
    suite = name.partition(":")[0]
    for module in (f"{suite}_suite", *["mujoco_environment"] * (package == "mujoco")):
        monkeypatch.delitem(sys.modules, f"common.environments.{module}", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    message = refusal(environments.make, name, 0)
    assert message.startswith(f"the environments of {suite} need the package {package}, which is n")
    assert f'".[{extra}]"' in message


def test_no_simulator_loads_a_renderer_that_nobody_asked_for():
    code = "import sys, common.environments.{0}_suite; print({1} & {{*sys.modules}}, end='')"
    without = {name: value for name, value in os.environ.items() if name != "MUJOCO_GL"}
    for suite in ("control", "gym"):
        command = [sys.executable, "-c", code.format(suite, {"glfw", "OpenGL"})]
        assert subprocess.check_output(command, env=without, text=True) == "set()"


def test_a_batch_of_any_suite_and_its_frames():
    name = "python:reproductions.d4pg.own_environment:make"
    batch = environments.make_batch(name, [0, 1], evaluation=True, frames=1)
    assert batch.num_environments == 2 and batch.reset().observation.shape == (2, 2)
    assert environments.frames_per_step(name) == 1
    assert environments.frames_per_step("atari:pong") == environments.frames_per_step("maze:x") == 4


def test_names_are_sorted_and_distinct():
    names = environments.names()
    assert names == sorted(set(names))


FRESH = (
    "atari:pong",
    "control:cartpole:swingup",
    "dmlab:explore_goal_locations_small",
    "flow:cylinder_8",
    "gym:Hopper-v4",
    "hand:catch",
    "maze:goal",
    "minatar:breakout",
    "parkour:planar",
    "python:reproductions.d4pg.own_environment:make",
    "python:reproductions.reactor.catch:make",
)


def test_every_suite_is_among_the_fresh():
    assert {name.partition(":")[0] for name in FRESH} == set(registry.suites())


@pytest.mark.parametrize("name", FRESH)
def test_a_step_before_the_first_reset_begins_an_episode(name, eager):
    try:
        single, batch = environments.make(name, 0), environments.make_batch(name, [0, 1])
    except UnusableEnvironmentError as error:
        pytest.skip(str(error))
    spec = single.action_spec()
    action = np.zeros(spec.shape, spec.dtype)
    assert single.step(action).first() and not single.step(action).first()
    assert batch.step(np.stack([action] * 2)).step_type.tolist() == [0, 0]
    single.close()
    batch.close()
