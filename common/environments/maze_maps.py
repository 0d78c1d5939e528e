"""Random mazes as maps of Doom: a layout of cells, its text in the format UDMF, and a WAD file.

Layouts come from `labmaze`, the generator of DeepMind Lab's mazes. A WAD holds a single map whose
text has a slot of constant size, so that the next map replaces it in the file: the engine reads the
file at each start of an episode.
"""

import os
import struct
from typing import NamedTuple

import numpy as np

from common.environments.environment_errors import UnusableEnvironmentError

CELL = 128
"""Side of a cell, in units of the map; a player is 32 wide."""

MAP_NAME = "MAP01"
_SLOT = 1 << 16  # bytes for a map's text
_HEADER = struct.Struct("<4sii")
_ENTRY = struct.Struct("<ii8s")

# Names of Doom's textures, all in Freedoom, the free data that ViZDoom brings.
_WALLS = ("STARTAN2", "BROWN1", "GRAY1", "STONE2", "MARBLE1", "WOOD1", "TEKWALL1", "BRONZE1")
_FLOORS = ("FLOOR0_1", "FLOOR4_8", "FLAT1", "FLAT5_4", "FLOOR7_1")
_CEILINGS = ("CEIL1_1", "CEIL3_5", "FLAT20", "FLOOR6_2")
_LANDMARKS = 0.15  # share of walls with a texture of their own, by which places can be told apart

_PLAYER = 1  # the number of the kind of thing
_SKILLS = " ".join(f"skill{i} = true;" for i in range(1, 6)) + " single = true;"

Place = tuple[int, int]
"""Row and column of a cell."""


class MazeLayout(NamedTuple):
    """The cells of a maze.

    Attributes:
      is_open: bool [rows, columns], whether a cell can be entered; those at the border cannot.
      places: the open cells, in rows.
    """

    is_open: np.ndarray
    places: tuple[Place, ...]


class Theme(NamedTuple):
    """Textures of a maze.

    Attributes:
      wall: of most walls.
      floor: of the floor.
      ceiling: of the ceiling.
      landmarks: seed of the walls that have another texture, and of which.
    """

    wall: str
    floor: str
    ceiling: str
    landmarks: int


def room(size: int) -> MazeLayout:
    """Returns a square of `size` x `size` open cells without walls inside."""
    return _layout(np.pad(np.ones((size, size), bool), 1))


def random_maze(size: int, generator: np.random.Generator) -> MazeLayout:
    """Returns a maze of `size` x `size` cells, border included; `size` is odd.

    Raises:
      UnusableEnvironmentError: the package `labmaze` is not installed.
    """
    try:
        import labmaze
    except ImportError:
        raise UnusableEnvironmentError(
            "mazes need the package labmaze, which has no wheel for Python 3.13: use Python 3.11 "
            "or 3.12, or maze:room, which has no walls inside"
        ) from None
    maze = labmaze.RandomMaze(
        height=size,
        width=size,
        max_rooms=3,
        room_min_size=3,
        room_max_size=4,
        random_seed=int(generator.integers(2**31)),
    )
    rows = str(maze.entity_layer).strip("\n").split("\n")
    return _layout(np.array([[cell != "*" for cell in row] for row in rows]))


def random_theme(generator: np.random.Generator) -> Theme:
    """Returns random textures."""
    wall, floor, ceiling = (
        kind[generator.integers(len(kind))] for kind in (_WALLS, _FLOORS, _CEILINGS)
    )
    return Theme(wall, floor, ceiling, int(generator.integers(2**31)))


def position(layout: MazeLayout, place: Place) -> tuple[float, float]:
    """Returns the x and y of a cell's centre, in units of the map."""
    row, column = place
    return (column + 0.5) * CELL, (len(layout.is_open) - row - 0.5) * CELL


def text(
    layout: MazeLayout, theme: Theme, start: Place, angle: int, things: tuple[Place, ...], kind: int
) -> bytes:
    """Returns a map in the format UDMF.

    Args:
      layout: open cells become one sector, with a wall where a cell ends.
      theme: its textures.
      start: the player's cell.
      angle: the player's direction in degrees, 0 to the right, 90 up on the printed layout.
      things: cells of the things to find.
      kind: Doom's number of their kind.
    """
    vertices: dict[tuple[int, int], int] = {}
    walls = [
        tuple(vertices.setdefault(corner, len(vertices)) for corner in wall)
        for wall in _walls(layout)
    ]
    generator = np.random.default_rng(theme.landmarks)
    landmarks = generator.random(len(walls)) < _LANDMARKS
    others = generator.integers(len(_WALLS), size=len(walls))
    lines = ['namespace = "zdoom";', _thing(layout, start, angle, _PLAYER)]
    lines += [_thing(layout, place, 0, kind) for place in things]
    lines += [f"vertex {{ x = {x}.0; y = {y}.0; }}" for x, y in vertices]
    for number, (first, second) in enumerate(walls):
        texture = _WALLS[others[number]] if landmarks[number] else theme.wall
        lines += [
            f"linedef {{ v1 = {first}; v2 = {second}; sidefront = {number}; blocking = true; }}",
            f'sidedef {{ sector = 0; texturemiddle = "{texture}"; }}',
        ]
    lines.append(
        f"sector {{ heightfloor = 0; heightceiling = {CELL}; lightlevel = 200; "
        f'texturefloor = "{theme.floor}"; textureceiling = "{theme.ceiling}"; }}'
    )
    return "\n".join(lines).encode()


def write(path: str, map_text: bytes) -> None:
    """Writes a map into the WAD at `path`, which it makes, or whose map it replaces.

    Raises:
      ValueError: the text is longer than its slot.
    """
    if len(map_text) > _SLOT:
        raise ValueError(f"a map's text of {len(map_text)} bytes is longer than {_SLOT}")
    lumps = ((MAP_NAME, 0), ("TEXTMAP", _SLOT), ("ENDMAP", 0))
    directory, place = b"", _HEADER.size
    for name, size in lumps:
        directory += _ENTRY.pack(place, size, name.encode())
        place += size
    content = _HEADER.pack(b"PWAD", len(lumps), place) + map_text.ljust(_SLOT) + directory
    # In place: the engine has the file open.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    with open(descriptor, "wb", buffering=0) as file:
        file.write(content)


def _layout(is_open: np.ndarray) -> MazeLayout:
    return MazeLayout(
        is_open, tuple((int(row), int(column)) for row, column in np.argwhere(is_open))
    )


def _thing(layout: MazeLayout, place: Place, angle: int, kind: int) -> str:
    x, y = position(layout, place)
    return f"thing {{ x = {x}; y = {y}; angle = {angle}; type = {kind}; {_SKILLS} }}"


def _walls(layout: MazeLayout) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns the two corners of each wall, with the open cell to the right of their direction."""
    num_rows = len(layout.is_open)
    walls = []
    for row, column in layout.places:
        left, right = column * CELL, (column + 1) * CELL
        bottom, top = (num_rows - 1 - row) * CELL, (num_rows - row) * CELL
        for (rows, columns), wall in (
            ((1, 0), ((right, bottom), (left, bottom))),
            ((0, 1), ((right, top), (right, bottom))),
            ((-1, 0), ((left, top), (right, top))),
            ((0, -1), ((left, bottom), (left, top))),
        ):
            if not layout.is_open[row + rows, column + columns]:
                walls.append(wall)
    return walls
