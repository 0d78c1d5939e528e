"""Checks that an environment suits a kind of agent. This module does not import TensorFlow."""

from common.environments.spec import EnvironmentSpec

MIN_SIDE = 36
"""The smallest side of an image: nothing of a smaller one is left after DQN's convolutions."""

_MAX_CHANNELS = 4  # of a PNG file


def require_control(spec: EnvironmentSpec) -> None:
    """Raises ValueError, in one line, unless observations are flat and actions continuous."""
    found = []
    if spec.image_shape is not None:
        found.append(f"images of {list(spec.image_shape)}")
    if spec.is_discrete:
        found.append(f"{spec.action_size} discrete actions")
    if found:
        raise ValueError(
            f"--environment has {' and '.join(found)}, but this agent needs flat observations and "
            "continuous actions: name another one, for example control:cartpole:swingup"
        )


def require_images(spec: EnvironmentSpec) -> None:
    """Raises ValueError, in one line, unless observations are images and actions discrete."""
    shape = spec.image_shape
    if shape is None or not spec.is_discrete:
        observations = "flat observations" if shape is None else f"images of {list(shape)}"
        actions = f"{spec.action_size} {'discrete' if spec.is_discrete else 'continuous'} actions"
        raise ValueError(
            f"--environment has {observations} and {actions}, but this agent needs images and "
            "discrete actions: name another one, for example atari:pong"
        )
    if min(shape[:2]) < MIN_SIDE or not 1 <= shape[2] <= _MAX_CHANNELS:
        raise ValueError(
            f"--environment has images of {list(shape)}, but this agent needs at least "
            f"{MIN_SIDE} x {MIN_SIDE} pixels and 1 to {_MAX_CHANNELS} channels"
        )
