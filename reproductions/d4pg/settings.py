"""The paper's variants by name, each with the values in which it differs from the default."""

from collections.abc import Mapping

from common.config import Settings
from reproductions.d4pg.config import D4PGConfig

_UNIFORM = {"priority_exponent": 0.0}
_SCALAR = {"critic": "scalar"}
_MIXTURE = {"critic": "mixture"}

FIGURE_2: Mapping[str, Mapping[str, object]] = {
    "d3pg_uniform_n1": {**_SCALAR, **_UNIFORM, "n_step": 1},
    "d3pg_uniform_n5": {**_SCALAR, **_UNIFORM},
    "d3pg_prioritized_n1": {**_SCALAR, "n_step": 1},
    "d3pg_prioritized_n5": _SCALAR,
    "d4pg_uniform_n1": {**_UNIFORM, "n_step": 1},
    "d4pg_uniform_n5": _UNIFORM,
    "d4pg_prioritized_n1": {"n_step": 1},
    "d4pg_prioritized_n5": {},
    # "The canonical (non-distributed) DDPG": one actor, and an update after each of its steps,
    # always with the newest parameters.
    "ddpg": {
        **_SCALAR,
        **_UNIFORM,
        "n_step": 1,
        "single_process": True,
        "actor_period": 1,
        "updates_per_call": 1,
        "samples_per_insert": 256.0,
    },
}
"""Figure 2's nine curves, in the order of its legend."""

FIGURE_8: Mapping[str, Mapping[str, object]] = {
    "d4pg_prioritized_n5_lr5e-05": {"learning_rate": 5e-5},
    "d4pg_mixture_prioritized_n5_lr5e-05": {**_MIXTURE, "learning_rate": 5e-5},
    "d4pg_mixture_prioritized_n5": _MIXTURE,
}
"""Figure 8's three curves. Prioritised replay and N = 5 are not in the paper."""

SETTINGS = Settings(D4PGConfig, {**FIGURE_2, **FIGURE_8}, default="d4pg_prioritized_n5")
