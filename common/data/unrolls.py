"""Unrolls, which actors keep in their own replays and send to the learner's queue (AQL)."""

import collections
from collections.abc import Callable, Sequence
import threading
from typing import Any, NamedTuple

import dm_env
import numpy as np
import tensorflow as tf
import tree

from common.data.data import Adder, Data, Delivery
from common.environments.batch import FIRST
from common.replay.local_replay import LocalReplay
from common.replay.store import UNLIMITED, Counters, NestWire, RateLimiter, Store, equal_batch
from common.types import Batch, Nest


class Unrolls(NamedTuple):
    """An unroll of T consecutive timesteps of each of K environments.

    Attributes:
      observation: nest of [K, T, ...].
      reward: float32 [K, T], reward of the step that follows the timestep; 0 at the last timestep
        of an episode.
      discount: float32 [K, T], the environment's discount of that step, without gamma; 0 at the
        last timestep of an episode.
      is_last: bool [K, T], whether the timestep is the last of its episode.
      extras: named arrays [K, T, ...], the policy's extras at the timestep.
      state: nest of [K, ...], the extra "state" at the first timestep; () if there is none.
    """

    observation: Nest
    reward: np.ndarray
    discount: np.ndarray
    is_last: np.ndarray
    extras: dict[str, np.ndarray]
    state: Nest = ()


class UnrollAdder(Adder):
    """Converter of the timesteps of K environments to unrolls of T timesteps (AQL algorithm 1).

    An unroll begins where the previous unroll ended, regardless of episodes. It may span several
    episodes, and FIRST and LAST are ordinary timesteps. The reward and the discount of a timestep
    belong to the step that follows it, so an unroll is complete once the next timestep is observed.
    A reset has neither, so both are 0 at the last timestep of an episode. Time limits and
    termination differ in the discount of the step that led to that timestep.

    Each unroll is followed by R unrolls from the replay of its actor. They are split into
    deliveries of sizes that the queue accepts, and the actor steps count once the last of these
    deliveries is accepted. Unrolls have no column of actions: if a learner needs actions, its
    policy returns them as extras. A recurrent policy returns its state before a timestep as the
    extra "state", which is kept only for the first timestep.
    """

    def __init__(
        self,
        actors: range,
        length: int,
        columns: Callable[[Unrolls], Nest],
        replay: LocalReplay,
        num_replayed: int,
        most_put: int,
    ):
        """Creates an adder without timesteps.

        Args:
          actors: index of the actor in each of the K environments.
          length: T, timesteps of an unroll.
          columns: returns the columns of unrolls that are stored and sent, nest of [K, T, ...].
          replay: the actors' replay.
          num_replayed: R, unrolls drawn from the replay for each new unroll.
          most_put: maximum number of unrolls in a delivery.
        """
        super().__init__()
        self.replay: LocalReplay = replay
        self._actors = actors
        self._length = length
        self._columns = columns
        self._num_replayed = num_replayed
        self._most_put = most_put
        self._held: list[Nest] = []  # (observation, extras) of the unroll's timesteps, [K, ...]
        self._outcomes: list[tuple[np.ndarray, ...]] = []  # (reward, discount, is_last) of each
        self._state: Nest = ()

    def observe(
        self, timestep: dm_env.TimeStep, extras: dict[str, np.ndarray]
    ) -> Sequence[Delivery]:
        """Adds the step that led to a timestep; returns deliveries when it completes unrolls.

        Every T-th timestep completes an unroll of each environment.
        """
        del extras
        if not self._held:
            return ()
        # An episode without LAST also ends here: a FIRST or an ABSENT row follows.
        is_last = timestep.step_type <= FIRST
        followed = (timestep.reward, timestep.discount)
        reward, discount = (np.where(is_last, 0, each).astype(np.float32) for each in followed)
        self._outcomes.append((reward, discount, is_last))
        if len(self._held) < self._length:
            return ()
        (observation, kept), (reward, discount, is_last) = (
            tree.map_structure(lambda *leaves: np.stack(leaves, axis=1), *timesteps)
            for timesteps in (self._held, self._outcomes)
        )
        self._held, self._outcomes = [], []
        unrolls = Unrolls(observation, reward, discount, is_last, kept, self._state)
        return self._deliveries(unrolls)

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: dict[str, np.ndarray]
    ) -> None:
        """Stores the timestep that was just given to `observe`; see base class."""
        del action
        if not self._held:
            self._state = tree.map_structure(np.array, extras.get("state", ()))
        kept = {name: extra for name, extra in extras.items() if name != "state"}
        self._held.append(tree.map_structure(np.array, (timestep.observation, kept)))

    def _deliveries(self, unrolls: Unrolls) -> list[Delivery]:
        burst = self.replay.burst(self._actors, self._columns(unrolls), self._num_replayed)
        num_steps = int(np.count_nonzero(~unrolls.is_last))  # where an action was taken
        self.num_steps += num_steps
        num_rows = len(tree.flatten(burst)[0])
        slices = [slice(i, i + self._most_put) for i in range(0, num_rows, self._most_put)]
        parts = [
            tree.map_structure(lambda column, rows=rows: column[rows], burst) for rows in slices
        ]
        return list(map(Delivery, parts, [0] * (len(parts) - 1) + [num_steps]))


class UnrollBatch(NamedTuple):
    """Unrolls taken from a queue.

    Attributes:
      steps: nest of [B, T, ...].
    """

    steps: Nest

    @property
    def token(self) -> tf.Tensor:
        """Empty, because the unrolls are no longer stored."""
        return tf.zeros([0], tf.int64)

    def batch(self) -> Batch:
        """Returns the batch for the updates."""
        return equal_batch(self.steps)


class UnrollQueue(Store):
    """A first-in, first-out queue of unrolls, which are drawn only once (AQL section 4, A.1).

    Attributes:
      capacity: maximum number of unrolls in the queue.
    """

    def __init__(self, specs: Nest, capacity: int):
        """Creates an empty queue.

        Args:
          specs: nest of `tf.TensorSpec` of shape [T, ...]: the columns of an unroll.
          capacity: maximum number of unrolls in the queue.
        """
        self.wire: NestWire = NestWire(specs)
        self.capacity = capacity
        self._lock = threading.Lock()
        self._rows: collections.deque[Sequence[np.ndarray]] = collections.deque()
        self._inserted = self._sampled = 0

    def put(self, rows: Nest) -> bool:
        """Adds unrolls, unless they do not fit now.

        Args:
          rows: nest of [M, T, ...]; the queue keeps a copy.

        Returns:
          False if the queue has no room for all M now.

        Raises:
          ValueError: `rows` is a nest of another structure, M exceeds the capacity, or a column has
            another dtype or shape, or values that are not finite. The queue is unchanged.
        """
        columns = self.wire.signature.checked(rows)
        num_rows = len(columns[0])
        if num_rows > self.capacity:
            raise ValueError(f"{num_rows} unrolls exceed the queue's capacity, {self.capacity}")
        with self._lock:
            if len(self._rows) + num_rows > self.capacity:
                return False
            self._rows.extend(zip(*map(np.array, columns)))
            self._inserted += num_rows
        return True

    def draw(self, num_items, seed=None) -> UnrollBatch | None:
        """Removes and returns the oldest unrolls; returns None if fewer than `num_items` wait."""
        del seed
        count = int(num_items)
        with self._lock:
            if len(self._rows) < count:
                return None
            rows = [self._rows.popleft() for _ in range(count)]
            self._sampled += count
        # `np.stack` would convert strings to dtype "S", which drops trailing zero bytes.
        columns = [
            np.array(column, dtype.as_numpy_dtype)
            for column, dtype in zip(zip(*rows), self.wire.signature.dtypes)
        ]
        return UnrollBatch(self.wire.rows(columns))

    def counters(self) -> Counters:
        """Returns the counters, in unrolls; a drawn unroll counts as sampled, not as removed."""
        with self._lock:
            return Counters(len(self._rows), self._inserted, self._sampled)


class ReplayedUnrolls(Data):
    """New and replayed unrolls of T timesteps (AQL algorithm 2).

    For each new unroll, an actor sends that unroll and R unrolls drawn from its replay to the
    learner's queue. Therefore (learner steps) * B * T = (1 + R) * timesteps.
    """

    in_lockstep = True
    pull_timestep = 1  # an unroll is complete once the next timestep is observed

    def __init__(self, config: Any, columns: Callable[[Unrolls], Nest]):
        """Copies fields of the configuration.

        Args:
          config: a paper's dataclass of hyperparameters.
          columns: returns the columns of unrolls that are stored and sent, nest of [K, T, ...].
        """
        self._config = config
        self._columns = columns
        self.steps_per_item = config.unroll_length

    def make_adder(self, *, actors: range, specs: Nest, seed: int, **_: Any) -> UnrollAdder:
        """Builds the adder of some actors, with their replays; see base class."""
        config = self._config
        replay = LocalReplay(specs, actors, config.replay_capacity, config.unroll_length, seed)
        return UnrollAdder(
            actors,
            config.unroll_length,
            self._columns,
            replay,
            config.replayed_unrolls,
            self._most_put,
        )

    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> UnrollQueue:
        """Builds the learner's queue; see base class.

        Raises:
          ValueError: a call needs more unrolls than the queue holds.
        """
        del seed, num_shards
        config = self._config
        if self._most_put < 1:
            raise ValueError(
                f"a call of updates takes {config.batch_size * config.updates_per_call} unrolls, "
                f"but the queue holds {config.queue_capacity}: raise queue_capacity, or lower "
                "batch_size or updates_per_call"
            )
        return UnrollQueue(specs, config.queue_capacity)

    def wire(self, specs: Nest) -> NestWire:
        """See base class."""
        return NestWire(specs)

    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns `UNLIMITED`, because the queue's capacity limits the actors."""
        return UNLIMITED

    @property
    def _most_put(self) -> int:
        """Size of the largest put that the queue accepts while it holds too few for a call."""
        config = self._config
        return config.queue_capacity - config.batch_size * config.updates_per_call + 1
