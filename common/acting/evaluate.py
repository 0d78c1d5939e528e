"""Episode returns of a policy."""

from collections.abc import Callable

import dm_env
import numpy as np

from common.acting.policy import Policy, reset_rows
from common.environments.batch import EnvironmentBatch

_FIRST = int(dm_env.StepType.FIRST)
_LAST = int(dm_env.StepType.LAST)
_EVALUATION = 1_000_003
"""In the place of an actor's number, in seeds; no run has so many."""
_MAX_ENVIRONMENTS = 10
"""That step as one batch: more gain nothing."""


def num_environments(num_episodes: int) -> int:
    """Returns how many environments an evaluation of so many episodes has."""
    return min(num_episodes, _MAX_ENVIRONMENTS)


def environment_seeds(seed: int, num_episodes: int) -> list[int]:
    """Seeds of the environments of an evaluation: other ones than actors and other runs have."""
    sequence = np.random.SeedSequence([seed, _EVALUATION])
    return sequence.generate_state(num_environments(num_episodes)).tolist()


def run_episodes(
    environment: EnvironmentBatch,
    policy: Policy,
    num_episodes: int,
    is_stopped: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """Runs `policy` for exactly `num_episodes` episodes and returns their undiscounted returns.

    How many episodes each environment contributes is fixed beforehand, as evenly as it goes: taking
    the first that finish would favour short ones. With a multiple of K episodes of equal length no
    step is wasted.

    Args:
      environment: K environments, which are reset first.
      policy: without exploration noise.
      num_episodes: at least 1.
      is_stopped: asked at each step; the evaluation ends early when it says so.

    Returns:
      float64 [num_episodes], by environment, then in order of time; fewer if it was stopped.

    Raises:
      ValueError: `num_episodes` is less than 1.
    """
    if num_episodes < 1:
        raise ValueError(f"num_episodes must be at least 1, got {num_episodes}")
    k = environment.num_environments
    quota = [num_episodes // k + (index < num_episodes % k) for index in range(k)]
    finished: list[list[float]] = [[] for _ in range(k)]
    current = np.zeros(k, np.float64)
    remaining = num_episodes

    state = initial_state = policy.initial_state(k)
    timestep = environment.reset()
    while remaining and not is_stopped():
        state = reset_rows(state, initial_state, timestep.step_type == _FIRST)
        action, state, _ = policy(timestep.observation, state)
        timestep = environment.step(action)
        current += timestep.reward
        for index in np.flatnonzero(timestep.step_type == _LAST):
            if len(finished[index]) < quota[index]:
                finished[index].append(float(current[index]))
                remaining -= 1
            current[index] = 0
    return np.concatenate([np.array(returns) for returns in finished])
