"""The agents with each kind of replay by name, with the values that differ from the default."""

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

_WITHOUT_RULES: Mapping[str, Mapping[str, object]] = {
    "vracer": {},
    "ddpg": {"noise": "ou", "annealing": 0.0},
    "naf": {"noise": "ou"},
}
"""The agents' exploration and learning rates with plain and prioritised replay (section 5.1).

NAF's noise is not in the paper; the authors' program.
"""

SETTINGS = Settings(
    ReferConfig,
    {
        f"{agent}_{replay}": {
            **of_agent,
            **of_replay,
            **(_WITHOUT_RULES[agent] if replay in ("er", "per") else {}),
        }
        for agent, of_agent in _AGENTS.items()
        for replay, of_replay in _REPLAYS.items()
    },
    default="vracer_refer",
)
