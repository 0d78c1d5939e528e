"""Checks of the arguments that all adders have."""

import dm_env


def check_options(num_environments: int, gamma: float, reward_clip: float | None) -> None:
    """Checks the arguments of an adder's constructor.

    Raises:
      ValueError: `num_environments` is less than 1, `gamma` is not in [0, 1], or `reward_clip` is
        not positive.
    """
    check_num_environments(num_environments)
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma must be in [0, 1], got {gamma}")
    if reward_clip is not None and not reward_clip > 0:
        raise ValueError(f"reward_clip must be positive, got {reward_clip}")


def check_num_environments(num_environments: int) -> None:
    """Raises ValueError if `num_environments` is less than 1."""
    if num_environments < 1:
        raise ValueError(f"num_environments must be at least 1, got {num_environments}")


def check_timestep(timestep: dm_env.TimeStep, num_environments: int) -> None:
    """Raises ValueError if the timestep has another number of environments."""
    if timestep.step_type.shape != (num_environments,):
        raise ValueError(
            f"the adder is for {num_environments} environments, but the timestep's step_type has "
            f"shape {timestep.step_type.shape}"
        )
