"""Tests of dmlab_suite, with a module in the place of DeepMind Lab's, and of lab_actions."""

import math
import sys
import types

import dm_env
import numpy as np
import pytest

from common import environments
from common.environments import lab_actions
from common.environments.lab_actions import CURATED, STRUCTURED
from common.environments.spec import EnvironmentSpec

LEVEL = "dmlab:explore_goal_locations_small"


class Lab:
    """The calls of `deepmind_lab.Lab`, with their checks, for episodes of three steps."""

    made = []

    def __init__(self, level, observations, config):
        self.arguments = (level, observations, config)
        self.seeds, self.actions, self.left, self.is_closed = [], [], 0, False
        Lab.made.append(self)

    def reset(self, seed):
        self.seeds.append(seed)
        self.left = 3

    def is_running(self):
        return self.left > 0

    def observations(self):
        if not self.is_running():
            raise RuntimeError("Environment in wrong status for call to observations()")
        return {"RGB_INTERLEAVED": np.full((84, 84, 3), self.left, np.uint8)}

    def step(self, action, num_steps):
        assert action.dtype == np.intc and action.shape == (7,)
        self.actions.append((action.tolist(), num_steps))
        self.left -= 1
        return 2.5

    def close(self):
        self.is_closed = True


@pytest.fixture
def lab(monkeypatch):
    Lab.made = []
    monkeypatch.setitem(sys.modules, "deepmind_lab", types.SimpleNamespace(Lab=Lab))
    return Lab


def test_the_level_its_size_and_its_seeds(lab):
    for seed in (3, 3, 4):
        environment = environments.make(LEVEL, seed)
        environment.reset()
        environment.reset()
    level, observations, config = lab.made[0].arguments
    assert level == "contributed/dmlab30/explore_goal_locations_small"
    assert observations == ["RGB_INTERLEAVED"]
    assert (config["width"], config["height"]) == ("84", "84")
    first, again, other = (made.seeds for made in lab.made)
    assert first == again != other and first[0] != first[1]


def test_an_action_is_repeated_four_times_as_it_is(lab):
    environment = environments.make(LEVEL, 0)
    spec = environment.action_spec()
    assert spec.dtype == np.int32
    assert spec.minimum.tolist() == [-512, -512, -1, -1, 0, 0, 0]
    assert spec.maximum.tolist() == [512, 512, 1, 1, 1, 1, 1]
    timestep = environment.reset()
    environment.observation_spec().validate(timestep.observation)
    action = np.array([-512, 7, 1, -1, 1, 0, 1], np.int32)
    timestep = environment.step(action)
    assert lab.made[0].actions == [(action.tolist(), 4)]
    assert timestep.reward == 2.5 and timestep.discount == 1
    assert EnvironmentSpec.of(environment).image_shape == (84, 84, 3)
    assert environments.frames_per_step(LEVEL) == 4
    environment.close()
    assert lab.made[0].is_closed


def test_an_episode_ends_by_its_time(lab):
    environment = environments.make(LEVEL, 0)
    environment.reset()
    timesteps = [environment.step(np.zeros(7, np.int32)) for _ in range(4)]
    types_ = [timestep.step_type for timestep in timesteps]
    assert types_ == [dm_env.StepType.MID] * 2 + [dm_env.StepType.LAST, dm_env.StepType.FIRST]
    last = timesteps[2]
    assert last.discount == 1 and last.reward == 2.5 and np.all(last.observation == 1)
    assert len(lab.made[0].seeds) == 2


def test_a_level_that_its_build_lacks(monkeypatch, refusal):
    def refuse(*arguments):
        raise RuntimeError("Invalid level\nscript")

    monkeypatch.setitem(sys.modules, "deepmind_lab", types.SimpleNamespace(Lab=refuse))
    message = refusal(environments.make, LEVEL, 0)
    assert "cannot start the level contributed/dmlab30/explore_goal" in message
    assert "Invalid level script" in message


def test_the_structured_set_is_a_product_of_3528_rising_values_around_0():
    assert [len(values) for values in STRUCTURED] == [7, 7, 3, 3, 2, 2, 2]
    assert math.prod(map(len, STRUCTURED)) == 3528
    for values in STRUCTURED:
        assert list(values) == sorted(set(values)) and 0 in values


def test_every_action_of_both_sets_is_in_the_ranges():
    spec = lab_actions.action_spec()
    for action in (*CURATED, tuple(map(min, STRUCTURED)), tuple(map(max, STRUCTURED))):
        spec.validate(np.array(action, np.int32))
    assert len(CURATED) == len(set(CURATED)) == 11 and (0,) * 7 in CURATED


@pytest.mark.parametrize("action", [(513, *(0,) * 6), (*(0,) * 6, -1), (0,) * 6])
def test_an_action_out_of_range_is_refused(action):
    with pytest.raises(ValueError, match="seven integers"):
        lab_actions.require_valid(np.array(action))
