"""Films of an environment's first episode, as GIF and as MP4, drawn in a separate process.

TensorFlow and Mesa's software renderer both contain an LLVM. In one process, the one that loads
second crashes (tensorflow 2.21, Mesa 22.3), so this module must not import TensorFlow. Every page
can show GIF files; MP4 files are smaller and need PyAV.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
import multiprocessing
from multiprocessing.connection import Connection
import signal
from typing import Any, BinaryIO, NamedTuple

from absl import logging
import dm_env
import numpy as np
from PIL import Image

from common import environments
from common.environments import rendering
from common.environments.canonical import picture
from common.environments.spec import UnusableEnvironmentError, kind_of
from common.environments.user_code import failure

FRAME_SECONDS = 0.04
"""Simulated seconds between frames, rounded to whole steps: 25 frames a second."""

MAX_FRAMES = 1500
"""Maximum frames of a film: half an hour of Atari would not fit into memory."""

_CLOSE_SECONDS = 5.0


class Film(NamedTuple):
    """Pictures of an episode.

    Attributes:
      frames: pictures, uint8 [height, width, 3] each.
      frame_seconds: simulated seconds from one frame to the next.
      steps: timestep of each frame; 0 is the start of the episode.
    """

    frames: list[np.ndarray]
    frame_seconds: float
    steps: list[int]


class FilmedEnvironment(dm_env.Environment):
    """An environment in another process, where its first episode is filmed.

    A film ends after `MAX_FRAMES`.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        evaluation: bool = False,
        frames: int | None = None,
        height: int = 240,
        width: int = 320,
    ):
        """Starts the process that calls `environments.make(name, seed, evaluation, frames)`.

        The film's pictures are [height, width, 3].

        Raises:
          UnusableEnvironmentError: the environment fails or cannot be drawn; also in other methods.
        """
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve,
            args=(theirs, (name, seed, evaluation, frames), height, width),
            daemon=True,
        )
        self._process.start()
        theirs.close()
        self._observation_spec, self._action_spec = self._call()  # the process sends them first

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        return self._call("reset")

    def step(self, action: np.ndarray) -> dm_env.TimeStep:
        """Takes `action`."""
        return self._call("step", action)

    def film(self) -> Film:
        """Returns the film of the first episode so far."""
        return self._call("film")

    def observation_spec(self):
        """Returns the environment's observation spec."""
        return self._observation_spec

    def action_spec(self):
        """Returns the environment's action spec."""
        return self._action_spec

    def close(self) -> None:
        """Ends the process."""
        self._pipe.close()
        self._process.join(_CLOSE_SECONDS)
        self._process.kill()

    def _call(self, *message: Any) -> Any:
        try:
            if message:
                self._pipe.send(message)
            result = self._pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join(_CLOSE_SECONDS)
            raise UnusableEnvironmentError(
                f"the rendering process ended with exit code {self._process.exitcode}: try "
                "another renderer (MUJOCO_GL=egl, osmesa or glfw), or leave the video out"
            ) from None
        if isinstance(result, UnusableEnvironmentError):
            raise result
        return result


class _Camera:
    """An environment whose first episode is drawn as it proceeds."""

    def __init__(self, environment: dm_env.Environment, name: str, height: int, width: int):
        self._environment = environment
        self._name = name
        self._size = (height, width)
        seconds = environment.control_timestep()
        self._period = max(1, round(FRAME_SECONDS / seconds))
        self._film = Film([], self._period * seconds, [])
        self._steps = 0
        self._running = True

    def reset(self) -> dm_env.TimeStep:
        return self._draw(self._environment.reset())

    def step(self, action: np.ndarray) -> dm_env.TimeStep:
        return self._draw(self._environment.step(action))

    def film(self) -> Film:
        return self._film

    def _draw(self, timestep: dm_env.TimeStep) -> dm_env.TimeStep:
        if self._running and (self._steps % self._period == 0 or timestep.last()):
            self._film.frames.append(self._picture())
            self._film.steps.append(self._steps)
        self._steps += 1
        is_full = len(self._film.frames) == MAX_FRAMES
        self._running = self._running and not timestep.last() and not is_full
        return timestep

    def _picture(self) -> np.ndarray:
        try:
            drawn = np.asarray(picture(self._environment, *self._size))
        except UnusableEnvironmentError as error:
            raise UnusableEnvironmentError(f"cannot draw {self._name}: {error}") from error
        if drawn.dtype != np.uint8 or drawn.shape[2:] != (3,):
            raise UnusableEnvironmentError(
                f"cannot draw {self._name}: its render(height, width) returned {kind_of(drawn)} "
                "instead of uint8 [height, width, 3]"
            )
        return drawn


def _serve(pipe: Connection, arguments: tuple, height: int, width: int) -> None:
    """Creates an environment and answers calls until the other end of the pipe is closed.

    The process ends after it has answered with an error.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    logging.set_verbosity(logging.ERROR)  # simulators announce themselves at their import
    rendering.enable()
    name, *_ = arguments
    try:
        environment = environments.make(*arguments)
        camera = _Camera(environment, name, height, width)
        pipe.send((environment.observation_spec(), environment.action_spec()))
        while True:
            try:
                method, *arguments = pipe.recv()
            except EOFError:
                return environment.close()
            pipe.send(getattr(camera, method)(*arguments))
    except UnusableEnvironmentError as error:
        pipe.send(error)
    except Exception as error:  # from the user's code
        pipe.send(failure(name, error))


_COLOURS = 48  # with which 500 frames of a humanoid, 320 x 240, take 6 MB


def write_gif(file: BinaryIO, frames: Sequence[np.ndarray], frame_seconds: float) -> None:
    """Writes a GIF that repeats.

    Args:
      file: the opened file.
      frames: uint8 [H, W, 3] each, one or more.
      frame_seconds: duration of a frame. GIF counts in hundredths of a second; the rounding errors
        are spread over the frames, so that the total duration is right.
    """
    # With one palette for all frames, pixels that do not change cost nothing.
    sample = np.concatenate(frames[:: max(1, len(frames) // 8)])
    palette = Image.fromarray(sample).quantize(_COLOURS)
    first, *others = [
        Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE)
        for frame in frames
    ]
    ends = np.round(np.arange(1, len(frames) + 1) * frame_seconds * 100).astype(int)
    milliseconds = (10 * np.diff(ends, prepend=0)).tolist()
    first.save(
        file, format="GIF", save_all=True, append_images=others, duration=milliseconds, loop=0
    )


def write_mp4(file: BinaryIO, frames: Sequence[np.ndarray], frame_seconds: float) -> None:
    """Writes a video in H.264.

    Args:
      file: the opened file.
      frames: uint8 [H, W, 3] each, one or more. An odd last row or column is left out, since each
        colour is shared by 2 x 2 pixels.
      frame_seconds: duration of a frame.

    Raises:
      ImportError: the package `av`, an extra, is not installed: `make video`.
    """
    import av

    height, width = (2 * (size // 2) for size in frames[0].shape[:2])
    with av.open(file, "w", format="mp4") as video:
        rate = Fraction(1 / frame_seconds).limit_denominator(1000)
        stream = video.add_stream("h264", rate=rate, width=width, height=height, pix_fmt="yuv420p")
        for frame in frames:
            picture = np.ascontiguousarray(frame[:height, :width])
            video.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        video.mux(stream.encode())


WRITERS: dict[str, Callable[[BinaryIO, Sequence[np.ndarray], float], None]] = {
    ".gif": write_gif,
    ".mp4": write_mp4,
}
"""Writers of videos by file suffix."""
