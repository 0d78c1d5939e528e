"""Which item is drawn next: what a memory's distributions are made from."""

import dataclasses

UNKNOWN_PRIORITY = -1.0
"""Raw priority of an item whose priority nobody has computed yet."""

_MAX_EXPONENT = 7.0
"""Up to here the masses of a full memory of the largest floats have a finite sum."""


@dataclasses.dataclass(frozen=True)
class Uniform:
    """Every item with the same probability, whatever its priority."""

    kind = "uniform"
    exponent = 0.0


@dataclasses.dataclass(frozen=True)
class Proportional:
    """P(k) = p_k^exponent / sum_j p_j^exponent (Schaul et al. 2016, equation 1).

    An item of unknown priority counts as the largest one seen. A priority of 0 is never drawn under
    a positive exponent. A negative exponent prefers small priorities, for removal (Ape-X,
    appendix D: -0.4); priorities below 1e-6 count as 1e-6 there.
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
    """Always the item that arrived first, across all actors."""

    kind = "fifo"
    exponent = 0.0


Distribution = Uniform | Proportional | Fifo


def prioritized(exponent: float) -> Proportional | Uniform:
    """P(k) ~ p_k^exponent; an exponent of 0 is every item alike, without a tree."""
    return Proportional(exponent) if exponent else Uniform()
