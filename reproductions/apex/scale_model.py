"""Scale models of the paper's runs: smaller batches and memories at the paper's ratios.

A learner whose batches are a part, such as 1/16, of the paper's keeps these ratios if the capacity,
the first filling and the steps between an actor's pulls of parameters are that part of the paper's,
while what is counted in learner steps stays as it is:

- samples per insert, for each number of actors;
- the age of the memory in updates, and the part of it that the first update waits for;
- the target network's period in updates, and in samples beside the capacity;
- the age of an actor's parameters in updates;
- the updates between removals, and from the draw of a batch to its new priorities.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Rates:
    """The rates of the paper's processes, by the second.

    Attributes:
      actor_steps: steps, and so transitions, of one actor.
      updates: batches of the learner, whatever the number of actors.
      batch_size: transitions of a batch.
    """

    actor_steps: float
    updates: float
    batch_size: int


DQN_RATES = Rates(actor_steps=139 / 4, updates=19, batch_size=512)
"""Section 4.1: 139 frames a second, 4 a step; 19 batches a second of 512."""

DPG_RATES = Rates(actor_steps=14_000 / 64, updates=86, batch_size=256)
"""Section 4.2: 14K steps a second of 64 actors; 86 batches a second of 256."""


@dataclasses.dataclass(frozen=True)
class ScaleModel:
    """Sizes at the paper's ratios.

    Attributes:
      rates: the paper's.
      batch_size: the model's.
    """

    rates: Rates
    batch_size: int

    def size(self, paper: int) -> int:
        """Returns a number of transitions or of an actor's steps, given the paper's."""
        return max(1, round(paper * self.batch_size / self.rates.batch_size))

    def samples_per_insert(self, actors: int, batch_size: int | None = None) -> float:
        """Returns how often each transition is drawn, to four digits.

        Args:
          actors: their number, times the copies that are added of a transition.
          batch_size: another one, at the same number of inserts an update; None: the model's.
        """
        inserts = actors * self.rates.actor_steps / self.rates.updates
        samples = self.rates.batch_size * (batch_size or self.batch_size) / self.batch_size
        return float(f"{samples / inserts:.4g}")
