"""Tests of common.environments.film."""

import ctypes.util
import multiprocessing

import numpy as np
from PIL import Image
import pytest

from common import environments
from common.environments import UnusableEnvironmentError, film
from common.environments.film import WRITERS, FilmedEnvironment, write_gif, write_mp4
from common.reporting.records import whole_file

OWN = "python:reproductions.d4pg.own_environment:make"
NO_DRIVER = {"__EGL_VENDOR_LIBRARY_FILENAMES": "/nonexistent"}


@pytest.fixture
def make(monkeypatch):
    """Makes filmed environments under the given variables, and closes them."""
    made = []

    def make_one(name, variables=(), **size):
        for key, value in dict(variables).items():
            monkeypatch.setenv(key, value)
        made.append(FilmedEnvironment(name, 0, **size))
        return made[-1]

    # Other tests have imported the suite, which disables drawing in this process.
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    yield make_one
    for environment in made:
        environment.close()


def test_the_first_episode_is_drawn_and_all_steps_are_those_of_the_environment(make):
    """It draws itself, which takes no EGL."""
    filmed, plain = make(OWN, NO_DRIVER, height=16, width=32), environments.make(OWN, 0)
    assert filmed.observation_spec() == plain.observation_spec()
    assert filmed.action_spec() == plain.action_spec()
    action = np.full(1, -0.3, np.float32)
    timesteps = [(filmed.reset(), plain.reset())]
    timesteps += [(filmed.step(action), plain.step(action)) for _ in range(110)]
    for ours, theirs in timesteps:
        assert ours.step_type == theirs.step_type and ours.reward == theirs.reward
        np.testing.assert_array_equal(ours.observation, theirs.observation)
    frames, frame_seconds, steps = filmed.film()
    assert frame_seconds == 0.05 and steps == list(range(101))
    assert len(frames) == 101  # without the second episode
    assert frames[0].shape == (16, 32, 3) and frames[0].dtype == np.uint8
    assert np.any(frames[0] != frames[-1])


def test_a_long_episode_is_drawn_at_its_beginning(monkeypatch):
    monkeypatch.setattr(film, "MAX_FRAMES", 3)
    camera = film._Camera(environments.make(OWN, 0), OWN, 4, 8)
    timesteps = [camera.reset()] + [camera.step(np.zeros(1, np.float32)) for _ in range(101)]
    assert timesteps[-2].last() and timesteps[-1].first()
    assert len(camera.film().frames) == 3


def test_a_game_is_drawn_as_the_agent_sees_it(make):
    filmed = make("atari:pong", frames=2, height=84, width=84)
    plain = environments.make("atari:pong", 0, frames=2)
    filmed.reset()
    plain.reset()
    timesteps = [(filmed.step(np.int32(1)), plain.step(np.int32(1))) for _ in range(3)]
    for ours, theirs in timesteps:
        np.testing.assert_array_equal(ours.observation, theirs.observation)
    frames, frame_seconds, _ = filmed.film()
    assert frame_seconds == pytest.approx(4 / 60) and len(frames) == 4
    np.testing.assert_array_equal(frames[-1][..., 0], timesteps[-1][0].observation[..., -1])


@pytest.mark.skipif(ctypes.util.find_library("EGL") is None, reason="there is no libEGL")
def test_mujoco_is_drawn_without_a_screen_25_times_a_second(make):
    filmed = make("control:cartpole:swingup", height=24, width=32)
    filmed.reset()
    for _ in range(8):
        filmed.step(np.ones(1, np.float32))
    frames, frame_seconds, _ = filmed.film()
    assert frame_seconds == pytest.approx(0.04)  # each fourth step of 10 ms
    assert len(frames) == 3
    assert np.ptp(frames[0]) > 50 and np.any(frames[0] != frames[-1])


@pytest.mark.parametrize(
    "variables, word",
    [(NO_DRIVER, "EGL"), ({"PYOPENGL_PLATFORM": "osmesa"}, "PYOPENGL_PLATFORM")],
    ids=["no driver", "another platform"],
)
def test_without_egl_one_line_says_what_to_install(make, refusal, variables, word):
    message = refusal(make, "control:cartpole:swingup", variables)
    assert message.startswith("cannot draw with MUJOCO_GL=egl (") and word in message
    assert "apt-get install libegl1" in message


def test_an_unknown_name(make):
    with pytest.raises(environments.UnknownEnvironmentError, match="did you mean"):
        make("control:cartpole:swingpu")


def test_a_renderer_that_crashes_is_named(make):
    before = set(multiprocessing.active_children())
    filmed = make(OWN)
    (process,) = set(multiprocessing.active_children()) - before
    process.kill()
    with pytest.raises(UnusableEnvironmentError, match="rendering process ended with exit code -9"):
        filmed.reset()


def test_an_environment_that_does_not_draw_itself_is_named(make):
    filmed = make("python:reproductions.aql.golf:make")
    with pytest.raises(UnusableEnvironmentError, match="^cannot draw python:.*golf:make: it has"):
        filmed.reset()


FAULTY = """
import dm_env
from dm_env import specs
import numpy as np


class Base(dm_env.Environment):
    def __init__(self, seed):
        pass

    def reset(self):
        return dm_env.restart(np.zeros(2))

    def step(self, action):
        return dm_env.transition(0.0, np.zeros(2))

    def observation_spec(self):
        return specs.Array((2,), float)

    def action_spec(self):
        return specs.BoundedArray((1,), float, -1, 1)


class WithoutSizes(Base):
    def render(self):
        return np.zeros((4, 4, 3), np.uint8)


class OfFloats(Base):
    def render(self, height, width):
        return np.zeros((height, width, 3))


class Abandoned(Base):
    def render(self, height, width):
        raise EOFError("the worker died")


class Stuck(Base):
    def render(self, height, width):
        raise RuntimeError("the valve is stuck")
"""


@pytest.mark.parametrize(
    "name, words",
    [
        ("WithoutSizes", ["failed: TypeError: ", "takes 1 positional argument but 3 were given"]),
        ("OfFloats", ["cannot draw", "returned float64 [240, 320, 3] instead of uint8 [height, w"]),
        ("Abandoned", ["failed: EOFError: the worker died (", "faulty.py, line 36)"]),
        ("Stuck", ["failed: RuntimeError: the valve is stuck (", "faulty.py, line 41)"]),
    ],
)
def test_a_mistake_in_render_is_named(make, refusal, tmp_path, monkeypatch, name, words):
    """The advice was to try another renderer; floats ended the program that writes the film."""
    (tmp_path / "faulty.py").write_text(FAULTY)
    monkeypatch.chdir(tmp_path)
    message = refusal(make(f"python:faulty:{name}").reset)
    for word in words:
        assert word in message, message


def frames(count):
    """A red square on blue that moves one pixel a frame."""
    pictures = np.zeros((count, 20, 40, 3), np.uint8)
    pictures[..., 2] = 200
    for index, picture in enumerate(pictures):
        picture[5:10, index : index + 5] = (220, 20, 20)
    return list(pictures)


def test_frames_and_time_survive(tmp_path):
    path = tmp_path / "video.gif"
    with open(path, "wb") as file:
        write_gif(file, frames(8), frame_seconds=0.0333)
    with Image.open(path) as gif:
        assert gif.n_frames == 8 and gif.size == (40, 20) and gif.info["loop"] == 0
        durations = []
        for index, frame in enumerate(frames(8)):
            gif.seek(index)
            durations.append(gif.info["duration"])
            actual = np.array(gif.convert("RGB")).astype(int)
            assert np.abs(actual - frame).max() <= 8  # colours of a palette
    assert set(durations) == {30, 40}  # milliseconds; the format counts in tens
    assert sum(durations) == pytest.approx(8 * 33.3, abs=5)
    assert list(tmp_path.iterdir()) == [path]


def test_frames_and_time_of_an_mp4_survive(tmp_path):
    av = pytest.importorskip("av")
    path = tmp_path / "video.mp4"
    odd = [np.pad(frame, [(0, 1), (0, 1), (0, 0)]) for frame in frames(8)]
    with open(path, "wb") as file:
        write_mp4(file, odd, frame_seconds=0.05)
    with av.open(str(path)) as file:
        (stream,) = file.streams
        assert (stream.codec.name, stream.width, stream.height) == ("h264", 40, 20)
        assert float(stream.duration * stream.time_base) == pytest.approx(8 * 0.05)
        shown = [frame.to_ndarray(format="rgb24").astype(int) for frame in file.decode(stream)]
    assert len(shown) == 8
    for actual, frame in zip(shown, frames(8)):
        assert np.abs(actual - frame).mean() <= 8  # lossy
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", WRITERS)
def test_a_failed_write_leaves_nothing(suffix, tmp_path):
    if suffix == ".mp4":
        pytest.importorskip("av")
    broken = [*frames(2), np.zeros((20, 40), np.float32)]
    with pytest.raises((TypeError, ValueError)), whole_file(tmp_path / f"video{suffix}") as file:
        WRITERS[suffix](file, broken, 0.04)
    assert list(tmp_path.iterdir()) == []
