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
    """

    exponent: float
    kind = "proportional"

    def __post_init__(self):
        if not abs(self.exponent) <= _MAX_EXPONENT:
            raise ValueError(
                f"exponent must be in [-{_MAX_EXPONENT:g}, {_MAX_EXPONENT:g}], is {self.exponent}"
            )


@dataclasses.dataclass(frozen=True)
class Fifo:
    """Always the item that was inserted first."""

    kind = "fifo"
    exponent = 0.0


Distribution = Uniform | Proportional | Fifo


def prioritized(exponent: float) -> Proportional | Uniform:
    """Returns P(k) ~ p_k^exponent; for an exponent of 0 `Uniform`, which needs no tree."""
    return Proportional(exponent) if exponent else Uniform()
