"""Timesteps of several environments, with which tests feed adders."""

import dm_env
import numpy as np

ABSENT, FIRST, MID, LAST = -1, 0, 1, 2


def timestep(step_type, reward, discount, observation):
    """Returns a timestep of K environments, with the dtypes of an `EnvironmentBatch`."""
    return dm_env.TimeStep(
        np.array(step_type, np.int32),
        np.array(reward, np.float32),
        np.array(discount, np.float32),
        observation,
    )


def random_experience(rng, num_steps, k, discounts, ends=1.0):
    """Returns step types, rewards and discounts, [T, K], of episodes of 1 to 9 steps.

    Args:
      rng: NumPy's generator.
      num_steps: T.
      k: environments.
      discounts: {discount: its probability}. 0 within an episode is a lost life, at LAST a true
        end; 1 at LAST is a time limit.
      ends: probability that an episode has a LAST. The others are abandoned: FIRST follows.
    """
    step_types = np.full((num_steps, k), MID)
    rewards = rng.normal(size=(num_steps, k)).astype(np.float32)
    drawn = rng.choice([*discounts], p=[*discounts.values()], size=(num_steps, k))
    for environment in range(k):
        t = 0
        while t < num_steps:
            step_types[t, environment] = FIRST
            rewards[t, environment], drawn[t, environment] = 0, 1
            t += rng.integers(1, 10)
            if t < num_steps and rng.uniform() < ends:
                step_types[t, environment] = LAST
                t += 1
    return step_types, rewards, drawn.astype(np.float32)
