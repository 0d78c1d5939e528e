"""Observations and rewards of Control Suite tasks, over the states of K bodies at once.

The formulas are the suite's, whose margins and bounds the numbers are. A test compares each task
with the suite: `tests/environments/test_control_suite.py`.
"""

from collections.abc import Sequence
import functools
from functools import partial

import numpy as np

from common.environments.mujoco_batch import States, Task, mujoco

CHEETAH_WALK_SPEED = 1.0
"""Metres a second, the walking speed of the suite's walker, humanoid and dog.

Not in the paper: D4PG names a task "cheetah walk" but not its speed; the suite has only `run`.
"""

_XX, _XZ, _ZX, _ZY, _ZZ = 0, 2, 6, 7, 8
"""Places in a rotation matrix of 9 numbers: row, then column."""
_WIDTH = np.sqrt(-2 * np.log(0.1))
"""A distance of one margin is so many standard deviations, where the suite's Gaussian is 0.1."""


def _near(distance: np.ndarray, margin: float | np.ndarray) -> np.ndarray:
    """Returns the suite's Gaussian of a distance, 1 at 0 or less and 0.1 at the margin."""
    return np.exp(-0.5 * (np.maximum(distance, 0) / margin * _WIDTH) ** 2)


def _rising(
    value: np.ndarray, full: float | np.ndarray, margin: float | np.ndarray, at_margin: float = 0
) -> np.ndarray:
    """Returns 1 where a value is `full` or more; below it falls to `at_margin` over the margin."""
    reward = 1 - (full - value) / margin * (1 - at_margin)
    return np.minimum(np.maximum(reward, 0), 1)


def _length(vectors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.square(vectors).sum(axis=-1))


def _in_frame(vectors: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Returns vectors [K, 3] or [K, N, 3] in the frames [K, 9], as [K, N, 3]."""
    return vectors.reshape(len(frame), -1, 3) @ frame.reshape(-1, 3, 3)


def _data(states: States, *sensors: str) -> list[np.ndarray]:
    return [states.sensor(name).data for name in sensors]


def _small_control(states: States) -> np.ndarray:
    """Returns 1 without control, and 0.8 where each element of it is at its bound or beyond."""
    return (4 + np.maximum(1 - states.ctrl**2, 0).mean(axis=1)) / 5


def _observe_state(states: States) -> Sequence[np.ndarray]:
    return states.qpos, states.qvel


def _observe_acrobot(states: States) -> Sequence[np.ndarray]:
    arms = [states.body(name).xmat for name in ("upper_arm", "lower_arm")]
    places = (arm[:, place] for place in (_XZ, _ZZ) for arm in arms)
    return *places, states.qvel


def _beyond_target_acrobot(states: States) -> np.ndarray:
    target = states.site("target")
    return _length(target.xpos - states.site("tip").xpos) - target.size[:, 0]


def _reward_ball_in_cup(states: States) -> np.ndarray:
    target, ball = states.site("target"), states.body("ball")
    distance = np.abs(target.xpos - ball.xpos)[:, ::2]
    return 1.0 * (distance < target.size[:, ::2] - states.geom("ball").size[:, :1]).all(axis=1)


def _observe_cartpole(states: States) -> Sequence[np.ndarray]:
    poles = states.xmat[:, 2:, [_ZZ, _XZ]]
    return states.qpos[:, :1], poles, states.qvel


def _reward_cartpole(states: States) -> np.ndarray:
    upright = (states.xmat[:, 2:, _ZZ] + 1) / 2
    centered = (1 + _near(np.abs(states.qpos[:, 0]), 2)) / 2
    small_velocity = (1 + _near(np.abs(states.qvel[:, 1:]), 5).min(axis=1)) / 2
    return upright.mean(axis=1) * _small_control(states) * small_velocity * centered


def _reward_cartpole_sparse(states: States) -> np.ndarray:
    cosines = states.xmat[:, 2:, _ZZ]
    is_upright = (0.995 <= cosines) & (cosines <= 1)  # rounding may exceed 1, which does not count
    return 1.0 * (is_upright.all(axis=1) & (np.abs(states.qpos[:, 0]) <= 0.25))


def _observe_cheetah(states: States) -> Sequence[np.ndarray]:
    return states.qpos[:, 1:], states.qvel


def _reward_cheetah(states: States, speed: float) -> np.ndarray:
    return _rising(states.sensor("torso_subtreelinvel").data[:, 0], speed, speed)


def _observe_dog(states: States) -> Sequence[np.ndarray]:
    torso, pelvis, skull = map(states.body, ("torso", "pelvis", "skull"))
    return (
        states.qpos[:, 7:80],  # without the free joints of the dog and the ball
        states.qvel[:, 6:79],
        *(part.xpos[:, 2] for part in (torso, pelvis)),
        *(part.xmat[:, _ZX:] for part in (skull, torso, pelvis)),
        _in_frame(states.sensor("torso_linvel").data, torso.xmat),
        *_data(states, "accelerometer", "velocimeter", "gyro"),
        *_data(states, "foot_L", "foot_R", "hand_L", "hand_R"),
        *_data(states, "palm_L", "palm_R", "sole_L", "sole_R"),
        states.act,
    )


@functools.lru_cache(maxsize=8)
def _standing_dog(model: mujoco.MjModel) -> tuple[list[float], float]:
    """Returns heights of torso and pelvis in the default pose, and the weight."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    heights = [data.body(name).xpos[2] for name in ("torso", "pelvis")]
    return heights, -model.opt.gravity[2] * model.body("torso").subtreemass[0]


def _reward_dog(states: States) -> np.ndarray:
    heights, weight = _standing_dog(states.model)
    reward = np.ones(len(states.qpos))
    for name, height in zip(("torso", "pelvis"), heights):
        reward = reward * _near(0.9 * height - states.body(name).xpos[:, 2], 0.9 * height)
    cosine = np.cos(np.deg2rad(30))
    for name in ("skull", "torso", "pelvis"):
        reward = reward * _rising(states.body(name).xmat[:, _ZZ], cosine, cosine + 1)
    touch = sum(_data(states, "palm_L", "palm_R", "sole_L", "sole_R"))[:, 0]
    return reward * _rising(touch, weight, weight, 0.9)


def _reward_dog_move(states: States, speed: float) -> np.ndarray:
    velocity = _in_frame(states.sensor("torso_linvel").data, states.body("torso").xmat)[:, 0, 0]
    margin = max(1.0, speed)
    forward = np.minimum(_rising(velocity, speed, margin), _rising(-velocity, -2 * speed, margin))
    return _reward_dog(states) * ((4 * forward + 1) / 5)


def _observe_dog_fetch(states: States) -> Sequence[np.ndarray]:
    head, ball = states.site("head"), states.geom("ball").xpos

    def velocity(position: np.ndarray, body: str, root: str) -> np.ndarray:
        angular, linear = np.split(states.body(body).cvel, 2, axis=1)
        return linear - np.cross(position - states.body(root).subtree_com, angular)

    ball_velocity = velocity(ball, "ball", "ball") - velocity(head.xpos, "skull", "torso")
    target = states.geom("target").xpos - head.xpos
    vectors = (ball - head.xpos, ball_velocity, target)
    return *_observe_dog(states), *(_in_frame(each, head.xmat) for each in vectors)


def _reward_dog_fetch(states: States) -> np.ndarray:
    ball, target, bite = states.geom("ball").xpos, states.geom("target"), states.site("upper_bite")
    to_mouth = [_length(ball - states.site(name).xpos) for name in ("upper_bite", "lower_bite")]
    beyond_mouth = np.maximum(0.5 * (to_mouth[0] + to_mouth[1]) - bite.size[:, 0], 0)
    to_target, radius = _length(ball - target.xpos), target.size[:, 0]
    beyond_target = np.maximum(to_target - radius, 0)
    reach = (6 / (beyond_mouth / 2 * 9 + 1) + 1) / 7
    reach = np.where(to_target < 2 * radius, 1, reach)
    bring = 1 / (beyond_target / states.geom("floor").size[:, 0] * 9 + 1)
    return _reward_dog(states) * reach * ((bring + 1) / 2)


def _from_hinge(states: States, name: str) -> np.ndarray:
    """Returns the position of a point of the finger's task from the hinge, x and z, [K, 2]."""
    return (states.sensor(name).data - states.sensor("spinner").data)[:, ::2]


def _observe_finger(states: States) -> Sequence[np.ndarray]:
    return (
        *_data(states, "proximal", "distal"),
        _from_hinge(states, "tip"),
        *_data(states, "proximal_velocity", "distal_velocity", "hinge_velocity"),
        *map(np.log1p, _data(states, "touchtop", "touchbottom")),
    )


def _reward_finger_spin(states: States) -> np.ndarray:
    return 1.0 * (states.sensor("hinge_velocity").data[:, 0] <= -15)


def _beyond_target_finger(states: States, radius: float) -> np.ndarray:
    return _length(_from_hinge(states, "target") - _from_hinge(states, "tip")) - radius


def _finger_turn(radius: float) -> Task:
    return Task(
        lambda states: (
            *_observe_finger(states),
            _from_hinge(states, "target"),
            _beyond_target_finger(states, radius),
        ),
        lambda states: 1.0 * (_beyond_target_finger(states, radius) <= 0),
        varies=("site_pos",),
    )


def _mouth_to_target(states: States) -> np.ndarray:
    mouth = states.geom("mouth")
    return _in_frame(states.geom("target").xpos - mouth.xpos, mouth.xmat)[:, 0]


def _observe_fish(states: States, sees_target: bool) -> Sequence[np.ndarray]:
    target = (_mouth_to_target(states),) if sees_target else ()
    return states.qpos[:, 7:], states.body("torso").xmat[:, _ZZ], *target, states.qvel


def _reward_fish_upright(states: States) -> np.ndarray:
    return _near(np.abs(1 - states.body("torso").xmat[:, _ZZ]), 1)


def _reward_fish_swim(states: States) -> np.ndarray:
    radii = states.geom("mouth").size[:, 0] + states.geom("target").size[:, 0]
    in_target = _near(_length(_mouth_to_target(states)) - radii, 2 * radii)
    return (7 * in_target + (states.body("torso").xmat[:, _ZZ] + 1) / 2) / 8


def _observe_hopper(states: States) -> Sequence[np.ndarray]:
    touch = map(np.log1p, _data(states, "touch_toe", "touch_heel"))
    return states.qpos[:, 1:], states.qvel, *touch


def _standing_hopper(states: States) -> np.ndarray:
    height = states.body("torso").xipos[:, 2] - states.body("foot").xipos[:, 2]
    return (0.6 <= height) & (height <= 2)


def _reward_hopper_hop(states: States) -> np.ndarray:
    speed = states.sensor("torso_subtreelinvel").data[:, 0]
    return _standing_hopper(states) * _rising(speed, 2, 1, 0.5)


def _observe_humanoid(
    states: States, torso: str = "torso", left: str = "left_", right: str = "right_"
) -> Sequence[np.ndarray]:
    body = states.body(torso)
    limbs = (states.body(side + limb) for side in (left, right) for limb in ("hand", "foot"))
    return (
        states.qpos[:, 7:],
        states.body("head").xpos[:, 2],
        *(_in_frame(limb.xpos - body.xpos, body.xmat) for limb in limbs),
        body.xmat[:, _ZX:],
        states.sensor(f"{torso}_subtreelinvel").data,
        states.qvel,
    )


def _reward_humanoid(
    states: States, speed: float, torso: str = "torso", up: int = _ZZ
) -> np.ndarray:
    standing = _near(1.4 - states.body("head").xpos[:, 2], 0.35)
    upright = _rising(states.body(torso).xmat[:, up], 0.9, 1.9)
    velocity = states.sensor(f"{torso}_subtreelinvel").data[:, :2]
    if speed:
        moves = (5 * _rising(_length(velocity), speed, speed) + 1) / 6
    else:
        moves = _near(np.abs(velocity), 2).mean(axis=1)
    return _small_control(states) * (standing * upright) * moves


def _pose(states: States, name: str) -> Sequence[np.ndarray]:
    """Returns a body's position and rotation in the plane."""
    return states.body(name).xpos[:, ::2], states.body(name).xquat[:, ::2]


def _observe_arm(states: States) -> Sequence[np.ndarray]:
    """Returns the manipulator's and the stacker's observation of the arm."""
    joints = [0, 1, 2, 3, 6, 7, 4, 5]  # the finger's before the thumb's
    angles = states.qpos[:, joints]
    return (
        np.stack([np.sin(angles), np.cos(angles)], axis=2),
        states.qvel[:, joints],
        np.log1p(states.sensordata),
        *_pose(states, "hand"),
    )


def _observe_manipulator(states: States, prop: str) -> Sequence[np.ndarray]:
    velocities = states.qvel[:, 8:]
    target = _pose(states, f"target_{prop}")
    return *_observe_arm(states), *_pose(states, prop), velocities, *target


def _distance(states: States, first: str, second: str) -> np.ndarray:
    """Returns the distance between two sites, [K]."""
    return _length(states.site(first).xpos - states.site(second).xpos)


def _reward_ball(states: States) -> np.ndarray:
    return _near(_distance(states, "ball", "target_ball") - 0.01, 0.02)


def _reward_peg(states: States) -> np.ndarray:
    pairs = ("grasp", "peg_grasp"), ("pinch", "peg_pinch"), ("target_peg", "peg")
    grasp, pinch, bring, bring_tip = (
        _near(_distance(states, *pair) - 0.01, 0.02)
        for pair in (*pairs, ("target_peg_tip", "peg_tip"))
    )
    return np.maximum((bring + bring_tip) / 2, (grasp + pinch) / 2 / 3)


def _manipulator(prop: str) -> Task:
    reward = _reward_ball if prop == "ball" else _reward_peg
    return Task(partial(_observe_manipulator, prop=prop), reward, varies=("body_pos", "body_quat"))


def _reward_point_mass(states: States) -> np.ndarray:
    target = states.geom("target")
    radius = target.size[:, 0]
    distance = _length(target.xpos - states.geom("pointmass").xpos)
    return _near(distance - radius, radius) * _small_control(states)


def _observe_quadruped(states: States) -> Sequence[np.ndarray]:
    legs = [f"{end}_{side}" for end in ("front", "back") for side in ("left", "right")]
    legs[2:] = legs[:1:-1]  # the order of the suite's sensors: round the body
    forces = _data(states, *(f"{kind}_toe_{leg}" for kind in ("force", "torque") for leg in legs))
    return (
        states.qpos[:, 7:23],
        states.qvel[:, 6:22],
        states.act,
        states.sensor("velocimeter").data,
        states.body("torso").xmat[:, _ZZ],
        *_data(states, "imu_accel", "imu_gyro"),
        *map(np.arcsinh, forces),
    )


def _upright_quadruped(states: States) -> np.ndarray:
    return _rising(states.body("torso").xmat[:, _ZZ], 1, 2)


def _reward_quadruped(states: States, speed: float) -> np.ndarray:
    forward = states.sensor("velocimeter").data[:, 0]
    return _upright_quadruped(states) * _rising(forward, speed, speed, 0.5)


def _observe_quadruped_fetch(states: States) -> Sequence[np.ndarray]:
    torso, ball, velocities = states.body("torso"), states.body("ball"), states.qvel
    vectors = (
        ball.xpos - torso.xpos,
        velocities[:, 22:25] - velocities[:, :3],
        velocities[:, 25:],
        states.site("target").xpos - torso.xpos,
    )
    return *_observe_quadruped(states), *(_in_frame(each, torso.xmat) for each in vectors)


def _reward_quadruped_fetch(states: States) -> np.ndarray:
    ball, workspace, target = states.body("ball").xpos, *map(states.site, ("workspace", "target"))
    arena = states.geom("floor").size[:, 0] * np.sqrt(2)
    reach_radius = workspace.size[:, 0] + states.geom("ball").size[:, 0]
    reach = _rising(-_length((workspace.xpos - ball)[:, :2]), -reach_radius, arena)
    fetch = _rising(-_length((target.xpos - ball)[:, :2]), -target.size[:, 0], arena)
    return _upright_quadruped(states) * (reach * (0.5 + 0.5 * fetch))


def _to_target_reacher(states: States) -> np.ndarray:
    return (states.geom("target").xpos - states.geom("finger").xpos)[:, :2]


def _reward_reacher(states: States) -> np.ndarray:
    radii = states.geom("target").size[:, 0] + states.geom("finger").size[:, 0]
    return 1.0 * (_length(_to_target_reacher(states)) <= radii)


def _observe_stacker(states: States, boxes: int) -> Sequence[np.ndarray]:
    joints = np.arange(8, 8 + 3 * boxes).reshape(boxes, 3)[:, [0, 2, 1]].ravel()  # x, z and y
    poses = [part for box in range(boxes) for part in _pose(states, f"box{box}")]
    target = states.body("target").xpos[:, ::2]
    return *_observe_arm(states), *poses, states.qvel[:, joints], target


def _reward_stacker(states: States, boxes: int) -> np.ndarray:
    margin = 2 * states.geom("target").size[:, 0]
    closest = np.min([_distance(states, f"box{box}", "target") for box in range(boxes)], axis=0)
    return _near(closest, margin) * _near(0.1 - _distance(states, "grasp", "target"), 0.01)


def _stacker(boxes: int) -> Task:
    return Task(
        partial(_observe_stacker, boxes=boxes),
        partial(_reward_stacker, boxes=boxes),
        varies=("body_pos",),
    )


def _to_target_swimmer(states: States) -> np.ndarray:
    vector = states.geom("target").xpos - states.geom("nose").xpos
    return _in_frame(vector, states.body("head").xmat)[:, 0, :2]


def _observe_swimmer(states: States) -> Sequence[np.ndarray]:
    velocities = states.sensordata[:, 12:].reshape(len(states.qpos), -1, 6)[..., [0, 1, 5]]
    return states.qpos[:, 3:], _to_target_swimmer(states), velocities


def _reward_swimmer(states: States) -> np.ndarray:
    target = states.geom("target")
    distance = _length(target.xpos - states.geom("nose").xpos)
    beyond = np.maximum(distance - target.size[:, 0], 0)
    return 1 / ((beyond / (5 * target.size[:, 0]) * 3) ** 2 + 1)


def _observe_walker(states: States) -> Sequence[np.ndarray]:
    return states.xmat[:, 1:, [_XX, _XZ]], states.body("torso").xpos[:, 2], states.qvel


def _reward_walker(states: States, speed: float) -> np.ndarray:
    standing = _near(1.2 - states.body("torso").xpos[:, 2], 0.6)
    upright = (1 + states.body("torso").xmat[:, _ZZ]) / 2
    reward = (3 * standing + upright) / 4
    if not speed:
        return reward
    moves = _rising(states.sensor("torso_subtreelinvel").data[:, 0], speed, speed / 2, 0.5)
    return reward * (5 * moves + 1) / 6


def _reward_hopper_stand(states: States) -> np.ndarray:
    return _standing_hopper(states) * _small_control(states)


def _observe_pendulum(states: States) -> Sequence[np.ndarray]:
    return states.body("pole").xmat[:, [_ZZ, _XZ]], states.qvel


def _reward_pendulum(states: States) -> np.ndarray:
    vertical = states.body("pole").xmat[:, _ZZ]
    return 1.0 * ((np.cos(np.deg2rad(8)) <= vertical) & (vertical <= 1))


def _humanoid(speed: float) -> Task:
    return Task(_observe_humanoid, partial(_reward_humanoid, speed=speed), senses_forces=False)


def _humanoid_cmu(speed: float) -> Task:
    return Task(
        partial(_observe_humanoid, torso="thorax", left="l", right="r"),
        partial(_reward_humanoid, speed=speed, torso="thorax", up=_ZY),
        senses_forces=False,
    )


_CARTPOLE = Task(_observe_cartpole, _reward_cartpole)
_CARTPOLE_SPARSE = Task(_observe_cartpole, _reward_cartpole_sparse)
_REACHER = Task(
    lambda states: (states.qpos, _to_target_reacher(states), states.qvel),
    _reward_reacher,
    varies=("geom_pos", "geom_size"),
)
_SWIMMER = Task(_observe_swimmer, _reward_swimmer, varies=("geom_pos",))

TASKS = {
    "acrobot:swingup": Task(
        _observe_acrobot, lambda states: _near(_beyond_target_acrobot(states), 1)
    ),
    "acrobot:swingup_sparse": Task(
        _observe_acrobot, lambda states: 1.0 * (_beyond_target_acrobot(states) <= 0)
    ),
    "ball_in_cup:catch": Task(_observe_state, _reward_ball_in_cup),
    "cartpole:balance": _CARTPOLE,
    "cartpole:balance_sparse": _CARTPOLE_SPARSE,
    "cartpole:swingup": _CARTPOLE,
    "cartpole:swingup_sparse": _CARTPOLE_SPARSE,
    "cartpole:two_poles": _CARTPOLE,
    "cartpole:three_poles": _CARTPOLE,
    "cheetah:run": Task(_observe_cheetah, partial(_reward_cheetah, speed=10)),
    "cheetah:walk": Task(_observe_cheetah, partial(_reward_cheetah, speed=CHEETAH_WALK_SPEED)),
    "dog:stand": Task(_observe_dog, _reward_dog),
    "dog:walk": Task(_observe_dog, partial(_reward_dog_move, speed=1)),
    "dog:trot": Task(_observe_dog, partial(_reward_dog_move, speed=3)),
    "dog:run": Task(_observe_dog, partial(_reward_dog_move, speed=9)),
    "dog:fetch": Task(_observe_dog_fetch, _reward_dog_fetch),
    "finger:spin": Task(_observe_finger, _reward_finger_spin, varies=("dof_damping",)),
    "finger:turn_easy": _finger_turn(0.07),
    "finger:turn_hard": _finger_turn(0.03),
    "fish:upright": Task(partial(_observe_fish, sees_target=False), _reward_fish_upright),
    "fish:swim": Task(
        partial(_observe_fish, sees_target=True), _reward_fish_swim, varies=("geom_pos",)
    ),
    "hopper:stand": Task(_observe_hopper, _reward_hopper_stand),
    "hopper:hop": Task(_observe_hopper, _reward_hopper_hop),
    "humanoid:stand": _humanoid(0),
    "humanoid:walk": _humanoid(1),
    "humanoid:run": _humanoid(10),
    "humanoid:run_pure_state": _humanoid(10)._replace(observe=_observe_state),
    "humanoid_CMU:stand": _humanoid_cmu(0),
    "humanoid_CMU:walk": _humanoid_cmu(1),
    "humanoid_CMU:run": _humanoid_cmu(10),
    "manipulator:bring_ball": _manipulator("ball"),
    "manipulator:bring_peg": _manipulator("peg"),
    "manipulator:insert_ball": _manipulator("ball"),
    "manipulator:insert_peg": _manipulator("peg"),
    "pendulum:swingup": Task(_observe_pendulum, _reward_pendulum),
    "point_mass:easy": Task(_observe_state, _reward_point_mass),
    "point_mass:hard": Task(_observe_state, _reward_point_mass, varies=("wrap_prm",)),
    "quadruped:walk": Task(_observe_quadruped, partial(_reward_quadruped, speed=0.5)),
    "quadruped:run": Task(_observe_quadruped, partial(_reward_quadruped, speed=5)),
    "quadruped:fetch": Task(_observe_quadruped_fetch, _reward_quadruped_fetch),
    "reacher:easy": _REACHER,
    "reacher:hard": _REACHER,
    "stacker:stack_2": _stacker(2),
    "stacker:stack_4": _stacker(4),
    "swimmer:swimmer6": _SWIMMER,
    "swimmer:swimmer15": _SWIMMER,
    "walker:stand": Task(_observe_walker, partial(_reward_walker, speed=0)),
    "walker:walk": Task(_observe_walker, partial(_reward_walker, speed=1)),
    "walker:run": Task(_observe_walker, partial(_reward_walker, speed=8)),
}
"""Tasks by their names in the suite; speeds in metres a second, radii in metres."""
