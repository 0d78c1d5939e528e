"""Checks that an environment suits a configuration. This module does not import TensorFlow."""

from common.environments.spec import EnvironmentSpec, require_control
from reproductions.d4pg.config import D4PGConfig


def require(config: D4PGConfig, spec: EnvironmentSpec) -> None:
    """Raises ValueError, in one line, unless an agent of this configuration can act there."""
    require_control(config, spec)
    if not spec.terrain_size and config.terrain_sizes != D4PGConfig().terrain_sizes:
        raise ValueError(
            f"--config.terrain_sizes is {config.terrain_sizes}, but --environment has no heights "
            "of a terrain: leave the flag out, or name one that has, for example parkour:planar"
        )
