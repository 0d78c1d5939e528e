"""Easy tasks of the Control Suite with many redundant sub-actions, learnt in minutes on one core.

    python -m binaries.aql --environment=python:reproductions.aql.redundant:cartpole_21 \
        --workdir=runs/cartpole_21

In `cartpole_21` the mean of 21 sub-actions is the force on the cart of `control:cartpole:swingup`.
In `reacher_14` the mean of the first seven is the first torque of `control:reacher:easy`, and the
mean of the last seven the second. Everything else is unchanged. So is the optimal return, since all
sub-actions may agree. But the mean of D random values is near 0, so with many sub-actions uniform
search finds no strong action: the largest mean among 500 samples is about 1.0 with one sub-action
of five values, 0.8 with 7 and 0.5 with 21.

These environments are not in the paper. They stand in for its high-dimensional tasks, which take
days on two cores.
"""

import functools

import dm_env
from dm_env import specs
import numpy as np

from common import environments
from common.environments.canonical import Wrapper


class Redundant(Wrapper):
    """A task in which each element of an action is the mean of sub-actions in [-1, 1]."""

    def __init__(self, name: str, size: int, seed: int):
        """Creates the task.

        Args:
          name: name of an environment with continuous actions.
          size: total number of sub-actions, a multiple of the number of the action's elements.
          seed: seed of the task.
        """
        super().__init__(environments.make(name, seed))
        self._shape = (self.wrapped.action_spec().shape[0], -1)
        self._size = size

    def action_spec(self) -> specs.BoundedArray:
        """Returns the spec of all sub-actions."""
        return specs.BoundedArray((self._size,), np.float32, -1.0, 1.0, name="action")

    def step(self, action: np.ndarray) -> dm_env.TimeStep:
        """Takes a step with the means of the sub-actions."""
        return self.wrapped.step(np.reshape(action, self._shape).mean(axis=1))


cartpole_14 = functools.partial(Redundant, "control:cartpole:swingup", 14)
cartpole_21 = functools.partial(Redundant, "control:cartpole:swingup", 21)
reacher_14 = functools.partial(Redundant, "control:reacher:easy", 14)
reacher_20 = functools.partial(Redundant, "control:reacher:easy", 20)
