"""Speed of an actor of Ape-X DQN in Pong, beside the emulator; see `actor_suite.py` for the method.

Beyond the work of D4PG's actor there are the convolutions, of the whole batch in one TensorFlow
call, and the encoding of each observation as PNG.
"""

import dataclasses

from common.benchmarks import actor_suite


@dataclasses.dataclass(frozen=True)
class ImageActorSizes(actor_suite.ActorSizes):
    """Amount of what is measured; an actor step is four frames."""

    environment: str = "atari:pong"
    batch_steps: int = 40


FULL = ImageActorSizes()
QUICK = ImageActorSizes(environments=4, batch_steps=20, turns=1)

measure = actor_suite.measure
