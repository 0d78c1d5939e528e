"""Estimates of the RAM that a full replay takes, and the sizes of a key's parts.

The functions `*_bytes_per_step` estimate the bytes for each step of the replay's capacity. Their
arguments are the agent's configuration, the environment's spec and the environment. For the
launcher, they work without TensorFlow, and importing this module does not import NumPy. Keys are
explained in `common.replay.columns`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dm_env

    from common.environments.spec import EnvironmentSpec

_STRUCTURES = 66
"""Bytes of a step in cc/ without its columns: slot 24, two sum trees 18, index up to 24."""
_TREE_STRUCTURES = 129
"""The same with a contextual tree: slot 24, node 64 + 1, `Fifo` 8, mix 8, index up to 24."""
_EPISODE_STRUCTURES = 100
"""The same in a memory of episodes: seven floats 28, slot 4, place 16, ranking up to 52."""
_STRING = 32
"""Overhead of a string in bytes: its reference in the row, and the overhead of malloc."""
_SOFT = 1.1
"""Maximum number of stored steps / capacity, while a learner enforces a soft capacity.

Ape-X adds 66,000 transitions to 2 million between two removals (section 4.1), a factor of 1.03.
"""
_NUM_FRAMES = 48
_BUSIER = 2.0
"""Size of an image in play / size of an image in random play, which sees less of a game."""


def transition_bytes_per_step(
    config: Any, spec: EnvironmentSpec, environment: dm_env.Environment
) -> int:
    """Returns the bytes per transition, for vectors or images and continuous or discrete actions.

    Images are PNG files where `config.torso` is "atari"; their size is measured in random play,
    which resets the environment. Otherwise observations are stored as they are.
    """
    is_png = getattr(config, "torso", "mlp") == "atari"
    observation = _png_bytes(environment) if is_png else _raw_bytes(spec)
    action = 4 if spec.is_discrete else 4 * spec.action_size
    step = 2 * observation + action + 2 * 4  # with the reward and the discount
    return round(_SOFT * (step + _STRUCTURES))


def sequence_bytes_per_step(
    config: Any, spec: EnvironmentSpec, environment: dm_env.Environment
) -> int:
    """Returns the bytes per timestep of sequences with discrete actions (Reactor).

    A timestep is stored once, however many sequences view it, and the memory never exceeds its
    capacity. Observations are stored as they are, or with `config.png_frames` as PNG files, whose
    size is measured as in `transition_bytes_per_step`.
    """
    observation = _png_bytes(environment) if config.png_frames else _raw_bytes(spec)
    # The action, the reward, the discount and the step type; the behaviour policy and states.
    step = observation + 3 * 4 + 1 + 4 * (spec.action_size + config.state_size)
    return round(step + _TREE_STRUCTURES)


def episode_bytes_per_step(
    config: object, spec: EnvironmentSpec, environment: dm_env.Environment
) -> int:
    """Returns the bytes per step of episodes with flat observations and Gaussian policies."""
    del config, environment
    # The observation, the action, and the mean and variance of its policy.
    return 4 * (spec.observation_size + 3 * spec.action_size) + _EPISODE_STRUCTURES


def unroll_bytes_per_step(
    config: Any, spec: EnvironmentSpec, environment: dm_env.Environment
) -> float:
    """Returns the bytes per timestep of replayed unrolls with two actions (AQL).

    Returns 0 if no unrolls are replayed, since actors then keep none.
    """
    return _unroll_step(config, spec, environment) if config.replayed_unrolls else 0


def unroll_queue_bytes(
    config: Any, spec: EnvironmentSpec, environment: dm_env.Environment
) -> float:
    """Returns the bytes of a full queue of unrolls with two actions (AQL)."""
    num_steps = config.queue_capacity * config.unroll_length
    return num_steps * _unroll_step(config, spec, environment)


def _unroll_step(config: Any, spec: EnvironmentSpec, environment: dm_env.Environment) -> float:
    """Returns the bytes per timestep of unrolls.

    The images of an unroll form one PNG file, whose size is measured as for transitions. Unlike a
    game's, a maze's images are equally busy in random play.
    """
    num_elements = 1 if spec.is_discrete else spec.action_size
    # Both actions, the reward and the discount; whether the episode ends.
    step = 4 * (2 * num_elements + 2) + 1 + _STRUCTURES / config.unroll_length
    if spec.image_shape is None:
        return step + 4 * spec.observation_size
    # An unroll has one LSTM state of two vectors.
    return (
        step + _png_bytes(environment) / _BUSIER + 4 * 2 * config.lstm_size / config.unroll_length
    )


def rollout_bytes_per_step(
    config: object, spec: EnvironmentSpec, environment: dm_env.Environment
) -> int:
    """Returns the bytes per step of rollouts with flat observations and Gaussian policies."""
    del config, environment
    # The observation, the action, its policy's mean and variance, and three floats; the version.
    return 4 * (spec.observation_size + 3 * spec.action_size + 3) + 8


def _raw_bytes(spec: EnvironmentSpec) -> int:
    """Returns the bytes of an observation: uint8 images or a float32 vector."""
    return spec.observation_size if spec.image_shape else 4 * spec.observation_size


def _png_bytes(environment: dm_env.Environment) -> float:
    """Returns the bytes in memory of an image in play, stored as a PNG file."""
    import numpy as np

    from common.environments.spec import random_action
    from common.replay import png

    generator, actions = np.random.default_rng(0), environment.action_spec()
    frames = [environment.reset().observation]
    for _ in range(_NUM_FRAMES):
        frames.append(environment.step(random_action(actions, generator)).observation)
    image = np.mean([len(file) for file in png.encode(np.stack(frames))])
    return _BUSIER * float(image) + _STRING


SHARD_BITS, ACTOR_BITS, INCARNATION_BITS, STEP_BITS = 5, 12, 14, 32
MAX_SHARDS = 1 << SHARD_BITS
MAX_ACTORS = 1 << ACTOR_BITS
MAX_INCARNATIONS = 1 << INCARNATION_BITS
