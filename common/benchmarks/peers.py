"""Other prioritised replays that do the same work as ours: cpprb, and NumPy alone."""

from collections.abc import Sequence

import numpy as np


class NumpySumTree:
    """A first in, first out replay with proportional sampling: a binary sum tree in NumPy.

    It is as fast as NumPy allows: each level of the tree is one vectorised step for the whole batch
    (Schaul et al. 2016, appendix B.2.1).
    """

    def __init__(
        self, capacity: int, columns: Sequence[np.ndarray], exponent: float, seed: int = 1
    ):
        """Makes room for `capacity` rows of columns like these, [n, ...]."""
        self._exponent = exponent
        self._capacity = capacity
        self._leaves = 1 << (capacity - 1).bit_length()
        self._sums = np.zeros(2 * self._leaves)
        self._rows = [np.zeros((capacity, *column.shape[1:]), column.dtype) for column in columns]
        self._next = 0
        self._rng = np.random.default_rng(seed)

    def insert(self, columns: Sequence[np.ndarray], priorities: np.ndarray) -> None:
        """Adds rows over the oldest ones."""
        where = (self._next + np.arange(len(priorities))) % self._capacity
        for rows, column in zip(self._rows, columns, strict=True):
            rows[where] = column
        self._next = int(where[-1] + 1) % self._capacity
        self.update_priorities(where, priorities)

    def sample(self, batch_size: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Draws with replacement; returns indices, masses and columns."""
        points = self._rng.random(batch_size) * self._sums[1]
        nodes = np.ones(batch_size, np.int64)
        while nodes[0] < self._leaves:
            nodes *= 2
            left = self._sums[nodes]
            right = points >= left
            points -= left * right
            nodes += right
        indices = np.minimum(nodes - self._leaves, self._capacity - 1)
        return indices, self._sums[nodes], [rows[indices] for rows in self._rows]

    def update_priorities(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Sets raw priorities."""
        nodes = indices + self._leaves
        self._sums[nodes] = priorities.astype(np.float64) ** self._exponent
        while nodes[0] > 1:
            nodes = np.unique(nodes // 2)
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]


class Cpprb:
    """cpprb's `PrioritizedReplayBuffer`, a C++ sum tree behind Cython.

    Its sample also computes importance weights; ours returns masses, and the learner computes the
    weights.
    """

    def __init__(self, capacity: int, columns: Sequence[np.ndarray], exponent: float):
        """Makes room as `NumpySumTree` does. Raises ImportError without cpprb."""
        import cpprb

        self._names = [f"column_{i}" for i in range(len(columns))]
        layout = {
            name: {"shape": column.shape[1:] or 1, "dtype": column.dtype}
            for name, column in zip(self._names, columns)
        }
        self._buffer = cpprb.PrioritizedReplayBuffer(capacity, layout, alpha=exponent)

    def insert(self, columns: Sequence[np.ndarray], priorities: np.ndarray) -> None:
        """Adds rows over the oldest ones."""
        self._buffer.add(**dict(zip(self._names, columns)), priorities=priorities)

    def sample(self, batch_size: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Draws; returns indices, importance weights and columns."""
        sample = self._buffer.sample(batch_size, beta=1.0)
        return sample["indexes"], sample["weights"], [sample[name] for name in self._names]

    def update_priorities(self, indices: np.ndarray, priorities: np.ndarray) -> None:
        """Sets raw priorities."""
        self._buffer.update_priorities(indices, priorities)
