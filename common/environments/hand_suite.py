"""Tasks of the MPL hand: "catch", "pick_up_and_orient" and "rotate_in_hand".

They stand in for D4PG's manipulation tasks (section 4.2), which are not public. The paper gives the
hand, actions as increments of the actuators' targets, observations, rewards, ends of episodes and
time limits. Sizes, masses, starts, speeds and the physics settings are ours. Lengths are in metres
and angles in radians, unless a name says otherwise.

The right hand is fixed above a table with an object. Its model is Vikash Kumar's (Apache-2.0), in
the files `simhive/MPL_sim` of myosuite 2.12.2, with the joints, actuators and couplings that the
paper names. It is read from the installed package, an extra (`make hand`), and corrected in memory:
its files refer to meshes and bodies that they do not contain, and weld the hand to a mocap body.
"""

import math
import pathlib
import xml.etree.ElementTree as ElementTree

from dm_env import specs
import numpy as np

from common.environments.canonical import CanonicalEnvironment
from common.environments.episodic_environment import StepOutcome
from common.environments.mujoco_environment import MujocoEnvironment, mujoco
from common.environments.spec import UnusableEnvironmentError, extra_folder

OBJECT_MASS = 0.05
"""Mass of the object in kg; ours."""

_VERSION = "2.12.2"
_PREFIX = "prosthesis/"
_MAX_HULL_VERTICES = 32  # of a mesh's hull, for contacts 1.2 to 1.5 times as fast
_WRIST_Y = -0.13  # m, so that the palm is near the origin
# Turned by 90 degrees about its axis: pronations of -pi/2 and pi/2 are palm up and palm down.
_FOREARM_QUATERNION = "0 0.7071067811865476 0 0.7071067811865476"

_SITES = (
    # Between the two touch sensors of the palm, and where a grasped object is, 4.5 cm off the palm.
    {"name": "palm", "pos": "-0.0205 -0.04195 -0.01825", "size": "0.005"},
    {"name": "grasp", "pos": "-0.02 -0.055 -0.045", "size": "0.005"},
)

_MODEL = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="{timestep}" cone="elliptic" impratio="10"/>
  <worldbody>
    <light pos="0 0 1.5"/>
    <camera name="side" pos="0.45 0 0.4" xyaxes="0 1 0 -0.528 0 0.849"/>
    <geom name="table" type="plane" size="1 1 0.1" friction="1 0.005 0.0001" rgba="0.5 0.6 0.7 1"/>
    <body name="object">
      <freejoint name="object"/>
      <geom name="object" type="cylinder" size="{radius} {half_height}" mass="{mass}" condim="4"
            friction="1 0.005 0.0001" rgba="0.9 0.5 0.2 1"/>
    </body>
  </worldbody>
</mujoco>
"""


def make_model(
    folder: pathlib.Path, radius: float, half_height: float, wrist_height: float, timestep: float
) -> mujoco.MjModel:
    """Returns the hand above a table with a cylinder, which has a free joint.

    Args:
      folder: folder of the hand's files.
      radius: radius of the cylinder, m.
      half_height: half the height of the cylinder, m.
      wrist_height: height of the wrist above the table, m.
      timestep: timestep of the simulation, s.
    """
    sizes = {"radius": radius, "half_height": half_height, "mass": OBJECT_MASS}
    root = ElementTree.fromstring(_MODEL.format(timestep=timestep, **sizes))
    root.find("compiler").set("meshdir", str(folder / "meshes" / "mplR"))
    root.find("worldbody").insert(0, _chain(folder, wrist_height))
    root.extend(_assets(folder))
    for element in root.iter():
        element.attrib.pop("material", None)
        for name, value in element.attrib.items():
            element.set(name, value.removeprefix(_PREFIX))
    return mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode")).compile()


def _assets(folder: pathlib.Path) -> list[ElementTree.Element]:
    """Returns the hand's corrected XML elements other than its bodies."""
    assets = ElementTree.parse(folder / "assets" / "handR_assets.xml").getroot()
    meshes, equality = assets.find("asset"), assets.find("equality")
    for element in list(meshes):
        if element.tag == "mesh":  # the files are elsewhere, with a suffix in capitals
            element.set("file", pathlib.PurePosixPath(element.attrib["file"]).stem + ".STL")
            element.set("maxhullvert", str(_MAX_HULL_VERTICES))
        else:  # textures and materials
            meshes.remove(element)
    for weld in equality.findall("weld"):  # to the mocap body, which is missing
        equality.remove(weld)
    return [element for element in assets if element.tag != "compiler"]


def _chain(folder: pathlib.Path, wrist_height: float) -> ElementTree.Element:
    """Returns the hand's bodies, fixed to the world."""
    forearm = ElementTree.parse(folder / "assets" / "handR_chain.xml").getroot().find("body")
    for free in forearm.findall("joint[@class='free']"):
        forearm.remove(free)
    del forearm.attrib["axisangle"]
    forearm.set("pos", f"0 {_WRIST_Y} {wrist_height}")
    forearm.set("quat", _FOREARM_QUATERNION)
    palm = forearm.find(f".//body[@name='{_PREFIX}palm']")
    for site in _SITES:
        ElementTree.SubElement(palm, "site", site)
    return forearm


def _folder(environment: str) -> pathlib.Path:
    """Returns the folder with the files of the hand."""
    remedy = f'run "make hand", which installs {_VERSION} (90 MB)'
    folder = extra_folder("myosuite", environment, remedy) / "simhive" / "MPL_sim"
    if not (folder / "assets" / "handR_chain.xml").exists():
        raise UnusableEnvironmentError(
            f'environment "{environment}": the package myosuite lacks the right MPL hand: {remedy}'
        )
    return folder


INCREMENT = 0.06
"""Change of an actuator's target for an action of 1, rad."""
NOISE_DEGREES, NOISE_THETA = 0.025, 0.01
"""Ornstein-Uhlenbeck noise of the rotation's target: the standard deviation of a step, and the part
of the noise that decays in a step."""

_TIMESTEP, _SUBSTEPS = 0.0025, 4
_W = math.atanh(math.sqrt(0.95))  # the soft indicator of an error of one margin is 0.05
_PALM_UP, _PALM_DOWN = -1.57, 1.57  # wrist_PRO
_THUMB = 0.3  # thumb_ABD at the start, aside
_MAX_DEPTH = 0.002  # m, of the object in other geoms at a start
_MIN_TARGET_HEIGHT = 0.08
_MAX_TRIES = 100


def soft_indicator(error: float, tolerance: float, margin: float) -> float:
    """Returns psi(e; c, m) of section 4.2: 1 up to c, then 1 - tanh(w e / m)^2.

    As printed in the paper, e is not shifted by c, so psi jumps at c.

    Args:
      error: e.
      tolerance: c, in the unit of e.
      margin: m > 0, the error at which psi is 0.05, if m > c.
    """
    return 1.0 if error <= tolerance else 1.0 - math.tanh(_W * error / margin) ** 2


def names() -> list[str]:
    """Returns the names of the tasks, whether or not the hand is installed."""
    return sorted(_TASKS)


def make(name: str, seed: int) -> CanonicalEnvironment:
    """Creates the task `name`, one of `names()`; `seed` is in [0, 2**32).

    Raises:
      UnusableEnvironmentError: the hand is not installed.
    """
    return CanonicalEnvironment(Hand(name, seed))


class _Task:
    """A task: its object, start, target, reward, and ends of episodes.

    Attributes:
      radius: radius of the object, a cylinder.
      half_height: half the object's height.
      wrist_height: height of the wrist above the table.
      max_steps: time limit of an episode.
      target_size: number of elements of an observation that describe the target.
      ends_on_table: whether the episode ends when the object touches the table.
    """

    radius: float
    half_height: float
    wrist_height = 0.15
    max_steps = 500
    target_size = 0
    ends_on_table = True

    def start(self, hand: "Hand", generator: np.random.Generator) -> None:
        """Chooses a target and places the hand and the object."""
        raise NotImplementedError

    def advance(self, generator: np.random.Generator) -> None:
        """Moves the target by one step."""

    def target(self) -> np.ndarray:
        """Returns the target's part of an observation, [target_size]."""
        return np.zeros(0)

    def reward(self, hand: "Hand") -> float:
        """Returns the reward of the current state."""
        raise NotImplementedError


class _Catch(_Task):
    """Catching a falling object before it touches the table."""

    radius, half_height = 0.025, 0.035

    def start(self, hand, generator):
        # With the palm always up, an untrained policy's drift would catch half of the objects.
        hand.pose(wrist_PRO=generator.uniform(_PALM_UP, 0.0), thumb_ABD=_THUMB)
        place = [generator.uniform(-0.03, 0.03), generator.uniform(-0.02, 0.04)]
        quaternion = generator.normal(size=4)
        hand.put_object(
            hand.palm + [*place, generator.uniform(0.1, 0.3)],
            quaternion / np.linalg.norm(quaternion),
        )

    def reward(self, hand):
        return soft_indicator(100 * (hand.palm[2] - hand.object.xpos[2]), 0.0, 5.0)


class _PickUpAndOrient(_Task):
    """Lifting an object from the table to a pose."""

    radius, half_height = 0.02, 0.035
    wrist_height = 0.12
    target_size = 7
    ends_on_table = False

    def start(self, hand, generator):
        while True:  # half of the poses are high enough
            hand.pose(
                wrist_PRO=generator.uniform(-1.5, 1.5),
                wrist_UDEV=generator.uniform(-0.26, 0.79),
                wrist_FLEX=generator.uniform(-1.0, 1.0),
            )
            self._position = hand.data.site("grasp").xpos.copy()
            if self._position[2] > _MIN_TARGET_HEIGHT:
                break
        yaw, tilt = generator.uniform(-np.pi, np.pi), generator.uniform(0.0, np.pi / 4)
        self._quaternion = _product(_about_z(yaw), _about_x(tilt))
        self._axis = _z_axis(self._quaternion)

        hand.pose(wrist_PRO=_PALM_DOWN, thumb_ABD=_THUMB)
        x, y, _ = hand.palm
        quaternion, height = _about_z(generator.uniform(-np.pi, np.pi)), self.half_height
        if generator.random() < 0.5:  # lying
            quaternion, height = _product(quaternion, _about_x(np.pi / 2)), self.radius
        place = [x + generator.uniform(-0.03, 0.03), y + generator.uniform(-0.02, 0.05)]
        hand.put_object(np.array([*place, height + 1e-3]), quaternion)

    def target(self):
        return np.concatenate([self._position, self._quaternion])

    def reward(self, hand):
        distance = 100 * float(np.linalg.norm(hand.object.xpos - self._position))
        angle = _degrees(hand.rotation()[:, 2] @ self._axis)
        near = soft_indicator(distance, 1.0, 5.0)
        return 0.5 * near * (1.0 + soft_indicator(angle, 5.0, 10.0))


class _RotateInHand(_Task):
    """Rotating an object on the palm to follow a moving angle."""

    radius, half_height = 0.035, 0.02
    max_steps = 1000
    target_size = 2

    def start(self, hand, generator):
        bent = dict.fromkeys([f"{finger}_MCP" for finger in _FINGERS], 0.3)
        hand.pose(wrist_PRO=_PALM_UP, thumb_ABD=_THUMB, **bent)
        # High enough to touch neither the palm nor the fingers yet.
        above = [0.0, 0.02, 0.027 + self.half_height]
        hand.put_object(hand.palm + above, _about_z(generator.uniform(-np.pi, np.pi)))
        self.angle = generator.uniform(-np.pi, np.pi)
        self.noise = 0.0

    def advance(self, generator):
        self.noise += math.radians(NOISE_DEGREES) * generator.normal() - NOISE_THETA * self.noise
        self.angle = (self.angle + self.noise + np.pi) % (2 * np.pi) - np.pi

    def target(self):
        return np.array([np.sin(self.angle), np.cos(self.angle)])

    def reward(self, hand):
        rotation = hand.rotation()
        y = rotation[:2, 1]
        goal = np.array([-np.sin(self.angle), np.cos(self.angle)])  # the y axis at that angle
        length = float(np.linalg.norm(y))
        angle = _degrees(y @ goal / length) if length else 90.0
        tilt = _degrees(rotation[2, 2])
        return soft_indicator(angle, 5.0, 40.0) * soft_indicator(tilt, 45.0, 45.0)


_FINGERS = ("index", "middle", "ring", "pinky")
_TASKS = {"catch": _Catch, "pick_up_and_orient": _PickUpAndOrient, "rotate_in_hand": _RotateInHand}


class Hand(MujocoEnvironment):
    """A task of the hand (D4PG section 4.2).

    Observation (table 2): float32; 22 joint positions, 22 joint velocities, 13 actuator targets,
    the object's position (3), quaternion (4) and velocity (6), and the task's target. Action: 13
    increments of these targets, in units of `INCREMENT`.

    Attributes:
      object: MuJoCo's view of the object's body.
      palm: the palm's position, [3], a view that changes with the state.
    """

    def __init__(self, task: str, seed: int):
        """Creates the task called `task`; `seed` determines starts and targets.

        Raises:
          UnusableEnvironmentError: the hand is not installed.
        """
        self._task: _Task = _TASKS[task]()
        sizes = self._task.radius, self._task.half_height, self._task.wrist_height
        model = make_model(_folder(f"hand:{task}"), *sizes, _TIMESTEP)
        super().__init__(model, seed, _SUBSTEPS, self._task.max_steps)
        self.object = self.data.body("object")
        self._free = self.data.joint("object")
        self._num_joints = model.nv - 6  # the hand's, before the object's
        self.palm = self.data.site("palm").xpos
        self._object_geom, self._table = model.geom("object").id, model.geom("table").id
        self._low, self._high = model.actuator_ctrlrange.T

    def rotation(self) -> np.ndarray:
        """Returns the rotation of the object, [3, 3]."""
        return self.object.xmat.reshape(3, 3)

    def pose(self, **targets: float) -> None:
        """Sets actuator targets by joint, all others to 0, and moves the joints there."""
        controls = np.zeros(self.model.nu)
        for joint, target in targets.items():
            controls[self.model.actuator(f"A_{joint}").id] = target
        self.data.ctrl[:] = np.clip(controls, self._low, self._high)
        joints = self.model.actuator_trnid[:, 0]
        self.data.qpos[self.model.jnt_qposadr[joints]] = self.data.ctrl
        for finger in _FINGERS:  # couplings bend all joints of a finger nearly alike
            bent = self.data.joint(f"{finger}_MCP").qpos[0]
            for joint in ("PIP", "DIP"):
                self.data.joint(f"{finger}_{joint}").qpos[0] = bent
        mujoco.mj_kinematics(self.model, self.data)

    def put_object(self, position: np.ndarray, quaternion: np.ndarray) -> None:
        """Moves the object to a position [3] and a quaternion [4]."""
        self._free.qpos[:] = np.concatenate([position, quaternion])

    def observation_spec(self) -> specs.Array:
        """Returns the spec of the observation."""
        size = 2 * self._num_joints + self.model.nu + 13 + self._task.target_size
        return specs.Array((size,), np.float32, name="observation")

    def _place(self) -> None:
        for _ in range(_MAX_TRIES):
            mujoco.mj_resetData(self.model, self.data)
            self._task.start(self, self._generator)
            mujoco.mj_forward(self.model, self.data)
            touches = (self.data.contact.geom == self._object_geom).any(axis=1)
            if not np.any(touches & (self.data.contact.dist < -_MAX_DEPTH)):
                return

    def _control(self, action: np.ndarray) -> StepOutcome:
        moved = self.data.ctrl + INCREMENT * np.clip(action, -1, 1)
        self.data.ctrl[:] = np.clip(moved, self._low, self._high)
        self._simulate()
        self._task.advance(self._generator)
        if self._task.ends_on_table and self._is_on_table():
            return StepOutcome(0.0, has_failed=True)
        return StepOutcome(self._task.reward(self), has_failed=False)

    def _is_on_table(self) -> bool:
        pairs = self.data.contact.geom
        touches = (pairs == self._object_geom).any(axis=1) & (pairs == self._table).any(axis=1)
        return bool(touches.any())

    def _observe(self) -> np.ndarray:
        data, joints = self.data, self._num_joints
        return np.concatenate(
            [
                data.qpos[:joints],
                data.qvel[:joints],
                data.ctrl,
                self._free.qpos,
                self._free.qvel,
                self._task.target(),
            ],
            dtype=np.float32,
            casting="same_kind",
        )


def _degrees(cosine: float) -> float:
    return math.degrees(math.acos(min(1.0, max(-1.0, float(cosine)))))


def _about_z(angle: float) -> np.ndarray:
    return np.array([np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)])


def _about_x(angle: float) -> np.ndarray:
    return np.array([np.cos(angle / 2), np.sin(angle / 2), 0.0, 0.0])


def _product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    result = np.zeros(4)
    mujoco.mju_mulQuat(result, first, second)
    return result


def _z_axis(quaternion: np.ndarray) -> np.ndarray:
    result = np.zeros(3)
    mujoco.mju_rotVecQuat(result, np.array([0.0, 0.0, 1.0]), quaternion)
    return result
