"""Tests of common.environments.batch."""

import threading
import time

import dm_env
from dm_env import specs
import numpy as np
import pytest

from common.environments.batch import BatchedEnvironment, WatchedBatch
from common.environments.spec import BrokenSpecError, UnusableEnvironmentError

FIRST, MID, LAST = 0, 1, 2


class Counter(dm_env.Environment):
    """Counts steps in an array that it overwrites; ends at `length` with `end_discount`."""

    def __init__(self, length, end_discount=0.0, nested=False, size=2):
        self._length = length
        self._end_discount = end_discount
        self._nested = nested
        self._size = size
        self._count = np.zeros(size, np.float32)
        self._ended = True
        self.actions = []

    def _observation(self):
        if self._nested:
            return {"count": self._count, "image": np.full((2, 3), self._count[0], np.uint8)}
        return self._count

    def reset(self):
        self._count[:] = 0
        self._ended = False
        return dm_env.restart(self._observation())

    def step(self, action):
        if self._ended:
            return self.reset()
        self.actions.append(float(action[0]))
        self._count += 1
        if self._count[0] == self._length:
            self._ended = True
            return dm_env.TimeStep(
                dm_env.StepType.LAST, 10.0, self._end_discount, self._observation()
            )
        return dm_env.transition(float(self._count[0]), self._observation(), discount=0.5)

    def observation_spec(self):
        flat = specs.Array((self._size,), np.float32)
        return {"count": flat, "image": specs.Array((2, 3), np.uint8)} if self._nested else flat

    def action_spec(self):
        return specs.BoundedArray((1,), np.float32, minimum=-1, maximum=1)


def actions(*values):
    return np.array(values, np.float32)[:, None]


def test_each_environment_ends_and_resets_by_itself():
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


def test_what_was_returned_is_never_written_again():
    batch = BatchedEnvironment([Counter(3), Counter(5)])
    timesteps = [batch.reset()]
    copies = [[field.copy() for field in timesteps[0]]]
    for _ in range(8):
        timesteps.append(batch.step(actions(0, 0)))
        copies.append([field.copy() for field in timesteps[-1]])
    for timestep, copy in zip(timesteps, copies):
        for field, before in zip(timestep, copy):
            np.testing.assert_array_equal(field, before)
    arrays = [field for timestep in timesteps for field in timestep]
    assert not any(
        np.shares_memory(each, other) for i, each in enumerate(arrays) for other in arrays[:i]
    )


def test_nested_observations():
    batch = BatchedEnvironment([Counter(3, nested=True), Counter(2, nested=True)])
    batch.reset()
    batch.step(actions(0, 0))
    batch.step(actions(0, 0))
    observation = batch.step(actions(0, 0)).observation
    np.testing.assert_array_equal(observation["count"], [[3, 3], [0, 0]])
    assert observation["image"].shape == (2, 2, 3) and observation["image"].dtype == np.uint8
    np.testing.assert_array_equal(observation["image"][:, 0, 0], [3, 0])


def test_a_wrong_number_of_actions_is_refused():
    batch = BatchedEnvironment([Counter(3), Counter(3)])
    batch.reset()
    with pytest.raises(ValueError, match="3 actions for 2 environments"):
        batch.step(actions(0, 0, 0))


def test_environments_must_agree():
    with pytest.raises(ValueError, match="environment 1 has another observation spec"):
        BatchedEnvironment([Counter(3), Counter(3, size=4)])
    with pytest.raises(ValueError, match="at least one"):
        BatchedEnvironment([])


class OutOfTurn(Counter):
    """Goes on after its end, or begins again before it."""

    def __init__(self, goes_on):
        super().__init__(2)
        self._goes_on = goes_on

    def step(self, action):
        timestep = super().step(action)
        if self._goes_on:
            self._ended = False
        elif not timestep.last():
            self._ended = True
        return timestep


@pytest.mark.parametrize(
    "goes_on, num_steps, words",
    [(True, 3, "gave a MID step where FIRST is due"), (False, 2, "gave a FIRST step before")],
)
def test_an_episode_begins_after_the_last_step_of_another(goes_on, num_steps, words):
    batch = BatchedEnvironment([Counter(9), OutOfTurn(goes_on)])
    for _ in range(2):  # a reset begins episodes anew
        batch.reset()
        for _ in range(num_steps - 1):
            batch.step(actions(0, 0))
    with pytest.raises(BrokenSpecError, match=f"environment 1 {words}"):
        batch.step(actions(0, 0))
    batch = BatchedEnvironment([NeverFirst(9)])
    with pytest.raises(BrokenSpecError, match="environment 0 gave a MID step where FIRST is due"):
        batch.reset()


class NeverFirst(Counter):
    def reset(self):
        return super().reset()._replace(step_type=dm_env.StepType.MID)


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


class Hanging(Simulator):
    """Does not return from its second step until it is released."""

    def __init__(self):
        super().__init__()
        self.release = threading.Event()

    def step(self, action):
        if self._steps == 1:
            assert self.release.wait(30)
        return super().step(action)


class Failing(Simulator):
    def step(self, action):
        raise KeyError("a bug of the simulator")


def watched(*simulators, on_stall=print, seconds=60.0):
    return WatchedBatch(BatchedEnvironment(simulators), NAME, on_stall, seconds)


def test_a_hanging_step_is_reported_once_with_name_and_timestep():
    simulator, messages, reported = Hanging(), [], threading.Event()

    def on_stall(message):
        messages.append(message)
        reported.set()

    batch = watched(simulator, on_stall=on_stall, seconds=0.3)

    def act():
        batch.reset()
        batch.step(ACTIONS[:1])
        batch.step(ACTIONS[:1])

    thread = threading.Thread(target=act)
    thread.start()
    assert reported.wait(10)
    time.sleep(0.7)  # the watch looks twice a second
    simulator.release.set()
    thread.join(10)
    batch.close()
    assert messages == [
        f"{NAME} has not returned from a step for 0.3 s, at timestep 2 of this process: it hangs, "
        "or it is slow and needs a larger --environment_seconds"
    ]


def test_quick_steps_idle_time_and_failures_are_no_stall():
    """The time between two steps is the actor's own, and an error ends a call."""
    messages = []
    batch, failing = (
        watched(each, on_stall=messages.append, seconds=0.3) for each in (Simulator(), Failing())
    )
    batch.reset()
    batch.step(ACTIONS[:1])
    with pytest.raises(KeyError):
        failing.step(ACTIONS[:1])
    time.sleep(1.5)
    batch.close()
    failing.close()
    assert not messages


@pytest.mark.parametrize(
    "given, which",
    [
        ({"reward": -np.inf}, "a reward"),
        ({"discount": np.inf}, "a discount"),
        ({"position": np.nan}, "an observation"),
    ],
    ids=str,
)
def test_what_is_not_finite_names_environment_index_timestep_and_which(given, which):
    batch = watched(Simulator(), Simulator(step_at=3, **given))
    batch.reset()
    for _ in range(2):
        batch.step(ACTIONS)
    with pytest.raises(UnusableEnvironmentError) as caught:
        batch.step(ACTIONS)
    batch.close()
    message = str(caught.value)
    assert message.startswith(
        f"{NAME} gave {which} that is not finite, in environment 1 of this process at its "
        "timestep 4"
    )
    assert "\n" not in message


def test_a_reward_whose_sums_would_not_be_finite_is_named():
    batch = watched(Simulator(), Simulator(step_at=2, reward=-3e38))
    batch.reset()
    batch.step(ACTIONS)
    with pytest.raises(UnusableEnvironmentError, match="gave a reward of size 3e.38, beyond 1e.30"):
        batch.step(ACTIONS)
    batch.close()


@pytest.mark.parametrize(
    "given, words",
    [
        ({"reward": None}, ["a reward of None", "a number is due"]),
        ({"reward": [0.5]}, ["a reward of [0.5]"]),
        ({"discount": np.zeros([1, 1])}, ["a discount of float64 [1, 1]"]),
        ({"discount": 1.25}, ["a discount of 1.25", "[0, 1]"]),
        ({"discount": -0.5}, ["a discount of -0.5", "[0, 1]"]),
        ({"image": np.zeros([2, 1], np.uint8)}, ["uint8 [2, 1]", "spec says uint8 [2, 2]"]),
        ({"image": np.ones([2, 2])}, ["float64 [2, 2]", "spec says uint8 [2, 2]"]),
        ({"more": np.zeros(1)}, ["uint8 [2, 2], float64 [1]"]),
    ],
    ids=str,
)
def test_what_breaks_a_spec_names_environment_index_timestep_and_what_it_gave(given, words):
    batch = watched(Simulator(), Simulator(step_at=2, **given))
    batch.reset()
    batch.step(ACTIONS)
    with pytest.raises(BrokenSpecError) as caught:
        batch.step(ACTIONS)
    batch.close()
    message = str(caught.value)
    for word in (NAME, "environment 1", "timestep 3", *words):
        assert word in message
    assert "\n" not in message


def test_what_is_finite_passes_unchanged():
    batch = watched(Simulator(reward=-3.0, discount=0.0, position=1e30, pixel=255), Simulator())
    assert batch.num_environments == 2
    assert batch.reset().first().all()
    timestep = batch.step(ACTIONS)
    batch.close()
    assert timestep.observation["image"].dtype == np.uint8
    assert timestep.observation["image"][0].min() == 255
    assert timestep.reward.tolist() == [-3.0, 0.0] and timestep.discount.tolist() == [0.0, 1.0]
    assert timestep.observation["position"][0, 1] == np.float32(1e30)
