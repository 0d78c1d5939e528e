"""How fast an actor of Ape-X DQN is in Pong, beside the emulator; for all else see `actor.py`.

Beyond what D4PG's does there are the convolutions, of the whole batch in one TensorFlow call, and
the encoding of each observation as PNG.
"""

import dataclasses

from common.benchmarks import actor


@dataclasses.dataclass(frozen=True)
class Sizes(actor.Sizes):
    """How much is measured; an actor step is four frames."""

    environment: str = "atari:pong"
    batch_steps: int = 40


QUICK = Sizes(environments=4, batch_steps=20, turns=1)

measure = actor.measure
