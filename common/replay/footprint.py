"""An estimate of the memory that a replay takes when it is full.

The functions `*_bytes_per_step` estimate the bytes for each step of the replay's capacity. Their
arguments are the agent's configuration, the environment's spec and the environment. They work
without TensorFlow, and importing them imports no NumPy, for the launcher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dm_env

    from common.environments.spec import EnvironmentSpec

_STRUCTURES = 66
"""Bytes of cc/ for a step, besides its columns: slot 24, two sum trees 18, index up to 24."""
_TREE_STRUCTURES = 121
"""The same with a contextual tree: slot 24, node 64 + 1, first in first out 8, index up to 24."""
_EPISODE_STRUCTURES = 68
"""The same in a memory of episodes: seven numbers 28, slot 8, ranking up to 32."""
_STRING = 32
"""Bytes of a string besides its own: its reference in the row, and malloc's."""
_SOFT = 1.1
"""The most steps stored, in capacities, while a learner enforces a soft capacity.

Ape-X adds 66,000 transitions to 2 million between two removals (section 4.1), 1.03 times as many.
"""
_NUM_FRAMES = 48
_BUSIER = 2.0
"""The size of an image in play, in sizes of one in random play, which sees less of a game."""


def control_bytes_per_step(
    config: object, spec: EnvironmentSpec, environment: dm_env.Environment
) -> int:
    """Returns the bytes per transition of flat observations and continuous actions, float32."""
    del config, environment  # the spec says it all
    # Two observations, the action, the reward and the discount.
    return _in_memory(4 * (2 * spec.observation_size + spec.action_size + 2))


def image_bytes_per_step(
    config: Any, spec: EnvironmentSpec, environment: dm_env.Environment
) -> int:
    """Returns the bytes per transition of images and discrete actions.

    Images are PNG files, whose size is measured in random play, which resets the environment; with
    the network's sizes "minatar" they are stored as they are.
    """
    if config.torso == "minatar":
        return _in_memory(2 * spec.observation_size + 3 * 4)
    # Two observations, the action, the reward and the discount.
    return _in_memory(2 * _png_bytes(spec, environment) + 3 * 4)


def sequence_bytes_per_step(
    config: Any, spec: EnvironmentSpec, environment: dm_env.Environment
) -> int:
    """Returns the bytes per timestep of sequences of images and discrete actions (Reactor).

    A timestep is stored once, however many sequences view it, and the memory never holds more than
    its capacity. Images are stored as they are, or with `config.png_frames` as PNG files, whose
    size is measured as for `image_bytes_per_step`.
    """
    image = _png_bytes(spec, environment) if config.png_frames else spec.observation_size
    # The action, the reward, the discount and the step type; the behaviour policy and states.
    step = image + 3 * 4 + 1 + 4 * (spec.action_size + config.state_size)
    return round(step + _TREE_STRUCTURES)


def episode_bytes_per_step(
    config: object, spec: EnvironmentSpec, environment: dm_env.Environment
) -> int:
    """Returns the bytes per step of episodes with flat observations and Gaussian policies."""
    del config, environment
    # The observation, the action, and the mean and the variance of its policy.
    return 4 * (spec.observation_size + 3 * spec.action_size) + _EPISODE_STRUCTURES


def unroll_bytes_per_step(
    config: Any, spec: EnvironmentSpec, environment: dm_env.Environment
) -> float:
    """Returns the bytes per timestep of unrolls with flat observations and two actions (AQL).

    They are 0 where no unroll is replayed, since actors then keep none.
    """
    del environment
    if not config.replayed_unrolls:
        return 0
    num_elements = 1 if spec.is_discrete else spec.action_size
    # The observation, both actions, the reward and the discount; whether the episode ends.
    step = 4 * (spec.observation_size + 2 * num_elements + 2) + 1
    return step + _STRUCTURES / config.unroll_length


def _png_bytes(spec: EnvironmentSpec, environment: dm_env.Environment) -> float:
    """Returns the bytes in memory of an image in play as a PNG file."""
    import numpy as np

    from common.replay import png

    generator = np.random.default_rng(0)
    frames = [environment.reset().observation]
    for _ in range(_NUM_FRAMES):
        action = environment.action_spec().dtype.type(generator.integers(spec.action_size))
        frames.append(environment.step(action).observation)
    image = np.mean([len(file) for file in png.encode(np.stack(frames))])
    return _BUSIER * float(image) + _STRING


def _in_memory(bytes_per_step: float) -> int:
    return round(_SOFT * (bytes_per_step + _STRUCTURES))
