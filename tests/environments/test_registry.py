import subprocess
import sys

import pytest

from common import environments

EXAMPLES = (
    '"atari:adventure", "control:acrobot:swingup", "dmlab:explore_goal_locations_small", '
    '"flow:cylinder", "gym:Ant-v4", "hand:catch", "maze:goal", "minatar:asterix", '
    '"parkour:humanoid", or '
)


@pytest.mark.parametrize(
    "name, near",
    [
        ("control:cartpole:swingpu", "control:cartpole:swingup"),
        ("control:cartpol:swingup", "control:cartpole:swingup"),
        ("controll:cartpole:swingup", "control:cartpole:swingup"),
        ("cartpole:swingup", "control:cartpole:swingup"),
        ("atari:Pong", "atari:pong"),
        ("atari:ms-pacman", "atari:ms_pacman"),
        ("Atari:breakout", "atari:breakout"),
        ("pong", "atari:pong"),
        ("ALE/Pong-v5", "atari:pong"),
        ("PongNoFrameskip-v4", "atari:pong"),
        ("atari:PongNoFrameskip-v4", "atari:pong"),
        ("atari:MsPacman", "atari:ms_pacman"),
        ("atari:ALE/MsPacman-v5", "atari:ms_pacman"),
        ("atari:Qbert-ramDeterministic-v4", "atari:qbert"),
        ("minatar:brekout", "minatar:breakout"),
        ("minatar:SpaceInvaders-v1", "minatar:space_invaders"),
        ("minatr:freeway", "minatar:freeway"),
        ("gym:HalfCheetah", "gym:HalfCheetah-v4"),
        ("HalfCheetah-v4", "gym:HalfCheetah-v4"),
        ("CartPole-v1", "gym:CartPole-v1"),
        ("gym:Pendulum-v2", "gym:Pendulum-v1"),
        ("acrobot-v3", "gym:Acrobot-v1"),
        ("flow:cylindre_16", "flow:cylinder_16"),
    ],
)
def test_an_unknown_name_gets_near_ones_on_one_line(name, near):
    with pytest.raises(environments.UnknownEnvironmentError) as raised:
        environments.make(name, seed=0)
    message = str(raised.value)
    assert message.startswith(f'unknown environment "{name}": did you mean ')
    assert f'"{near}"' in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "name, example",
    [
        ("", EXAMPLES),
        ("xyzzy", EXAMPLES),
        ("control:", '"control:acrobot:swingup", or "python:MODULE:FUNCTION"'),
        ("control:123", '"control:acrobot:swingup", or'),
        ("atari:123", '"atari:alien", or'),
    ],
)
def test_a_name_near_nothing_gets_an_example(name, example):
    with pytest.raises(ValueError) as raised:
        environments.make(name, seed=0)
    message = str(raised.value)
    assert "a name looks like " in message and example in message and "\n" not in message


@pytest.mark.parametrize("name", ["atari:pong:frameskip=3", "atari:pong:2", "atari:pong=4"])
def test_a_frame_skip_is_not_part_of_a_name(name):
    with pytest.raises(environments.UnknownEnvironmentError) as raised:
        environments.make_batch(name, [0])
    assert str(raised.value).startswith(
        f'unknown environment "{name}": a game has no parameters, and a step is always 4 frames; '
        'did you mean "atari:pong"'
    )


def test_a_batch_of_any_suite_and_its_frames():
    name = "python:reproductions.d4pg.own_environment:make"
    batch = environments.make_batch(name, [0, 1], evaluation=True)
    assert batch.num_environments == 2 and batch.reset().observation.shape == (2, 2)
    assert environments.frames_per_step(name) == 1
    assert environments.frames_per_step("control:cartpole:swingup") == 1


@pytest.mark.parametrize(
    "name", ["control:cartpole:swingup", "python:reproductions.d4pg.own_environment:make"]
)
def test_only_atari_stacks_frames(name):
    one, four = (environments.make(name, 0, frames=frames) for frames in (1, None))
    assert one.observation_spec() == four.observation_spec()


def test_names_are_sorted_and_distinct():
    names = environments.names()
    assert names == sorted(set(names))


def test_importing_the_package_does_not_import_a_simulator():
    program = (
        "import sys; from common import environments; environments.frames_per_step('atari:pong'); "
        "sys.exit(any(m in sys.modules for m in ('dm_control', 'mujoco', 'ale_py', 'minatar')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
