"""ViZDoom's engine, and random mazes as maps that it reads.

The engine runs in a separate process, which ends with the process that started it. `make maze`
installs the package `vizdoom`, an extra.

Layouts come from `labmaze`, the generator of DeepMind Lab's mazes. A layout of cells becomes a Doom
map in the text format UDMF. The engine reads a WAD file at the start of each episode. The file
contains a single map, whose text has a slot of constant size, so that the next map replaces it.
"""

import os
from pathlib import Path
import shutil
import struct
import tempfile
from typing import Any, NamedTuple
import weakref

import numpy as np

from common.environments.spec import UnusableEnvironmentError, extra_package

CELL = 128
"""Side of a cell, in map units; a player is 32 wide."""

MAP_NAME = "MAP01"
_SLOT = 1 << 16  # bytes for a map's text
_HEADER = struct.Struct("<4sii")
_ENTRY = struct.Struct("<ii8s")

# Names of Doom's textures; all are in Freedoom, the free data that comes with ViZDoom.
_WALLS = ("STARTAN2", "BROWN1", "GRAY1", "STONE2", "MARBLE1", "WOOD1", "TEKWALL1", "BRONZE1")
_FLOORS = ("FLOOR0_1", "FLOOR4_8", "FLAT1", "FLAT5_4", "FLOOR7_1")
_CEILINGS = ("CEIL1_1", "CEIL3_5", "FLAT20", "FLOOR6_2")
_LANDMARKS = 0.15  # share of walls with a random texture, which make places distinguishable

_PLAYER = 1  # Doom's number of this kind of thing
_SKILLS = " ".join(f"skill{i} = true;" for i in range(1, 6)) + " single = true;"

Place = tuple[int, int]
"""Row and column of a cell."""


class MazeLayout(NamedTuple):
    """The cells of a maze.

    Attributes:
      is_open: bool [rows, columns], whether a cell can be entered; False at the border.
    """

    is_open: np.ndarray

    @property
    def places(self) -> tuple[Place, ...]:
        """The open cells, row by row."""
        return tuple((row, column) for row, column in np.argwhere(self.is_open).tolist())


class Theme(NamedTuple):
    """Textures of a maze.

    Attributes:
      wall: texture of most walls.
      floor: texture of the floor.
      ceiling: texture of the ceiling.
      landmarks: seed that selects the landmarks, walls with other textures, and these textures.
    """

    wall: str
    floor: str
    ceiling: str
    landmarks: int


def room_layout(size: int) -> MazeLayout:
    """Returns a square of `size` x `size` open cells without walls inside."""
    return MazeLayout(np.pad(np.ones((size, size), bool), 1))


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
    return MazeLayout(np.array([[cell != "*" for cell in row] for row in rows]))


def random_theme(generator: np.random.Generator) -> Theme:
    """Returns random textures."""
    wall, floor, ceiling = (
        kind[generator.integers(len(kind))] for kind in (_WALLS, _FLOORS, _CEILINGS)
    )
    return Theme(wall, floor, ceiling, int(generator.integers(2**31)))


def map_position(layout: MazeLayout, place: Place) -> tuple[float, float]:
    """Returns the x and y of a cell's centre, in map units."""
    row, column = place
    return (column + 0.5) * CELL, (len(layout.is_open) - row - 0.5) * CELL


def maze_text(
    layout: MazeLayout, theme: Theme, start: Place, angle: int, things: tuple[Place, ...], kind: int
) -> bytes:
    """Returns a map in the format UDMF.

    Args:
      layout: the maze; its open cells become one sector, with walls towards closed cells.
      theme: the map's textures.
      start: the player's cell.
      angle: the player's direction in degrees, 0 to the right, 90 up on the printed layout.
      things: cells of the things to find.
      kind: Doom's number of the things' kind.
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


def write_maps(path: str, map_text: bytes) -> None:
    """Writes a map into the WAD file at `path`; creates the file or replaces its map.

    Raises:
      ValueError: the text is longer than the slot.
    """
    if len(map_text) > _SLOT:
        raise ValueError(f"the map's text has {len(map_text)} bytes, more than {_SLOT}")
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


def _thing(layout: MazeLayout, place: Place, angle: int, kind: int) -> str:
    x, y = map_position(layout, place)
    return f"thing {{ x = {x}; y = {y}; angle = {angle}; type = {kind}; {_SKILLS} }}"


def _walls(layout: MazeLayout) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns the two corners of each wall; from first to second, the open cell is on the right."""
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


SCREEN = (120, 160)
"""Height and width of the engine's smallest picture, in pixels."""

BUTTONS = 7
_BUTTONS = (
    "TURN_LEFT_RIGHT_DELTA",
    "LOOK_UP_DOWN_DELTA",
    "MOVE_LEFT_RIGHT_DELTA",
    "MOVE_FORWARD_BACKWARD_DELTA",
    "ATTACK",
    "JUMP",
    "CROUCH",
)
_VARIABLES = ("ITEMCOUNT", "POSITION_X", "POSITION_Y", "ANGLE", "PITCH")
_DEAF_TICS = 7  # tics after an episode's start in which the engine ignores buttons

# The engine ignores SIGTERM and outlives a killed parent, unless the kernel is told to kill it. It
# writes its settings into its working directory, so this must be a temporary one.
_SCRIPT = """#!/bin/sh
cd "{folder}" && exec setpriv --pdeathsig KILL -- "{engine}" "$@"
"""


class DoomEngine:
    """A single-player game on maps of `maze_text`."""

    def __init__(self, name: str):
        """Starts the engine.

        Args:
          name: name of the environment, for errors.

        Raises:
          UnusableEnvironmentError: `vizdoom` or `setpriv` is missing, or the engine does not start.
        """
        vizdoom = extra_package("vizdoom", name, 'run "make maze"')
        if shutil.which("setpriv") is None:
            raise UnusableEnvironmentError(
                f'environment "{name}": the program setpriv is missing, without which engines '
                "would outlive a killed actor: install it (Debian: apt-get install util-linux)"
            )
        self._folder = tempfile.TemporaryDirectory(prefix="maze_")
        folder = Path(self._folder.name)
        script = folder / "engine"
        engine = Path(vizdoom.__file__).parent / "vizdoom"
        script.write_text(_SCRIPT.format(folder=folder, engine=engine))
        script.chmod(0o700)
        self._wad = str(folder / "maze.wad")
        layout = room_layout(1)
        theme = random_theme(np.random.default_rng(0))
        write_maps(self._wad, maze_text(layout, theme, layout.places[0], 0, (), 0))

        game = vizdoom.DoomGame()
        game.set_vizdoom_path(str(script))
        game.set_doom_scenario_path(self._wad)
        game.set_doom_map(MAP_NAME)
        game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)
        game.set_screen_format(vizdoom.ScreenFormat.RGB24)
        game.set_window_visible(False)
        game.set_sound_enabled(False)
        for part in ("hud", "weapon", "crosshair", "messages", "screen_flashes", "particles"):
            getattr(game, f"set_render_{part}")(False)
        game.set_available_buttons([getattr(vizdoom.Button, name) for name in _BUTTONS])
        game.set_available_game_variables([getattr(vizdoom.GameVariable, v) for v in _VARIABLES])
        game.set_mode(vizdoom.Mode.PLAYER)
        game.set_episode_timeout(0)  # none: the environment counts the steps
        try:
            game.init()
        except Exception as error:
            self._folder.cleanup()
            raise UnusableEnvironmentError(
                f'environment "{name}": the engine of vizdoom does not start '
                f"({' '.join(str(error).split())}): check its installation (make maze)"
            ) from error
        _unname_memory()
        self._game = game
        # Even if nobody calls close(), the engine ends before its folder is removed.
        self._end = weakref.finalize(self, _end, game, self._folder)

    def start(self, map_text: bytes, seed: int) -> None:
        """Starts an episode on a map; `seed`, in [0, 2**31), seeds the engine."""
        write_maps(self._wad, map_text)
        self._game.set_seed(seed)
        self._game.new_episode()
        self.advance(np.zeros(BUTTONS), _DEAF_TICS)

    def advance(self, buttons: np.ndarray, tics: int) -> None:
        """Holds the buttons, float [7], for a number of tics.

        The elements are: turn right and look up, in degrees a tic; move right and move forward, at
        speeds up to 50; fire, jump and crouch, 0 or 1. Negative values go the other way.
        """
        self._game.make_action(buttons.tolist(), tics)
        self._state = self._game.get_state()  # a copy

    @property
    def num_taken(self) -> int:
        """The number of things that the player has taken since the start."""
        return int(self._state.game_variables[0])

    @property
    def pose(self) -> tuple[float, float, float, float]:
        """The player's x and y in map units, and direction and pitch in degrees."""
        x, y, angle, pitch = self._state.game_variables[1:]
        return float(x), float(y), float(angle), float(pitch)

    @property
    def screen(self) -> np.ndarray:
        """The engine's picture, uint8 [120, 160, 3], RGB."""
        return self._state.screen_buffer

    def close(self) -> None:
        """Ends the engine and removes its files."""
        self._end()


def _unname_memory() -> None:
    """Unlinks the shared memory of this process's games, so that it is freed with its last user.

    Otherwise, each game that is killed would leave 10.7 MB behind.
    """
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/dev/shm/ViZDoom" in line:
            Path(line.split()[5]).unlink(missing_ok=True)


def _end(game: Any, folder: tempfile.TemporaryDirectory) -> None:
    game.close()
    folder.cleanup()
