"""Observations and rewards of Control Suite tasks, over the states of K bodies at once.

Formulas, margins and bounds are the suite's. A test compares each task with the suite:
`tests/environments/test_control_suite.py`. `control_bodies` has the dog, the humanoids and the
quadruped, with formulas from here.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from common.environments.mujoco_batch import States, Task

XX, XZ, ZX, ZY, ZZ = 0, 2, 6, 7, 8
"""Indices into a rotation matrix of 9 numbers, named by row and column."""
_WIDTH = np.sqrt(-2 * np.log(0.1))
"""Standard deviations in one margin, where the suite's Gaussian is 0.1."""


def near(distance: np.ndarray, margin: float | np.ndarray) -> np.ndarray:
    """Returns the suite's Gaussian of a distance, 1 at 0 or less and 0.1 at the margin."""
    return np.exp(-0.5 * (np.maximum(distance, 0) / margin * _WIDTH) ** 2)


def rising(
    value: np.ndarray, full: float | np.ndarray, margin: float | np.ndarray, at_margin: float = 0
) -> np.ndarray:
    """Returns 1 at `full` and above; below, falls linearly to `at_margin` over the margin."""
    reward = 1 - (full - value) / margin * (1 - at_margin)
    return np.minimum(np.maximum(reward, 0), 1)


def length(vectors: np.ndarray) -> np.ndarray:
    """Returns the lengths [...] of vectors [..., N]."""
    return np.sqrt(np.square(vectors).sum(axis=-1))


def in_frame(vectors: np.ndarray, frame: np.ndarray) -> np.ndarray:
    """Returns vectors [K, 3] or [K, N, 3] in the frames [K, 9], as [K, N, 3]."""
    return vectors.reshape(len(frame), -1, 3) @ frame.reshape(-1, 3, 3)


def sensed(states: States, *sensors: str) -> list[np.ndarray]:
    """Returns the sensors' measurements, [K, ...] each."""
    return [states.sensor(name).data for name in sensors]


def small_control(states: States) -> np.ndarray:
    """Returns 1 without control, down to 0.8 where every element is at or beyond its bound."""
    return (4 + np.maximum(1 - states.ctrl**2, 0).mean(axis=1)) / 5


CHEETAH_WALK_SPEED = 1.0
"""Full-reward speed in m/s: the walking speed of the suite's walker, humanoid and dog.

Not in the paper: D4PG names a task "cheetah walk" but not its speed; the suite has only `run`.
"""


def _observe_state(states: States) -> Sequence[np.ndarray]:
    return states.qpos, states.qvel


def _observe_acrobot(states: States) -> Sequence[np.ndarray]:
    arms = [states.body(name).xmat for name in ("upper_arm", "lower_arm")]
    places = (arm[:, place] for place in (XZ, ZZ) for arm in arms)
    return *places, states.qvel


def _beyond_target_acrobot(states: States) -> np.ndarray:
    target = states.site("target")
    return length(target.xpos - states.site("tip").xpos) - target.size[:, 0]


def _reward_ball_in_cup(states: States) -> np.ndarray:
    target, ball = states.site("target"), states.body("ball")
    distance = np.abs(target.xpos - ball.xpos)[:, ::2]
    return 1.0 * (distance < target.size[:, ::2] - states.geom("ball").size[:, :1]).all(axis=1)


def _observe_cartpole(states: States) -> Sequence[np.ndarray]:
    poles = states.xmat[:, 2:, [ZZ, XZ]]
    return states.qpos[:, :1], poles, states.qvel


def _reward_cartpole(states: States) -> np.ndarray:
    upright = (states.xmat[:, 2:, ZZ] + 1) / 2
    centered = (1 + near(np.abs(states.qpos[:, 0]), 2)) / 2
    small_velocity = (1 + near(np.abs(states.qvel[:, 1:]), 5).min(axis=1)) / 2
    return upright.mean(axis=1) * small_control(states) * small_velocity * centered


def _reward_cartpole_sparse(states: States) -> np.ndarray:
    cosines = states.xmat[:, 2:, ZZ]
    is_upright = (0.995 <= cosines) & (cosines <= 1)  # rounding may exceed 1, which does not count
    return 1.0 * (is_upright.all(axis=1) & (np.abs(states.qpos[:, 0]) <= 0.25))


def _observe_cheetah(states: States) -> Sequence[np.ndarray]:
    return states.qpos[:, 1:], states.qvel


def _reward_cheetah(states: States, speed: float) -> np.ndarray:
    return rising(states.sensor("torso_subtreelinvel").data[:, 0], speed, speed)


def _from_hinge(states: States, name: str) -> np.ndarray:
    """Returns x and z of a point relative to the hinge of the finger's task, [K, 2]."""
    return (states.sensor(name).data - states.sensor("spinner").data)[:, ::2]


def _observe_finger(states: States) -> Sequence[np.ndarray]:
    return (
        *sensed(states, "proximal", "distal"),
        _from_hinge(states, "tip"),
        *sensed(states, "proximal_velocity", "distal_velocity", "hinge_velocity"),
        *map(np.log1p, sensed(states, "touchtop", "touchbottom")),
    )


def _reward_finger_spin(states: States) -> np.ndarray:
    return 1.0 * (states.sensor("hinge_velocity").data[:, 0] <= -15)


def _beyond_target_finger(states: States, radius: float) -> np.ndarray:
    return length(_from_hinge(states, "target") - _from_hinge(states, "tip")) - radius


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
    return in_frame(states.geom("target").xpos - mouth.xpos, mouth.xmat)[:, 0]


def _observe_fish(states: States, sees_target: bool) -> Sequence[np.ndarray]:
    target = (_mouth_to_target(states),) if sees_target else ()
    return states.qpos[:, 7:], states.body("torso").xmat[:, ZZ], *target, states.qvel


def _reward_fish_upright(states: States) -> np.ndarray:
    return near(np.abs(1 - states.body("torso").xmat[:, ZZ]), 1)


def _reward_fish_swim(states: States) -> np.ndarray:
    radii = states.geom("mouth").size[:, 0] + states.geom("target").size[:, 0]
    in_target = near(length(_mouth_to_target(states)) - radii, 2 * radii)
    return (7 * in_target + (states.body("torso").xmat[:, ZZ] + 1) / 2) / 8


def _observe_hopper(states: States) -> Sequence[np.ndarray]:
    touch = map(np.log1p, sensed(states, "touch_toe", "touch_heel"))
    return states.qpos[:, 1:], states.qvel, *touch


def _standing_hopper(states: States) -> np.ndarray:
    height = states.body("torso").xipos[:, 2] - states.body("foot").xipos[:, 2]
    return (0.6 <= height) & (height <= 2)


def _reward_hopper_hop(states: States) -> np.ndarray:
    speed = states.sensor("torso_subtreelinvel").data[:, 0]
    return _standing_hopper(states) * rising(speed, 2, 1, 0.5)


def _pose(states: States, name: str) -> Sequence[np.ndarray]:
    """Returns a body's position and rotation in the plane."""
    return states.body(name).xpos[:, ::2], states.body(name).xquat[:, ::2]


def _observe_arm(states: States) -> Sequence[np.ndarray]:
    """Returns the arm's part of the manipulator's and the stacker's observations."""
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
    return length(states.site(first).xpos - states.site(second).xpos)


def _reward_ball(states: States) -> np.ndarray:
    return near(_distance(states, "ball", "target_ball") - 0.01, 0.02)


def _reward_peg(states: States) -> np.ndarray:
    pairs = ("grasp", "peg_grasp"), ("pinch", "peg_pinch"), ("target_peg", "peg")
    grasp, pinch, bring, bring_tip = (
        near(_distance(states, *pair) - 0.01, 0.02)
        for pair in (*pairs, ("target_peg_tip", "peg_tip"))
    )
    return np.maximum((bring + bring_tip) / 2, (grasp + pinch) / 2 / 3)


def _manipulator(prop: str) -> Task:
    reward = _reward_ball if prop == "ball" else _reward_peg
    return Task(partial(_observe_manipulator, prop=prop), reward, varies=("body_pos", "body_quat"))


def _reward_point_mass(states: States) -> np.ndarray:
    target = states.geom("target")
    radius = target.size[:, 0]
    distance = length(target.xpos - states.geom("pointmass").xpos)
    return near(distance - radius, radius) * small_control(states)


def _to_target_reacher(states: States) -> np.ndarray:
    return (states.geom("target").xpos - states.geom("finger").xpos)[:, :2]


def _reward_reacher(states: States) -> np.ndarray:
    radii = states.geom("target").size[:, 0] + states.geom("finger").size[:, 0]
    return 1.0 * (length(_to_target_reacher(states)) <= radii)


def _observe_stacker(states: States, boxes: int) -> Sequence[np.ndarray]:
    joints = np.arange(8, 8 + 3 * boxes).reshape(boxes, 3)[:, [0, 2, 1]].ravel()  # x, z and y
    poses = [part for box in range(boxes) for part in _pose(states, f"box{box}")]
    target = states.body("target").xpos[:, ::2]
    return *_observe_arm(states), *poses, states.qvel[:, joints], target


def _reward_stacker(states: States, boxes: int) -> np.ndarray:
    margin = 2 * states.geom("target").size[:, 0]
    closest = np.min([_distance(states, f"box{box}", "target") for box in range(boxes)], axis=0)
    return near(closest, margin) * near(0.1 - _distance(states, "grasp", "target"), 0.01)


def _stacker(boxes: int) -> Task:
    return Task(
        partial(_observe_stacker, boxes=boxes),
        partial(_reward_stacker, boxes=boxes),
        varies=("body_pos",),
    )


def _to_target_swimmer(states: States) -> np.ndarray:
    vector = states.geom("target").xpos - states.geom("nose").xpos
    return in_frame(vector, states.body("head").xmat)[:, 0, :2]


def _observe_swimmer(states: States) -> Sequence[np.ndarray]:
    velocities = states.sensordata[:, 12:].reshape(len(states.qpos), -1, 6)[..., [0, 1, 5]]
    return states.qpos[:, 3:], _to_target_swimmer(states), velocities


def _reward_swimmer(states: States) -> np.ndarray:
    target = states.geom("target")
    distance = length(target.xpos - states.geom("nose").xpos)
    beyond = np.maximum(distance - target.size[:, 0], 0)
    return 1 / ((beyond / (5 * target.size[:, 0]) * 3) ** 2 + 1)


def _observe_walker(states: States) -> Sequence[np.ndarray]:
    return states.xmat[:, 1:, [XX, XZ]], states.body("torso").xpos[:, 2], states.qvel


def _reward_walker(states: States, speed: float) -> np.ndarray:
    standing = near(1.2 - states.body("torso").xpos[:, 2], 0.6)
    upright = (1 + states.body("torso").xmat[:, ZZ]) / 2
    reward = (3 * standing + upright) / 4
    if not speed:
        return reward
    moves = rising(states.sensor("torso_subtreelinvel").data[:, 0], speed, speed / 2, 0.5)
    return reward * (5 * moves + 1) / 6


def _observe_pendulum(states: States) -> Sequence[np.ndarray]:
    return states.body("pole").xmat[:, [ZZ, XZ]], states.qvel


def _reward_pendulum(states: States) -> np.ndarray:
    vertical = states.body("pole").xmat[:, ZZ]
    return 1.0 * ((np.cos(np.deg2rad(8)) <= vertical) & (vertical <= 1))


_REACHER = Task(
    lambda states: (states.qpos, _to_target_reacher(states), states.qvel),
    _reward_reacher,
    varies=("geom_pos", "geom_size"),
)
_SWIMMER = Task(_observe_swimmer, _reward_swimmer, varies=("geom_pos",))

TASKS = {
    "acrobot:swingup": Task(
        _observe_acrobot, lambda states: near(_beyond_target_acrobot(states), 1)
    ),
    "acrobot:swingup_sparse": Task(
        _observe_acrobot, lambda states: 1.0 * (_beyond_target_acrobot(states) <= 0)
    ),
    "ball_in_cup:catch": Task(_observe_state, _reward_ball_in_cup),
    **{
        f"cartpole:{task}": Task(_observe_cartpole, _reward_cartpole)
        for task in ("balance", "swingup", "two_poles", "three_poles")
    },
    **{
        f"cartpole:{task}_sparse": Task(_observe_cartpole, _reward_cartpole_sparse)
        for task in ("balance", "swingup")
    },
    "cheetah:run": Task(_observe_cheetah, partial(_reward_cheetah, speed=10)),
    "cheetah:walk": Task(_observe_cheetah, partial(_reward_cheetah, speed=CHEETAH_WALK_SPEED)),
    "finger:spin": Task(_observe_finger, _reward_finger_spin, varies=("dof_damping",)),
    "finger:turn_easy": _finger_turn(0.07),
    "finger:turn_hard": _finger_turn(0.03),
    "fish:upright": Task(partial(_observe_fish, sees_target=False), _reward_fish_upright),
    "fish:swim": Task(
        partial(_observe_fish, sees_target=True), _reward_fish_swim, varies=("geom_pos",)
    ),
    "hopper:stand": Task(
        _observe_hopper, lambda states: _standing_hopper(states) * small_control(states)
    ),
    "hopper:hop": Task(_observe_hopper, _reward_hopper_hop),
    **{
        f"manipulator:{task}_{prop}": _manipulator(prop)
        for task in ("bring", "insert")
        for prop in ("ball", "peg")
    },
    "pendulum:swingup": Task(_observe_pendulum, _reward_pendulum),
    "point_mass:easy": Task(_observe_state, _reward_point_mass),
    "point_mass:hard": Task(_observe_state, _reward_point_mass, varies=("wrap_prm",)),
    "reacher:easy": _REACHER,
    "reacher:hard": _REACHER,
    "stacker:stack_2": _stacker(2),
    "stacker:stack_4": _stacker(4),
    "swimmer:swimmer6": _SWIMMER,
    "swimmer:swimmer15": _SWIMMER,
    **{
        f"walker:{gait}": Task(_observe_walker, partial(_reward_walker, speed=speed))
        for gait, speed in {"stand": 0, "walk": 1, "run": 8}.items()
    },
}
"""Tasks by their names in the suite; speeds in metres a second, radii in metres."""
