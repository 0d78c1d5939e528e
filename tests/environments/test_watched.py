import threading
import time

import dm_env
from dm_env import specs
import numpy as np
import pytest

from common.environments import batch as batch_lib
from common.environments.batch import BatchedEnvironment, WatchedBatch
from common.environments.spec import BrokenSpecError, UnusableEnvironmentError

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


def watched(*simulators, on_stall=print, stall_seconds=60.0):
    return WatchedBatch(BatchedEnvironment(simulators), NAME, on_stall, stall_seconds)


def test_a_hanging_step_is_reported_once_with_name_and_timestep():
    simulator, messages, reported = Hanging(), [], threading.Event()

    def on_stall(message):
        messages.append(message)
        reported.set()

    batch = watched(simulator, on_stall=on_stall, stall_seconds=0.3)

    def act():
        batch.reset()
        batch.step(ACTIONS[:1])
        batch.step(ACTIONS[:1])

    thread = threading.Thread(target=act)
    thread.start()
    assert reported.wait(10)
    time.sleep(1.2)  # the watch looks once a second
    simulator.release.set()
    thread.join(10)
    batch.close()
    assert messages == [
        f"{NAME} has not returned from a step for 0.3 s, at timestep 2 of this process"
    ]


def test_quick_steps_idle_time_and_failures_are_no_stall():
    """The time between two steps is the actor's own, and an error ends a call."""
    messages = []
    batch, failing = (
        watched(one, on_stall=messages.append, stall_seconds=0.3)
        for one in (Simulator(), Failing())
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
        ({"reward": np.nan}, "reward"),
        ({"reward": -np.inf}, "reward"),
        ({"discount": np.inf}, "discount"),
        ({"position": np.nan}, "observation"),
        ({"position": np.inf}, "observation"),
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
        f"{NAME} gave a {which} that is not finite, in environment 1 of this process at its "
        "timestep 4"
    )
    assert "\n" not in message


@pytest.mark.parametrize(
    "given, words",
    [
        ({"reward": None}, ["a reward of None", "a number is due"]),
        ({"reward": [0.5]}, ["a reward of [0.5]"]),
        ({"reward": np.ones(3)}, ["a reward of float64 [3]"]),
        ({"discount": None}, ["a discount of None"]),
        ({"discount": np.zeros([1, 1])}, ["a discount of float64 [1, 1]"]),
        ({"discount": 1.25}, ["a discount of 1.25", "[0, 1]"]),
        ({"discount": -0.5}, ["a discount of -0.5", "[0, 1]"]),
        ({"image": np.zeros([2, 1], np.uint8)}, ["uint8 [2, 1]", "spec says uint8 [2, 2]"]),
        ({"image": np.ones([2, 2])}, ["float64 [2, 2]", "spec says uint8 [2, 2]"]),
        ({"image": [[1, 2], [3, 4]]}, ["an observation of 1, 2, 3, 4"]),
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


@pytest.mark.parametrize("hangs", [True, False])
def test_environments_that_are_not_made_in_time_are_reported(hangs):
    messages, reported = [], threading.Event()

    def on_stall(message):
        messages.append(message)
        reported.set()

    with batch_lib.making(NAME, on_stall, seconds=0.2 if hangs else 0.5):
        assert not hangs or reported.wait(30)
    time.sleep(0.0 if hangs else 0.8)
    assert len(messages) == hangs
    assert not hangs or messages[0].startswith(f"{NAME} has not been made after 0.2 s: ")
