"""The part of its tasks on which a claim must hold, if the paper says more than "on average"."""

from collections.abc import Sequence
import dataclasses
from fractions import Fraction
import math


@dataclasses.dataclass(frozen=True)
class Share:
    """A part of the tasks.

    Attributes:
      words: for evidence.
      part: of the tasks.
      is_exceeded: more than that part is needed, not just as much.
    """

    words: str
    part: Fraction
    is_exceeded: bool = False

    def least(self, num_tasks: int) -> int:
        """Returns the fewest of so many tasks that are enough."""
        size = self.part * num_tasks
        return math.floor(size) + 1 if self.is_exceeded else math.ceil(size)


EACH = Share("each task", Fraction(1))
"""The share for "uniformly", "never", "on both tasks"."""
MOST = Share("more than half of the tasks", Fraction(1, 2), is_exceeded=True)
"""The share for "most" and "generally"."""
MANY = Share("a third of the tasks or more", Fraction(1, 3))
"""The share for "many" and "often"; no paper says how many that are."""
SOME = Share("one task or more", Fraction(0), is_exceeded=True)
"""The share for "some"."""


def partial_conjunction(p_values: Sequence[float], least: int) -> float:
    """Returns the p-value of "`least` or more of these alternatives are true".

    It is (n - least + 1) times the `least`-th smallest of n p-values, however the tests depend on
    each other (Benjamini and Heller 2008, "Screening for partial conjunction hypotheses"): the
    largest p-value for all of them, an intersection-union test without a correction, and
    Bonferroni's for one of them.

    Args:
      p_values: one or more; 1 for an alternative that was not tested.
      least: from 1 to their number.
    """
    return min(1.0, (len(p_values) - least + 1) * sorted(p_values)[least - 1])
