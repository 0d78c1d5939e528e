"""The agent and its variants by name, each with the values in which it differs from the default."""

from collections.abc import Mapping

from common.config import Settings
from reproductions.reactor.config import NUM_WORKERS, ReactorConfig

ABLATIONS: Mapping[str, Mapping[str, object]] = {
    "reactor_nd": {"distributional": False},
    "reactor_uniform": {"prioritization": "uniform"},
    "reactor_tislr": {"policy_gradient": "tislr", "c": 10.0},
}
"""Figure 3. TISLR's c is not in the paper; ours is that of ACER, where it comes from."""

VARIANTS: Mapping[str, Mapping[str, object]] = {
    "reactor_max_priority": {"prioritization": "max"},
    "reactor_one_step": {"trace_lambda": 0.0},
    "reactor_one_over_mu": {"policy_gradient": "one_over_mu"},
    "reactor_islr": {"policy_gradient": "islr"},
}
"""Section 6.5, figure 1 (left) and the estimators of section 3.1 without curves."""

OURS: Mapping[str, Mapping[str, object]] = {
    "reactor_stored_state": {"stored_state": True},
    "reactor_two_cores": {
        "learning_rate": 2e-4,
        "target_period": 200,
        "replay_capacity": 50_000,
        "min_replay_size": 2_500,
    },
}
"""Not in the paper: sequences that begin with stored states, and sizes for two cores without a GPU.

A run on two cores makes some 20 updates a second, all workers together: with the paper's values it
would copy its first target network after a minute and hardly have learnt anything before an hour.
"""

SETTINGS = Settings(
    ReactorConfig,
    {"reactor": {}, **ABLATIONS, "reactor_20_workers": {}, **VARIANTS, **OURS},
    default="reactor",
)


def num_actors(setting: str) -> int:
    """Returns the number of workers where --num_workers does not say it."""
    return {"reactor_20_workers": 2 * NUM_WORKERS, "reactor_two_cores": 2}.get(setting, NUM_WORKERS)
