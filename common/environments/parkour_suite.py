"""Parkour of a planar walker and of a humanoid over random courses: "planar" and "humanoid".

They stand in for D4PG's parkour (section 4.3), which is from Heess et al. 2017 (arXiv 1707.02286)
and not public. Bodies, actions, the kinds of obstacles, the sizes of observations, and a reward for
forward speed minus torques are the papers'. A course consists of boxes: floors with gaps, and
obstacles on or above them. Neither paper gives their sizes; all numbers are ours unless a comment
names their source. Lengths are in metres, times in seconds.
"""

from collections.abc import Callable
import pathlib
from typing import NamedTuple
import xml.etree.ElementTree as ElementTree

import dm_control  # only to find its files
from dm_env import specs
import numpy as np

from common.environments.canonical import CanonicalEnvironment
from common.environments.episodic_environment import StepOutcome
from common.environments.mujoco_environment import MujocoEnvironment, mujoco

DEPTH = 2.0
"""Depth of a gap, and of the drop at the sides of the track."""

_FIRST = 4.0  # where the first obstacle stands
_MARGIN = 6.0  # floor before the start and after the finish
_FREE_END = 8.0  # before the finish, without new obstacles
_PLANAR_HALF_WIDTH = 1.0  # more than the walker's, whose y is fixed
_NARROWEST = 0.02  # narrower parts of a wall are left out


class Box(NamedTuple):
    """An axis-aligned box.

    Attributes:
      center: (x, y, z).
      half: half the size along x, y and z.
      hovers: whether there is open space below it.
    """

    center: tuple[float, float, float]
    half: tuple[float, float, float]
    hovers: bool = False


class Course:
    """A course of boxes, with the heights of their faces.

    A box includes its edges.

    Attributes:
      boxes: all floors and obstacles.
      length: x of the finish; the start is at 0.
    """

    def __init__(self, boxes: list[Box], length: float):
        self.boxes = boxes
        self.length = length
        self._standing = _faces([box for box in boxes if not box.hovers])
        self._hovering = _faces([box for box in boxes if box.hovers])

    def top(self, x: np.ndarray) -> np.ndarray:
        """Returns the top of the boxes that stand at x, at any y, [N] -> [N]; -`DEPTH` in a gap."""
        low, high = _near(self._standing, x)
        over_x = _over(x, low[:, 0], high[:, 0])
        return np.where(over_x, high[:, 2], -DEPTH).max(axis=1, initial=-DEPTH)

    def underside(self, x: np.ndarray) -> np.ndarray:
        """Returns the underside of the boxes that hover at x, [N] -> [N]; infinity without any."""
        low, high = _near(self._hovering, x)
        over_x = _over(x, low[:, 0], high[:, 0])
        return np.where(over_x, low[:, 2], np.inf).min(axis=1, initial=np.inf)

    def top_of_grid(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Returns the top of the boxes that stand at each (x, y), [N], [M] -> [N, M]."""
        heights = np.full((len(x), len(y)), -DEPTH)
        low, high = _near(self._standing, x)
        over_x, over_y = _over(x, low[:, 0], high[:, 0]), _over(y, low[:, 1], high[:, 1])
        for k, top in enumerate(high[:, 2]):
            where = over_x[:, k, np.newaxis] & over_y[:, k]
            np.maximum(heights, top, out=heights, where=where)
        return heights


def planar_course(generator: np.random.Generator) -> Course:
    """Returns a course of 120 m with gaps, barriers and hovering platforms."""
    kinds = (_gap(0.9), _barrier(0.5), _platform)
    return _course(generator, 120.0, _PLANAR_HALF_WIDTH, kinds, ramp=60.0, free=(3.0, 6.0))


def humanoid_course(generator: np.random.Generator) -> Course:
    """Returns a course of 100 m x 4 m with gaps, barriers and walls that have an opening."""
    kinds = (_gap(0.7), _barrier(0.4), _wall)
    return _course(generator, 100.0, 2.0, kinds, ramp=50.0, free=(4.0, 7.0))


def _faces(boxes: list[Box]) -> np.ndarray:
    """Returns the low and high faces of boxes, [2, boxes, 3], rounded as in MuJoCo's model."""
    center, half = np.array([box[:2] for box in boxes]).reshape(-1, 2, 3).swapaxes(0, 1)
    return np.stack([center - half, center + half])


def _near(faces: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Returns the faces of the boxes near x, since comparing x with all boxes takes longer."""
    low, high = faces[:, :, 0]
    return faces[:, (low <= x.max()) & (high >= x.min())]


def _over(positions: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Returns whether positions [N] are between the faces of each box, bool [N, boxes]."""
    positions = positions[:, np.newaxis]
    return (positions >= low) & (positions <= high)


class _Obstacle(NamedTuple):
    """An obstacle, or a gap in the floor.

    Attributes:
      boxes: (x0, x1, y0, y1, z0, z1, hovers) of each box, with x from the start of the obstacle.
      length: length along x.
      is_gap: whether the floor is missing.
    """

    boxes: list[tuple[float, float, float, float, float, float, bool]]
    length: float
    is_gap: bool = False


# (generator, difficulty in [0, 1], half the track's width) -> obstacle.
_Kind = Callable[[np.random.Generator, float, float], _Obstacle]


def _gap(growth: float) -> _Kind:
    """Returns a kind of gaps whose maximum length grows by `growth` with the difficulty."""

    def make(generator: np.random.Generator, difficulty: float, half_width: float) -> _Obstacle:
        del half_width
        return _Obstacle([], generator.uniform(0.2, 0.3 + growth * difficulty), is_gap=True)

    return make


def _barrier(growth: float) -> _Kind:
    """Returns a kind of barriers whose maximum height grows by `growth` with the difficulty."""

    def make(generator: np.random.Generator, difficulty: float, half_width: float) -> _Obstacle:
        length = generator.uniform(0.1, 0.4)
        height = generator.uniform(0.05, 0.1 + growth * difficulty)
        return _Obstacle([(0.0, length, -half_width, half_width, 0.0, height, False)], length)

    return make


def _platform(generator: np.random.Generator, difficulty: float, half_width: float) -> _Obstacle:
    """Returns a platform to run over or, equally often, below."""
    length = generator.uniform(1.0, 3.0)
    if generator.random() < 0.5:
        bottom = generator.uniform(0.05, 0.1 + 0.35 * difficulty)
    else:
        bottom = generator.uniform(1.75 - 0.65 * difficulty, 1.85)
    return _Obstacle([(0.0, length, -half_width, half_width, bottom, bottom + 0.1, True)], length)


def _wall(generator: np.random.Generator, difficulty: float, half_width: float) -> _Obstacle:
    opening = generator.uniform(2.2 - difficulty, 2.4 - difficulty)
    begin = generator.uniform(-half_width, half_width - opening)
    sides = ((-half_width, begin), (begin + opening, half_width))
    boxes = [(0.0, 0.2, y0, y1, 0.0, 2.0, False) for y0, y1 in sides if y1 - y0 > _NARROWEST]
    return _Obstacle(boxes, 0.2)


def _course(
    generator: np.random.Generator,
    length: float,
    half_width: float,
    kinds: tuple[_Kind, ...],
    ramp: float,
    free: tuple[float, float],
) -> Course:
    """Returns a course of uniformly drawn kinds, whose difficulty rises until x = `ramp`."""
    boxes: list[Box] = []

    def add(x0, x1, y0, y1, z0, z1, hovers):
        low, high = np.array([x0, y0, z0]), np.array([x1, y1, z1])
        boxes.append(Box(tuple((low + high) / 2), tuple((high - low) / 2), hovers))

    floor, x = -_MARGIN, _FIRST
    while x < length - _FREE_END:
        kind = kinds[generator.integers(len(kinds))]
        obstacle = kind(generator, min(1.0, x / ramp), half_width)
        for x0, x1, *rest in obstacle.boxes:
            add(x + x0, x + x1, *rest)
        if obstacle.is_gap:
            add(floor, x, -half_width, half_width, -DEPTH, 0.0, False)
            floor = x + obstacle.length
        x += obstacle.length + generator.uniform(*free)
    add(floor, length + _MARGIN, -half_width, half_width, -DEPTH, 0.0, False)
    return Course(boxes, length)


MAX_STEPS = 1000
"""Time limit of an episode, 25 s."""


def _bent(low: float, number: int, reach: float) -> np.ndarray:
    """Returns `number` points reach sign(u) u^2, for u from `low` to 1: sparser far away."""
    u = np.linspace(low, 1.0, number)
    return reach * np.sign(u) * u**2


PLANAR_X = _bent(-0.3, 50, 8.0)
"""Positions at which the planar walker sees heights: [50], x from its torso."""
HUMANOID_X = _bent(-0.35, 20, 6.0)
"""Positions at which the humanoid sees heights: [20], x from its torso."""
HUMANOID_Y = _bent(-1.0, 23, 2.0)
"""Positions at which the humanoid sees heights: [23], y from its torso."""

_CLIP = 2.0  # limit of heights relative to the lower foot
_FEET = ("right_foot", "left_foot")
_LEG_JOINTS = tuple(
    f"{side}_{joint}"
    for side in ("right", "left")
    for joint in ("hip_x", "hip_z", "hip_y", "knee", "ankle_x", "ankle_y")
)
_TOUCHES = (
    ("right_right_foot_touch", "left_right_foot_touch"),
    ("right_left_foot_touch", "left_left_foot_touch"),
    ("right_shin_touch",),
    ("left_shin_touch",),
)


def names() -> list[str]:
    """Returns the names of the bodies."""
    return sorted(_BODIES)


def make(name: str, seed: int) -> CanonicalEnvironment:
    """Creates the parkour of the body `name`, one of `names()`; `seed` is in [0, 2**32)."""
    return CanonicalEnvironment(_BODIES[name](seed))


class _Parkour(MujocoEnvironment):
    """A body of the Control Suite on a new course in each episode.

    Observation: {"proprioception": float32 [P], "terrain": float32 [T]}.
    """

    _make_course: Callable[[np.random.Generator], Course]
    _proprioception_size: int
    _terrain_size: int

    def __init__(self, seed: int, body: mujoco.MjSpec, substeps: int):
        self._body = body
        super().__init__(body.compile(), seed, substeps, MAX_STEPS)
        self._new_course()

    def observation_spec(self) -> dict[str, specs.Array]:
        """Returns the specs of both parts of the observation."""
        return {
            "proprioception": specs.Array((self._proprioception_size,), np.float32),
            "terrain": specs.Array((self._terrain_size,), np.float32),
        }

    def _new_course(self) -> None:
        """Puts the body on a new course, whose boxes are geoms of the world."""
        self._course = self._make_course(self._generator)
        spec = self._body.copy()
        for box in self._course.boxes:
            # Bodies collide with geoms of conaffinity 1, such as the Suite's floor.
            spec.worldbody.add_geom(
                type=mujoco.mjtGeom.mjGEOM_BOX,
                pos=box.center,
                size=box.half,
                rgba=[0.8, 0.6, 0.4, 1.0] if box.hovers else [0.4, 0.5, 0.6, 1.0],
                contype=1,
                conaffinity=1,
            )
        self._use(spec.compile())
        # Views of the state: their arrays change as it does.
        data = self.data
        self._torso = data.body("torso").xpos
        self._rotation = data.body("torso").xmat.reshape(3, 3)
        self._feet = [data.body(foot).xpos for foot in _FEET]

    def _put_on_floor(self, height: int) -> None:
        """Moves qpos[height] so that the lowest point of the feet's geoms is on the floor."""
        mujoco.mj_forward(self.model, self.data)
        feet = [self.model.body(foot).id for foot in _FEET]
        geoms = np.flatnonzero(np.isin(self.model.geom_bodyid, feet))
        self.data.qpos[height] -= min(_lowest_point(self.model, self.data, geom) for geom in geoms)

    def _sensors(self, *names: str) -> np.ndarray:
        """Returns the indices of the sensors' numbers in `sensordata`."""
        sensors = [self.model.sensor(name) for name in names]
        return np.concatenate([sensor.adr + np.arange(sensor.dim[0]) for sensor in sensors])


class Planar(_Parkour):
    """Planar parkour: proprioception 19, terrain 101 (D4PG section 4.3), six torques.

    Proprioception: the torso's height above the lower foot, its pitch, 6 angles, 9 velocities, and
    log(1 + force) of both feet. Terrain: the torso's height above the ground, then at `PLANAR_X`
    50 tops of standing boxes and 50 undersides of hovering boxes.
    Reward: 0.025 (v - 0.01 |u|^2), so that a return is the distance minus the cost of torques.
    """

    _make_course = staticmethod(planar_course)
    _proprioception_size = 19
    _terrain_size = 1 + 2 * len(PLANAR_X)

    def __init__(self, seed: int):
        """Creates the environment; `seed` determines courses and starts."""
        body = _suite_body("walker.xml")
        for foot in _FEET:
            # Slightly larger than the foot's geom, a capsule along x, to include all contacts.
            body.body(foot).add_site(
                name=f"{foot}_touch",
                type=mujoco.mjtGeom.mjGEOM_CAPSULE,
                size=[0.055, 0.11, 0.0],
                quat=[np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0],
                group=3,
            )
            body.add_sensor(
                name=f"{foot}_touch",
                type=mujoco.mjtSensor.mjSENS_TOUCH,
                objtype=mujoco.mjtObj.mjOBJ_SITE,
                objname=f"{foot}_touch",
            )
        super().__init__(seed, body, substeps=10)
        self._touch = self._sensors(*(f"{foot}_touch" for foot in _FEET))

    def _place(self) -> None:
        self._new_course()
        self.data.qpos[3:] = self._generator.uniform(-0.1, 0.1, 6)
        self.data.qvel[:] = self._generator.uniform(-0.05, 0.05, 9)
        self._put_on_floor(0)

    def _control(self, action: np.ndarray) -> StepOutcome:
        x = self.data.qpos[1]
        self.data.ctrl[:] = action
        self._simulate()
        seconds = self.control_timestep()
        speed = (self.data.qpos[1] - x) / seconds
        reward = seconds * (speed - 0.01 * _squared(action))
        has_fallen = (
            self._height() < 0.3 or self._rotation[2, 2] < 0.2 or self._torso[2] < 0.0  # in a gap
        )
        return StepOutcome(reward, has_fallen, self._torso[0] > self._course.length)

    def _height(self) -> float:
        return self._torso[2] - min(foot[2] for foot in self._feet)

    def _observe(self) -> dict[str, np.ndarray]:
        data, height = self.data, self._height()
        x, z = self._torso[0], self._torso[2]
        foot = z - height
        proprioception = np.empty(self._proprioception_size, np.float32)
        proprioception[0] = height
        proprioception[1:8] = data.qpos[2:]
        proprioception[8:17] = data.qvel
        proprioception[17:] = np.log1p(data.sensordata[self._touch])
        seen = x + PLANAR_X
        # One call finds all tops; the last is the ground below the torso.
        tops = self._course.top(np.append(seen, x))
        terrain = np.concatenate(
            [[z - tops[-1]], tops[:-1] - foot, self._course.underside(seen) - foot]
        )
        return {
            "proprioception": proprioception,
            "terrain": np.clip(terrain, -_CLIP, _CLIP).astype(np.float32),
        }


class Humanoid(_Parkour):
    """Humanoid parkour: proprioception 79, terrain 461 (D4PG section 4.3), 21 torques.

    Proprioception starts with Heess et al.'s: 21 angles, 21 velocities, velocimeter, gyroscope,
    accelerometer / 10, log(1 + force) of feet and shins, 12 torques of the legs / 100. Then ours:
    the torso's vertical, the head's height above the lower foot, both feet in the torso's frame,
    and their heights above the course. Terrain: y, then the tops at `HUMANOID_X` x `HUMANOID_Y`.
    Reward: 0.025 (min(v, 4) - 0.005 (v^2 + w^2) - 0.05 y^2 - 0.02 |u|^2 + 0.02), with w the speed
    along y. It follows Heess et al.'s supplement, which we have not seen.
    """

    _make_course = staticmethod(humanoid_course)
    _proprioception_size = 79
    _terrain_size = 1 + len(HUMANOID_X) * len(HUMANOID_Y)

    def __init__(self, seed: int):
        """Creates the environment; `seed` determines courses and starts."""
        body = _suite_body("humanoid.xml")
        for joint in _LEG_JOINTS:
            body.add_sensor(
                name=f"{joint}_actuator_torque",
                type=mujoco.mjtSensor.mjSENS_JOINTACTFRC,
                objtype=mujoco.mjtObj.mjOBJ_JOINT,
                objname=joint,
            )
        super().__init__(seed, body, substeps=5)
        self._inertial = self._sensors("torso_vel", "torso_gyro", "torso_accel")
        self._touches = [self._sensors(*group) for group in _TOUCHES]
        self._torques = self._sensors(*(f"{joint}_actuator_torque" for joint in _LEG_JOINTS))

    def _new_course(self) -> None:
        super()._new_course()
        self._head = self.data.body("head").xpos

    def _place(self) -> None:
        self._new_course()
        self.data.qpos[7:] = self._generator.uniform(-0.05, 0.05, 21)
        self.data.qvel[:] = self._generator.uniform(-0.05, 0.05, self.model.nv)
        self._put_on_floor(2)

    def _control(self, action: np.ndarray) -> StepOutcome:
        before = self.data.qpos[:2].copy()
        self.data.ctrl[:] = action
        self._simulate()
        seconds = self.control_timestep()
        x, y = self.data.qpos[:2]
        speed, sideways = (self.data.qpos[:2] - before) / seconds
        reward = seconds * (
            min(speed, 4.0)
            - 0.005 * (speed**2 + sideways**2)
            - 0.05 * y**2
            - 0.02 * _squared(action)
            + 0.02
        )
        has_fallen = self._head[2] < 1.1  # Heess et al.
        return StepOutcome(reward, has_fallen, x > self._course.length)

    def _observe(self) -> dict[str, np.ndarray]:
        data, torso = self.data, self._torso
        sensors = data.sensordata
        lower = min(foot[2] for foot in self._feet)
        inertial = sensors[self._inertial]
        inertial[6:] /= 10.0
        above = [
            foot[2] - self._course.top_of_grid(foot[:1], foot[1:2])[0, 0] for foot in self._feet
        ]
        proprioception = np.concatenate(
            [
                data.qpos[7:],
                data.qvel[6:],
                inertial,
                np.log1p([sensors[group].sum() for group in self._touches]),
                sensors[self._torques] / 100.0,
                self._rotation[2],
                [self._head[2] - lower],
                *(self._rotation.T @ (foot - torso) for foot in self._feet),
                np.clip(above, -_CLIP, _CLIP),
            ]
        )
        tops = self._course.top_of_grid(torso[0] + HUMANOID_X, torso[1] + HUMANOID_Y)
        terrain = np.empty(self._terrain_size, np.float32)
        terrain[0] = torso[1]
        terrain[1:] = np.clip(tops - lower, -_CLIP, _CLIP).ravel()
        return {"proprioception": proprioception.astype(np.float32), "terrain": terrain}


def _suite_body(file: str) -> mujoco.MjSpec:
    """Returns a body of the Control Suite without floor, materials and decoration.

    With textures, compiling it would take 40 ms instead of 2.
    """
    path = pathlib.Path(dm_control.__file__).parent / "suite" / file
    root = ElementTree.parse(path).getroot()
    for include in root.findall("include"):
        root.remove(include)
    for element in root.iter():
        element.attrib.pop("material", None)
    world = root.find("worldbody")
    world.remove(world.find("geom[@name='floor']"))
    return mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode"))


def _lowest_point(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> float:
    """Returns z of the lowest point of a capsule."""
    radius, half = model.geom_size[geom][:2]
    return data.geom_xpos[geom][2] - half * abs(data.geom_xmat[geom][8]) - radius


def _squared(action: np.ndarray) -> float:
    """Returns |u|^2 of the torques after the actuators' limits, [-1, 1]."""
    return float(np.square(np.clip(action, -1.0, 1.0)).sum())


_BODIES = {"planar": Planar, "humanoid": Humanoid}
