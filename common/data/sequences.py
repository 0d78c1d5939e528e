"""Data of overlapping sequences of timesteps.

Adder of overlapping sequences of timesteps for a batch of environments.
"""

from collections.abc import Sequence
from typing import Any

import dm_env
import numpy as np
import tree

from common.data.data import ItemData
from common.remote.outbox import Delivery, Writer
from common.replay import columns
from common.replay.memory import UNKNOWN_PRIORITY
from common.types import Items, StoredTimestep, Timesteps

_FIRST = int(dm_env.StepType.FIRST)


class SequenceAdder:
    """Converter of the timesteps of K environments to sequences of T timesteps.

    Every timestep begins a sequence, which is complete once its T-th timestep is (Reactor, section
    3.4: T = 33). Consecutive sequences share T - 1 timesteps, so the adder gives each timestep once
    and says where the completed sequences begin. A sequence may span several episodes: FIRST and
    LAST are timesteps like the others, and a discount of 0 at FIRST keeps returns from crossing a
    reset. A time limit (LAST with discount 1) and a lost life (discount 0 within an episode) keep
    their discounts, times gamma.

    Call both methods once for each timestep, with the policy's output for its observation:

        completed = adder.observe(timestep, extras)      # Timesteps, or None
        adder.act(timestep, action, extras)

    `act` completes a timestep, which the next `observe` returns. The first T - 1 timesteps are held
    back until their sequence is complete, because a memory drops steps that no item views. From
    then on each call returns one timestep and one sequence for each environment. Everything stored
    or returned is a copy.
    """

    def __init__(
        self, num_environments: int, length: int, gamma: float, reward_clip: float | None = None
    ):
        """Makes an adder without timesteps.

        Args:
          num_environments: K.
          length: T, timesteps of a sequence.
          gamma: discount per step.
          reward_clip: bound on the magnitude of a reward; None does not clip.
        """
        self._num_environments = num_environments
        self._length = length
        self._gamma = gamma
        self._reward_clip = np.inf if reward_clip is None else reward_clip
        self._num_given = 0  # timesteps of each environment that `observe` has returned
        self._held: list[StoredTimestep] = []  # those after them, [K, ...] each

    def observe(self, timestep: dm_env.TimeStep, extras: dict[str, np.ndarray]) -> Timesteps | None:
        """Returns the timesteps before this one that have not been returned, and their sequences.

        Args:
          timestep: of K environments, as an `EnvironmentBatch` returns it.
          extras: not used; `act` gets them too.

        Returns:
          The timesteps in the order of time, or None while the first sequence is incomplete.
        """
        del extras
        begin, end = self._num_given, self._num_given + len(self._held)
        if not self._held or end < self._length:
            return None
        columns = tree.map_structure(lambda *leaves: np.concatenate(leaves), *self._held)
        self._num_given, self._held = end, []
        environment_index, step = self._numbers(begin, end)
        item_environment_index, item_step = self._numbers(
            max(0, begin - self._length + 1), end - self._length + 1
        )
        return Timesteps(environment_index, step, columns, item_environment_index, item_step)

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: dict[str, np.ndarray]
    ) -> None:
        """Stores the timestep that `observe` just got.

        Args:
          timestep: of K environments.
          action: [K, A] or [K], the action taken at its observation.
          extras: named arrays [K, ...], the policy's extras at its observation.
        """
        is_first = timestep.step_type == _FIRST
        reward = np.clip(timestep.reward, -self._reward_clip, self._reward_clip)
        discount = self._gamma * timestep.discount.astype(np.float64)
        observation, action, extras = tree.map_structure(
            np.array, (timestep.observation, action, extras)
        )
        self._held.append(
            StoredTimestep(
                observation=observation,
                action=action,
                reward=np.where(is_first, 0, reward).astype(np.float32),
                discount=np.where(is_first, 0, discount).astype(np.float32),
                step_type=timestep.step_type.astype(np.uint8),
                extras=extras,
            )
        )

    def _numbers(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns rows of the batch and numbers of the timesteps in [begin, end), row by row."""
        rows = np.arange(self._num_environments, dtype=np.int32)
        steps = np.arange(begin, end, dtype=np.int64)
        return np.tile(rows, len(steps)), np.repeat(steps, len(rows))


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
        return columns.transition_keys(self._shard, actor_of_row, self.incarnation, step)
