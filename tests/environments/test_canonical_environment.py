import dm_env
from dm_env import specs
import numpy as np
import pytest

from common.environments.canonical import CanonicalEnvironment


class Recorder(dm_env.Environment):
    """Remembers its action and shows one scalar, one matrix and one vector that it reuses."""

    def __init__(self):
        self.action = None
        self._vector = np.zeros(2)

    def _observation(self):
        return {"z": 1.5, "a": np.array([[2., 3.], [4., 5.]]), "m": self._vector}

    def reset(self):
        self._vector[:] = 0
        return dm_env.restart(self._observation())

    def step(self, action):
        self.action = action
        self._vector += 1
        return dm_env.transition(2.0, self._observation(), discount=.5)

    def observation_spec(self):
        return {"z": specs.Array((), float), "a": specs.Array((2, 2), float),
                "m": specs.Array((2,), float)}

    def action_spec(self):
        return specs.BoundedArray((3,), float, minimum=[-1, 0, -2], maximum=[1, 10, 6])


@pytest.mark.parametrize("canonical, expected", [
    ([-1, -1, -1], [-1, 0, -2]),
    ([0, 0, 0], [0, 5, 2]),
    ([1, 1, 1], [1, 10, 6]),
    ([.5, .5, -.5], [.5, 7.5, 0]),
    ([3, -2, 2], [3, -5, 10]),  # Affine beyond the bounds too: nothing is clipped.
])
def test_actions_are_mapped_affinely(canonical, expected):
    recorder = Recorder()
    environment = CanonicalEnvironment(recorder)
    environment.reset()
    environment.step(np.array(canonical, np.float32))
    np.testing.assert_allclose(recorder.action, expected)


def test_observations_are_flat_in_spec_order_and_new_each_time():
    environment = CanonicalEnvironment(Recorder())
    first = environment.reset().observation
    second = environment.step(np.zeros(3, np.float32)).observation
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, [1.5, 2, 3, 4, 5, 0, 0])
    np.testing.assert_array_equal(second, [1.5, 2, 3, 4, 5, 1, 1])


def test_reward_and_discount_pass_through():
    environment = CanonicalEnvironment(Recorder())
    environment.reset()
    timestep = environment.step(np.zeros(3, np.float32))
    assert (timestep.reward, timestep.discount) == (2.0, .5)
