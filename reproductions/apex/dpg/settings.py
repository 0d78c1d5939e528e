"""The agent and its studies by name, each with the values in which it differs from the default."""

from collections.abc import Mapping

from common.config import Settings
from reproductions.apex.dpg.config import DPGConfig

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
"""Appendix E: rates from 1e-3 to 1e-5. The rates between these are not in the paper."""

BATCH_SIZES: Mapping[str, Mapping[str, object]] = {
    f"dpg_batch{size}": {"batch_size": size} for size in (32, 128, 512, 1024)
}
"""Appendix E: batch sizes."""

SETTINGS = Settings(
    DPGConfig,
    {
        "dpg": {},
        **EXPONENTS,
        **LEARNING_RATES,
        **BATCH_SIZES,
        "dpg_remove_by_fifo": {"removal": "fifo"},  # appendix D: "it remains to be seen"
    },
    default="dpg",
)
