"""Match, a task in which the number of sub-actions decides how well uniform search does.

    python -m binaries.aql --environment=python:reproductions.aql.match:make_21 --workdir=runs/match

An observation consists of D random signs. The range [-1, 1] of a sub-action is divided into five
equal parts, each with one of the paper's levels -1, -0.5, 0, 0.5 and 1 in it. A sub-action matches
if its value is in the outermost part on the side of its sign. The reward is the share of
sub-actions that match, scaled so that an episode of 100 steps in which all match returns 100. No
reward depends on an earlier action, so the discount of each step is 0 and Q(s, a) is the reward.

`uniform_return` therefore gives the exact mean return of a perfect Q with uniform samples: with 500
samples 82.3, 49.4 and 37.4 for 5, 21 and 56 sub-actions. A higher return is due to a search that is
fitted, such as QT-Opt's, or learned. The numbers hold for the five levels and for continuous
actions. The environment is not in the paper.
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
    """Returns the mean return with the best of `num_samples` uniform samples, by a perfect Q.

    The number of sub-actions that match is binomial. The best of n independent samples has at most
    k matches with a probability that is the n-th power of one sample's.
    """
    share = 1 / NUM_VALUES
    counts = np.arange(size)
    exactly = [math.comb(size, k) * share**k * (1 - share) ** (size - k) for k in counts]
    at_most = np.cumsum(exactly)
    return 100 * float(np.sum(1 - at_most**num_samples)) / size


make_5 = functools.partial(Match, 5)
make_21 = functools.partial(Match, 21)
make_56 = functools.partial(Match, 56)
