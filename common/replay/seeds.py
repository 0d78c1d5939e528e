"""Seeds of draws: a value of their own for each step and each part of a message."""

import numpy as np


def derive(*parts: int) -> int:
    """Returns a seed in [1, 2^63), unrelated to that of other parts, which are not negative.

    Compare seeds of as many parts only: a last part of 0 counts as none.
    """
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1)) or 1
