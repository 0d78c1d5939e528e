"""The right MPL hand of the package `myosuite`, fixed above a table, with an object.

The model is Vikash Kumar's (Apache-2.0), in the files `simhive/MPL_sim` of myosuite 2.12.2. It has
the joints, actuators and couplings of the hand in D4PG's section 4.2. It is read from the installed
package, an extra that `make hand` installs, and mended in memory: its files name meshes and bodies
that they do not have, and let the hand hang from a mocap body.
"""

import importlib.util
import pathlib
import xml.etree.ElementTree as ElementTree

from common.environments.environment_errors import UnusableEnvironmentError
from common.environments.mujoco_environment import mujoco

OBJECT_MASS = 0.05
"""kg, ours."""

_VERSION = "2.12.2"
_PREFIX = "prosthesis/"
_MAX_HULL_VERTICES = 32  # of a mesh's hull: contacts are 1.2 to 1.5 times as fast
_WRIST_Y = -0.13  # m, so that the palm is near the origin
# Turned by 90 degrees about its axis: the pronation of -pi/2 is palm up, that of pi/2 palm down.
_FOREARM_QUATERNION = "0 0.7071067811865476 0 0.7071067811865476"

_SITES = (
    # Between the two touch sensors of the palm, and where a grasped object is, 4.5 cm off the palm.
    {"name": "palm", "pos": "-0.0205 -0.04195 -0.01825", "size": "0.005"},
    {"name": "grasp", "pos": "-0.02 -0.055 -0.045", "size": "0.005"},
)

_WORLD = """
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
"""


def make_model(
    radius: float, half_height: float, wrist_height: float, timestep: float
) -> mujoco.MjModel:
    """Returns the hand above a table with a cylinder, which has a free joint.

    Args:
      radius: of the cylinder, m.
      half_height: of the cylinder, m.
      wrist_height: above the table, m.
      timestep: of the simulation, s.

    Raises:
      UnusableEnvironmentError: the package with the hand is not installed.
    """
    folder = _folder()
    root = ElementTree.Element("mujoco")
    compiler = {"angle": "radian", "meshdir": str(folder / "meshes" / "mplR")}
    ElementTree.SubElement(root, "compiler", compiler)
    option = {"timestep": f"{timestep}", "cone": "elliptic", "impratio": "10"}
    ElementTree.SubElement(root, "option", option)
    root.extend(_assets(folder))
    world = ElementTree.fromstring(
        _WORLD.format(radius=radius, half_height=half_height, mass=OBJECT_MASS)
    )
    world.insert(0, _chain(folder, wrist_height))
    root.append(world)
    for element in root.iter():
        element.attrib.pop("material", None)
        for name, value in element.attrib.items():
            element.set(name, value.removeprefix(_PREFIX))
    return mujoco.MjSpec.from_string(ElementTree.tostring(root, encoding="unicode")).compile()


def _assets(folder: pathlib.Path) -> list[ElementTree.Element]:
    """Returns what describes the hand beside its bodies, mended."""
    assets = ElementTree.parse(folder / "assets" / "handR_assets.xml").getroot()
    meshes = assets.find("asset")
    equality = assets.find("equality")
    assert meshes is not None and equality is not None
    for element in list(meshes):
        if element.tag == "mesh":  # the files are elsewhere, and their suffix is in capitals
            element.set("file", pathlib.PurePosixPath(element.attrib["file"]).stem + ".STL")
            element.set("maxhullvert", str(_MAX_HULL_VERTICES))
        else:  # textures and materials
            meshes.remove(element)
    for weld in equality.findall("weld"):  # to the mocap body, which is not there
        equality.remove(weld)
    return [element for element in assets if element.tag != "compiler"]


def _chain(folder: pathlib.Path, wrist_height: float) -> ElementTree.Element:
    """Returns the hand's bodies, fixed to the world."""
    forearm = ElementTree.parse(folder / "assets" / "handR_chain.xml").getroot().find("body")
    assert forearm is not None
    for free in forearm.findall("joint[@class='free']"):
        forearm.remove(free)
    del forearm.attrib["axisangle"]
    forearm.set("pos", f"0 {_WRIST_Y} {wrist_height}")
    forearm.set("quat", _FOREARM_QUATERNION)
    palm = forearm.find(f".//body[@name='{_PREFIX}palm']")
    assert palm is not None
    for site in _SITES:
        ElementTree.SubElement(palm, "site", site)
    return forearm


def _folder() -> pathlib.Path:
    package = importlib.util.find_spec("myosuite")
    if package is not None and package.origin is not None:
        folder = pathlib.Path(package.origin).parent / "simhive" / "MPL_sim"
        if (folder / "assets" / "handR_chain.xml").exists():
            return folder
    state = "is not installed" if package is None else "has no right MPL hand"
    raise UnusableEnvironmentError(
        f'the package myosuite {state}: run "make hand", which installs {_VERSION} (90 MB)'
    )
