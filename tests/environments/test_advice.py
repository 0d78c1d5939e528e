"""Advice on an environment after random play."""

import types

import dm_env
from dm_env import specs
import numpy as np
import pytest

from common.environments import advice
from common.environments.advice import Specimen
from common.environments.canonical import CanonicalEnvironment
from common.environments.spec import EnvironmentSpec

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


def test_random_play_is_seen():
    seen = advice.play(CanonicalEnvironment(Counting()), max_steps=100, max_seconds=1e9)
    assert seen.spec == EnvironmentSpec(217, 2)
    assert (len(seen.rewards), seen.lengths, seen.true_ends) == (100, [3] * 33, 33)
    assert 2 <= seen.rewards.min() < 2.5 and 5.5 < seen.rewards.max() <= 6
    assert (seen.low[0], seen.high[0]) == (0, 3) and seen.flattened == [(8, 9, 3)]
    again = advice.play(CanonicalEnvironment(Counting()), max_steps=100, max_seconds=1e9)
    np.testing.assert_array_equal(again.rewards, seen.rewards)
    assert len(advice.play(CanonicalEnvironment(Counting()), 100, max_seconds=0).rewards) == 1


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
        (advice.faults, {"flattened": [(8, 9, 3)]}, "an image of floats, [8, 9, 3]"),
        (
            advice.faults,
            {"lengths": [100] * 4, "true_ends": 4},
            "all 4 episodes ended after 100 steps as if",
        ),
        (advice.hints, {"low": np.array([-1, -30.0])}, "numbers 1 of the observation reach 30:"),
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
    assert "discounted returns in about [0, 634], beyond v_min=-150 and v_max=150" in line
    assert line.endswith("--config.v_min=0 --config.v_max=640 would suit them")
    clipped = types.SimpleNamespace(**vars(D4PG), reward_clip=1.0)
    assert advice.return_range(dense, clipped) is None
    faint = advice.return_range(FINE._replace(rewards=-0.01 * FINE.rewards), D4PG)
    assert "a small part of" in faint and "--config.v_min=-0.64 --config.v_max=0" in faint
    # A rare penalty counts once, not at each step.
    rare = FINE._replace(rewards=np.array([*[0.5] * 99, -100.0] * 2))
    assert advice.return_range(rare, D4PG) is None
    no_end = dense._replace(lengths=[])
    assert "[0, 1e+03]" in advice.return_range(no_end, D4PG)
    for other in ({"critic": "scalar"}, {"discount": 1.0, "v_max": 1e9}):
        config = types.SimpleNamespace(**{**vars(D4PG), **other})
        assert advice.return_range(no_end, config) is None
    assert advice.return_range(dense, types.SimpleNamespace(discount=0.9)) is None
