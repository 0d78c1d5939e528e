"""Easy tasks of the Control Suite with many redundant sub-actions, learnt in minutes on one core.

    python -m binaries.aql --environment=python:reproductions.aql.redundant:cartpole_21 \
        --workdir=runs/cartpole_21

In `cartpole_21` the mean of 21 sub-actions is the force on the cart of `control:cartpole:swingup`;
in `reacher_14` the mean of the first seven is one torque of `control:reacher:easy` and that of the
others the second. Everything else is the task's. The optimal return stays as it was, since all
sub-actions may agree. But the mean of D random values is near 0, so with many sub-actions uniform
search finds no strong action: of 500 samples the largest mean is about 1.0 with one sub-action of
five values, 0.8 with 7 and 0.5 with 21.

They are no environments of the paper. They stand in for its tasks of high dimensions, which take
days on two cores.
"""

import functools

import dm_env
from dm_env import specs
import numpy as np

from common import environments
from common.environments.canonical import Wrapper


class Redundant(Wrapper):
    """A task of which each action is the mean of several sub-actions in [-1, 1]."""

    def __init__(self, name: str, size: int, seed: int):
        """Makes the task.

        Args:
          name: of a continuous environment.
          size: sub-actions in all, a multiple of the task's.
          seed: of the task.
        """
        super().__init__(environments.make(name, seed))
        self._shape = (self.wrapped.action_spec().shape[0], -1)
        self._size = size

    def action_spec(self) -> specs.BoundedArray:
        """Returns the spec of all sub-actions."""
        return specs.BoundedArray((self._size,), np.float32, -1.0, 1.0, name="action")

    def step(self, action: np.ndarray) -> dm_env.TimeStep:
        """Takes the means of the sub-actions."""
        return self.wrapped.step(np.reshape(action, self._shape).mean(axis=1))


cartpole_14 = functools.partial(Redundant, "control:cartpole:swingup", 14)
cartpole_21 = functools.partial(Redundant, "control:cartpole:swingup", 21)
reacher_14 = functools.partial(Redundant, "control:reacher:easy", 14)
reacher_20 = functools.partial(Redundant, "control:reacher:easy", 20)
