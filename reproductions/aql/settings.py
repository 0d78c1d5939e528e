"""The methods by name, each with the values in which it differs from the default."""

from collections.abc import Mapping

from common.config import Settings
from reproductions.aql.config import AQLConfig

_METHODS: Mapping[str, Mapping[str, object]] = {
    "aql": {},
    "aql_independent": {"autoregressive": False},
    "aql_gaussian": {"num_levels": 0},
    "uniform_q": {"search": "uniform"},
    "qt_opt": {"search": "cem", "num_levels": 0},
    "exact_q": {"search": "exact"},
    "d3pg": {"search": "policy", "num_levels": 0},
    "impala": {"search": "none", "replayed_unrolls": 0},
}
"""Sections 5.1 and 5.2, appendix A3."""

_SHARED_RMSPROP: Mapping[str, object] = {
    "optimizer": "rmsprop",
    "shared_sizes": (128, 128),
    "state_size": 128,
    "action_size": 128,
    "joint_sizes": (128,),
    "proposal_sizes": (128, 128),
}
"""Figure 11 (appendix A3): RMSProp, and a deeper network with fewer units, half of it shared."""

_LAB: Mapping[str, object] = {
    "channels": (16, 32, 32),
    "unroll_length": 100,
    "num_uniform_samples": 500,
    "proposal_sizes": (256,),
}
"""DeepMind Lab (section 5.2, appendices A1 and A2). That the proposal has one hidden layer of its
own above the LSTM is not in the paper."""

_ACTION_SETS = {"11": "curated", "3528": "structured"}

SETTINGS = Settings(
    AQLConfig,
    {
        **_METHODS,
        **{
            f"{name}_shared_rmsprop": {**_METHODS[name], **_SHARED_RMSPROP}
            for name in ("aql", "aql_gaussian", "uniform_q", "qt_opt", "d3pg", "impala")
        },
        **{
            f"{name}_{number}_actions": {
                **_METHODS[name],
                **_LAB,
                "action_set": action_set,
                **({"flat_policy": True} if name == "impala" else {}),
            }
            for name in ("aql", "exact_q", "impala")
            for number, action_set in _ACTION_SETS.items()
        },
    },
    default="aql",
)
