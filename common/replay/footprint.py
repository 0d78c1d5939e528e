"""What a memory takes, known before there is one."""

HARD_CAPACITY = 2
"""Times a soft capacity: what a memory can hold if nobody removes. Not in the paper (Ape-X)."""

WITH_REMOVALS = 1.1
"""Times a soft capacity: more than a memory holds while a learner removes what exceeds it.

Ape-X adds 66,000 transitions to 2 million between two removals (section 4.1), 1.03 times as many.
"""

BYTES_A_VALUE = 32
"""What a value of a column of `Bytes` takes besides its bytes: in its row, and for malloc."""

# Of each stored step, in the structures of cc/: its slot, and a leaf and its share of the inner
# nodes in each of two sum trees. A list or uniform distribution in place of a tree takes less.
_BYTES_A_STEP = 24 + 2 * 8 * 8 / 7
_BYTES_A_PLACE = 8  # of the index; keys are scattered over all of them soon


def memory_bytes(steps: int, capacity: int, bytes_per_step: int) -> int:
    """Bytes of a memory that holds so many of the `capacity` steps it is made for.

    The rest of its arrays is address space only, until it is written. What was written once is kept
    until it is written again: count the most steps that there will have been.

    Args:
      capacity: the hard one, if the capacity is soft.
      bytes_per_step: raw, as `common.replay.memory.Signature` has them; of a column of `Bytes`, the
        mean of its values and BYTES_A_VALUE.
    """
    return round(steps * (bytes_per_step + _BYTES_A_STEP) + _BYTES_A_PLACE * _places(capacity))


def _places(capacity: int) -> int:
    """Of the index: the power of two that leaves a third of it empty, as `KeyIndex`."""
    places = 16
    while places < capacity + capacity // 2:
        places *= 2
    return places


def control_bytes_per_step(config, spec, environment) -> float:
    """Returns the bytes of a stored n-step transition of flat observations, float32."""
    del config, environment
    return 4 * (2 * spec.observation_size + spec.action_size + 2)
