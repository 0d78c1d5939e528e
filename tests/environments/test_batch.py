"""Tests of common.environments.batch."""

import dm_env
from dm_env import specs
import numpy as np
import pytest

from common.environments.batch import BatchedEnvironment, WatchedBatch
from common.environments.spec import BrokenSpecError, UnusableEnvironmentError

FIRST, MID, LAST = 0, 1, 2


class Counter(dm_env.Environment):
    """Counts steps in an array that it overwrites; ends at `length` with `end_discount`."""

    def __init__(self, length, end_discount=0.0, size=2):
        self._length = length
        self._end_discount = end_discount
        self._count = np.zeros(size, np.float32)
        self._ended = True
        self.actions = []

    def reset(self):
        self._count[:] = 0
        self._ended = False
        return dm_env.restart(self._count)

    def step(self, action):
        if self._ended:
            return self.reset()
        self.actions.append(float(action[0]))
        self._count += 1
        if self._count[0] == self._length:
            self._ended = True
            return dm_env.TimeStep(dm_env.StepType.LAST, 10.0, self._end_discount, self._count)
        return dm_env.transition(float(self._count[0]), self._count, discount=0.5)

    def observation_spec(self):
        return specs.Array(self._count.shape, np.float32)

    def action_spec(self):
        return specs.BoundedArray((1,), np.float32, minimum=-1, maximum=1)


def actions(*values):
    return np.array(values, np.float32)[:, None]


def test_each_environment_ends_and_resets_by_itself():
    """Compared at the end: what was returned earlier is never written again."""
    counters = [Counter(2, end_discount=0.0), Counter(3, end_discount=1.0)]
    batch = BatchedEnvironment(counters)
    assert batch.num_environments == 2
    timesteps = [batch.reset()] + [batch.step(actions(t, 10 + t)) for t in range(1, 6)]
    np.testing.assert_array_equal(
        [t.step_type for t in timesteps],
        [[FIRST, FIRST], [MID, MID], [LAST, MID], [FIRST, LAST], [MID, FIRST], [LAST, MID]],
    )
    np.testing.assert_array_equal(
        [t.reward for t in timesteps], [[0, 0], [1, 1], [10, 2], [0, 10], [1, 0], [10, 1]]
    )
    np.testing.assert_array_equal(
        [t.discount for t in timesteps], [[1, 1], [0.5, 0.5], [0, 0.5], [1, 1], [0.5, 1], [0, 0.5]]
    )
    np.testing.assert_array_equal(
        [t.observation[:, 0] for t in timesteps], [[0, 0], [1, 1], [2, 2], [0, 3], [1, 0], [2, 1]]
    )
    assert [field.dtype for field in timesteps[0]] == [np.int32] + [np.float32] * 3
    # The action of the step that resets is ignored.
    assert counters[0].actions == [1, 2, 4, 5]
    assert counters[1].actions == [11, 12, 13, 15]


def test_a_wrong_number_of_actions_is_refused():
    batch = BatchedEnvironment([Counter(3), Counter(3)])
    batch.reset()
    with pytest.raises(ValueError, match="3 actions for 2 environments"):
        batch.step(actions(0, 0, 0))


def test_environments_must_agree():
    with pytest.raises(ValueError, match="environment 1 has a different observation spec"):
        BatchedEnvironment([Counter(3), Counter(3, size=4)])
    with pytest.raises(ValueError, match="at least one"):
        BatchedEnvironment([])


class OutOfTurn(Counter):
    """Gives steps of given types."""

    def __init__(self, *types):
        super().__init__(9)
        self._types = list(types)

    def reset(self):
        return super().reset()._replace(step_type=dm_env.StepType(self._types.pop(0)))

    def step(self, action):
        return super().step(action)._replace(step_type=dm_env.StepType(self._types.pop(0)))


@pytest.mark.parametrize(
    "types, words",
    [
        ((FIRST, FIRST, MID, LAST, MID), "returned a MID step instead of FIRST"),
        ((FIRST, FIRST, MID, FIRST), "returned a FIRST step before"),
        ((MID,), "returned a MID step instead of FIRST"),
    ],
)
def test_an_episode_begins_after_the_last_step_of_another(types, words):
    """Or with a reset."""
    batch = BatchedEnvironment([Counter(9), OutOfTurn(*types)])
    for number in range(len(types) - 1):
        batch.reset() if number < 2 else batch.step(actions(0, 0))
    with pytest.raises(BrokenSpecError, match=f"environment 1 {words}"):
        batch.step(actions(0, 0)) if len(types) > 1 else batch.reset()


NAME = "python:mine:make"
ACTIONS = np.zeros([2, 1], np.float32)


class Simulator(dm_env.Environment):
    """Gives what it is told to give at its `step_at`-th step, and zeros before."""

    def __init__(self, step_at=1, reward=0.0, discount=1.0, position=0.0, pixel=0, **others):
        self._step_at = step_at
        self._given = reward, discount, self._observation(position, pixel) | others
        self._steps = 0

    def _observation(self, position=0.0, pixel=0):
        return {"image": np.full([2, 2], pixel, np.uint8), "position": np.float32([0.0, position])}

    def reset(self):
        return dm_env.restart(self._observation())

    def step(self, action):
        self._steps += 1
        if self._steps < self._step_at:
            return dm_env.transition(0.0, self._observation())
        reward, discount, observation = self._given
        return dm_env.transition(reward, observation, discount)

    def observation_spec(self):
        return {"image": specs.Array([2, 2], np.uint8), "position": specs.Array([2], np.float32)}

    def action_spec(self):
        return specs.BoundedArray([1], np.float32, minimum=-1, maximum=1)


def watched(*simulators):
    return WatchedBatch(BatchedEnvironment(simulators), NAME)


@pytest.mark.parametrize(
    "given, error, words",
    [
        ({"reward": -np.inf}, UnusableEnvironmentError, ["a reward that is not finite"]),
        ({"discount": np.inf}, UnusableEnvironmentError, ["a discount that is not finite"]),
        ({"position": np.nan}, UnusableEnvironmentError, ["an observation that is not finite"]),
        (
            {"reward": -3e38},
            UnusableEnvironmentError,
            ["a reward of size 3e+38, above the limit of 1e+30"],
        ),
        ({"reward": None}, BrokenSpecError, ["a reward of None instead of a number"]),
        ({"reward": [0.5]}, BrokenSpecError, ["a reward of [0.5]"]),
        ({"discount": np.zeros([1, 1])}, BrokenSpecError, ["a discount of float64 [1, 1]"]),
        ({"discount": 1.25}, BrokenSpecError, ["a discount of 1.25", "[0, 1]"]),
        ({"discount": -0.5}, BrokenSpecError, ["a discount of -0.5", "[0, 1]"]),
        (
            {"image": np.zeros([2, 1], np.uint8)},
            BrokenSpecError,
            ["uint8 [2, 1]", "spec says uint8 [2, 2]"],
        ),
        ({"image": np.ones([2, 2])}, BrokenSpecError, ["float64 [2, 2]", "spec says uint8 [2, 2]"]),
        ({"more": np.zeros(1)}, BrokenSpecError, ["uint8 [2, 2], float64 [1]"]),
    ],
    ids=str,
)
def test_what_cannot_be_used_names_environment_index_timestep_and_what(
    given, error, words, refusal
):
    batch = watched(Simulator(), Simulator(step_at=2, **given))
    batch.reset()
    batch.step(ACTIONS)
    message = refusal(batch.step, ACTIONS, error=error)
    for word in (NAME, "environment 1", "timestep 3", *words):
        assert word in message


def test_what_is_finite_passes_unchanged():
    batch = watched(Simulator(reward=-3.0, discount=0.0, position=1e30, pixel=255), Simulator())
    assert batch.num_environments == 2
    assert batch.reset().first().all()
    timestep = batch.step(ACTIONS)
    batch.close()
    assert timestep.observation["image"].dtype == np.uint8
    assert timestep.observation["image"].tolist() == [[[255, 255]] * 2, [[0, 0]] * 2]
    assert timestep.reward.tolist() == [-3.0, 0.0] and timestep.discount.tolist() == [0.0, 1.0]
    np.testing.assert_array_equal(timestep.observation["position"], np.float32([[0, 1e30], [0, 0]]))
