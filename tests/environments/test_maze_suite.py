"""Tests of common.environments.maze_suite and doom_engine."""

import importlib.util
import itertools
import os
from pathlib import Path
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import types

import dm_env
import numpy as np
import pytest

from common import environments
from common.environments import doom_engine, maze_suite
from common.environments.lab_actions import MAXIMUM, STRUCTURED

is_installed = pytest.mark.skipif(
    not (importlib.util.find_spec("vizdoom") and importlib.util.find_spec("labmaze")),
    reason="needs the extra maze: make maze",
)
NOTHING = np.zeros(7, np.int32)
NAMES = ("look_right", "look_up", "strafe_right", "forward", "fire", "jump", "crouch")


def action(**values):
    return np.array([values.get(name, 0) for name in NAMES], np.int32)


@pytest.fixture
def make():
    made = []

    def make(name="room", seed=0):
        made.append(environments.make(f"maze:{name}", seed))
        return made[-1]

    yield make
    for environment in made:
        environment.close()


def face(environment, start, angle, things=()):
    """Puts the player of a room of 5 x 5 into a cell, with things elsewhere."""
    environment.reset()
    environment.layout, environment.places = doom_engine.room_layout(5), things
    text = doom_engine.maze_text(
        environment.layout, environment._theme, start, angle, things, environment._task.kind
    )
    environment.engine.start(text, 0)


@is_installed
def test_specs(make):
    environment = make("goal")
    timestep = environment.reset()
    environment.observation_spec().validate(timestep.observation)
    assert timestep.observation.std() > 5  # it shows something
    assert environment.action_spec().maximum.tolist() == list(MAXIMUM)
    assert environments.frames_per_step("maze:goal") == 4
    assert environment.render(60, 80).shape == (60, 80, 3)


@is_installed
def test_the_same_seed_and_actions_give_the_same_frames(make):
    actions = np.stack([np.random.default_rng(0).choice(values, 30) for values in STRUCTURED], 1)

    def play(seed):
        environment = make("objects", seed)
        frames = [environment.reset().observation]
        frames += [environment.step(values).observation for values in actions]
        frames += [environment.reset().observation, environment.step(actions[0]).observation]
        return np.stack(frames)

    first, again, other = play(0), play(0), play(1)
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other) and np.any(first[0] != first[-2])


@is_installed
def test_an_action_does_what_its_names_say(make):
    environment = make()

    def change(**values):
        face(environment, (3, 3), 0)
        before = np.array(environment.engine.pose)
        for _ in range(4):
            environment.step(action(**values))
        x, y, angle, pitch = np.array(environment.engine.pose) - before
        return x, y, (angle + 180) % 360 - 180, pitch

    degrees = 4 * 4 * 10 * 6 / 57
    assert change(look_right=10)[2] == pytest.approx(-degrees, abs=0.1)
    assert change(look_right=-10)[2] == pytest.approx(degrees, abs=0.1)
    up, down = change(look_up=10)[3], change(look_up=-10)[3]
    assert abs(up) == pytest.approx(degrees, abs=0.2) and down == pytest.approx(-up, abs=0.2)
    assert change(forward=1)[0] > 50 and change(forward=-1)[0] < -50
    assert change(strafe_right=1)[1] < -50 and change(strafe_right=-1)[1] > 50  # it faces east
    assert np.abs(change()).max() < 1e-3


@is_installed
def test_all_3528_actions_reach_the_engine_as_they_are(make, monkeypatch):
    environment, got = make(), []
    environment.reset()
    monkeypatch.setattr(environment.engine, "advance", lambda buttons, tics: got.append(buttons))
    monkeypatch.setattr(environment, "_max_steps", 10_000)
    monkeypatch.setattr(maze_suite, "reduce_by_area", lambda picture: picture)
    actions = np.array(list(itertools.product(*STRUCTURED)), np.int32)
    for values in actions:
        environment.step(values)
    turns = np.array([6 / 57, 6 / 57, 50, 50, 1, 1, 1])
    np.testing.assert_allclose(got, actions * turns)
    assert len(np.unique(got, axis=0)) == 3528
    with pytest.raises(ValueError, match="seven integers"):
        environment.step(action(jump=2))


@is_installed
def test_the_goal_pays_once_and_sends_to_a_new_start(make):
    environment = make()
    face(environment, (3, 1), 0, things=((3, 3),))
    rewards = []
    while not rewards or not rewards[-1]:
        assert len(rewards) < 40
        rewards.append(environment.step(action(forward=1)).reward)
    assert rewards[-1] == 10
    x, y, *_ = environment.engine.pose
    goal = doom_engine.map_position(environment.layout, (3, 3))
    assert max(abs(x - goal[0]), abs(y - goal[1])) >= doom_engine.CELL
    assert [environment.step(NOTHING).reward for _ in range(10)] == [0] * 10


@is_installed
def test_each_object_pays_once_and_all_come_back(make):
    environment = make("objects")
    face(environment, (3, 1), 0, things=((3, 2), (3, 4)))
    environment._task = environment._task._replace(num_things=2)
    rewards = [environment.step(action(forward=1)).reward for _ in range(20)]
    assert sum(rewards) >= 2 and sorted(set(rewards)) == [0, 1]


@is_installed
def test_an_episode_ends_by_its_time(make, monkeypatch):
    monkeypatch.setattr(maze_suite, "MAX_STEPS", 5)
    environment = make()
    timesteps = [environment.step(NOTHING) for _ in range(7)]
    first, middle, last = dm_env.StepType.FIRST, dm_env.StepType.MID, dm_env.StepType.LAST
    expected = [first, *[middle] * 4, last, first]
    assert [timestep.step_type for timestep in timesteps] == expected
    assert timesteps[5].discount == 1


PLAYER = """
import sys, time
from common import environments
environment = environments.make("maze:room", 0)
environment.reset()
print(environment.engine._folder.name, flush=True)
while True:
    environment.step(environment.action_spec().minimum)
"""


@is_installed
def test_neither_engine_nor_memory_outlives_a_killed_player():
    player = subprocess.Popen([sys.executable, "-c", PLAYER], stdout=subprocess.PIPE, text=True)
    folder = player.stdout.readline().strip()
    engines = engines_in(folder)
    assert len(engines) == 1
    assert mapped(player.pid) and all("(deleted)" in line for line in mapped(player.pid))
    os.kill(player.pid, signal.SIGKILL)
    player.wait()
    deadline = time.monotonic() + 10
    while engines_in(folder):
        assert time.monotonic() < deadline, "an engine outlived its player"
        time.sleep(0.05)
    shutil.rmtree(folder)


@is_installed
def test_a_game_that_nobody_closes_leaves_nothing_and_says_nothing(tmp_path):
    code = PLAYER.partition("print")[0] + "environment.step(environment.action_spec().maximum)"
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=variables
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())


@is_installed
def test_an_engine_takes_the_memory_that_is_counted_for_it(make):
    games = [make() for _ in range(3)]
    used = 0
    for game in games:
        (engine,) = engines_in(game.engine._folder.name)
        lines = Path(f"/proc/{engine}/smaps_rollup").read_text().splitlines()
        sizes = dict(line.split()[:2] for line in lines[1:])
        used += 1024 * int(sizes["Pss:"])
    assert used / len(games) == pytest.approx(games[0].engine_bytes, rel=0.25)


def engines_in(folder):
    """The processes that work in a folder of `DoomEngine`."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if os.readlink(link).startswith(folder):
                found.append(int(link.parent.name))
        except OSError:
            continue
    return found


def mapped(process):
    lines = Path(f"/proc/{process}/maps").read_text().splitlines()
    return [line for line in lines if "/dev/shm/ViZDoom" in line]


def test_a_picture_is_reduced_by_area():
    picture = np.random.default_rng(0).integers(256, size=(120, 160, 3), dtype=np.uint8)
    rows = np.repeat(picture.astype(np.float64), 84, axis=0).reshape(84, 120, 160, 3).mean(axis=1)
    expected = np.repeat(rows, 84, axis=1).reshape(84, 84, 160, 3).mean(axis=2)
    found = maze_suite.reduce_by_area(picture)
    assert found.dtype == np.uint8
    np.testing.assert_allclose(found, expected, atol=0.51)


def test_a_missing_setpriv_is_said_in_one_line(monkeypatch, refusal):
    monkeypatch.setitem(sys.modules, "vizdoom", types.ModuleType("vizdoom"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    message = refusal(environments.make, "maze:goal", 0)
    assert message.startswith('environment "maze:goal": the program setpriv is missing')


has_labmaze = pytest.mark.skipif(
    not importlib.util.find_spec("labmaze"), reason="labmaze has no wheel for Python 3.13"
)


def test_without_labmaze_there_is_one_line(monkeypatch, refusal):
    monkeypatch.setitem(sys.modules, "labmaze", None)
    message = refusal(doom_engine.random_maze, 11, np.random.default_rng(0))
    assert "labmaze" in message and "Python 3.11 or 3.12" in message


def reachable(layout):
    """Cells that can be reached from the first one."""
    found, frontier = set(), [layout.places[0]]
    while frontier:
        row, column = frontier.pop()
        if (row, column) not in found and layout.is_open[row, column]:
            found.add((row, column))
            frontier += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
    return found


@has_labmaze
def test_every_place_of_a_maze_can_be_reached():
    generator = np.random.default_rng(0)
    layouts = [doom_engine.random_maze(11, generator) for _ in range(30)]
    for layout in layouts:
        assert reachable(layout) == set(layout.places)
        assert layout.is_open.shape == (11, 11) and len(layout.places) > 8
        border = layout.is_open.copy()
        border[1:-1, 1:-1] = False
        assert not border.any()
    assert len({layout.is_open.tobytes() for layout in layouts}) > 27


@has_labmaze
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
    with pytest.raises(ValueError, match="65537 bytes, more than 65536"):
        doom_engine.write_maps(str(path), b"x" * 65537)
