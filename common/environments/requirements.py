"""Checks that an environment suits a kind of agent. This module does not import TensorFlow."""

from typing import Any

from common.environments.spec import EnvironmentSpec

MIN_SIDES = {"atari": 36, "minatar": 3}
"""The smallest side of an image by the network's sizes: of a smaller one its convolutions leave
nothing."""

MAX_PNG_CHANNELS = 4
"""The most channels of an image in a PNG file."""


def require_control(config: Any, spec: EnvironmentSpec) -> None:
    """Raises ValueError, in one line, unless observations are flat and actions continuous."""
    del config  # networks of any sizes take them
    found = []
    if spec.image_shape is not None:
        found.append(f"images of {list(spec.image_shape)}")
    if spec.is_discrete or spec.action_choices:
        found.append(actions_of(spec))
    if found:
        raise ValueError(
            f"--environment has {' and '.join(found)}, but this agent needs flat observations and "
            "continuous actions: name another one, for example control:cartpole:swingup"
        )


def require_discrete(config: Any, spec: EnvironmentSpec) -> None:
    """Raises ValueError, in one line, unless actions are discrete and a network takes what is seen.

    Args:
      config: has the network's sizes, `torso`: "mlp" takes flat observations, others images. Images
        are PNG files, of few channels, with the sizes "atari" only.
      spec: of the environment.
    """
    shape = spec.image_shape
    observations = "flat observations" if shape is None else f"images of {list(shape)}"
    found = f"--environment has {observations} and {actions_of(spec)}, but this agent needs"
    if not spec.is_discrete:
        raise ValueError(
            f"{found} discrete actions: name another one, for example atari:pong, or "
            "gym:CartPole-v1 with --config.torso=mlp"
        )
    if config.torso == "mlp":
        if shape is not None:
            raise ValueError(f"{found} flat observations with --config.torso=mlp: leave that out")
        return
    if shape is None:
        raise ValueError(f"{found} images: for flat observations give --config.torso=mlp")
    side, is_png = MIN_SIDES[config.torso], config.torso == "atari"
    if min(shape[:2]) < side or (is_png and not 1 <= shape[2] <= MAX_PNG_CHANNELS):
        channels = f" and 1 to {MAX_PNG_CHANNELS} channels" if is_png else ""
        small = "; --config.torso=minatar is for small images" if is_png else ""
        raise ValueError(
            f"--environment has images of {list(shape)}, but this agent needs at least "
            f"{side} x {side} pixels{channels}{small}"
        )


def actions_of(spec: EnvironmentSpec) -> str:
    """Returns the kind of an environment's actions in words."""
    if spec.action_choices:
        return f"actions of {len(spec.action_choices)} integers"
    return f"{spec.action_size} {'discrete' if spec.is_discrete else 'continuous'} actions"
