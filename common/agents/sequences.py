"""Data of overlapping sequences of timesteps."""

from collections.abc import Sequence
from typing import Any

import dm_env
import numpy as np

from common.acting.sequence_adder import SequenceAdder
from common.agents.items import ItemData
from common.remote.outbox import Delivery, Writer
from common.replay import keys
from common.replay.distributions import UNKNOWN_PRIORITY
from common.types import Items, Timesteps

_LAST = int(dm_env.StepType.LAST)


class Sequences(ItemData):
    """Timesteps, each stored once, and items that view T consecutive ones."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any):
        """Reads `sequence_length` of the configuration, too; see base class."""
        super().__init__(config, *args, **kwargs)
        self.sequence_length = config.sequence_length

    def make_adder(self, num_environments: int, share: float = 1.0) -> SequenceAdder:
        """Builds the adder for a batch of environments."""
        del share
        config = self._config
        return SequenceAdder(
            num_environments, config.sequence_length, config.discount, self._reward_clip
        )

    def make_writer(self, *, actors: range, shard: int, **_: Any) -> Writer:
        """Builds the writer of some actors; see base class."""
        return _SequenceWriter(actors, shard, self.sequence_length)


class _SequenceWriter(Writer):
    def __init__(self, actors: range, shard: int, sequence_length: int):
        super().__init__()
        self._actors = np.asarray(actors)
        self._shard = shard
        self._sequence_length = sequence_length

    def count_steps(self, added: Timesteps) -> int:
        """Returns the number of timesteps at which an action was taken."""
        return int(np.count_nonzero(added.timesteps.step_type != _LAST))

    def deliveries(self, collected: Sequence[Timesteps]) -> list[Delivery]:
        """Returns the timesteps and the sequences that they complete, of unknown priority."""
        return [Delivery(self._items(added), self.count_steps(added)) for added in collected]

    def _items(self, added: Timesteps) -> Items:
        num_items = len(added.item_step)
        return Items(
            self._keys(added.environment_index, added.step),
            added.timesteps,
            np.full(num_items, UNKNOWN_PRIORITY, np.float32),
            self._keys(added.item_environment_index, added.item_step),
            np.full(num_items, self._sequence_length, np.int32),
        )

    def _keys(self, environment_index: np.ndarray, step: np.ndarray) -> np.ndarray:
        actor_of_row = self._actors[environment_index]
        return keys.transition_keys(self._shard, actor_of_row, self.incarnation, step)
