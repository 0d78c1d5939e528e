"""Random unrolls with ends of episodes in them, for tests of learners."""

import numpy as np
from reproduction_readme import Readme

B, T = 3, 5
_SHARED, _PROPOSAL, _POLICY, _IMPALA = Readme("aql").metrics(
    "### Methods with a proposal|### D3PG|### IMPALA"
)
METRICS = {
    "proposal": [*_SHARED, *_PROPOSAL],
    "policy": [*_SHARED, *_POLICY],
    "none": _IMPALA,
    **dict.fromkeys(("uniform", "cem", "exact"), _SHARED),
}
"""Names of the metrics of each search in the README, in order."""


def ends(generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns rewards, discounts and which timesteps are the last of their episodes, [B, T] each.

    A time limit is in the first unroll, a true end in the second, the third goes on.
    """
    is_last = np.zeros((B, T), bool)
    is_last[0, 2] = is_last[1, 3] = True
    discount = np.where(is_last, 0, 1).astype(np.float32)
    discount[1, 2] = 0
    reward = np.where(is_last, 0, generator.standard_normal((B, T))).astype(np.float32)
    return reward, discount, is_last
