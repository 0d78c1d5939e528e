"""Overlapping sequences of timesteps as items of a `Memory` that stores each timestep once.

Source: Reactor, section 3.4.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import dm_env
import numpy as np
import tensorflow as tf
import tree

from common.data.data import Adder, Delivery, ItemData
from common.environments.batch import ABSENT, FIRST, LAST
from common.replay.columns import transition_keys
from common.replay.memory import UNKNOWN_PRIORITY, Items
from common.types import Nest


class StoredTimestep(NamedTuple):
    """The columns of timesteps: [B, T, ...] in drawn sequences, [S, ...] in an adder's delivery.

    Attributes:
      observation: nest of [...].
      action: [A] (or []), taken at the observation; meaningless at LAST.
      reward: float32, the clipped reward that led to the observation; 0 at FIRST.
      discount: float32, gamma times the environment's discount that led to the observation; 0 at
        FIRST, so that no return crosses a reset.
      step_type: uint8, the values of `dm_env.StepType`.
      extras: named arrays, the policy's extras at the observation.
    """

    observation: Nest
    action: tf.Tensor | np.ndarray
    reward: tf.Tensor | np.ndarray
    discount: tf.Tensor | np.ndarray
    step_type: tf.Tensor | np.ndarray
    extras: dict[str, Any]


_PERIOD = 10
"""Time between two repetitions of timesteps, in lengths T; a store skips those that it has."""


class SequenceAdder(Adder):
    """Converter of the timesteps of K environments to sequences of T timesteps.

    Every timestep begins a sequence, which is complete once its T-th timestep is (Reactor, section
    3.4: T = 33). Consecutive sequences share T - 1 timesteps, so the adder delivers each timestep
    once, with the beginnings of the completed sequences. A sequence may span several episodes:
    FIRST and LAST are ordinary timesteps, and a discount of 0 at FIRST keeps returns from crossing
    a reset. A time limit (LAST with discount 1) and a lost life (discount 0 within an episode) keep
    their discounts, times gamma. An ABSENT row becomes a LAST with reward and discount 0.

    `act` completes a timestep, which the next `observe` returns. The first T - 1 timesteps are held
    back until their sequence is complete, because a memory drops steps that no item contains. After
    that each `observe` returns a timestep and a sequence of unknown priority for each environment.
    From time to time it repeats the T - 1 timesteps before: a store that lost some of them, because
    it restarted or removed them, would otherwise refuse all later sequences.
    The timesteps of an actor, including FIRST and LAST, are numbered 0, 1, 2, ... over the lifetime
    of the adder, across episodes and without gaps. Their keys are built from these numbers.
    """

    def __init__(
        self,
        actors: range,
        length: int,
        gamma: float,
        reward_clip: float | None = None,
        shard: int = 0,
    ):
        """Creates an adder without timesteps.

        Args:
          actors: index of the actor in each of the K environments.
          length: T, timesteps of a sequence.
          gamma: discount per step.
          reward_clip: bound on the magnitude of a reward; None does not clip.
          shard: number of the shard that receives the timesteps.
        """
        super().__init__()
        self._actors = np.asarray(actors)
        self._shard = shard
        self._length = length
        self._gamma = gamma
        self._reward_clip = np.inf if reward_clip is None else reward_clip
        self._num_given = 0  # timesteps of each environment that `observe` has returned
        self._past: list[StoredTimestep] = []  # the last T - 1 of them, [K, ...] each
        self._held: list[StoredTimestep] = []  # the timesteps after those

    def observe(
        self, timestep: dm_env.TimeStep, extras: dict[str, np.ndarray]
    ) -> Sequence[Delivery]:
        """Returns earlier timesteps that were not returned yet, and the sequences they complete.

        The timesteps are in chronological order. The result is empty while the first sequence is
        incomplete.
        """
        del timestep, extras  # `act` receives them as well
        begin, end = self._num_given, self._num_given + len(self._held)
        if end < self._length:
            return ()
        again = self._past if end % (_PERIOD * self._length) == 0 else []
        timesteps = tree.map_structure(lambda *leaves: np.concatenate(leaves), *again, *self._held)
        self._past = [*self._past, *self._held][-self._length :][1:]
        self._num_given, self._held = end, []
        item_keys = self._keys(max(0, begin - self._length + 1), end - self._length + 1)
        num_items = len(item_keys)
        items = Items(
            self._keys(begin - len(again), end),
            timesteps,
            np.full(num_items, UNKNOWN_PRIORITY, np.float32),
            item_keys,
            np.full(num_items, self._length, np.int32),
        )
        num_again = len(again) * len(self._actors)
        num_steps = int(np.count_nonzero(timesteps.step_type[num_again:] != LAST))
        self.num_steps += num_steps
        return [Delivery(items, num_steps)]

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: dict[str, np.ndarray]
    ) -> None:
        """Stores the timestep that was just given to `observe`; see base class."""
        step_type = timestep.step_type
        has_no_step = step_type <= FIRST  # no action led to a FIRST or an ABSENT row
        reward = np.clip(timestep.reward, -self._reward_clip, self._reward_clip)
        discount = self._gamma * timestep.discount.astype(np.float64)
        observation, action, extras = tree.map_structure(
            np.array, (timestep.observation, action, extras)
        )
        self._held.append(
            StoredTimestep(
                observation=observation,
                action=action,
                reward=np.where(has_no_step, 0, reward).astype(np.float32),
                discount=np.where(has_no_step, 0, discount).astype(np.float32),
                step_type=np.where(step_type == ABSENT, LAST, step_type).astype(np.uint8),
                extras=extras,
            )
        )

    def _keys(self, begin: int, end: int) -> np.ndarray:
        """Returns the keys of the timesteps in [begin, end), in chronological order."""
        steps = np.arange(begin, end, dtype=np.int64)[:, None]
        return transition_keys(self._shard, self._actors, self.incarnation, steps).reshape(-1)


class Sequences(ItemData):
    """Items that refer to T consecutive timesteps, where each timestep is stored once."""

    def __init__(self, config: Any, *args: Any, **kwargs: Any):
        """Also reads the configuration's `sequence_length`; see base class."""
        super().__init__(config, *args, **kwargs)
        self.sequence_length = config.sequence_length

    def make_adder(self, *, actors: range, shard: int = 0, **_: Any) -> SequenceAdder:
        """Builds the adder of some actors; see base class."""
        return SequenceAdder(
            actors, self.sequence_length, self._config.discount, self._reward_clip, shard
        )
