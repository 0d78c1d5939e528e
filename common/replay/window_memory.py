"""A memory of episodes whose draws are windows of whole episodes."""

from common.replay.distributions import Uniform
from common.replay.episode_windows import EpisodeWindows
from common.replay.episodes import EpisodeMemory
from common.replay.store import Counters
from common.types import Nest


class WindowMemory(EpisodeMemory):
    """A memory of episodes that updates in the same process draw windows from, as ACER's.

    Its counters are of steps, but for `Counters.sampled`, which counts windows.
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
          capacity: see base class.
          discount: see base class.
          window: most steps of an episode that an update learns from.
          removal: see base class.
          seed: see base class.
          num_batches: see base class.
        """
        super().__init__(specs, capacity, discount, Uniform(), removal, seed, num_batches)
        self._window = window

    def draw(self, num_items, seed=None) -> EpisodeWindows:
        """Draws windows of `num_items` episodes, which the memory's number of batches divides."""
        size = num_items // self._num_batches
        return self.sample_episodes(size, self._window, seed, self._num_batches)

    def num_drawable(self, counters: Counters) -> int:
        """Returns the number of episodes."""
        return self.statistics().episodes
