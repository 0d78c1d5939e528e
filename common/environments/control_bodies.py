"""Observations and rewards of the Control Suite's dog, humanoids and quadruped.

See `control_tasks`.
"""

from collections.abc import Sequence
import functools
from functools import partial

import numpy as np

from common.environments.control_tasks import (
    ZX,
    ZY,
    ZZ,
    in_frame,
    length,
    near,
    rising,
    sensed,
    small_control,
)
from common.environments.mujoco_batch import States, Task, mujoco


def _observe_dog(states: States) -> Sequence[np.ndarray]:
    torso, pelvis, skull = map(states.body, ("torso", "pelvis", "skull"))
    return (
        states.qpos[:, 7:80],  # without the free joints of dog and ball
        states.qvel[:, 6:79],
        *(part.xpos[:, 2] for part in (torso, pelvis)),
        *(part.xmat[:, ZX:] for part in (skull, torso, pelvis)),
        in_frame(states.sensor("torso_linvel").data, torso.xmat),
        *sensed(states, "accelerometer", "velocimeter", "gyro"),
        *sensed(states, "foot_L", "foot_R", "hand_L", "hand_R"),
        *sensed(states, "palm_L", "palm_R", "sole_L", "sole_R"),
        states.act,
    )


@functools.lru_cache(maxsize=2)
def _standing_dog(model: mujoco.MjModel) -> tuple[list[float], float]:
    """Returns the heights of torso and pelvis in the default pose, and the dog's weight."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    heights = [data.body(name).xpos[2] for name in ("torso", "pelvis")]
    return heights, -model.opt.gravity[2] * model.body("torso").subtreemass[0]


def _reward_dog(states: States) -> np.ndarray:
    heights, weight = _standing_dog(states.model)
    reward = np.ones(len(states.qpos))
    for name, height in zip(("torso", "pelvis"), heights):
        reward = reward * near(0.9 * height - states.body(name).xpos[:, 2], 0.9 * height)
    cosine = np.cos(np.deg2rad(30))
    for name in ("skull", "torso", "pelvis"):
        reward = reward * rising(states.body(name).xmat[:, ZZ], cosine, cosine + 1)
    touch = sum(sensed(states, "palm_L", "palm_R", "sole_L", "sole_R"))[:, 0]
    return reward * rising(touch, weight, weight, 0.9)


def _reward_dog_move(states: States, speed: float) -> np.ndarray:
    velocity = in_frame(states.sensor("torso_linvel").data, states.body("torso").xmat)[:, 0, 0]
    margin = max(1.0, speed)
    forward = np.minimum(rising(velocity, speed, margin), rising(-velocity, -2 * speed, margin))
    return _reward_dog(states) * ((4 * forward + 1) / 5)


def _observe_dog_fetch(states: States) -> Sequence[np.ndarray]:
    head, ball = states.site("head"), states.geom("ball").xpos

    def velocity(position: np.ndarray, body: str, root: str) -> np.ndarray:
        angular, linear = np.split(states.body(body).cvel, 2, axis=1)
        return linear - np.cross(position - states.body(root).subtree_com, angular)

    ball_velocity = velocity(ball, "ball", "ball") - velocity(head.xpos, "skull", "torso")
    target = states.geom("target").xpos - head.xpos
    vectors = (ball - head.xpos, ball_velocity, target)
    return *_observe_dog(states), *(in_frame(each, head.xmat) for each in vectors)


def _reward_dog_fetch(states: States) -> np.ndarray:
    ball, target, bite = states.geom("ball").xpos, states.geom("target"), states.site("upper_bite")
    to_mouth = [length(ball - states.site(name).xpos) for name in ("upper_bite", "lower_bite")]
    beyond_mouth = np.maximum(0.5 * (to_mouth[0] + to_mouth[1]) - bite.size[:, 0], 0)
    to_target, radius = length(ball - target.xpos), target.size[:, 0]
    beyond_target = np.maximum(to_target - radius, 0)
    reach = (6 / (beyond_mouth / 2 * 9 + 1) + 1) / 7
    reach = np.where(to_target < 2 * radius, 1, reach)
    bring = 1 / (beyond_target / states.geom("floor").size[:, 0] * 9 + 1)
    return _reward_dog(states) * reach * ((bring + 1) / 2)


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


def _observe_quadruped(states: States) -> Sequence[np.ndarray]:
    legs = [f"{end}_{side}" for end in ("front", "back") for side in ("left", "right")]
    legs[2:] = legs[:1:-1]  # the suite's sensors go around the body
    forces = sensed(states, *(f"{kind}_toe_{leg}" for kind in ("force", "torque") for leg in legs))
    return (
        states.qpos[:, 7:23],
        states.qvel[:, 6:22],
        states.act,
        states.sensor("velocimeter").data,
        states.body("torso").xmat[:, ZZ],
        *sensed(states, "imu_accel", "imu_gyro"),
        *map(np.arcsinh, forces),
    )


def _upright_quadruped(states: States) -> np.ndarray:
    return rising(states.body("torso").xmat[:, ZZ], 1, 2)


def _reward_quadruped(states: States, speed: float) -> np.ndarray:
    forward = states.sensor("velocimeter").data[:, 0]
    return _upright_quadruped(states) * rising(forward, speed, speed, 0.5)


def _observe_quadruped_fetch(states: States) -> Sequence[np.ndarray]:
    torso, ball, velocities = states.body("torso"), states.body("ball"), states.qvel
    vectors = (
        ball.xpos - torso.xpos,
        velocities[:, 22:25] - velocities[:, :3],
        velocities[:, 25:],
        states.site("target").xpos - torso.xpos,
    )
    return *_observe_quadruped(states), *(in_frame(each, torso.xmat) for each in vectors)


def _reward_quadruped_fetch(states: States) -> np.ndarray:
    ball, workspace, target = states.body("ball").xpos, *map(states.site, ("workspace", "target"))
    arena = states.geom("floor").size[:, 0] * np.sqrt(2)
    reach_radius = workspace.size[:, 0] + states.geom("ball").size[:, 0]
    reach = rising(-length((workspace.xpos - ball)[:, :2]), -reach_radius, arena)
    fetch = rising(-length((target.xpos - ball)[:, :2]), -target.size[:, 0], arena)
    return _upright_quadruped(states) * (reach * (0.5 + 0.5 * fetch))


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
    "dog:stand": Task(_observe_dog, _reward_dog),
    **{
        f"dog:{gait}": Task(_observe_dog, partial(_reward_dog_move, speed=speed))
        for gait, speed in {"walk": 1, "trot": 3, "run": 9}.items()
    },
    "dog:fetch": Task(_observe_dog_fetch, _reward_dog_fetch),
    **{f"humanoid:{gait}": _humanoid(speed) for gait, speed in _GAITS.items()},
    "humanoid:run_pure_state": _humanoid(10)._replace(
        observe=lambda states: (states.qpos, states.qvel)
    ),
    **{f"humanoid_CMU:{gait}": _humanoid_cmu(speed) for gait, speed in _GAITS.items()},
    "quadruped:walk": Task(_observe_quadruped, partial(_reward_quadruped, speed=0.5)),
    "quadruped:run": Task(_observe_quadruped, partial(_reward_quadruped, speed=5)),
    "quadruped:fetch": Task(_observe_quadruped_fetch, _reward_quadruped_fetch),
}
"""Tasks by their names in the suite."""
