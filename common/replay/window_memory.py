"""A memory of episodes whose draws are windows of whole episodes."""

from collections.abc import Sequence

import tensorflow as tf

from common.replay.distributions import Uniform
from common.replay.episode_windows import EpisodeWindows
from common.replay.episodes import EpisodeMemory, EpisodeWire
from common.replay.store import Counters
from common.types import Nest


class WindowWire(EpisodeWire):
    """The form in which `Episodes` and windows of them travel."""

    def __init__(self, specs: Nest, num_batches: int, window: int):
        """Computes sizes; the arguments are those of the memory."""
        super().__init__(specs, num_batches)
        self.draw_bytes = (window + 1) * self.row_bytes

    def drawn_columns(self, drawn: EpisodeWindows) -> list:
        """Returns the fields of windows, the states as columns."""
        states = self.signature.flatten(drawn.steps)
        return [drawn.keys, drawn.lengths, drawn.rewards, drawn.bootstraps, drawn.count, *states]

    def drawn(self, parts: Sequence[Sequence[tf.Tensor]]) -> EpisodeWindows:
        """Joins windows of one memory; see base class."""
        windows = [self._windows(part) for part in parts]
        longest = tf.reduce_max([tf.shape(one.rewards, tf.int64)[1] for one in windows])
        columns = [self.drawn_columns(one.extended(longest)) for one in windows]
        return self._windows(self._joined_columns(columns))

    def _windows(self, columns: Sequence[tf.Tensor]) -> EpisodeWindows:
        keys, lengths, rewards, bootstraps, count, *states = columns
        steps = self.signature.unflatten(states)
        return EpisodeWindows(keys, lengths, steps, rewards, bootstraps, count)


class WindowMemory(EpisodeMemory):
    """A memory of episodes whose items are episodes: an update learns from windows of them.

    Steps are inserted, removed and refreshed as in the base class; `Counters.items` are episodes,
    and `Counters.sampled` are windows.
    """

    drawn_items = "episodes"

    def __init__(
        self,
        specs: Nest,
        capacity: int,
        discount: float,
        window: int,
        removal: str = "oldest",
        seed: int = 0,
        num_batches: int = 1,
    ):
        """Makes an empty memory.

        Args:
          specs: see base class.
          capacity: steps that the memory never exceeds.
          discount: gamma.
          window: most steps of an episode that an update learns from.
          removal: see base class.
          seed: see base class.
          num_batches: batches of a `draw`.
        """
        super().__init__(specs, capacity, discount, Uniform(), removal, seed, num_batches)
        self.wire = WindowWire(specs, num_batches, window)
        self._window = window

    def draw(self, num_items, seed=None) -> EpisodeWindows:
        """Draws windows of `num_items` episodes, which the memory's number of batches divides."""
        size = num_items // self._num_batches
        return self.sample_episodes(size, self._window, seed, self._num_batches)

    def counters(self) -> Counters:
        """Returns the counters."""
        now = self.statistics()
        return Counters(
            now.episodes, now.inserted, now.sampled, removed=now.removed, missing=now.missing
        )
