"""The paper's variants by name: a setting is what it changes of the default configuration."""

from collections.abc import Mapping

from common.reporting import setting_names
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
    # always with the parameters of the moment.
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
"""Figure 8's three curves; that they are prioritised with N = 5 is not in the paper."""

SETTINGS: Mapping[str, Mapping[str, object]] = {**FIGURE_2, **FIGURE_8}

DEFAULT = "d4pg_prioritized_n5"

_SUFFIXES = {
    "discount": "gamma{:g}",
    "importance_exponent": "beta{:g}",
    "learning_rate": "lr{:g}",
    "noise": "{}",
    "noise_sigma": "sigma{:g}",
    "num_atoms": "atoms{}",
    "ou_theta": "theta{:g}",
    "policy_gradient_state": "gradient_at_{}",
    "priority_exponent": "alpha{:g}",
    "removal": "remove_by_{}",
    "removal_exponent": "removal{:g}",
    "v_max": "vmax{:g}",
    "v_min": "vmin{:g}",
}
"""What of a configuration makes another algorithm, and how a name says so."""


def configuration(setting: str) -> D4PGConfig:
    """The hyperparameters of a setting."""
    return D4PGConfig(**SETTINGS[setting])


def name_of(config: D4PGConfig) -> str:
    """The setting that a configuration is, with a suffix for each choice that differs from it."""
    family = {"categorical": "d4pg", "scalar": "d3pg", "mixture": "d4pg_mixture"}[config.critic]
    replay = "prioritized" if config.priority_exponent else "uniform"
    name = f"{family}_{replay}_n{config.n_step}"
    if config.single_process:
        name = "ddpg" if name == "d3pg_uniform_n1" else f"single_process_{name}"
        updates = config.samples_per_insert / config.batch_size
        name += "" if updates == 1 else f"_updates{updates:g}"
    # "uniform" says it; its weights are 1, whatever their exponent.
    silent = () if config.priority_exponent else ("priority_exponent", "importance_exponent")
    return name + setting_names.suffixes(config, D4PGConfig(), _SUFFIXES, silent)
