import numpy as np
from PIL import Image
import pytest

from common.environments.film import WRITERS, write_gif, write_mp4


def frames(count):
    """A red square on blue that moves one pixel a frame."""
    pictures = np.zeros((count, 20, 40, 3), np.uint8)
    pictures[..., 2] = 200
    for index, picture in enumerate(pictures):
        picture[5:10, index : index + 5] = (220, 20, 20)
    return list(pictures)


def test_frames_and_time_survive(tmp_path):
    path = tmp_path / "video.gif"
    write_gif(path, frames(8), frame_seconds=0.0333)
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
    write_mp4(path, odd, frame_seconds=0.05)
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
    with pytest.raises((TypeError, ValueError)):
        WRITERS[suffix](tmp_path / f"video{suffix}", broken, 0.04)
    assert list(tmp_path.iterdir()) == []
