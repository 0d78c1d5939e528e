"""Tests of common.environments.atari_suite."""

import sys
import types

from ale_py import AtariEnv, AtariVectorEnv, roms
import dm_env
from gymnasium import spaces
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
import numpy as np
import pytest

from common import environments
from common.environments import atari_suite
from common.environments.atari_suite import AtariBatch
from common.environments.batch import BatchedEnvironment

FIRST, MID, LAST = 0, 1, 2
INTER_AREA = 3


def resize(picture, size, interpolation):
    """`cv2.resize(..., interpolation=cv2.INTER_AREA)` of a game's picture, uint8 [210, 160].

    The environment of the tests has no OpenCV, and gymnasium's AtariPreprocessing needs this one
    function of it. Each of the 84 x 84 pixels is the mean of the area that it covers.
    """
    assert interpolation == INTER_AREA and size == (84, 84)
    rows = picture.astype(float).repeat(2, axis=0).reshape(84, 5, 160).mean(axis=1)
    return np.rint(rows.repeat(21, axis=1).reshape(84, 84, 40).mean(axis=2)).astype(np.uint8)


def random_actions(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 18, shape).astype(np.int32)


class Reference:
    """Gymnasium's preprocessing, with the discount of a lost life, without no-ops at the start."""

    def __init__(self, game, seed):
        emulator = AtariEnv(
            game, frameskip=1, repeat_action_probability=0.0, full_action_space=True
        )
        emulator.ale.setInt("random_seed", seed)
        emulator.ale.loadROM(roms.get_rom_path(game))
        self._ale = emulator.ale
        self._environment = FrameStackObservation(
            AtariPreprocessing(emulator, noop_max=0), 4, padding_type="zero"
        )

    def reset(self):
        observation, _ = self._environment.reset()
        self._lives = self._ale.lives()
        return FIRST, 0.0, 1.0, observation

    def step(self, action):
        observation, reward, ends, _, _ = self._environment.step(action)
        lives, self._lives = self._lives, self._ale.lives()
        discount = 0.0 if ends or self._lives < lives else 1.0
        return (LAST if ends else MID), reward, discount, observation


def test_frames_rewards_and_ends_are_those_of_gymnasiums_preprocessing(monkeypatch):
    opencv = types.SimpleNamespace(resize=resize, INTER_AREA=INTER_AREA)
    monkeypatch.setitem(sys.modules, "cv2", opencv)
    monkeypatch.setattr(atari_suite, "_MAX_NOOPS", 0)
    batch, reference = AtariBatch("breakout", [3], 50_000), Reference("breakout", 3)
    ours, theirs = batch.reset(), reference.reset()
    seen, rewards = [], 0.0
    for action in random_actions(220, seed=1):
        step_type, reward, discount, frames = theirs
        np.testing.assert_array_equal(ours.observation[0], np.moveaxis(frames, 0, -1))
        assert (ours.step_type[0], ours.reward[0], ours.discount[0]) == (
            step_type,
            reward,
            discount,
        )
        seen.append((step_type, discount))
        rewards += reward
        ours = batch.step(np.array([action]))
        theirs = reference.reset() if step_type == LAST else reference.step(action)
    assert rewards > 0
    assert seen.count((LAST, 0)) >= 1 and seen.count((FIRST, 1)) >= 2
    # Four of five lives are lost on the way.
    first_end = seen.index((LAST, 0))
    assert seen[:first_end].count((MID, 0)) == 4


class Script:
    """A stand-in for AtariVectorEnv that plays a script and records its calls."""

    single_action_space = spaces.Discrete(18)

    def __init__(self, game, num_envs, **settings):
        self.game, self.num_envs, self.settings, self.calls = game, num_envs, settings, []
        self._frames = np.zeros((num_envs, 4, 84, 84), np.uint8)

    def reset(self, seed=None, options=None):
        self.calls.append(seed)
        return self._frames, {"lives": np.array([3])}

    def step(self, actions):
        reward, game_over, lives = self.script.pop(0)
        return (
            self._frames,
            np.array([reward]),
            np.array([game_over]),
            np.array([False]),
            {"lives": np.array([lives])},
        )


def scripted(monkeypatch, *script):
    monkeypatch.setattr(atari_suite, "AtariVectorEnv", Script)
    batch = atari_suite.make_batch("pong", [7])
    batch._environment.script = list(script)
    batch.reset()
    return batch


@pytest.mark.parametrize(
    "script, frames, expected",
    [
        # reward, game over, lives; limit of frames; step type, reward, discount
        ((5, False, 2), 8, (MID, 5, 0)),
        ((5, False, 4), 8, (MID, 5, 1)),
        ((5, True, 3), 8, (LAST, 5, 0)),
        ((5, False, 3), 4, (LAST, 5, 1)),
        ((5, False, 2), 4, (LAST, 5, 0)),
        ((5, True, 0), 4, (LAST, 5, 0)),
    ],
    ids=["life", "bonus", "over", "time", "life and time", "over and time"],
)
def test_ends_lives_and_the_frame_limit(script, frames, expected, monkeypatch):
    monkeypatch.setattr(atari_suite, "TRAINING_FRAMES", frames)
    batch = scripted(monkeypatch, script, (9, False, 1), (0, False, 3))
    timesteps = [batch.step(np.array([0])) for _ in range(3)]
    got = [(t.step_type[0], t.reward[0], t.discount[0]) for t in timesteps]
    assert got[0] == expected
    if expected[0] == LAST:  # a start, where fewer lives do not mean a lost life
        assert got[1] == (FIRST, 0, 1)
        assert got[2] == (LAST if frames == 4 else MID, 0, 1)


def test_the_emulator_is_asked_for_the_papers_rules(monkeypatch):
    batch = scripted(monkeypatch)
    evaluation = atari_suite.make_batch("pong", [0, 2**32 - 1], evaluation=True)
    assert batch._environment.game == "pong"
    settings = batch._environment.settings
    for name, value in {
        "full_action_space": True,
        "use_fire_reset": False,
        "reward_clipping": False,
        "repeat_action_probability": 0,
        "frameskip": 4,
        "stack_num": 4,
        "num_threads": 1,
    }.items():
        assert settings[name] == value
    assert (4 * batch._max_steps, 4 * evaluation._max_steps) == (50_000, 108_000)
    evaluation.reset()
    evaluation.reset()
    first, second = evaluation._environment.calls
    np.testing.assert_array_equal(first, [0, 2**31 - 1])
    assert second is None


def test_a_batch_is_its_environments_and_repeats_with_its_seeds(monkeypatch):
    """Also after the frame limit and after a reset in the middle of an episode."""
    monkeypatch.setattr(atari_suite, "TRAINING_FRAMES", 120)
    seeds = [0, 5]
    batch = environments.make_batch("atari:seaquest", seeds)
    singles = BatchedEnvironment([environments.make("atari:seaquest", seed) for seed in seeds])
    assert batch.num_environments == singles.num_environments == 2
    assert batch.observation_spec() == singles.observation_spec()
    assert batch.action_spec() == singles.action_spec()
    timesteps, copies = [], []
    for number, actions in enumerate(random_actions((77, 2))):
        pair = [
            each.reset() if number in (0, 75) else each.step(actions) for each in (batch, singles)
        ]
        for ours, theirs in zip(*pair):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
            np.testing.assert_array_equal(ours, theirs)
        timesteps.append(pair[0])
        copies.append([field.copy() for field in pair[0]])
    types = np.stack([timestep.step_type for timestep in timesteps])
    np.testing.assert_array_equal(np.flatnonzero(types[:, 0] == LAST), [30, 61])
    np.testing.assert_array_equal(np.flatnonzero(types[:, 0] == FIRST), [0, 31, 62, 75])
    assert all(t.discount[k] == 1 for t in timesteps for k in range(2) if t.step_type[k] == LAST)
    # No returned array has been written to since.
    for timestep, copy in zip(timesteps, copies):
        for field, before in zip(timestep, copy):
            np.testing.assert_array_equal(field, before)
    assert np.any(timesteps[0].observation[0] != timesteps[0].observation[1])


def test_the_frames_at_the_limit_are_those_of_an_episode_that_goes_on():
    """ALE's own limit mixes the last of them with a frame of the step before."""
    game_over = 154  # of the first game: at the limit, in the step after it, and in the one before
    actions = random_actions((158, 2), seed=1)
    free = AtariBatch("breakout", [3, 4], 50_000)
    free.reset()
    expected = [free.step(each) for each in actions[: game_over + 1]]
    assert [t.step_type[0] for t in expected].index(LAST) == game_over
    for steps in (game_over, game_over + 1, game_over + 2):
        batch = AtariBatch("breakout", [3, 4], 4 * steps)
        batch.reset()
        timesteps = [batch.step(each) for each in actions]
        for ours, theirs in zip(timesteps[:steps], expected):
            np.testing.assert_array_equal(ours.observation, theirs.observation)
        types = np.stack([timestep.step_type for timestep in timesteps])
        assert np.flatnonzero(types[:, 0] == LAST).tolist() == [min(steps - 1, game_over)]
        assert np.flatnonzero(types[:, 1] == FIRST).tolist() == [steps]
        assert np.count_nonzero(types[:, 0] == FIRST) == 1
        batch.close()


def test_an_agent_may_see_fewer_frames():
    """They are the newest of four."""
    batches = [environments.make_batch("atari:seaquest", [3], frames=n) for n in (None, 1, 3)]
    single = environments.make("atari:seaquest", 3, frames=3)
    starts = [batch.reset().observation for batch in batches]
    np.testing.assert_array_equal(single.reset().observation, starts[2][0])
    for actions in random_actions((10, 1)):
        all_four, *few = (batch.step(actions).observation for batch in batches)
        for frames, batch, seen in zip((1, 3), batches[1:], few):
            batch.observation_spec().validate(seen[0])
            np.testing.assert_array_equal(seen, all_four[..., -frames:])
    assert np.any(starts[0] != all_four)


def test_up_to_30_frames_without_action_come_before_an_episode(monkeypatch):
    frames = []

    class Noted(AtariVectorEnv):
        def reset(self, **arguments):
            observation, info = super().reset(**arguments)
            frames.extend(info["episode_frame_number"].tolist())
            return observation, info

    monkeypatch.setattr(atari_suite, "AtariVectorEnv", Noted)
    batch = environments.make_batch("atari:pong", [0, 1])
    first = batch.reset()
    for _ in range(44):
        batch.reset()
    assert (min(frames), max(frames)) == (0, 30) and len(set(frames)) > 25
    # The frames before the first one are black.
    assert first.observation[0, :, :, 3].any() and not first.observation[0, :, :, :3].any()


def test_one_game_is_a_dm_env_environment():
    environment = environments.make("atari:pong", seed=0)
    observation, action = environment.observation_spec(), environment.action_spec()
    assert (observation.shape, observation.dtype) == ((84, 84, 4), np.uint8)
    assert (action.num_values, action.dtype) == (18, np.int32)
    first = environment.reset()
    assert first.first() and first.reward is None and first.discount is None
    observation.validate(first.observation)
    second = environment.step(np.int32(2))
    assert second.step_type is dm_env.StepType.MID
    assert (second.reward, second.discount) == (0.0, 1.0)
    np.testing.assert_array_equal(second.observation[..., 2], first.observation[..., 3])
    picture = environment.render(168, 252)
    assert picture.shape == (168, 252, 3) and picture.dtype == np.uint8
    np.testing.assert_array_equal(picture[::2, ::3, 1], second.observation[..., 3])
    assert environment.control_timestep() == pytest.approx(4 / 60)
    environment.close()


@pytest.mark.parametrize(
    "actions, message",
    [
        ([[0], [1]], "2 integers, got int64 [2, 1]"),
        ([0.0, 1.0], "float64"),
        ([0, 18], "in [0, 18), got [0, 18]"),
        ([-1, 0], "in [0, 18)"),
    ],
)
def test_an_action_that_the_emulator_would_wait_for_is_refused(actions, message, monkeypatch):
    monkeypatch.setattr(atari_suite, "AtariVectorEnv", Script)
    batch = atari_suite.make_batch("pong", [0, 1])
    batch.reset()
    with pytest.raises(ValueError) as raised:
        batch.step(np.array(actions))
    assert message in str(raised.value)


def test_the_names_are_those_of_the_paper_and_then_the_emulators():
    names = atari_suite.names()
    assert tuple(names[:57]) == atari_suite.GAMES and len(set(names)) == len(names) == 104
    assert "tetris" in names and "combat" not in names
    assert {f"atari:{name}" for name in names} <= set(environments.names())


def test_a_game_has_all_actions_that_the_emulator_has_for_it():
    batch = atari_suite.make_batch("skiing", [0])
    assert batch.action_spec().num_values == 9
    batch.reset()
    for action in range(9):
        batch.step(np.array([action]))
    batch.close()
