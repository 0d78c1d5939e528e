"""Advice on an environment, from a sample of random play."""

from collections.abc import Iterator
import math
import time
from typing import Any, NamedTuple

import dm_env
import numpy as np

from common.environments import watch
from common.environments.batch import FIRST, LAST, BatchedEnvironment
from common.environments.canonical import leaves
from common.environments.spec import EnvironmentSpec, random_action
from common.environments.user_code import class_of, in_one_line

_LONG = 50
"""Length, in steps, from which on episodes of equal length suggest a time limit."""
_LARGE = 20.0
"""Magnitude above which an element of an observation should be scaled."""


class Specimen(NamedTuple):
    """A sample of random play in an environment.

    Attributes:
      spec: sizes of the environment's observations and actions.
      low: minimum of each element of the observation, in the observation's shape.
      high: maximum of each element, in the same shape.
      rewards: reward of each step.
      lengths: number of steps of each episode that ended.
      true_ends: number of these episodes that ended with discount 0.
      steps_per_second: speed of the environment alone.
      flattened: shapes of the observation's float arrays that look like images.
    """

    spec: EnvironmentSpec
    low: np.ndarray
    high: np.ndarray
    rewards: np.ndarray
    lengths: list[int]
    true_ends: int
    steps_per_second: float
    flattened: list[tuple[int, ...]]


def play(
    name: str, environment: dm_env.Environment, max_steps: int, max_seconds: float
) -> Specimen:
    """Plays random actions until one of the limits is reached, but at least one step.

    The same environment receives the same actions each time.

    Args:
      name: name of the environment, for errors.
      environment: the environment to play in.
      max_steps: maximum number of steps.
      max_seconds: maximum time.

    Raises:
      UnusableEnvironmentError: the environment failed, or returned what would end a run.
    """
    with watch.Call(name, "random play"), in_one_line(name, class_of(environment)):
        return _played(environment, max_steps, max_seconds)


def _played(environment: dm_env.Environment, max_steps: int, max_seconds: float) -> Specimen:
    generator, action = np.random.default_rng(0), environment.action_spec()
    batch = BatchedEnvironment([environment])  # checks the timesteps, as in a run
    low = high = batch.reset().observation[0]
    rewards, lengths, true_ends, length = [], [], 0, 0
    began = time.perf_counter()
    while len(rewards) < max_steps and (not rewards or time.perf_counter() - began < max_seconds):
        timestep = batch.step(random_action(action, generator)[np.newaxis])
        observation = timestep.observation[0]
        low, high = np.minimum(low, observation), np.maximum(high, observation)
        if timestep.step_type[0] == FIRST:
            continue
        rewards.append(float(timestep.reward[0]))
        length += 1
        if timestep.step_type[0] == LAST:
            lengths.append(length)
            true_ends += int(timestep.discount[0] == 0)
            length = 0
    seconds = time.perf_counter() - began
    own = getattr(environment, "wrapped", environment).observation_spec()
    shapes = [spec.shape for _, spec in leaves(own) if spec.dtype.kind == "f"]
    return Specimen(
        EnvironmentSpec.of(environment),
        low,
        high,
        np.array(rewards),
        lengths,
        true_ends,
        len(rewards) / max(seconds, 1e-9),
        [shape for shape in shapes if len(shape) == 3 and min(shape[:2]) >= 8],
    )


def faults(specimen: Specimen) -> Iterator[str]:
    """Yields a line for each probable mistake, whatever the agent is."""
    if not (np.isfinite(specimen.low).all() and np.isfinite(specimen.high).all()):
        yield "an observation has numbers that are not finite"
    if not np.isfinite(specimen.rewards).all():
        yield "a reward is not finite"
    for shape in specimen.flattened:
        yield (
            f"an image of floats, {list(shape)}, is flattened to a vector: return it as uint8 from "
            "0 to 255 for convolutional networks"
        )
    lengths = specimen.lengths
    are_equal = len(lengths) > 2 and len({*lengths}) == 1 and lengths[0] >= _LONG
    if are_equal and specimen.true_ends == len(lengths):
        yield (
            f"all {len(lengths)} episodes terminated after exactly {lengths[0]} steps: if that is "
            "a time limit, return `truncated` instead of `terminated` (discount 1), so that the "
            "agent bootstraps from the last state"
        )


def hints(specimen: Specimen) -> Iterator[str]:
    """Yields a line for each thing that may be right, but makes learning hard for some agents."""
    large = np.flatnonzero(np.maximum(-specimen.low, specimen.high) > _LARGE)
    if specimen.spec.image_shape is None and large.size:
        most = max(-specimen.low.min(), specimen.high.max())
        some = ", ".join(map(str, large[:8])) + ", ..." * (large.size > 8)
        yield (
            f"elements {some} of the observation reach {most:.4g}: scale them to about [-1, 1], "
            "for example with gymnasium.wrappers.RescaleObservation, or give "
            "--config.normalize_observations, unless the agent standardises observations itself"
        )
    shape = specimen.spec.picture_shape
    if shape is not None and shape[2] in (1, 3) and not specimen.spec.vector_size:
        yield (
            "an observation is a single image, which shows no motion: stack images with "
            "Gymnasium's wrappers GrayscaleObservation and FrameStackObservation(stack_size=4), "
            "unless the agent is recurrent"
        )
    if not np.any(specimen.rewards):
        yield f"random play received no reward in {len(specimen.rewards):,} steps"
    if not specimen.lengths:
        yield (
            f"no episode ended in {len(specimen.rewards):,} steps: if episodes never end, limit "
            "their length, for example with gymnasium.wrappers.TimeLimit"
        )


def return_range(specimen: Specimen, config: Any) -> str | None:
    """Returns a line if the range of a critic's atoms does not suit the rewards; else None.

    A suitable range contains 0, the discounted returns of random play, and the returns of rewards
    that stay at their 5 % or 95 % quantile for as long as the longest episode. With a reward r at
    each of L steps, the return is r (1 - gamma^L) / (1 - gamma).

    Args:
      specimen: a sample of random play. None is returned if one of its rewards is not finite.
      config: hyperparameters. None is returned for a config without v_min, v_max and discount, or
        with a `critic` other than "categorical". A `reward_clip` above 0 bounds the rewards.
    """
    fields = ("v_min", "v_max", "discount")
    if not all(hasattr(config, name) for name in fields):
        return None
    if getattr(config, "critic", "categorical") != "categorical":
        return None
    rewards, gamma = specimen.rewards, config.discount
    if not np.isfinite(rewards).all():
        return None
    if clip := getattr(config, "reward_clip", 0):
        rewards = np.clip(rewards, -clip, clip)
    least, most = np.quantile(rewards, [0.05, 0.95])
    longest = max(specimen.lengths, default=math.inf)
    horizon = (1 - gamma**longest) / (1 - gamma) if gamma < 1 else longest
    if not math.isfinite(horizon):
        return None
    returns = _discounted(rewards, specimen.lengths, gamma)
    low = min(0.0, least * horizon, returns.min())
    high = max(0.0, most * horizon, returns.max())
    lie = (
        f"rewards are mostly in [{least:.3g}, {most:.3g}], so discounted returns are in about "
        f"[{low:.3g}, {high:.3g}]"
    )
    has = f"v_min={config.v_min:g} and v_max={config.v_max:g}"
    should = f"try --config.v_min={_rounded(low)} --config.v_max={_rounded(high)}"
    if low < config.v_min or high > config.v_max:
        return f"{lie}, but {has} clip them: {should}"
    largest = max(rewards.max() * horizon, high) - min(rewards.min() * horizon, low)
    if 0 < largest < (config.v_max - config.v_min) / 20:
        return f"{lie}, a small part of the range between {has}: {should}"
    return None


def _discounted(rewards: np.ndarray, lengths: list[int], gamma: float) -> np.ndarray:
    """Returns the discounted return from each step to the end of its episode."""
    ends, returns, following = {*np.cumsum(lengths).tolist()}, np.zeros(len(rewards)), 0.0
    for step in reversed(range(len(rewards))):
        following = rewards[step] + gamma * (0.0 if step + 1 in ends else following)
        returns[step] = following
    return returns


def _rounded(bound: float) -> str:
    """Returns a bound rounded away from 0 to two digits, ignoring float32 rounding errors."""
    if bound == 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(abs(bound))) - 1)
    return f"{math.copysign(math.ceil(abs(bound) / unit - 1e-5) * unit, bound):g}"
