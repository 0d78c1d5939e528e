"""Checks that an environment suits a setting. This module does not import TensorFlow."""

import itertools
import math

from common.environments import lab_actions
from common.environments.spec import MAX_PNG_CHANNELS, EnvironmentSpec, actions_of
from reproductions.aql.config import MAX_CHOICES, MAX_EXACT_ACTIONS, AQLConfig
from reproductions.aql.proposals import ActionSpace, own_choices

_LAB_CHOICES = tuple(high - low + 1 for low, high in zip(lab_actions.MINIMUM, lab_actions.MAXIMUM))


def require(config: AQLConfig, spec: EnvironmentSpec) -> None:
    """Raises ValueError, in one line, unless the configured search can act in an environment."""
    if spec.image_shape is not None and not config.channels:
        raise ValueError(
            f"--environment has images of {list(spec.image_shape)}, but this setting needs flat "
            "observations: name another one, for example control:cartpole:swingup, or "
            "--setting=aql_3528_actions"
        )
    if config.channels and (spec.image_shape is None or spec.image_shape[2] > MAX_PNG_CHANNELS):
        found = "flat observations"
        if spec.image_shape is not None:
            found = f"images of {list(spec.image_shape)}"
        raise ValueError(
            f"--environment has {found}, but this setting needs images of at most "
            f"{MAX_PNG_CHANNELS} channels: name another one, for example maze:goal, or "
            "--setting=aql"
        )
    if config.channels and config.action_set == "own" and spec.action_choices == _LAB_CHOICES:
        raise ValueError(
            "--environment has DeepMind Lab's seven integers, and this setting no set of them: "
            "use --config.action_set=structured or curated"
        )
    if config.action_set != "own" and spec.action_choices != _LAB_CHOICES:
        raise ValueError(
            f"--environment has {actions_of(spec)}, but action_set={config.action_set} chooses "
            "among those of DeepMind Lab's seven integers: name another one, for example maze:goal"
        )
    most = max(own_choices(spec, config.num_levels))
    if config.action_set == "own" and most > MAX_CHOICES:
        raise ValueError(
            f"--environment has a sub-action of {most:,} choices, but this agent takes at most "
            f"{MAX_CHOICES:,}: make the integer's bounds narrower, or num_levels smaller"
        )
    space = ActionSpace.of(spec, config.num_levels, config.action_set)
    if config.num_levels == 0 and (spec.is_discrete or spec.action_choices):
        raise ValueError(
            f"--environment has actions of {_number(space)} choices, but this "
            "setting needs continuous actions (num_levels 0): name another environment, or "
            "--setting=aql"
        )
    for is_chosen, part, other in (
        (config.search == "exact", "search=exact", "--setting=aql"),
        (config.flat_policy, "flat_policy=True", "--config.flat_policy=False"),
    ):
        if is_chosen and space.num_actions > MAX_EXACT_ACTIONS:
            raise ValueError(
                f"--environment has {_number(space)} actions, but {part} evaluates each of them "
                f"and takes at most {MAX_EXACT_ACTIONS:,}: use {other}"
            )


def _number(space: ActionSpace) -> str:
    """Returns "7^2 * 3 = 147" or the like."""
    runs = [(k, len(list(run))) for k, run in itertools.groupby(space.choices)]
    factors = " * ".join(f"{k}^{count}" if count > 1 else f"{k}" for k, count in runs)
    return f"{factors} = {math.prod(space.choices):,}" if len(space.choices) > 1 else factors
