"""Videos as GIF files, which every page shows, and as smaller MP4 files with PyAV."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
from fractions import Fraction
import os
import pathlib

import numpy as np
from PIL import Image

_COLOURS = 48  # 500 frames of a humanoid, 320 x 240, then take 6 MB


def write_gif(path: pathlib.Path, frames: Sequence[np.ndarray], frame_seconds: float) -> None:
    """Writes a video that repeats; the file appears whole.

    Args:
      path: ends in .gif.
      frames: uint8 [H, W, 3] each, one or more.
      frame_seconds: how long each is shown. GIF counts in hundredths of a second; the rounding
        is spread, so that the length of the whole is right.
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
    with _whole(path) as temporary:
        first.save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=others,
            duration=milliseconds,
            loop=0,
        )


def write_mp4(path: pathlib.Path, frames: Sequence[np.ndarray], frame_seconds: float) -> None:
    """Writes a video in H.264; the file appears whole.

    Args:
      path: ends in .mp4.
      frames: uint8 [H, W, 3] each, one or more. An odd last row or column is left out, since the
        colours are those of 2 x 2 pixels.
      frame_seconds: how long each is shown.

    Raises:
      ImportError: the package `av` is not installed, an extra: `make video`.
    """
    import av

    height, width = (2 * (size // 2) for size in frames[0].shape[:2])
    with _whole(path) as temporary, av.open(str(temporary), "w", format="mp4") as file:
        rate = Fraction(1 / frame_seconds).limit_denominator(1000)
        stream = file.add_stream("h264", rate=rate, width=width, height=height, pix_fmt="yuv420p")
        for frame in frames:
            picture = np.ascontiguousarray(frame[:height, :width])
            file.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        file.mux(stream.encode())


WRITERS: dict[str, Callable[[pathlib.Path, Sequence[np.ndarray], float], None]] = {
    ".gif": write_gif,
    ".mp4": write_mp4,
}
"""{end of a file's name: its writer}."""


@contextlib.contextmanager
def _whole(path: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields the path of a file that takes the name of `path` if nothing is raised."""
    temporary = path.with_name(f".{path.name}.partial")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
