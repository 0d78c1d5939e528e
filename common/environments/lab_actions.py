"""The seven integers of which an action of DeepMind Lab consists, and two sets of such actions.

In the Lab's order: look left or right and look down or up, in pixels a frame; strafe left or right;
move back or forward; fire; jump; crouch. Negative numbers go to the left, down and back.
"""

from dm_env import specs
import numpy as np

MINIMUM = (-512, -512, -1, -1, 0, 0, 0)
MAXIMUM = (512, 512, 1, 1, 1, 1, 1)
"""The range of each integer, both ends included."""

FRAMES_PER_STEP = 4
"""Frames that an action lasts (AQL section 5.2)."""

OBSERVATION_SHAPE = (84, 84, 3)
"""Height, width and RGB channels of an observation (AQL section 5.2)."""

STRUCTURED = (
    (-60, -25, -10, 0, 10, 25, 60),
    (-20, -10, -5, 0, 5, 10, 20),
    (-1, 0, 1),
    (-1, 0, 1),
    (0, 1),
    (0, 1),
    (0, 1),
)
"""Values of each integer in the large set of AQL (section 5.2), a product of 3,528 actions. The
paper gives their numbers; which values they are is Not in the paper."""

CURATED = (
    (0, 0, 0, 1, 0, 0, 0),  # forward
    (0, 0, 0, -1, 0, 0, 0),  # back
    (0, 0, -1, 0, 0, 0, 0),  # strafe left
    (0, 0, 1, 0, 0, 0, 0),  # strafe right
    (-20, 0, 0, 0, 0, 0, 0),  # look left
    (20, 0, 0, 0, 0, 0, 0),  # look right
    (-20, 0, 0, 1, 0, 0, 0),  # forward, looking left
    (20, 0, 0, 1, 0, 0, 0),  # forward, looking right
    (0, 0, 0, 0, 1, 0, 0),  # fire
    (0, 0, 0, 0, 0, 1, 0),  # jump
    (0, 0, 0, 0, 0, 0, 0),
)
"""The small set of 11 actions of AQL (section 5.2). Which actions they are is Not in the paper: the
nine of IMPALA's published program, a jump, and no action."""


def action_spec() -> specs.BoundedArray:
    """Returns the spec of an action, int32 [7]: any integers of the ranges."""
    return specs.BoundedArray((7,), np.int32, MINIMUM, MAXIMUM, name="action")


def observation_spec() -> specs.Array:
    """Returns the spec of an observation, uint8 [84, 84, 3]."""
    return specs.Array(OBSERVATION_SHAPE, np.uint8, name="observation")


def require_valid(action: np.ndarray) -> np.ndarray:
    """Returns an action as int32 [7].

    Raises:
      ValueError: it has another shape, or an integer is out of its range.
    """
    action = np.asarray(action)
    if action.shape != (7,) or np.any(action < MINIMUM) or np.any(action > MAXIMUM):
        raise ValueError(
            f"an action must be seven integers from {list(MINIMUM)} to {list(MAXIMUM)}, "
            f"got {action.tolist()}"
        )
    return action.astype(np.int32)
