"""The engine of ViZDoom, a process of its own that ends with the one that started it.

The package `vizdoom` is an extra: `make maze`.
"""

import importlib
import os
from pathlib import Path
import shutil
import tempfile
from types import ModuleType
from typing import Any
import weakref

import numpy as np

from common.environments import maze_maps
from common.environments.environment_errors import UnusableEnvironmentError

SCREEN = (120, 160)
"""Height and width of the engine's smallest picture."""

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
_DEAF_TICS = 7  # after an episode's start, in which the engine ignores buttons
_SHARED_MEMORY = Path("/dev/shm")

# The engine ignores SIGTERM and outlives a killed parent, unless the kernel is told to kill it. It
# writes its settings into its working directory, so that has to be a temporary one.
_SCRIPT = """#!/bin/sh
cd "{folder}" && exec setpriv --pdeathsig KILL -- "{engine}" "$@"
"""


class DoomEngine:
    """A game of one player on maps of `maze_maps`."""

    def __init__(self, name: str):
        """Starts the engine.

        Args:
          name: of the environment, for errors.

        Raises:
          UnusableEnvironmentError: `vizdoom` or `setpriv` is missing, or the engine does not start.
        """
        vizdoom = _module(name)
        if shutil.which("setpriv") is None:
            raise UnusableEnvironmentError(
                f'environment "{name}": there is no program setpriv, without which engines would '
                "outlive a killed actor: install it (Debian: apt-get install util-linux)"
            )
        remove_abandoned_memory()
        self._folder = tempfile.TemporaryDirectory(prefix="maze_")
        folder = Path(self._folder.name)
        script = folder / "engine"
        engine = Path(vizdoom.__file__).parent / "vizdoom"
        script.write_text(_SCRIPT.format(folder=folder, engine=engine))
        script.chmod(0o700)
        self._wad = str(folder / "maze.wad")
        layout = maze_maps.room(1)
        theme = maze_maps.random_theme(np.random.default_rng(0))
        maze_maps.write(self._wad, maze_maps.text(layout, theme, layout.places[0], 0, (), 0))

        game = vizdoom.DoomGame()
        game.set_vizdoom_path(str(script))
        game.set_doom_scenario_path(self._wad)
        game.set_doom_map(maze_maps.MAP_NAME)
        game.set_screen_resolution(vizdoom.ScreenResolution.RES_160X120)
        game.set_screen_format(vizdoom.ScreenFormat.RGB24)
        game.set_window_visible(False)
        game.set_sound_enabled(False)
        for part in ("hud", "weapon", "crosshair", "messages", "screen_flashes", "particles"):
            getattr(game, f"set_render_{part}")(False)
        game.set_available_buttons([getattr(vizdoom.Button, one) for one in _BUTTONS])
        game.set_available_game_variables([getattr(vizdoom.GameVariable, v) for v in _VARIABLES])
        game.set_mode(vizdoom.Mode.PLAYER)
        game.set_episode_timeout(0)  # none: who plays counts the steps
        try:
            game.init()
        except Exception as error:
            self._folder.cleanup()
            raise UnusableEnvironmentError(
                f'environment "{name}": the engine of vizdoom does not start '
                f"({' '.join(str(error).split())}): see whether it is installed whole (make maze)"
            ) from error
        self._game = game
        # Also of a game that nobody closes: the engine ends before its folder is removed.
        self._end = weakref.finalize(self, _end, game, self._folder)

    def start(self, map_text: bytes, seed: int) -> None:
        """Starts an episode on a map; `seed`, in [0, 2**31), is of the engine's randomness."""
        maze_maps.write(self._wad, map_text)
        self._game.set_seed(seed)
        self._game.new_episode()
        self.advance(np.zeros(BUTTONS), _DEAF_TICS)

    def advance(self, buttons: np.ndarray, tics: int) -> None:
        """Holds the buttons, float [7], for some tics.

        Turns and looks are degrees a tic, to the right and up; moves go to the right and forward,
        and faster up to 50; fire, jump and crouch are 0 or 1.
        """
        self._game.make_action(buttons.tolist(), tics)
        self._state = self._game.get_state()  # a copy of all that the engine shows

    @property
    def num_taken(self) -> int:
        """The number of things that the player has taken since the start."""
        return int(self._state.game_variables[0])

    @property
    def pose(self) -> tuple[float, float, float, float]:
        """The player's x and y in units of the map, direction and pitch in degrees."""
        x, y, angle, pitch = self._state.game_variables[1:]
        return float(x), float(y), float(angle), float(pitch)

    @property
    def screen(self) -> np.ndarray:
        """The picture, uint8 [120, 160, 3], RGB."""
        return self._state.screen_buffer

    def close(self) -> None:
        """Ends the engine and removes its files."""
        self._end()


def remove_abandoned_memory() -> None:
    """Removes the shared memory of games that were killed, 10.7 MB each: files without a user."""
    owned = [
        path
        for path in _SHARED_MEMORY.glob("ViZDoom*")
        if (status := _status(path)) is not None and status.st_uid == os.geteuid()
    ]
    if not owned:
        return
    used = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text().splitlines()
        except OSError:  # of another user, or ended
            continue
        used |= {line.split()[-1] for line in lines if str(_SHARED_MEMORY) in line}
    for path in owned:
        if str(path) not in used:
            path.unlink(missing_ok=True)


def _end(game: Any, folder: tempfile.TemporaryDirectory) -> None:
    game.close()
    folder.cleanup()


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:  # its game has just ended
        return None


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module("vizdoom")
    except ImportError:
        raise UnusableEnvironmentError(
            f'environment "{name}": the package vizdoom is not installed: run "make maze"'
        ) from None
