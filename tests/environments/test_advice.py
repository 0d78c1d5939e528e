"""Advice on an environment after random play."""

import types

import dm_env
from dm_env import specs
import numpy as np
import pytest

from common.environments import advice
from common.environments.advice import Specimen
from common.environments.canonical import CanonicalEnvironment
from common.environments.spec import EnvironmentSpec, UnusableEnvironmentError

D4PG = types.SimpleNamespace(v_min=-150.0, v_max=150.0, discount=0.99, critic="categorical")
FINE = Specimen(
    spec=EnvironmentSpec(2, 1),
    low=np.array([-1.0, -1.0]),
    high=np.array([1.0, 2.0]),
    rewards=np.tile([0.0, 1.0], 100),
    lengths=[100, 100],
    true_ends=0,
    steps_per_second=1e3,
    flattened=[],
)


class Counting(dm_env.Environment):
    """Episodes of three steps, whose observation counts them; the reward is the first action."""

    def reset(self):
        self.count = 0
        return dm_env.restart({"count": np.zeros(1), "view": np.zeros((8, 9, 3))})

    def step(self, action):
        if self.count == 3:
            return self.reset()
        self.count += 1
        observation = {"count": np.full(1, self.count, float), "view": np.zeros((8, 9, 3))}
        if self.count == 3:
            return dm_env.termination(action[0], observation)
        return dm_env.transition(action[0], observation)

    def observation_spec(self):
        return {"count": specs.Array((1,), float), "view": specs.Array((8, 9, 3), float)}

    def action_spec(self):
        return specs.BoundedArray((2,), float, [2, 0], [6, 1])


def play(environment, max_seconds=1e9):
    return advice.play("python:my_module:make", CanonicalEnvironment(environment), 100, max_seconds)


def test_random_play_is_seen():
    seen = play(Counting())
    assert seen.spec == EnvironmentSpec(217, 2)
    assert (len(seen.rewards), seen.lengths, seen.true_ends) == (100, [3] * 33, 33)
    assert 2 <= seen.rewards.min() < 2.5 and 5.5 < seen.rewards.max() <= 6
    assert (seen.low[0], seen.high[0]) == (0, 3) and seen.flattened == [(8, 9, 3)]
    np.testing.assert_array_equal(play(Counting()).rewards, seen.rewards)
    assert len(play(Counting(), max_seconds=0).rewards) == 1


class Breaking(Counting):
    """A second episode in which a function changes the first step."""

    def __init__(self, change):
        self.episodes, self.change = 0, change

    def reset(self):
        self.episodes += 1
        return super().reset()

    def step(self, action):
        timestep = super().step(action)
        is_due = self.episodes == 2 and self.count == 1
        return self.change(timestep) if is_due else timestep


def _stuck(timestep):
    raise RuntimeError("the valve is stuck")


@pytest.mark.parametrize(
    "change, words",
    [
        (_stuck, "failed: RuntimeError: the valve is stuck ("),
        (
            lambda step: step._replace(reward=None),
            "returned a reward of None instead of a number (",
        ),
        (
            lambda step: step._replace(discount=np.ones(1)),
            "returned a discount of float64 [1] instead",
        ),
        (
            lambda step: dm_env.restart(step.observation),
            "returned a FIRST step before the episode's",
        ),
    ],
)
def test_a_mistake_that_random_play_finds_is_one_line(change, words):
    """It was a trace, or was not found before the run ended by it."""
    with pytest.raises(UnusableEnvironmentError) as caught:
        play(Breaking(change))
    message = str(caught.value)
    assert message.startswith('environment "python:my_module:make"') and "\n" not in message
    assert words in message and "test_advice.py, line " in message


@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_a_reward_that_is_not_finite_is_a_fault(reward):
    seen = play(Breaking(lambda step: step._replace(reward=reward)))
    assert "a reward is not finite" in advice.faults(seen)
    assert advice.return_range(seen, D4PG) is None


def test_what_is_fine_gets_no_advice():
    assert not [*advice.faults(FINE), *advice.hints(FINE)]
    assert advice.return_range(FINE, D4PG) is None
    # Short games of one length may end by themselves.
    assert not list(advice.faults(FINE._replace(lengths=[9] * 4, true_ends=4)))
    assert not list(advice.faults(FINE._replace(lengths=[100, 100, 99], true_ends=3)))
    # No wrapper stacks images that have numbers next to them.
    spec = EnvironmentSpec(3, 2, (2, 1, 3), True, vector_size=1)
    assert not list(advice.hints(FINE._replace(spec=spec)))


@pytest.mark.parametrize(
    "advise, changes, words",
    [
        (advice.faults, {"high": np.array([np.inf, 1])}, "not finite"),
        (advice.faults, {"flattened": [(8, 9, 3)]}, "an image of floats, [8, 9, 3], is flattened"),
        (
            advice.faults,
            {"lengths": [100] * 4, "true_ends": 4},
            "all 4 episodes terminated after exactly 100 steps",
        ),
        (advice.hints, {"low": np.array([-1, -30.0])}, "elements 1 of the observation reach 30:"),
        (advice.hints, {"spec": EnvironmentSpec(3, 2, (1, 1, 3), True)}, "a single image"),
        (advice.hints, {"rewards": np.zeros(200)}, "no reward in 200 steps"),
        (advice.hints, {"lengths": []}, "no episode ended in 200 steps"),
    ],
)
def test_faults_and_hints(advise, changes, words):
    (line,) = advise(FINE._replace(**changes))
    assert words in line


def test_the_range_of_returns():
    """A reward of 10 at each of 100 steps has the discounted return 10 (1 - 0.99^100) / 0.01."""
    dense = FINE._replace(rewards=np.full(200, 10.0))
    line = advice.return_range(dense, D4PG)
    assert "returns are in about [0, 634], but v_min=-150 and v_max=150 clip them" in line
    assert line.endswith("try --config.v_min=0 --config.v_max=640")
    clipped = types.SimpleNamespace(**vars(D4PG), reward_clip=1.0)
    assert advice.return_range(dense, clipped) is None
    faint = advice.return_range(FINE._replace(rewards=-0.01 * FINE.rewards), D4PG)
    assert "a small part of the range" in faint and "--config.v_min=-0.64 --config.v_max=0" in faint
    # A rare penalty counts once, not at each step.
    rare = FINE._replace(rewards=np.array([*[0.5] * 99, -100.0] * 2))
    assert advice.return_range(rare, D4PG) is None
    no_end = dense._replace(lengths=[])
    assert "[0, 1e+03]" in advice.return_range(no_end, D4PG)
    for other in ({"critic": "scalar"}, {"discount": 1.0, "v_max": 1e9}):
        config = types.SimpleNamespace(**{**vars(D4PG), **other})
        assert advice.return_range(no_end, config) is None
    assert advice.return_range(dense, types.SimpleNamespace(discount=0.9)) is None
    rounded = no_end._replace(rewards=np.full(200, float(np.float32(1.6))))
    assert advice.return_range(rounded, D4PG).endswith(" --config.v_max=160")
