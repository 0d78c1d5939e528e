"""Speed of a learner from sequences of Pong; see `image_learner_suite.py` for the method.

An update is on sequences of raw frames, as the learning thread of a worker draws them from the
memory of its own process. The same process also applies it, without a parameter server.
"""

import dataclasses

from common.benchmarks import image_learner_suite


@dataclasses.dataclass(frozen=True)
class SequenceLearnerSizes(image_learner_suite.ImageLearnerSizes):
    """Amount of what is measured."""

    games: int = 8
    updates: int = 40
    bfloat16: bool = False
    atoms: int = 51


FULL = SequenceLearnerSizes()
QUICK = SequenceLearnerSizes(items=200, games=2, updates=4)

measure = image_learner_suite.measure
