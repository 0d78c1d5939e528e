"""The seven integers of a DeepMind Lab action, and two sets of such actions.

In the Lab's order: look left or right and look down or up, in pixels a frame; strafe left or right;
move back or forward; fire; jump; crouch. Negative numbers mean left, down and back.
"""

from dm_env import specs
import numpy as np

MINIMUM = (-512, -512, -1, -1, 0, 0, 0)
MAXIMUM = (512, 512, 1, 1, 1, 1, 1)
"""Range of each integer, both ends included."""

FRAMES_PER_STEP = 4
"""Frames for which an action is repeated (AQL section 5.2)."""

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
"""Values of each integer in AQL's large set (section 5.2), whose product has 3,528 actions. The
paper gives the number of values of each integer. Not in the paper: which values."""

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
"""AQL's small set of 11 actions (section 5.2). Not in the paper: which actions. Here, they are
the nine of IMPALA's published program, a jump, and no action."""


def action_spec() -> specs.BoundedArray:
    """Returns the spec of an action, int32 [7], of any integers in the ranges."""
    return specs.BoundedArray((7,), np.int32, MINIMUM, MAXIMUM, name="action")


def observation_spec() -> specs.Array:
    """Returns the spec of an observation, uint8 [84, 84, 3]."""
    return specs.Array(OBSERVATION_SHAPE, np.uint8, name="observation")


def require_valid(action: np.ndarray) -> np.ndarray:
    """Returns an action as int32 [7].

    Raises:
      ValueError: the shape is not [7], or an integer is out of its range.
    """
    action = np.asarray(action)
    if action.shape != (7,) or np.any(action < MINIMUM) or np.any(action > MAXIMUM):
        raise ValueError(
            f"an action must be seven integers from {list(MINIMUM)} to {list(MAXIMUM)}, "
            f"got {action.tolist()}"
        )
    return action.astype(np.int32)
