"""The agents with each kind of replay, and ACER, by name: values that differ from the default."""

from collections.abc import Mapping

from common.config import Settings
from reproductions.refer.config import ReferConfig

_AGENTS: Mapping[str, Mapping[str, object]] = {
    "vracer": {},
    "ddpg": {"agent": "ddpg", "batch_size": 128},
    "naf": {"agent": "naf"},
}
"""Appendix A."""

_NO_RULES: Mapping[str, object] = {"clipping": False, "penalty": False}
_REPLAYS: Mapping[str, Mapping[str, object]] = {
    "er": _NO_RULES,
    "per": {**_NO_RULES, "sampling": "rank"},
    "refer": {},
    "refer1": {"penalty": False},
    "refer2": {"clipping": False},
}
"""Section 5: plain replay, rank-based prioritised replay, both rules, each rule alone."""

_DDPG_NO_RULES: Mapping[str, object] = {"noise": "ou", "annealing": 0.0}
"""DDPG explores otherwise and keeps its learning rates where no rule applies (section 5.1)."""


_ACER: Mapping[str, object] = {
    **_NO_RULES,
    "agent": "acer",
    "batch_size": 24,
    "replay_capacity": 100_000,
    "min_replay_size": 100_000,
    "target_rate": 0.001,
    "updates_per_call": 1,
}
"""Appendix A, but for the prefill and the updates of a call."""

ACER_RATES = (1e-4, 1e-5)
"""Learning rates of ACER's policy (figures 4 and 5)."""


def _setting(agent: str, replay: str) -> Mapping[str, object]:
    exploration = _DDPG_NO_RULES if agent == "ddpg" and replay in ("er", "per") else {}
    return {**_AGENTS[agent], **_REPLAYS[replay], **exploration}


SETTINGS = Settings(
    ReferConfig,
    {
        **{
            f"{agent}_{replay}": _setting(agent, replay) for agent in _AGENTS for replay in _REPLAYS
        },
        **{f"acer_lr{rate}": {**_ACER, "policy_learning_rate": rate} for rate in ACER_RATES},
    },
    default="vracer_refer",
)
