"""Evaluation of a policy by its episode returns."""

from collections.abc import Callable
import math

import dm_env
import numpy as np

from common.acting.policy import Policy, state_at
from common.environments.batch import EnvironmentBatch

_LAST = int(dm_env.StepType.LAST)
_EVALUATION = 1_000_003
"""Stands for the actor's index in seeds of evaluations; larger than the index of any actor."""
_MAX_ENVIRONMENTS = 10
"""Largest batch of environments; larger ones are no faster."""


def num_environments(num_episodes: int) -> int:
    """Returns the number of environments in an evaluation of `num_episodes` episodes.

    It is the least that plays them in as few rounds as `_MAX_ENVIRONMENTS`.
    """
    rounds = math.ceil(num_episodes / _MAX_ENVIRONMENTS)
    return math.ceil(num_episodes / rounds)


def environment_seeds(seed: int, num_episodes: int) -> list[int]:
    """Returns the environments' seeds in an evaluation; actors and other runs have other seeds."""
    sequence = np.random.SeedSequence([seed, _EVALUATION])
    return sequence.generate_state(num_environments(num_episodes)).tolist()


def run_episodes(
    environment: EnvironmentBatch,
    policy: Policy,
    num_episodes: int,
    is_stopped: Callable[[], bool] = lambda: False,
) -> np.ndarray:
    """Runs `policy` for exactly `num_episodes` episodes and returns their undiscounted returns.

    The number of episodes per environment is fixed in advance, as evenly as possible, because
    taking the first episodes to finish would favour short ones. A multiple of K episodes of equal
    length wastes no step.

    Args:
      environment: a batch of K environments, which is reset first.
      policy: acts in all of them.
      num_episodes: at least 1.
      is_stopped: called before each step; the evaluation ends early once it returns True.

    Returns:
      float64 [num_episodes], ordered by environment, then by time; fewer after an early end.

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
        state = state_at(policy, state, initial_state, timestep)
        action, state, _ = policy(timestep.observation, state)
        timestep = environment.step(action)
        current += timestep.reward
        for index in np.flatnonzero(timestep.step_type == _LAST):
            if len(finished[index]) < quota[index]:
                finished[index].append(float(current[index]))
                remaining -= 1
            current[index] = 0
    return np.concatenate([np.array(returns) for returns in finished])
