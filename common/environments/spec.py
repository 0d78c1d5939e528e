"""The sizes of observations and actions, and checks that an environment suits a kind of agent.

The checks' errors have messages of one line for the person who named the environment. This module
does not import TensorFlow.
"""

from collections.abc import Mapping, Sequence
import importlib.util
import math
import pathlib
import re
import reprlib
from types import ModuleType
from typing import Any, NamedTuple

import dm_env
from dm_env import specs
import numpy as np

from common.user_error import UserError


class HybridArray(specs.BoundedArray):
    """The spec of a hybrid action, float32 [D], with finite and continuous elements.

    Attributes:
      choices: for each element, K_d if it is finite, in 0, ..., K_d - 1; 0 if it is continuous,
        in [-1, 1].
    """

    __slots__ = ("choices",)

    def __init__(self, choices: Sequence[int], name: str = "action"):
        """Creates the spec.

        Raises:
          ValueError: the elements are not of both kinds.
        """
        self.choices = tuple(choices)
        if min(self.choices, default=1) != 0 or max(self.choices) < 1:
            raise ValueError(
                f"choices must contain 0 and numbers above 0, and no others, got {choices}"
            )
        low = [0 if k else -1 for k in self.choices]
        high = [k - 1 if k else 1 for k in self.choices]
        super().__init__((len(self.choices),), np.float32, low, high, name)

    def __reduce__(self):
        return type(self), (self.choices, self.name)


class EnvironmentSpec(NamedTuple):
    """The sizes of an environment's observations and actions.

    Attributes:
      observation_size: number of elements of an observation.
      action_size: number of elements of a canonical action, or the number of discrete actions.
      image_shape: (height, width, channels) of a uint8 image, including the rows that contain its
        vector; None: flat float32 observations.
      is_discrete: whether an action is an int32 below `action_size`, not an array.
      action_choices: for each element of an int32 action [action_size], K_d if it is in 0, ...,
        K_d - 1. In a hybrid action, float32, 0 stands for a continuous element. Empty if all
        elements are continuous, or the actions discrete.
      terrain_size: number of terrain heights at the end of a flat observation.
      vector_size: number of float32 values whose bytes are the last rows of an image.
    """

    observation_size: int
    action_size: int
    image_shape: tuple[int, int, int] | None = None
    is_discrete: bool = False
    action_choices: tuple[int, ...] = ()
    terrain_size: int = 0
    vector_size: int = 0

    @classmethod
    def of(cls, environment: dm_env.Environment) -> "EnvironmentSpec":
        """Returns the spec of an environment, or of each environment in a batch."""
        observation, action = environment.observation_spec(), environment.action_spec()
        is_discrete = isinstance(action, specs.DiscreteArray)
        choices: tuple[int, ...] = getattr(action, "choices", ())
        if not is_discrete and np.issubdtype(action.dtype, np.integer):
            choices = tuple((action.maximum - action.minimum + 1).tolist())
        return cls(
            observation_size=int(np.prod(observation.shape)),
            action_size=int(action.num_values) if is_discrete else int(np.prod(action.shape)),
            image_shape=observation.shape if len(observation.shape) == 3 else None,
            is_discrete=is_discrete,
            action_choices=choices,
            terrain_size=getattr(observation, "terrain_size", 0),
            vector_size=getattr(observation, "vector_size", 0),
        )

    @property
    def picture_shape(self) -> tuple[int, int, int] | None:
        """(height, width, channels) of an image without its vector's rows; None: no images."""
        if self.image_shape is None:
            return None
        height, width, channels = self.image_shape
        return height - vector_rows(self.vector_size, width, channels), width, channels

    @property
    def is_hybrid(self) -> bool:
        """True if actions have both finite and continuous elements."""
        return 0 in self.action_choices

    @property
    def action_kind(self) -> str:
        """The kind of the actions: "discrete", "hybrid", "integers" or "continuous"."""
        if self.is_discrete:
            return "discrete"
        if self.is_hybrid:
            return "hybrid"
        return "integers" if self.action_choices else "continuous"

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of an observation: (height, width, channels), or (observation_size,)."""
        return self.image_shape or (self.observation_size,)

    @property
    def observation_dtype(self) -> type[np.generic]:
        """The dtype of an observation: uint8 for images, float32 for flat observations."""
        return np.uint8 if self.image_shape else np.float32

    @property
    def action_array(self) -> specs.Array:
        """The shape and dtype of an action: (), or (action_size,); int32, or float32."""
        is_float = self.action_kind in ("hybrid", "continuous")
        shape = () if self.is_discrete else (self.action_size,)
        return specs.Array(shape, np.float32 if is_float else np.int32)


def vector_rows(vector_size: int, width: int, channels: int) -> int:
    """Returns the number of byte rows of an image that contain `vector_size` float32 numbers."""
    return math.ceil(4 * vector_size / (width * channels))


class UnusableEnvironmentError(UserError):
    """An environment that cannot be created or used; the message says why in one line."""


class BrokenSpecError(UnusableEnvironmentError):
    """An environment that breaks its specs; a restart would not help."""


class NotFiniteError(UnusableEnvironmentError):
    """An observation that is not finite; a restart may help."""


class UnknownEnvironmentError(UnusableEnvironmentError):
    """A name that belongs to no environment; the message lists similar names."""


def extra_package(package: str, environment: str, remedy: str) -> ModuleType:
    """Imports a package that `make setup` does not install.

    Args:
      package: name of the package.
      environment: full name of the environment that needs it, for the message.
      remedy: how to install the package, for the message.

    Raises:
      UnusableEnvironmentError: the package is not installed, or cannot be loaded.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == package:
            raise _not_installed(package, environment, remedy) from None
        raise UnusableEnvironmentError(
            f'environment "{environment}": the package {package} cannot be loaded: {error}'
        ) from None


def extra_folder(package: str, environment: str, remedy: str) -> pathlib.Path:
    """Returns the folder of a package without its slow import; see `extra_package`."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise _not_installed(package, environment, remedy)
    return pathlib.Path(found.origin).parent


def _not_installed(package: str, environment: str, remedy: str) -> UnusableEnvironmentError:
    return UnusableEnvironmentError(
        f'environment "{environment}": the package {package} is not installed: {remedy}'
    )


def kind_of(value: Any) -> str:
    """Returns the dtype and shape of an array or a spec, or a short text for anything else."""
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return f"{value.dtype} {list(value.shape)}"
    return reprlib.repr(value)


def random_action(spec: Any, generator: np.random.Generator) -> np.ndarray:
    """Returns a uniformly random action of a bounded spec: integers, floats, or both."""
    if spec.dtype.kind in "iu":
        action = generator.integers(spec.minimum, spec.maximum, spec.shape, endpoint=True)
    else:
        action = generator.uniform(spec.minimum, spec.maximum, spec.shape)
    if isinstance(spec, HybridArray):
        integers = generator.integers(np.maximum(spec.choices, 1))
        action = np.where(spec.choices, integers, action)
    return np.asarray(action, spec.dtype)


MIN_SIDES = {"atari": 36, "minatar": 3}
"""Minimum side of an image, in pixels, by the network's `torso`. Of a smaller image, convolutions
would leave nothing."""

MAX_PNG_CHANNELS = 4
"""Maximum channels of an image in a PNG file."""


def require_control(config: Any, spec: EnvironmentSpec) -> None:
    """Raises ValueError, in one line, unless actions are continuous and observations fit the agent.

    Args:
      config: hyperparameters, with a `torso` if there is a network for images; see
        `require_discrete`.
      spec: the environment's spec.
    """
    takes_images = hasattr(config, "torso")
    found = []
    if spec.image_shape is not None and not takes_images:
        found.append(f"images of {list(spec.picture_shape)}")
    if spec.action_kind != "continuous":
        found.append(actions_of(spec))
    if found:
        seen = "" if takes_images else "flat observations and "
        raise ValueError(
            f"--environment has {' and '.join(found)}, but this agent needs {seen}continuous "
            "actions: choose another environment, for example control:cartpole:swingup"
        )
    if takes_images:
        _require_torso(config.torso, spec)


def require_discrete(config: Any, spec: EnvironmentSpec) -> None:
    """Raises ValueError, in one line, unless actions are discrete and observations fit the agent.

    Args:
      config: hyperparameters with the network's `torso`: "mlp" takes flat observations, others take
        images. Only "atari" limits the channels, since it stores images as PNG files.
      spec: the environment's spec.
    """
    if not spec.is_discrete:
        raise ValueError(
            f"{_found(spec)} discrete actions: choose another environment, for example "
            "atari:pong, or gym:CartPole-v1 with --config.torso=mlp"
        )
    _require_torso(config.torso, spec)


def _require_torso(torso: str, spec: EnvironmentSpec) -> None:
    """Raises ValueError unless networks of this torso take the observations."""
    shape, found = spec.picture_shape, _found(spec)
    if torso == "mlp":
        if shape is not None:
            raise ValueError(
                f"{found} flat observations with --config.torso=mlp: for images give "
                "--config.torso=atari, for small ones --config.torso=minatar"
            )
        return
    if shape is None:
        raise ValueError(f"{found} images: for flat observations give --config.torso=mlp")
    side, is_png = MIN_SIDES[torso], torso == "atari"
    if min(shape[:2]) < side or (is_png and not 1 <= shape[2] <= MAX_PNG_CHANNELS):
        channels = f" and 1 to {MAX_PNG_CHANNELS} channels" if is_png else ""
        small = "; --config.torso=minatar is for small images" if is_png else ""
        raise ValueError(f"{found} at least {side} x {side} pixels{channels}{small}")


def _found(spec: EnvironmentSpec) -> str:
    """Returns the start of a message about an environment that does not suit the agent."""
    shape = spec.picture_shape
    observations = "flat observations" if shape is None else f"images of {list(shape)}"
    return f"--environment has {observations} and {actions_of(spec)}, but this agent needs"


def actions_of(spec: EnvironmentSpec) -> str:
    """Returns the kind of an environment's actions in words."""
    if spec.is_hybrid:
        return f"hybrid actions of {spec.action_size} elements"
    if spec.action_choices:
        return f"actions of {len(spec.action_choices)} integers"
    return f"{spec.action_size} {'discrete' if spec.is_discrete else 'continuous'} actions"


_LARGEST_REWARDS = {
    r"control:(?!lqr:).*": 1.0,  # Tassa et al. 2018, section 2
    r"gym:(InvertedPendulum|CartPole)-v\d+": 1.0,
    r"gym:InvertedDoublePendulum-v\d+": 9.36,  # upright: 10 - (1.2 - 2)^2
}
"""Largest reward of a step by pattern of names. No suite gives it in its specs."""


def largest_reward(name: str) -> float:
    """Returns the largest reward of a step in an environment; infinity if it is not known."""
    matching = (r for pattern, r in _LARGEST_REWARDS.items() if re.fullmatch(pattern, name))
    return next(matching, math.inf)


def q_bound(name: str, config: Mapping[str, Any]) -> float:
    """Returns the upper bound of values, max r / (1 - discount); infinity if it is not known.

    Args:
      name: name of the environment.
      config: hyperparameters by name, of which `discount` and `reward_clip` are used.
    """
    rest = 1 - config.get("discount", 1)
    clip = config.get("reward_clip") or math.inf
    return min(largest_reward(name), clip) / rest if rest else math.inf
