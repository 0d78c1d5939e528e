"""Keys of replay steps: int64 = 0 | shard (5 bits) | actor (12) | incarnation (14) | step (32).

A key says which actor made the step, and when. So the memory recognises a retried insert, and a
restarted actor does not reuse the keys of its earlier start (Ape-X, appendix F: keys encode actor
and environment step). Consecutive steps of an actor have consecutive keys.
"""

import numpy as np

from common.replay.key_layout import (
    ACTOR_BITS,
    INCARNATION_BITS,
    MAX_INCARNATIONS,
    SHARD_BITS,
    STEP_BITS,
)

_SHARD_SHIFT = ACTOR_BITS + INCARNATION_BITS + STEP_BITS


def make_keys(shard, actor, incarnation, step) -> np.ndarray:
    """Returns int64 keys; the arguments are integers or integer arrays that broadcast.

    Raises:
      ValueError: a part does not fit its bits.
    """
    key = np.int64(0)
    for name, value, bits in (
        ("shard", shard, SHARD_BITS),
        ("actor", actor, ACTOR_BITS),
        ("incarnation", incarnation, INCARNATION_BITS),
        ("step", step, STEP_BITS),
    ):
        value = np.asarray(value, np.int64)
        if np.any(value < 0) or np.any(value >> bits):
            raise ValueError(f"{name} must be in [0, 2^{bits}), is {value}")
        key = (key << bits) | value
    return key


def transition_keys(shard: int, actor, incarnation: int, step) -> np.ndarray:
    """Returns keys for an incarnation from `Accounts`, whose number becomes part of them."""
    return make_keys(shard, actor, incarnation % MAX_INCARNATIONS, step)


def shard_of(keys: np.ndarray) -> np.ndarray:
    """Returns the shard of each key, int64."""
    return np.asarray(keys, np.int64) >> _SHARD_SHIFT
