"""Seeds of draws: a different one for each learner step and each part of a message."""

import numpy as np


def derive(*parts: int) -> int:
    """Returns a seed in [1, 2^63) that depends on all parts, which must not be negative.

    Always derive with the same number of parts: a last part of 0 is ignored.
    """
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1)) or 1
