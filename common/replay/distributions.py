"""Distributions over the items of a memory: they decide which item is drawn next."""

import dataclasses

UNKNOWN_PRIORITY = -1.0
"""The raw priority of an item whose priority has not been computed yet."""

_MAX_EXPONENT = 7.0
"""Up to this exponent, the masses of a full memory of the largest floats have a finite sum."""


@dataclasses.dataclass(frozen=True)
class Uniform:
    """The same probability for every item, whatever its priority."""

    kind = "uniform"
    exponent = 0.0


@dataclasses.dataclass(frozen=True)
class Proportional:
    """P(k) = p_k^exponent / sum_j p_j^exponent (Schaul et al. 2016, equation 1).

    An unknown priority counts as the largest one seen. With a positive exponent an item of priority
    0 is never drawn. A negative exponent prefers small priorities, for removal (Ape-X, appendix D:
    -0.4); priorities below 1e-6 then count as 1e-6.

    Attributes:
      exponent: power of the priority.
      uniform_mix: share of draws that are uniform; masses include it. If it is above 0 and all
        priorities have mass 0, every draw is uniform.
    """

    exponent: float
    uniform_mix: float = 0.0
    kind = "proportional"

    def __post_init__(self):
        _check_exponent(self.exponent)
        _check_uniform_mix(self.uniform_mix)


@dataclasses.dataclass(frozen=True)
class ContextualPriorityTree:
    """P(k) ~ p_k^exponent, an unknown p_k inferred from nearby keys (Reactor, 3.3, 6.3, figure 5).

    A balanced tree in the order of keys. The mass of an item of unknown priority is the mean mass
    of the smallest subtree around it of which anything is known. If all masses are 0 or unknown,
    every draw is uniform. Priorities and exponents are those of `Proportional`.

    Attributes:
      exponent: power of the priority.
      uniform_mix: share of draws that are uniform (epsilon in section 3.3, its value is not in the
        paper); masses include it. It bounds importance weights of exponent 1 by 1 / uniform_mix.
    """

    exponent: float = 1.0
    uniform_mix: float = 0.1
    kind = "contextual"

    def __post_init__(self):
        _check_exponent(self.exponent)
        _check_uniform_mix(self.uniform_mix)


@dataclasses.dataclass(frozen=True)
class RankBased:
    """P(k) ~ rank(k)^-exponent, where the largest priority has rank 1 (Schaul et al. 2016, 3.3).

    An item counts like rank 1 until it is ranked with a known priority. Items that leave between
    two rankings leave their ranks empty.

    Attributes:
      exponent: power of 1 / rank.
      period: updates from one ranking to the next: how old ranks may be.
    """

    exponent: float
    period: int = 1
    kind = "rank_based"

    def __post_init__(self):
        if not 0 <= self.exponent <= _MAX_EXPONENT:
            raise ValueError(f"exponent must be in [0, {_MAX_EXPONENT:g}], is {self.exponent}")
        if self.period < 1:
            raise ValueError(f"period must be at least 1, is {self.period}")


@dataclasses.dataclass(frozen=True)
class Fifo:
    """Always the item that was inserted first."""

    kind = "fifo"
    exponent = 0.0


Distribution = Uniform | Proportional | ContextualPriorityTree | RankBased | Fifo


def prioritized(exponent: float) -> Proportional | Uniform:
    """Returns P(k) ~ p_k^exponent; for an exponent of 0 `Uniform`, which needs no tree."""
    return Proportional(exponent) if exponent else Uniform()


def _check_exponent(exponent: float) -> None:
    if not abs(exponent) <= _MAX_EXPONENT:
        raise ValueError(
            f"exponent must be in [-{_MAX_EXPONENT:g}, {_MAX_EXPONENT:g}], is {exponent}"
        )


def _check_uniform_mix(uniform_mix: float) -> None:
    if not 0 <= uniform_mix <= 1:
        raise ValueError(f"uniform_mix must be in [0, 1], is {uniform_mix}")
