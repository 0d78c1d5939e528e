"""Formulas that observations and rewards of the Control Suite share, over K bodies at once."""

import numpy as np

from common.environments.mujoco_batch import States

XX, XZ, ZX, ZY, ZZ = 0, 2, 6, 7, 8
"""Places in a rotation matrix of 9 numbers: row, then column."""
_WIDTH = np.sqrt(-2 * np.log(0.1))
"""A distance of one margin is so many standard deviations, where the suite's Gaussian is 0.1."""


def near(distance: np.ndarray, margin: float | np.ndarray) -> np.ndarray:
    """Returns the suite's Gaussian of a distance, 1 at 0 or less and 0.1 at the margin."""
    return np.exp(-0.5 * (np.maximum(distance, 0) / margin * _WIDTH) ** 2)


def rising(
    value: np.ndarray, full: float | np.ndarray, margin: float | np.ndarray, at_margin: float = 0
) -> np.ndarray:
    """Returns 1 where a value is `full` or more; below it falls to `at_margin` over the margin."""
    reward = 1 - (full - value) / margin * (1 - at_margin)
    return np.minimum(np.maximum(reward, 0), 1)


def length(vectors: np.ndarray) -> np.ndarray:
    """Returns the lengths of vectors [..., N], [...]."""
    return np.sqrt(np.square(vectors).sum(axis=-1))


def in_frame(vectors: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Returns vectors [K, 3] or [K, N, 3] in the frames [K, 9], as [K, N, 3]."""
    return vectors.reshape(len(frame), -1, 3) @ frame.reshape(-1, 3, 3)


def sensed(states: States, *sensors: str) -> list[np.ndarray]:
    """Returns what sensors have measured, [K, ...] each."""
    return [states.sensor(name).data for name in sensors]


def small_control(states: States) -> np.ndarray:
    """Returns 1 without control, and 0.8 where each element of it is at its bound or beyond."""
    return (4 + np.maximum(1 - states.ctrl**2, 0).mean(axis=1)) / 5
