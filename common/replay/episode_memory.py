"""Replay memories of whole episodes.

`EpisodeMemory` draws single steps, `WindowMemory` draws windows of episodes.
"""

import os
from typing import NamedTuple

import tensorflow as tf
import tree

from common.replay import library, memory, saving
from common.replay.episode_wire import (
    EpisodeBatch,
    Episodes,
    EpisodeSample,
    EpisodeWire,
    HistoryBatch,
    WindowBatch,
)
from common.replay.memory import Uniform
from common.replay.store import Counters, Store
from common.types import Batch, Nest


class EpisodeWindows(NamedTuple):
    """Windows of N episodes drawn from a memory, one batch after another.

    Attributes:
      keys: [N] int64, keys of the windows' first steps.
      steps: the windows.
      count: int64 scalar, number of episodes in the memory.
    """

    keys: tf.Tensor
    steps: WindowBatch
    count: tf.Tensor

    @property
    def step_keys(self) -> tf.Tensor:
        """The keys of all steps, [N, L] int64; padding has the key of the window's first step."""
        longest = tf.shape(self.steps.rewards, tf.int64)[1]
        padding = longest - self.steps.lengths[:, tf.newaxis]
        return self.keys[:, tf.newaxis] + tf.maximum(tf.range(longest) - padding, 0)

    @property
    def token(self) -> tf.Tensor:
        """`step_keys`, one window after another, [N L]."""
        return tf.reshape(self.step_keys, [-1])

    def batch(self) -> Batch:
        """Returns the batch from which updates learn."""
        count = tf.cast(self.count, tf.float32)
        return Batch(self.steps, tf.fill(tf.shape(self.keys), 1.0 / count), count)


_REMOVALS = ("oldest", "far_policy", "divergence")


class StoredSteps(NamedTuple):
    """The numbers that a memory of episodes stores for B steps; NaN where a step is gone.

    Attributes:
      values: [B] float32, V.
      rhos: [B] float32, importance weights.
      divergences: [B] float32, D_KL.
      errors: [B] float32, priorities; UNKNOWN_PRIORITY before a step's first update.
      q_ret: [B] float32, Retrace estimates.
      advantages: [B] float32, A of the actions.
    """

    values: tf.Tensor
    rhos: tf.Tensor
    divergences: tf.Tensor
    errors: tf.Tensor
    q_ret: tf.Tensor
    advantages: tf.Tensor


class EpisodeStatistics(NamedTuple):
    """Counters of a memory of episodes.

    Attributes:
      steps: steps stored now, not counting the last state of each episode.
      episodes: episodes stored now.
      held_bytes: bytes of all strings stored now.
      inserted: steps executed, as reported to `EpisodeMemory.count_steps`.
      removed: steps removed.
      sampled: steps and windows drawn, counted each time.
      updated: steps refreshed, counted each time.
      missing: refreshed steps that were gone.
      far_policy: steps that are far from the policy according to the c_max of the last `refresh`.
      mean_divergence: mean D_KL of the steps; 0 if there are no steps.
    """

    steps: int
    episodes: int
    held_bytes: int
    inserted: int
    removed: int
    sampled: int
    updated: int
    missing: int
    far_policy: int
    mean_divergence: float


class EpisodeMemory(Store):
    """A store of finished episodes, from which single steps are drawn (ReF-ER, section 3).

    An episode has T steps and T + 1 states. For each step the memory stores the value V, the
    advantage A of the action, the importance weight rho, the divergence D_KL and the error, as last
    computed by an update, and the Retrace estimate (equation 8; appendix E for A)

        Q_t = r_t + discount V_tbc_{t+1},  V_tbc_t = V_t + min(1, rho_t) (Q_t - V_t - A_t),

    where V_tbc_T is V(s_T) at a time limit, and 0 at a true end. All methods are thread-safe.
    Methods that return tensors also work inside a `tf.function`.

    Attributes:
      drawn_items: what a `draw` consists of, for error messages.
    """

    drawn_items = "steps"

    def __init__(
        self,
        specs: Nest,
        capacity: int,
        discount: float,
        sampling: memory.Uniform | memory.Proportional | memory.RankBased,
        removal: str = "oldest",
        seed: int = 0,
        num_batches: int = 1,
        history: int | None = None,
    ):
        """Creates an empty memory.

        Args:
          specs: nest of `tf.TensorSpec` and `columns.Bytes`: the columns of a state.
          capacity: maximum number of steps.
          discount: gamma.
          sampling: the distribution over the steps, with the errors as priorities. `Proportional`
            needs a `uniform_mix`, so that a batch can be filled where errors are 0.
          removal: the episode that a full memory removes: "oldest" (algorithm 1); "far_policy", the
            episode with the largest fraction of far-policy steps according to the c_max of the last
            `refresh` (the authors' code, not in the paper); or "divergence", the episode with the
            largest mean D_KL. Of equal episodes the oldest is removed.
          seed: seed of sampling; 0 takes one from the system.
          num_batches: batches of a `draw`.
          history: maximum number of states before the steps of a `draw`; see `sample`.

        Raises:
          ValueError: an argument is outside its range, or the spec of a column is wrong (see
            `Signature`).
        """
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, is {capacity}")
        if not 0 <= discount <= 1:
            raise ValueError(f"discount must be in [0, 1], is {discount}")
        is_mixed = isinstance(sampling, memory.Proportional) and sampling.uniform_mix > 0
        if not (is_mixed or isinstance(sampling, memory.Uniform | memory.RankBased)):
            raise ValueError(
                "sampling must be Uniform, RankBased, or Proportional with a uniform_mix above 0, "
                f"is {sampling}"
            )
        if removal not in _REMOVALS:
            raise ValueError(f'unknown removal "{removal}": it must be one of {list(_REMOVALS)}')
        self._ops = library.ops()
        self.wire = EpisodeWire(specs)
        self.signature = self.wire.signature
        self.capacity = capacity
        self._num_batches, self._history = num_batches, history
        self._no_seed = tf.zeros([], tf.int64)
        self._handle = self._ops.episode_memory(
            capacity=capacity,
            discount=discount,
            **self.signature.attributes,
            kind=sampling.kind,
            exponent=sampling.exponent,
            uniform_mix=sampling.uniform_mix,
            period=sampling.period,
            removal=removal,
            seed=seed,
        )

    def put(self, rows: Episodes) -> bool:
        """Adds finished episodes and counts all steps; raises the errors of `add`.

        After an error no steps are counted, but the episodes before the refused one are added.
        """
        for episode in rows.episodes:
            self.add(*episode)
        self.count_steps(rows.num_steps)
        return True

    def draw(self, num_items, seed=None) -> EpisodeSample:
        """Draws `num_items` steps in total, a multiple of the memory's number of batches."""
        batch_size = num_items // self._num_batches
        return self.sample(batch_size, seed, self._num_batches, self._history)

    def write_back(self, token, outputs) -> tf.Tensor:
        """Stores the results of updates; see `refresh`.

        Args:
          token: keys of the steps.
          outputs: nest of the arguments of `refresh`: `values` to `next_values`, then `advantages`
            and `c_max`. `c_max` may also be [N], as outputs of updates are; its last element is
            used.
        """
        *columns, advantages, c_max = tree.flatten(outputs)
        c_max = tf.reshape(c_max, [-1])[-1]
        return self.refresh(token, *columns, c_max, self._num_batches, advantages)

    def add(self, steps: Nest, rewards, values, terminated, advantages=None) -> tf.Tensor:
        """Adds a finished episode with rho = 1 and D_KL = 0; removes episodes until it fits.

        Args:
          steps: nest of [T + 1, ...], the states.
          rewards: [T] float32, not scaled; `rewards[t]` came after step t.
          values: [T + 1] float32, V of the states; the last one counts as 0 at a true end.
          terminated: bool, whether the episode reached a true end instead of a time limit.
          advantages: [T] float32, A of the actions; None: all are 0.

        Returns:
          The key of the episode, int64; step t has key + t.

        Raises:
          tf.errors.InvalidArgumentError: an argument or a column is wrong. The message names it;
            the memory is unchanged.
        """
        columns = self.signature.flatten(steps)
        if advantages is None:
            advantages = tf.zeros_like(rewards, tf.float32)
        return self._ops.episode_add(self._handle, rewards, values, advantages, terminated, columns)

    def sample(
        self, batch_size, seed=None, num_batches: int = 1, history: int | None = None
    ) -> EpisodeSample:
        """Draws batches of steps, N = num_batches * batch_size in total.

        Args:
          batch_size: steps in a batch, all different; an int or an int32 scalar tensor.
          seed: an int or an int64 scalar tensor that determines the draw, together with the
            memory's contents. None or 0 draws with the memory's own generator.
          num_batches: number of batches, which are drawn independently.
          history: H, maximum number of preceding states of the same episode to return with each
            step. None returns only the step's state and the next state.

        Raises:
          tf.errors.FailedPreconditionError: the memory has fewer steps than a batch.
        """
        sample = self._ops.episode_sample(
            self._handle,
            batch_size,
            self._no_seed if seed is None else seed,
            dtypes=self.signature.dtypes,
            num_batches=num_batches,
            history=history or 0,
        )
        if not tf.executing_eagerly():
            size = tf.get_static_value(batch_size)
            batch = [None if size is None else num_batches * size]
            for vector in (*sample[:7], sample.lengths):
                vector.set_shape(batch)
            sample.count.set_shape([])
            self.signature.set_shapes([*batch, 2 + (history or 0)], sample.columns)
        unflatten, numbers = self.signature.unflatten, sample[2:7]
        if history is not None:
            steps = HistoryBatch(unflatten(sample.columns), sample.lengths, *numbers)
        else:
            pairs = [tf.unstack(column, 2, axis=1) for column in sample.columns]
            steps = EpisodeBatch(*map(unflatten, zip(*pairs)), *numbers)
        return EpisodeSample(*sample[:2], steps, sample.count)

    def sample_episodes(
        self, batch_size, max_steps, seed=None, num_batches: int = 1
    ) -> EpisodeWindows:
        """Draws batches of episodes with equal probabilities, and a window of steps from each.

        A window starts at a uniformly drawn step of the episode, or at the latest step from which
        `max_steps` steps remain if that is earlier. The end of a long episode is therefore drawn
        more often than any other part (as in the ReF-ER authors' program).

        Args:
          batch_size: episodes in a batch, all different; an int or an int32 scalar tensor.
          max_steps: maximum number of steps of a window; an int or an int32 scalar tensor.
          seed: see `sample`.
          num_batches: number of batches, which are drawn independently.

        Raises:
          tf.errors.FailedPreconditionError: the memory has fewer episodes than a batch.
        """
        windows = self._ops.episode_sample_episodes(
            self._handle,
            batch_size,
            max_steps,
            self._no_seed if seed is None else seed,
            dtypes=self.signature.dtypes,
            num_batches=num_batches,
        )
        keys, lengths, bootstraps, count, rewards, columns = windows
        if not tf.executing_eagerly():
            size = tf.get_static_value(batch_size)
            batch = [None if size is None else num_batches * size]
            for vector in (keys, lengths, bootstraps):
                vector.set_shape(batch)
            count.set_shape([])
            rewards.set_shape([*batch, None])
            self.signature.set_shapes([*batch, None], columns)
        steps = WindowBatch(self.signature.unflatten(columns), rewards, lengths, bootstraps)
        return EpisodeWindows(keys, steps, count)

    def refresh(
        self,
        keys,
        values,
        rhos,
        divergences,
        errors,
        next_values,
        c_max,
        num_batches: int = 1,
        advantages=None,
    ) -> tf.Tensor:
        """Stores the results of updates; returns how many of the steps are gone (int64).

        Then recomputes, in each affected episode, the Retrace estimates of its latest refreshed
        step and of all steps before it.

        Args:
          keys: [N] int64, keys of the steps. Of equal keys the last one counts.
          values: [N] float32, V.
          rhos: [N] float32, importance weights, not negative.
          divergences: [N] float32, D_KL.
          errors: [N] float32, not negative: the priorities of prioritised sampling.
          next_values: [N] float32, V of the next states; only used where `bootstraps` was true.
          c_max: float32, at least 1. `statistics`, `distance` and the removal "far_policy" use the
            latest value.
          num_batches: number of updates of equal size, whose steps follow one another.
          advantages: [N] float32, A of the actions; None: all are 0.

        Raises:
          tf.errors.InvalidArgumentError: an argument is wrong. The message names it; the memory is
            unchanged.
        """
        return self._ops.episode_refresh(
            self._handle,
            keys,
            values,
            tf.zeros_like(values, tf.float32) if advantages is None else advantages,
            rhos,
            divergences,
            errors,
            next_values,
            c_max,
            num_batches=num_batches,
        )

    def stored(self, keys) -> StoredSteps:
        """Returns the stored numbers of the steps with keys [B] int64."""
        return StoredSteps(*tf.unstack(self._ops.episode_stored(self._handle, keys)))

    def contains(self, keys) -> tf.Tensor:
        """Returns which of the steps with keys [B] int64 are stored, [B] bool."""
        return ~tf.math.is_nan(self.stored(keys).values)

    def reward_scale(self) -> tf.Tensor:
        """Returns the root of the mean squared reward (float64); 0 for an empty memory."""
        return self._ops.episode_reward_scale(self._handle)

    def set_reward_scale(self, scale, recompute: bool) -> None:
        """Divides rewards by scale + 1e-7 from now on (appendix B); before, they are not scaled.

        A scale of 0, which means that all rewards are 0, leaves rewards unscaled. Otherwise the
        first nonzero reward would be multiplied by 1e7.

        Args:
          scale: a finite scalar, not negative.
          recompute: whether to recompute all Retrace estimates now. Otherwise an estimate changes
            when `refresh` next computes it.
        """
        self._ops.episode_set_reward_scale(
            self._handle, tf.cast(scale, tf.float64), recompute=recompute
        )

    def distance(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns how far the steps are from the policy, according to their latest updates.

        Returns:
          far_fraction: float32, fraction of the steps that are far according to the c_max of the
            last `refresh`; 0 for an empty memory.
          mean_divergence: float32, mean D_KL of the steps.
        """
        counters, mean_divergence = self._ops.episode_statistics(self._handle)
        far_fraction = counters[-1] / tf.maximum(counters[0], 1)
        return tf.cast(far_fraction, tf.float32), tf.cast(mean_divergence, tf.float32)

    def observation_moments(self, column: str = "observation") -> tuple[tf.Tensor, tf.Tensor]:
        """Returns a float32 column's mean and population standard deviation over all states.

        Both are float64 and have the column's shape.

        Args:
          column: name of the column, with slashes as in `signature.names`.

        Raises:
          ValueError: the memory has no column of that name.
        """
        if column not in self.signature.names:
            raise ValueError(f'unknown column "{column}": it must be one of {self.signature.names}')
        number = self.signature.names.index(column)
        return tuple(self._ops.episode_moments(self._handle, column=number))

    def count_steps(self, n) -> None:
        """Adds n (int64) to the number of executed steps, `inserted` in the statistics."""
        self._ops.episode_count_steps(self._handle, n)

    def statistics(self) -> EpisodeStatistics:
        """Returns the counters, eagerly."""
        counters, mean_divergence = self._ops.episode_statistics(self._handle)
        return EpisodeStatistics(*counters.numpy().tolist(), float(mean_divergence))

    def counters(self) -> Counters:
        """Returns the counters; `statistics` returns more."""
        now = self.statistics()
        return Counters(
            now.steps, now.inserted, now.sampled, removed=now.removed, missing=now.missing
        )

    def num_drawable(self, counters: Counters) -> int:
        """Returns the maximum batch size of a `draw`, given the counters."""
        return counters.items

    def __len__(self) -> int:
        """Returns the number of steps."""
        return self.statistics().steps

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the memory's contents to a file, as `Memory.save` does.

        Raises:
          ReplayFileError: the file cannot be written; an earlier file of that name is unchanged.
        """
        saving.check_saved(self._ops.episode_save(self._handle, os.fsencode(path)))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Loads the contents of a saved memory into this one, as `Memory.load` does.

        Raises:
          ReplayFileError: the file cannot be read, is damaged, or is of a memory with other
            arguments (apart from the seed), or this memory is not empty. It is unchanged.
        """
        saving.check_saved(self._ops.episode_load(self._handle, os.fsencode(path)))

    def check(self) -> None:
        """Checks all invariants; raises a tf.errors.InternalError that names a broken one."""
        self._ops.episode_check(self._handle)


class WindowMemory(EpisodeMemory):
    """A memory of episodes from which updates in the same process draw windows, as in ACER.

    Its counters count steps, except `Counters.sampled`, which counts windows.
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
        """Creates an empty memory.

        Args:
          specs: see base class.
          capacity: see base class.
          discount: see base class.
          window: maximum number of steps of an episode from which an update learns.
          removal: see base class.
          seed: see base class.
          num_batches: see base class.
        """
        super().__init__(specs, capacity, discount, Uniform(), removal, seed, num_batches)
        self._window = window

    def draw(self, num_items, seed=None) -> EpisodeWindows:
        """Draws windows of `num_items` episodes, a multiple of the memory's number of batches."""
        size = num_items // self._num_batches
        return self.sample_episodes(size, self._window, seed, self._num_batches)

    def num_drawable(self, counters: Counters) -> int:
        """Returns the number of episodes."""
        return self.statistics().episodes
