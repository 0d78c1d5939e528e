"""Match, in which the number of sub-actions decides how much uniform search finds.

    python -m binaries.aql --environment=python:reproductions.aql.match:make_21 --workdir=runs/match

An observation has D random signs. A sub-action has five equal parts of [-1, 1] for its values, each
with one of the paper's levels -1, -0.5, 0, 0.5 and 1 in it, and matches if it is in the outermost
part on its sign's side. The reward is the share of the sub-actions that match, in percent of an
episode: 100 steps that all match in full return 100. No reward depends on an earlier action, so the
discount of each step is 0 and Q(s, a) is the reward.

A perfect Q and uniform samples therefore have a return that `uniform_return` knows exactly: with
500 samples 82.3, 49.4 and 37.4 for 5, 21 and 56 sub-actions. More is the doing of a search that is
fitted, as QT-Opt's, or learned. The numbers hold for the five levels and for continuous actions.

It is not an environment of the paper.
"""

import functools
import math

import dm_env
from dm_env import specs
import numpy as np

EPISODE_STEPS = 100
NUM_VALUES = 5


class Match(dm_env.Environment):
    """Observations float32 [D] of signs; actions float32 [D] in [-1, 1]."""

    def __init__(self, size: int, seed: int):
        self._size = size
        self._random = np.random.default_rng(seed)
        self._steps_left = 0

    def observation_spec(self) -> specs.Array:
        """Returns the spec of the signs."""
        return specs.Array((self._size,), np.float32, name="signs")

    def action_spec(self) -> specs.BoundedArray:
        """Returns the spec of an action."""
        return specs.BoundedArray((self._size,), np.float32, -1.0, 1.0, name="action")

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        self._steps_left = EPISODE_STEPS
        self._draw()
        return dm_env.restart(self._signs)

    def step(self, action: np.ndarray) -> dm_env.TimeStep:
        """Rewards the matching sub-actions; after an episode's last step, starts the next."""
        if not self._steps_left:
            return self.reset()
        self._steps_left -= 1
        matching = np.asarray(action) * self._signs > 1 - 2 / NUM_VALUES
        reward = float(matching.mean()) * 100 / EPISODE_STEPS
        self._draw()
        if not self._steps_left:
            return dm_env.termination(reward, self._signs)
        return dm_env.transition(reward, self._signs, discount=0.0)

    def _draw(self) -> None:
        self._signs = self._random.choice([-1.0, 1.0], self._size).astype(np.float32)


def uniform_return(size: int, num_samples: int) -> float:
    """Returns the mean return of the best of so many uniform samples, by a perfect Q.

    The number of sub-actions that match is binomial, and the best of n independent samples is at
    most k with the n-th power of one sample's probability.
    """
    share = 1 / NUM_VALUES
    counts = np.arange(size)
    exactly = [math.comb(size, k) * share**k * (1 - share) ** (size - k) for k in counts]
    at_most = np.cumsum(exactly)
    return 100 * float(np.sum(1 - at_most**num_samples)) / size


make_5 = functools.partial(Match, 5)
make_21 = functools.partial(Match, 21)
make_56 = functools.partial(Match, 56)
