"""Tests of common.environments.doom_engine."""

import re
import struct
import sys

import numpy as np
import pytest

from common.environments import UnusableEnvironmentError, doom_engine

pytest.importorskip("labmaze", reason="has no wheel for Python 3.13")


def test_without_labmaze_there_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "labmaze", None)
    with pytest.raises(
        UnusableEnvironmentError, match="labmaze.*use Python 3.11 or 3.12"
    ) as caught:
        doom_engine.random_maze(11, np.random.default_rng(0))
    assert "\n" not in str(caught.value)


def reachable(layout):
    """Cells that can be reached from the first one."""
    found, frontier = set(), [layout.places[0]]
    while frontier:
        row, column = frontier.pop()
        if (row, column) not in found and layout.is_open[row, column]:
            found.add((row, column))
            frontier += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
    return found


def test_every_place_of_a_maze_can_be_reached():
    generator = np.random.default_rng(0)
    layouts = [doom_engine.random_maze(11, generator) for _ in range(100)]
    for layout in layouts:
        assert reachable(layout) == set(layout.places)
        assert layout.is_open.shape == (11, 11) and len(layout.places) > 8
        border = layout.is_open.copy()
        border[1:-1, 1:-1] = False
        assert not border.any()
    assert len({layout.is_open.tobytes() for layout in layouts}) > 90


def test_a_map_has_a_wall_wherever_a_cell_ends():
    layout = doom_engine.random_maze(11, np.random.default_rng(1))
    theme = doom_engine.random_theme(np.random.default_rng(1))
    start, place = layout.places[:2]
    map_text = doom_engine.maze_text(layout, theme, start, 90, (place,), 2013).decode()
    steps = ((0, 1), (0, -1), (1, 0), (-1, 0))
    ends = sum(not layout.is_open[r + dr, c + dc] for r, c in layout.places for dr, dc in steps)
    corners = re.findall(r"vertex { x = (\S+); y = (\S+); }", map_text)
    lines = re.findall(r"linedef { v1 = (\d+); v2 = (\d+); sidefront = (\d+); block", map_text)
    assert len(lines) == map_text.count("sidedef {") == ends
    for first, second, _ in lines:
        (x1, y1), (x2, y2) = (map(float, corners[int(index)]) for index in (first, second))
        # Right of the direction is the open cell, left of it none.
        middle, normal = ((x1 + x2) / 2, (y1 + y2) / 2), (np.sign(y2 - y1), -np.sign(x2 - x1))
        cells = [
            (len(layout.is_open) - 1 - int(y // 128), int(x // 128))
            for x, y in (np.add(middle, np.multiply(sign * 10, normal)) for sign in (1, -1))
        ]
        assert [bool(layout.is_open[cell]) for cell in cells] == [True, False]
    x, y = doom_engine.map_position(layout, place)
    assert f"thing {{ x = {x}; y = {y}; angle = 0; type = 2013;" in map_text


def test_a_map_replaces_the_one_before_in_its_file(tmp_path):
    path = tmp_path / "maze.wad"
    doom_engine.write_maps(str(path), b"first map")
    inode = path.stat().st_ino
    doom_engine.write_maps(str(path), b"second")
    content = path.read_bytes()
    kind, number, directory = struct.unpack_from("<4sii", content)
    lumps = [struct.unpack_from("<ii8s", content, directory + 16 * i) for i in range(number)]
    assert kind == b"PWAD" and path.stat().st_ino == inode
    assert [name.rstrip(b"\0") for _, _, name in lumps] == [b"MAP01", b"TEXTMAP", b"ENDMAP"]
    place, size, _ = lumps[1]
    assert content[place : place + size].rstrip() == b"second"
    with pytest.raises(ValueError, match="longer than 65536"):
        doom_engine.write_maps(str(path), b"x" * 65537)
