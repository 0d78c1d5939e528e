"""Speed of the actor of a worker in one game of Pong; see `actor_suite.py` for the method.

Each step is a TensorFlow call for a single frame, which the memory of the same process stores.
"""

import dataclasses

from common.benchmarks import actor_suite


@dataclasses.dataclass(frozen=True)
class SequenceActorSizes(actor_suite.ActorSizes):
    """Amount of what is measured; an actor step is four frames."""

    environment: str = "atari:pong"
    environments: int = 1
    batch_steps: int = 400
    in_worker: bool = True


FULL = SequenceActorSizes()
QUICK = SequenceActorSizes(batch_steps=100, turns=1)

measure = actor_suite.measure
