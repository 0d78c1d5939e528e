"""Videos as GIF files, which every browser shows without a plug-in."""

from collections.abc import Sequence
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
    temporary = path.with_name(f".{path.name}.partial")
    try:
        first.save(
            temporary,
            format="GIF",
            save_all=True,
            append_images=others,
            duration=milliseconds,
            loop=0,
        )
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
