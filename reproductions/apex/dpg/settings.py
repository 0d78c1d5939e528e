"""The agent and its studies by name: a setting is what it changes of the default configuration."""

from collections.abc import Mapping

from common.reporting import setting_names
from reproductions.apex.dpg.config import DPGConfig

DEFAULT = "dpg"

EXPONENTS: Mapping[str, Mapping[str, object]] = {
    "dpg_uniform": {"priority_exponent": 0.0},
    **{
        f"dpg_alpha{alpha:g}": {"priority_exponent": alpha}
        for alpha in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.8, 0.9, 1.0)
    },
}
"""Appendix E: exponents from 0 to 1. The steps are not in the paper; 0.6 is the default."""

LEARNING_RATES: Mapping[str, Mapping[str, object]] = {
    f"dpg_lr{rate:g}": {"learning_rate": rate} for rate in (1e-3, 3e-4, 3e-5, 1e-5)
}
"""Appendix E: rates from 1e-3 to 1e-5. What lies between is not in the paper."""

BATCH_SIZES: Mapping[str, Mapping[str, object]] = {
    f"dpg_batch{size}": {"batch_size": size} for size in (32, 128, 512, 1024)
}
"""Appendix E."""

SETTINGS: Mapping[str, Mapping[str, object]] = {
    DEFAULT: {},
    **EXPONENTS,
    **LEARNING_RATES,
    **BATCH_SIZES,
    "dpg_remove_by_fifo": {"removal": "fifo"},  # appendix D: "it remains to be seen"
}

_SUFFIXES = {
    "activation": "{}",
    "batch_size": "batch{}",
    "discount": "gamma{:g}",
    "dqda_clip": "clip{:g}",
    "importance_exponent": "beta{:g}",
    "layer_norm": "layer_norm",
    "learning_rate": "lr{:g}",
    "max_gradient_norm": "norm{:g}",
    "n_step": "n{}",
    "noise_sigma": "sigma{:g}",
    "priority_exponent": "alpha{:g}",
    "removal": "remove_by_{}",
    "removal_exponent": "removal{:g}",
}
"""What of a configuration makes another algorithm, and how a name says so."""


def configuration(setting: str) -> DPGConfig:
    """The hyperparameters of a setting."""
    return DPGConfig(**SETTINGS[setting])


def name_of(config: DPGConfig) -> str:
    """The setting that a configuration is, with a suffix for each choice that differs from it."""
    if config.priority_exponent:
        return DEFAULT + setting_names.suffixes(config, DPGConfig(), _SUFFIXES)
    # "uniform" says it; its weights are 1, whatever their exponent.
    silent = ("priority_exponent", "importance_exponent")
    return f"{DEFAULT}_uniform" + setting_names.suffixes(config, DPGConfig(), _SUFFIXES, silent)
