"""Checks that an environment suits a setting. This module does not import TensorFlow."""

import itertools
import math

from common.environments.spec import EnvironmentSpec
from reproductions.aql.actions import ActionSpace
from reproductions.aql.config import MAX_CHOICES, MAX_EXACT_ACTIONS, AQLConfig


def require(config: AQLConfig, spec: EnvironmentSpec) -> None:
    """Raises ValueError, in one line, unless the configured search can act in an environment."""
    if spec.image_shape is not None:
        raise ValueError(
            f"--environment has images of {list(spec.image_shape)}, but this agent needs flat "
            "observations: name another one, for example control:cartpole:swingup"
        )
    if max(spec.action_choices, default=0) > MAX_CHOICES:
        raise ValueError(
            f"--environment has a sub-action of {max(spec.action_choices):,} choices, but this "
            f"agent takes at most {MAX_CHOICES:,}: make the integer's bounds narrower"
        )
    if config.num_levels == 0 and (spec.is_discrete or spec.action_choices):
        raise ValueError(
            f"--environment has actions of {_number(ActionSpace.of(spec, 0))} choices, but this "
            "setting needs continuous actions (num_levels 0): name another environment, or "
            "--setting=aql"
        )
    space = ActionSpace.of(spec, config.num_levels)
    if config.search == "exact" and space.num_actions > MAX_EXACT_ACTIONS:
        raise ValueError(
            f"--environment has {_number(space)} actions, but search=exact evaluates each of them "
            f"and takes at most {MAX_EXACT_ACTIONS:,}: use --setting=aql"
        )


def _number(space: ActionSpace) -> str:
    """Returns "7^2 * 3 = 147" or the like."""
    runs = [(k, len(list(run))) for k, run in itertools.groupby(space.choices)]
    factors = " * ".join(f"{k}^{count}" if count > 1 else f"{k}" for k, count in runs)
    return f"{factors} = {math.prod(space.choices):,}" if len(space.choices) > 1 else factors
