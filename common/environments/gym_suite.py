"""Gymnasium's environments; names are their ids, or "MODULE:ID" if a module registers the id.

Observations are arrays or integers (Box, Discrete, MultiDiscrete, MultiBinary), or dictionaries and
tuples of these, which are joined. Actions are an array of floats (Box), one integer (Discrete), or
an array of integers (MultiDiscrete, MultiBinary). Arguments are `gymnasium.make`'s, and `wrappers`,
a list of Gymnasium's wrappers such as "GrayscaleObservation(keep_dim=True)". `names` lists the
MuJoCo tasks; every other registered id is also accepted. An episode that reaches the id's limit of
steps ends with LAST and discount 1, unless it also terminates in this step.

Versions: ReF-ER and other papers used v2. v4 has the same sizes and rewards, in a newer MuJoCo;
v5 has different ones.
"""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import difflib
from types import MappingProxyType
from typing import Any
import warnings

from absl import logging
import dm_env
from dm_env import specs
import gymnasium
import numpy as np
from PIL import Image

from common import names as common_names
from common.config import near_names
from common.environments import user_code
from common.environments.canonical import CanonicalEnvironment
from common.environments.episodic_environment import EpisodicEnvironment, StepOutcome
from common.environments.gym_tasks import batch_of as batch_of
from common.environments.mujoco_environment import SimulationCamera, mujoco
from common.environments.spec import BrokenSpecError, UnusableEnvironmentError, kind_of
from common.environments.user_code import in_one_line

# By default, MuJoCo writes its warnings into MUJOCO_LOG.TXT in the working directory.
mujoco.set_mju_user_warning(lambda message: logging.warning("MuJoCo: %s", message))

_MUJOCO = "gymnasium.envs.mujoco."
_ARGUMENTS = {"Ant-v4": {"use_contact_forces": True}}
"""Arguments for v2's observations: Ant has 111 numbers with contact forces, 27 without."""


def names() -> list[str]:
    """Returns the sorted ids of the MuJoCo tasks, such as "HalfCheetah-v4"."""
    return sorted(
        name
        for name, spec in gymnasium.registry.items()
        if isinstance(spec.entry_point, str) and spec.entry_point.startswith(_MUJOCO)
    )


def is_known(name: str) -> bool:
    """Returns whether Gymnasium has an environment of this id; first imports its module, if any.

    Raises:
      UnusableEnvironmentError: the module cannot be imported.
    """
    module, _, id_ = name.rpartition(":")
    if module:
        with in_one_line(f"gym:{name}"):
            user_code.module(module)
    return _is_registered(id_)


def _is_registered(id_: str) -> bool:
    """Returns whether Gymnasium has an id, other than Atari's, which importing `ale_py` registers.

    The processes of a run do not have Atari's ids.
    """
    spec = gymnasium.registry.get(id_)
    return spec is not None and not str(spec.entry_point).startswith("ale_py")


def near(name: str) -> list[str]:
    """Returns `name` if it is an id; else the id that differs only in case, or the newest version.

    Otherwise, returns the ids that differ by a letter or two.
    """
    module, colon, id_ = name.rpartition(":")
    if _is_registered(id_):
        return [f"{module}{colon}{id_}"]
    task, dash, number = id_.partition("-v")
    versions = {
        spec.version or 0: known
        for known, spec in gymnasium.registry.items()
        if not spec.namespace and spec.name.lower() == task.lower() and _is_registered(known)
    }
    found = difflib.get_close_matches(id_, filter(_is_registered, gymnasium.registry), cutoff=0.8)
    if dash and versions:
        found = [versions[max(versions, key=lambda version: (str(version) == number, version))]]
    return [f"{module}{colon}{near_name}" for near_name in found]


def make(
    name: str, seed: int, arguments: Mapping[str, Any] = MappingProxyType({})
) -> dm_env.Environment:
    """Creates the environment with the id `name`; `seed` is in [0, 2**32).

    Raises:
      UnusableEnvironmentError: it cannot be created, or no agent takes its kind of observations or
        actions.
    """
    given = {**_ARGUMENTS.get(name, {}), **arguments}
    wrappers = given.pop("wrappers", ())
    try:
        with _quiet(), in_one_line(f"gym:{name}"):
            environment = gymnasium.make(name, disable_env_checker=True, **given)
            for wrapper in [wrappers] if isinstance(wrappers, str) else wrappers:
                environment = _wrapped(environment, wrapper)
            return CanonicalEnvironment(GymEnvironment(environment, seed))
    except UnusableEnvironmentError:
        task, _, version = name.rpartition("-")
        if version in ("v2", "v3") and is_known(f"{task}-v4"):
            raise UnusableEnvironmentError(
                f'environment "gym:{name}": Gymnasium no longer has it: use "gym:{task}-v4", which '
                "has the same sizes and rewards"
            ) from None
        raise


def _wrapped(environment: gymnasium.Env, wrapper: str) -> gymnasium.Env:
    """Returns an environment in a Gymnasium wrapper, which is given by name and arguments.

    Raises:
      UnusableEnvironmentError: there is no such wrapper.
    """
    name, arguments = common_names.split(wrapper)
    known = [attribute for attribute in dir(gymnasium.wrappers) if attribute[0].isupper()]
    if name not in known:
        hint = "".join(f'; did you mean "{near_name}"?' for near_name in near_names(name, known))
        raise UnusableEnvironmentError(f'gymnasium.wrappers has no "{name}"{hint}')
    return getattr(gymnasium.wrappers, name)(environment, **arguments)


class GymEnvironment(EpisodicEnvironment):
    """A Gymnasium environment as a `dm_env.Environment`; actions are not clipped or checked."""

    def __init__(self, environment: gymnasium.Env, seed: int):
        """Wraps `environment`; `seed` is passed to its first reset only.

        Raises:
          UnusableEnvironmentError: its kind of observations or actions is not supported.
        """
        super().__init__()  # Gymnasium ends the episodes
        self._observation_spec = _observation_spec(environment.observation_space)
        self._action_spec, self._first_action = _action_spec(environment.action_space)
        self._environment = environment
        self._seed: int | None = seed
        self._camera = SimulationCamera()

    def _start(self) -> None:
        """Starts an episode.

        Raises:
          BrokenSpecError: the environment does not return what Gymnasium's `reset` returns.
        """
        reset = self._environment.reset(seed=self._seed)
        self._observation, _ = _returned("reset", reset, _RESET)
        self._seed = None

    def _act(self, action: Any) -> StepOutcome:
        """Takes `action`.

        Raises:
          BrokenSpecError: the environment does not return what Gymnasium's `step` returns.
        """
        step = self._environment.step(self.own_action(action))
        self._observation, *outcome, _ = _returned("step", step, _STEP)
        return StepOutcome(*outcome)

    def _observe(self) -> Any:
        return self._observation

    def own_action(self, action: Any) -> Any:
        """Returns the action for Gymnasium, where discrete actions need not count from 0."""
        return action if self._first_action is None else self._first_action + int(action)

    def observation_spec(self) -> Any:
        """Returns the spec of the observation, or a nest of specs."""
        return self._observation_spec

    def action_spec(self) -> specs.BoundedArray:
        """Returns the spec of the action; discrete actions count from 0."""
        return self._action_spec

    @property
    def spec(self) -> Any:
        """Gymnasium's description of the environment, with its id and time limit."""
        return self._environment.spec

    @property
    def unwrapped(self) -> gymnasium.Env:
        """The environment without Gymnasium's wrappers."""
        return self._environment.unwrapped

    def control_timestep(self) -> float:
        """Returns the length of a step in seconds; 1/30 if the environment does not give it."""
        return 1 / (self._environment.metadata.get("render_fps") or 30)

    def render(self, height: int, width: int) -> np.ndarray:
        """Returns a picture of the environment's state, uint8 [height, width, 3].

        Raises:
          UnusableEnvironmentError: the environment is neither a MuJoCo task nor in the render mode
            "rgb_array", or the renderer fails.
        """
        if self._environment.render_mode == "rgb_array":
            return _picture(self._environment, height, width)
        simulation: Any = self.unwrapped
        if not isinstance(getattr(simulation, "model", None), mujoco.MjModel):
            raise UnusableEnvironmentError(
                "only Gymnasium's MuJoCo tasks can be drawn without a render mode: give "
                "--env_kwargs=render_mode=rgb_array, or set this mode in your own environment"
            )
        return self._camera.picture(simulation.model, simulation.data, height, width)

    def close(self) -> None:
        """Frees the environment and its renderer."""
        self._camera.close()
        self._environment.close()


_RESET = ("observation", "info")
_STEP = ("observation", "reward", "terminated", "truncated", "info")


def _returned(method: str, given: Any, names: Sequence[str]) -> tuple:
    """Returns what a method returned; raises BrokenSpecError unless it is a tuple of `names`."""
    if isinstance(given, tuple) and len(given) == len(names):
        return given
    values = f"{len(given)} values" if isinstance(given, tuple) else kind_of(given)
    raise BrokenSpecError(
        f"its {method}() returned {values}, but Gymnasium's API has ({', '.join(names)}): "
        "gymnasium.utils.env_checker.check_env lists all differences"
    )


def _observation_spec(space: gymnasium.Space) -> Any:
    """Returns the nest of specs of a space; integers with choices have bounds."""
    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict):
        return {name: _observation_spec(part) for name, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(map(_observation_spec, space))
    if isinstance(space, spaces.Discrete):
        return _choices_spec(space.start, space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return _choices_spec(space.start, space.start + space.nvec - 1)
    if not isinstance(space, (spaces.Box, spaces.MultiBinary)):
        raise UnusableEnvironmentError(
            "its observations must be Box, Discrete, MultiDiscrete or MultiBinary, or a Dict or "
            f"Tuple of these, not {space}"
        )
    return specs.Array(space.shape, space.dtype, name="observation")


def _choices_spec(low: np.ndarray, high: np.ndarray) -> Any:
    """Returns the spec of an integer, or nested lists of specs for an array of integers."""
    if np.ndim(low):
        return [_choices_spec(*bounds) for bounds in zip(low, high)]
    return specs.BoundedArray((), np.int64, low, high, name="observation")


def _action_spec(space: gymnasium.Space) -> tuple[specs.BoundedArray, int | None]:
    """Returns the spec of an action, and the first discrete action; None for other actions."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return specs.DiscreteArray(int(space.n), name="action"), int(space.start)
    if isinstance(space, gymnasium.spaces.MultiDiscrete):
        low, high = space.start, space.start + space.nvec - 1
    elif isinstance(space, gymnasium.spaces.Box):
        low, high = space.low, space.high
    elif isinstance(space, gymnasium.spaces.MultiBinary):
        low, high = 0, 1
    else:
        raise UnusableEnvironmentError(
            "its actions must be one array (Box), Discrete, MultiDiscrete or MultiBinary, not "
            f"{space}"
        )
    return specs.BoundedArray(space.shape, space.dtype, low, high, name="action"), None


def _picture(environment: gymnasium.Env, height: int, width: int) -> np.ndarray:
    """Returns the resized picture of an environment with the render mode "rgb_array"."""
    try:
        return np.asarray(Image.fromarray(environment.render()).resize((width, height)))
    except Exception as error:
        raise UnusableEnvironmentError(
            f"its render() failed: {' '.join(str(error).split())}"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hides MuJoCo's warnings and DeprecationWarnings, which old versions cause."""
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        mujoco.set_mju_user_warning(handler)
