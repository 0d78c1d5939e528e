"""Observations and rewards of the Control Suite's humanoids.

See `control_tasks`.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from common.environments.control_formulas import (
    ZX,
    ZY,
    ZZ,
    in_frame,
    length,
    near,
    rising,
    small_control,
)
from common.environments.mujoco_batch import States, Task


def _observe_humanoid(
    states: States, torso: str = "torso", left: str = "left_", right: str = "right_"
) -> Sequence[np.ndarray]:
    body = states.body(torso)
    limbs = (states.body(side + limb) for side in (left, right) for limb in ("hand", "foot"))
    return (
        states.qpos[:, 7:],
        states.body("head").xpos[:, 2],
        *(in_frame(limb.xpos - body.xpos, body.xmat) for limb in limbs),
        body.xmat[:, ZX:],
        states.sensor(f"{torso}_subtreelinvel").data,
        states.qvel,
    )


def _reward_humanoid(
    states: States, speed: float, torso: str = "torso", up: int = ZZ
) -> np.ndarray:
    standing = near(1.4 - states.body("head").xpos[:, 2], 0.35)
    upright = rising(states.body(torso).xmat[:, up], 0.9, 1.9)
    velocity = states.sensor(f"{torso}_subtreelinvel").data[:, :2]
    if speed:
        moves = (5 * rising(length(velocity), speed, speed) + 1) / 6
    else:
        moves = near(np.abs(velocity), 2).mean(axis=1)
    return small_control(states) * (standing * upright) * moves


def _humanoid(speed: float) -> Task:
    return Task(_observe_humanoid, partial(_reward_humanoid, speed=speed), senses_forces=False)


def _humanoid_cmu(speed: float) -> Task:
    return Task(
        partial(_observe_humanoid, torso="thorax", left="l", right="r"),
        partial(_reward_humanoid, speed=speed, torso="thorax", up=ZY),
        senses_forces=False,
    )


_GAITS = {"stand": 0, "walk": 1, "run": 10}
"""Speeds in metres a second."""
TASKS = {
    **{f"humanoid:{gait}": _humanoid(speed) for gait, speed in _GAITS.items()},
    "humanoid:run_pure_state": _humanoid(10)._replace(
        observe=lambda states: (states.qpos, states.qvel)
    ),
    **{f"humanoid_CMU:{gait}": _humanoid_cmu(speed) for gait, speed in _GAITS.items()},
}
"""Tasks by their names in the suite."""
