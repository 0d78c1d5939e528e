"""Episode returns of a policy."""

import dm_env
import numpy as np

from common.acting.policy import Nest, Policy, reset_rows
from common.environments.batch import BatchedEnvironment

_FIRST = int(dm_env.StepType.FIRST)
_LAST = int(dm_env.StepType.LAST)


def environment_seeds(seed: int, count: int) -> list[int]:
    """Seeds of the environments of an evaluation: other ones than the training actors have."""
    return [seed + 1_000_003 + index for index in range(count)]


def run_episodes(environment: BatchedEnvironment, policy: Policy, num_episodes: int,
                 initial_state: Nest = ()) -> np.ndarray:
    """Runs `policy` for exactly `num_episodes` episodes and returns their undiscounted returns.

    How many episodes each environment contributes is fixed beforehand, as evenly as it goes: taking
    the first that finish would favour short ones. With a multiple of K episodes of equal length no
    step is wasted.

    Args:
      environment: K environments, which are reset first.
      policy: see `Policy`; pass it without exploration noise.
      num_episodes: at least 1.
      initial_state: nest of [K, ...], the policy's recurrent state at the start of an episode; ()
        for a feedforward policy.

    Returns:
      float64 [num_episodes], by environment, then in order of time.

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

    state = initial_state
    timestep = environment.reset()
    while remaining:
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
