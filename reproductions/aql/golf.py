"""Golf on a line, a task with hybrid actions: a club, and the strength of the stroke.

    python -m binaries.aql --environment=python:reproductions.aql.golf:make \
        --setting=aql_gaussian --workdir=runs/golf

The paper's abstract names "discrete, continuous, or hybrid action spaces", but no experiment has
hybrid actions. This environment is not in the paper.

The ball starts at a distance d of 0.5 to 1 from the hole, on either side. An action is one of three
clubs, with reaches L of 1, 0.25 and 0.05, and a strength u in [-1, 1]. It moves the ball by
L (u + e), with e uniform in [-0.2, 0.2]. Within 0.01 of the hole the ball falls in, which ends the
episode. Each stroke costs 1; the time limit is twenty strokes. The best policy needs 2.52 strokes
on average. It nearly always aims the shortest club that reaches the hole. No club suffices alone:
one stroke in twenty of the longest falls in, and the shortest needs about ten strokes or more to
reach the hole.
"""

from dm_env import specs
import numpy as np

from common.environments.episodic_environment import EpisodicEnvironment, StepOutcome
from common.environments.spec import HybridArray

REACHES = np.array([1.0, 0.25, 0.05])
ERROR = 0.2
HOLE = 0.01
MOST_STROKES = 20
BEST_RETURN = -2.52
"""Mean return of the best policy, by value iteration (tests/reproductions/aql/test_golf.py)."""


class Golf(EpisodicEnvironment):
    """Observations float32 [3]: d over each club's reach, clipped to [-2, 2]."""

    def __init__(self, seed: int):
        super().__init__(MOST_STROKES)
        self._random = np.random.default_rng(seed)
        self._distance = 0.0

    def observation_spec(self) -> specs.Array:
        """Returns the spec of the relative distances."""
        return specs.Array((len(REACHES),), np.float32, name="distances")

    def action_spec(self) -> HybridArray:
        """Returns the spec of a club and a strength."""
        return HybridArray((len(REACHES), 0))

    def _start(self) -> None:
        """Places the ball on either side of the hole."""
        self._distance = self._random.uniform(0.5, 1) * self._random.choice([-1, 1])

    def _act(self, action: np.ndarray) -> StepOutcome:
        """Strikes the ball."""
        error = self._random.uniform(-ERROR, ERROR)
        self._distance += REACHES[int(action[0])] * (action[1] + error)
        return StepOutcome(-1.0, has_failed=abs(self._distance) <= HOLE)

    def _observe(self) -> np.ndarray:
        return np.clip(self._distance / REACHES, -2, 2).astype(np.float32)


make = Golf
