"""Observations and rewards of Control Suite tasks, over the states of K bodies at once.

The formulas are those of the suite's tasks, which compute them for one body at a time: its Python
takes several times as long as MuJoCo does. `tests/environments/test_control_suite.py` compares
each task of `TASKS` with the suite's.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import mujoco
import numpy as np

CHEETAH_WALK_SPEED = 1.0
"""Metres a second, the walking speed of the suite's walker, humanoid and dog.

Not in the paper: D4PG names a task "cheetah walk" but not its speed; the suite has only `run`.
"""

_FIELDS = ("qpos", "qvel", "ctrl", "xpos", "xmat", "sensordata")
_XX, _XZ, _ZX, _ZZ = 0, 2, 6, 8
"""Places in a rotation matrix of 9 numbers: row, then column."""
_WIDTH = np.sqrt(-2 * np.log(0.1))
"""A distance of one margin is so many standard deviations, where the suite's Gaussian is 0.1."""


class States:
    """The states of K bodies of one model, in arrays that `read` overwrites.

    Attributes:
      qpos: float64 [K, nq], positions of the joints.
      qvel: float64 [K, nv], their velocities.
      ctrl: float64 [K, nu], the controls as they were set.
      xpos: float64 [K, nbody, 3], positions of the parts, of which the first is the world.
      xmat: float64 [K, nbody, 9], their rotations.
      sensordata: float64 [K, nsensordata].
      bodies: the parts' numbers, by name.
      sensors: the columns of `sensordata`, [K, ...], by name.
    """

    qpos: np.ndarray
    qvel: np.ndarray
    ctrl: np.ndarray
    xpos: np.ndarray
    xmat: np.ndarray
    sensordata: np.ndarray

    def __init__(self, model: mujoco.MjModel, data: Sequence[mujoco.MjData]):
        """Makes arrays for bodies of a model, whose present states they do not have yet."""
        self._sources = [getattr(one, name).reshape(-1) for one in data for name in _FIELDS]
        rows = np.empty((len(data), sum(map(np.size, self._sources)) // len(data)))
        self._target = rows.reshape(-1)
        begin = 0
        for name in _FIELDS:
            shape = getattr(data[0], name).shape
            end = begin + int(np.prod(shape))
            setattr(self, name, rows[:, begin:end].reshape(len(data), *shape))
            begin = end
        self.bodies = {model.body(number).name: number for number in range(model.nbody)}
        sensors = (model.sensor(number) for number in range(model.nsensor))
        self.sensors = {
            one.name: self.sensordata[:, one.adr[0] : one.adr[0] + one.dim[0]] for one in sensors
        }

    def read(self) -> None:
        """Copies the present states."""
        np.concatenate(self._sources, out=self._target)


class BatchTask(NamedTuple):
    """A task.

    Attributes:
      observe: returns the parts of the observations, [K, ...] each, in the order of the suite's.
      reward: returns the rewards, [K].
      senses_forces: whether either needs sensors of forces, which MuJoCo computes in its substeps;
        the others, at the end of a step. A humanoid is 7 % faster if the substeps have none.
    """

    observe: Callable[[States], Sequence[np.ndarray]]
    reward: Callable[[States], np.ndarray]
    senses_forces: bool = True


def _near(distance: np.ndarray, margin: float) -> np.ndarray:
    """Returns the suite's Gaussian of a distance, 1 at 0 and 0.1 at the margin."""
    return np.exp(-0.5 * (distance / margin * _WIDTH) ** 2)


def _rising(value: np.ndarray, full: float, margin: float, at_margin: float = 0) -> np.ndarray:
    """Returns 1 where a value is `full` or more; below it falls to `at_margin` over the margin."""
    reward = 1 - (full - value) / margin * (1 - at_margin)
    return np.minimum(np.maximum(reward, 0), 1)


def _small_control(states: States) -> np.ndarray:
    """Returns 1 without control, and 0.8 where each element of it is at its bound or beyond."""
    return (4 + np.maximum(1 - states.ctrl**2, 0).mean(axis=1)) / 5


def _observe_cartpole(states: States) -> Sequence[np.ndarray]:
    poles = states.xmat[:, 2:, [_ZZ, _XZ]]
    return states.qpos[:, :1], poles, states.qvel


def _reward_cartpole(states: States) -> np.ndarray:
    upright = (states.xmat[:, 2:, _ZZ] + 1) / 2
    centered = (1 + _near(states.qpos[:, 0], 2)) / 2
    small_velocity = (1 + _near(states.qvel[:, 1:], 5).min(axis=1)) / 2
    return upright.mean(axis=1) * _small_control(states) * small_velocity * centered


def _reward_cartpole_sparse(states: States) -> np.ndarray:
    cosines = states.xmat[:, 2:, _ZZ]
    is_upright = (0.995 <= cosines) & (cosines <= 1)  # rounding may exceed 1, which does not count
    return 1.0 * (is_upright.all(axis=1) & (np.abs(states.qpos[:, 0]) <= 0.25))


def _observe_cheetah(states: States) -> Sequence[np.ndarray]:
    return states.qpos[:, 1:], states.qvel


def _reward_cheetah(states: States, speed: float) -> np.ndarray:
    return _rising(states.sensors["torso_subtreelinvel"][:, 0], speed, speed)


def _from_hinge(states: States, name: str) -> np.ndarray:
    """Returns the places of a point of the finger's task beside the hinge, x and z, [K, 2]."""
    return states.sensors[name][:, ::2] - states.sensors["spinner"][:, ::2]


def _observe_finger(states: States) -> Sequence[np.ndarray]:
    joints = ("proximal", "distal")
    velocities = ("proximal_velocity", "distal_velocity", "hinge_velocity")
    return (
        *(states.sensors[name] for name in joints),
        _from_hinge(states, "tip"),
        *(states.sensors[name] for name in velocities),
        *(np.log1p(states.sensors[name]) for name in ("touchtop", "touchbottom")),
    )


def _reward_finger_spin(states: States) -> np.ndarray:
    return 1.0 * (states.sensors["hinge_velocity"][:, 0] <= -15)


def _distance_to_target(states: States, radius: float) -> np.ndarray:
    way = _from_hinge(states, "target") - _from_hinge(states, "tip")
    return np.linalg.norm(way, axis=1) - radius


def _observe_finger_turn(states: States, radius: float) -> Sequence[np.ndarray]:
    distance = _distance_to_target(states, radius)
    return *_observe_finger(states), _from_hinge(states, "target"), distance


def _reward_finger_turn(states: States, radius: float) -> np.ndarray:
    return 1.0 * (_distance_to_target(states, radius) <= 0)


def _observe_walker(states: States) -> Sequence[np.ndarray]:
    height = states.xpos[:, states.bodies["torso"], 2]
    return states.xmat[:, 1:, [_XX, _XZ]], height, states.qvel


def _reward_walker_stand(states: States) -> np.ndarray:
    torso = states.bodies["torso"]
    standing = _near(np.maximum(1.2 - states.xpos[:, torso, 2], 0), 0.6)
    upright = (1 + states.xmat[:, torso, _ZZ]) / 2
    return (3 * standing + upright) / 4


def _reward_walker(states: States, speed: float) -> np.ndarray:
    moves = _rising(states.sensors["torso_subtreelinvel"][:, 0], speed, speed / 2, 0.5)
    return _reward_walker_stand(states) * (5 * moves + 1) / 6


def _observe_humanoid(states: States) -> Sequence[np.ndarray]:
    torso = states.bodies["torso"]
    limbs = [
        states.bodies[side + limb] for side in ("left_", "right_") for limb in ("hand", "foot")
    ]
    frame = states.xmat[:, torso].reshape(-1, 3, 3)
    to_limbs = states.xpos[:, limbs] - states.xpos[:, torso, np.newaxis]
    return (
        states.qpos[:, 7:],
        states.xpos[:, states.bodies["head"], 2],
        to_limbs @ frame,
        states.xmat[:, torso, _ZX:],
        states.sensors["torso_subtreelinvel"],
        states.qvel,
    )


def _observe_state(states: States) -> Sequence[np.ndarray]:
    return states.qpos, states.qvel


def _upright_humanoid(states: States) -> np.ndarray:
    """Returns the part of the rewards for standing with little control."""
    standing = _near(np.maximum(1.4 - states.xpos[:, states.bodies["head"], 2], 0), 0.35)
    upright = _rising(states.xmat[:, states.bodies["torso"], _ZZ], 0.9, 1.9)
    return _small_control(states) * (standing * upright)


def _reward_humanoid_stand(states: States) -> np.ndarray:
    velocity = states.sensors["torso_subtreelinvel"][:, :2]
    return _upright_humanoid(states) * _near(velocity, 2).mean(axis=1)


def _reward_humanoid(states: States, speed: float) -> np.ndarray:
    over_ground = np.linalg.norm(states.sensors["torso_subtreelinvel"][:, :2], axis=1)
    moves = _rising(over_ground, speed, speed)
    return _upright_humanoid(states) * ((5 * moves + 1) / 6)


_CARTPOLE = BatchTask(_observe_cartpole, _reward_cartpole)
_CARTPOLE_SPARSE = BatchTask(_observe_cartpole, _reward_cartpole_sparse)

TASKS = {
    "cartpole:balance": _CARTPOLE,
    "cartpole:balance_sparse": _CARTPOLE_SPARSE,
    "cartpole:swingup": _CARTPOLE,
    "cartpole:swingup_sparse": _CARTPOLE_SPARSE,
    "cartpole:two_poles": _CARTPOLE,
    "cartpole:three_poles": _CARTPOLE,
    "cheetah:run": BatchTask(_observe_cheetah, partial(_reward_cheetah, speed=10)),
    "cheetah:walk": BatchTask(_observe_cheetah, partial(_reward_cheetah, speed=CHEETAH_WALK_SPEED)),
    "finger:spin": BatchTask(_observe_finger, _reward_finger_spin),
    "finger:turn_easy": BatchTask(
        partial(_observe_finger_turn, radius=0.07), partial(_reward_finger_turn, radius=0.07)
    ),
    "finger:turn_hard": BatchTask(
        partial(_observe_finger_turn, radius=0.03), partial(_reward_finger_turn, radius=0.03)
    ),
    "walker:stand": BatchTask(_observe_walker, _reward_walker_stand),
    "walker:walk": BatchTask(_observe_walker, partial(_reward_walker, speed=1)),
    "walker:run": BatchTask(_observe_walker, partial(_reward_walker, speed=8)),
    "humanoid:stand": BatchTask(_observe_humanoid, _reward_humanoid_stand, False),
    "humanoid:walk": BatchTask(_observe_humanoid, partial(_reward_humanoid, speed=1), False),
    "humanoid:run": BatchTask(_observe_humanoid, partial(_reward_humanoid, speed=10), False),
    "humanoid:run_pure_state": BatchTask(
        _observe_state, partial(_reward_humanoid, speed=10), False
    ),
}
"""Tasks by their names in the suite; speeds in metres a second, radii in metres."""
