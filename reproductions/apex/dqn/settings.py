"""The agent and its studies by name, each with the values in which it differs from the default.

The number of actors is no part of a setting, except in ours for small machines.
"""

from collections.abc import Mapping

from common.config import Settings
from reproductions.apex.dqn.config import NUM_ACTORS, DQNConfig

_UNIFORM = {"priority_exponent": 0.0, "learning_rate": 0.00025}
_MILLION = {"replay_capacity": 1_000_000}
_GREEDIER = {"evaluation_epsilon": 0.4**7}

FIGURE_5: Mapping[str, Mapping[str, object]] = {
    "dqn_replay_250k": {"replay_capacity": 250_000},
    "dqn_replay_500k": {"replay_capacity": 500_000},
    "dqn_replay_1m": _MILLION,
    "dqn": {},
}
"""Capacities up to the default, 2 million; only "250K" is in the paper's text."""

FIGURE_6: Mapping[str, Mapping[str, object]] = {
    "dqn_replay_1m": _MILLION,
    "dqn_replay_1m_copies8": {**_MILLION, "num_copies": 8},
}
"""Recency. The capacity is not in the paper; ours is that of figure 4, which figure 6 explains."""

FIGURE_7: Mapping[str, Mapping[str, object]] = {
    "dqn_full_range": _GREEDIER,
    "dqn_six_epsilons": {**_GREEDIER, "epsilons": tuple(0.4 ** (1 + 7 * k / 5) for k in range(6))},
}
"""Pools of policies, judged by an actor that adds nothing: the evaluator, with epsilon 0.00164.

The six values are not in the paper; these lie evenly on the ladder.
"""

FIGURE_14: Mapping[str, Mapping[str, object]] = {
    "dqn_replay_1m": _MILLION,
    "dqn_uniform_replay_1m": {**_MILLION, **_UNIFORM},
}
"""Prioritised and uniform, each with the better of both learning rates."""

FIGURE_14_TRIED: Mapping[str, Mapping[str, object]] = {
    "dqn_replay_1m_lr0.00025": {**_MILLION, "learning_rate": 0.00025},
    "dqn_uniform_replay_1m_lr6.25e-05": {**_MILLION, **_UNIFORM, "learning_rate": 0.00025 / 4},
}
"""Both replays of figure 14 with the other learning rate."""

APPENDIX_E: Mapping[str, Mapping[str, object]] = {
    **{f"dqn_batch{size}": {"batch_size": size} for size in (32, 128, 256, 1024)},
    "dqn_lr0.00025": {"learning_rate": 0.00025},
    "dqn_lr3.125e-05": {"learning_rate": 0.00025 / 8},
}
"""Batch sizes and learning rates that the authors tried."""

_TWO_CORES = {
    "batch_size": 64,
    "learning_rate": 1e-4,
    "target_period": 1000,
    "replay_capacity": 200_000,
    "min_replay_size": 10_000,
    "samples_per_insert": 8.0,
    "prefetch": 4,
}

TWO_CORES: Mapping[str, Mapping[str, object]] = {
    "dqn_two_cores": _TWO_CORES,
    "dqn_two_cores_uniform": {**_TWO_CORES, "priority_exponent": 0.0},
    "dqn_ten_minutes": {
        **_TWO_CORES,
        "learning_rate": 2e-4,
        "target_period": 200,
        "min_replay_size": 2_500,
        "replay_capacity": 100_000,
    },
}
"""Sizes for two cores without a GPU. Not in the paper; the README explains each value."""

SETTINGS = Settings(
    DQNConfig,
    {
        "dqn": {},
        "dqn_uniform": _UNIFORM,
        "dqn_bfloat16": {"precision": "bfloat16"},
        **FIGURE_5,
        **FIGURE_6,
        **FIGURE_7,
        **FIGURE_14,
        **FIGURE_14_TRIED,
        **APPENDIX_E,
        **TWO_CORES,
    },
    default="dqn",
)


def num_actors(setting: str) -> int:
    """Returns N where --num_actors does not say it."""
    return 8 if setting in TWO_CORES else NUM_ACTORS
