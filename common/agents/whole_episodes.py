"""Data of whole episodes, of which updates draw single steps or windows."""

from collections.abc import Sequence
from typing import Any

from common.acting.episode_adder import EpisodeAdder
from common.agents.data import Data
from common.remote.outbox import Delivery, Writer
from common.replay.distributions import RankBased, Uniform
from common.replay.episode_wire import EpisodeWire
from common.replay.episodes import EpisodeMemory
from common.replay.rate_limiter import RateLimiter
from common.replay.window_memory import WindowMemory
from common.types import Episodes, Nest

_SEND_BATCH = 64
"""Actor steps reported at a time to a memory in another process. Not in the paper."""


class WholeEpisodes(Data):
    """Episodes, each added when it has ended.

    A step counts when its action is executed, although a running episode cannot be drawn from.
    """

    acts_beside = True

    def __init__(
        self,
        config: Any,
        sample: Uniform | RankBased,
        removal: str,
        window: int | None = None,
        history: int | None = None,
    ):
        """Copies fields of the configuration.

        Args:
          config: a paper's dataclass of hyperparameters.
          sample: from which the learner draws single steps.
          removal: the episodes that a full memory removes, see `EpisodeMemory`.
          window: most steps of an episode that the learner draws, from a `WindowMemory` in its
            process; None: it draws single steps.
          history: states before a drawn single step, see `EpisodeMemory.sample`.
        """
        self._config = config
        self._sample, self._removal = sample, removal
        self._window, self._history = window, history

    def make_adder(self, num_environments: int, share: float = 1.0) -> EpisodeAdder:
        """Builds the adder for a batch of environments."""
        del share
        return EpisodeAdder(num_environments, self._config.replay_capacity)

    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> EpisodeMemory:
        """Builds the memory; see base class."""
        config = self._config
        capacity, seed = -(-config.replay_capacity // num_shards), seed + 1
        removal, num_batches = self._removal, config.updates_per_call
        if self._window:
            return WindowMemory(
                specs, capacity, config.discount, self._window, removal, seed, num_batches
            )
        return EpisodeMemory(
            *(specs, capacity, config.discount, self._sample, removal, seed, num_batches),
            history=self._history,
        )

    def wire(self, specs: Nest) -> EpisodeWire:
        """See base class."""
        return EpisodeWire(specs, self._config.updates_per_call, self._history)

    def make_writer(self, *, in_batches: bool, **_: Any) -> Writer:
        """Builds the writer of some actors; the memory makes the keys."""
        return _EpisodeWriter(_SEND_BATCH if in_batches else 0)

    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns the limit by which a call is due as soon as its steps have been executed.

        Between calls, actor steps - (steps per update) * learner steps is constant. Actors wait for
        a learner only once the episodes that have ended have the steps of a batch.
        """
        del num_ahead
        config = self._config
        ratio = config.samples_per_insert or None
        return RateLimiter(
            config.min_replay_size, ratio, float(num_samples), min_items=config.batch_size
        )


class _EpisodeWriter(Writer):
    def count_steps(self, added: Episodes) -> int:
        """Returns the number of actions that follow the timestep."""
        return added.num_steps

    def deliveries(self, collected: Sequence[Episodes]) -> list[Delivery]:
        """Returns the finished episodes and the number of all steps."""
        num_steps = sum(added.num_steps for added in collected)
        episodes = tuple(episode for added in collected for episode in added.episodes)
        return [Delivery(Episodes(num_steps, episodes), num_steps)]
