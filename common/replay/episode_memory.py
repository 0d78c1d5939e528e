"""Replay memories of whole episodes, whose draws are single steps or windows of episodes.

`EpisodeMemory` draws single steps, `WindowMemory` windows.
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
    """Windows of N episodes drawn from a memory, in batches one behind the other.

    Attributes:
      keys: [N] int64, of the first steps.
      steps: the windows.
      count: int64 scalar, episodes in the memory.
    """

    keys: tf.Tensor
    steps: WindowBatch
    count: tf.Tensor

    @property
    def step_keys(self) -> tf.Tensor:
        """The keys of all steps, [N, L] int64; where a window repeats its first step, so it is."""
        longest = tf.shape(self.steps.rewards, tf.int64)[1]
        padding = longest - self.steps.lengths[:, tf.newaxis]
        return self.keys[:, tf.newaxis] + tf.maximum(tf.range(longest) - padding, 0)

    @property
    def token(self) -> tf.Tensor:
        """`step_keys`, one window behind the other, [N L]."""
        return tf.reshape(self.step_keys, [-1])

    def batch(self) -> Batch:
        """Returns what updates learn from."""
        count = tf.cast(self.count, tf.float32)
        return Batch(self.steps, tf.fill(tf.shape(self.keys), 1.0 / count), count)


_REMOVALS = ("oldest", "far_policy", "divergence")


class StoredSteps(NamedTuple):
    """The numbers that a memory of episodes has stored of B steps; NaN where a step is gone.

    Attributes:
      values: [B] float32, V.
      rhos: [B] float32, importance weights.
      divergences: [B] float32, D_KL.
      errors: [B] float32; UNKNOWN_PRIORITY for steps that no update has computed.
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
      steps: steps stored now; the last state of an episode is none.
      episodes: episodes stored now.
      held_bytes: bytes of all strings stored now.
      inserted: steps executed, as told to `EpisodeMemory.count_steps`.
      removed: steps removed.
      sampled: steps and windows drawn, counted each time.
      updated: steps refreshed, counted each time.
      missing: refreshed steps that were gone.
      far_policy: steps that are far from the policy by the c_max of the last `refresh`.
      mean_divergence: mean D_KL of the steps; 0 if there is none.
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
    """A store of finished episodes, of which single steps are drawn (ReF-ER, section 3).

    An episode has T steps and T + 1 states. For each step the memory keeps the value V, the
    advantage A of the action, the importance weight rho, the divergence D_KL and the error that the
    last update computed, and the Retrace estimate (equation 8; for A appendix E)

        Q_t = r_t + discount V_tbc_{t+1},  V_tbc_t = V_t + min(1, rho_t) (Q_t - V_t - A_t),

    where V_tbc_T is V(s_T) if the time was up, and 0 at a true end. All methods are thread-safe;
    those that return tensors work inside a `tf.function`, too.

    Attributes:
      drawn_items: name of what a `draw` consists of.
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
        """Makes an empty memory.

        Args:
          specs: nest of `tf.TensorSpec` and `columns.Bytes`: the columns of a state.
          capacity: steps that the memory never exceeds.
          discount: gamma.
          sampling: the distribution over the steps; the errors are its priorities. `Proportional`
            needs a `uniform_mix`, so that a batch can be filled where errors are 0.
          removal: the episode that leaves a full memory: "oldest" (algorithm 1), "far_policy", the
            one with the largest part of far-policy steps by the c_max of the last `refresh` (the
            authors' code, not in the paper), or "divergence", the one with the largest mean D_KL.
            Of equal ones the oldest leaves.
          seed: seed of sampling; 0 takes one from the system.
          num_batches: batches of a `draw`.
          history: states before the steps of a `draw`, see `sample`.

        Raises:
          ValueError: an argument is outside its range, or a column of strings is not specified by
            `Bytes`.
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
            raise ValueError(f'removal "{removal}" is none of {list(_REMOVALS)}')
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
        """Adds finished episodes and counts all steps; errors are those of `add`.

        After an error no step was counted; episodes before the one that was refused were added.
        """
        for episode in rows.episodes:
            self.add(*episode)
        self.count_steps(rows.num_steps)
        return True

    def draw(self, num_items, seed=None) -> EpisodeSample:
        """Draws `num_items` steps in all, which the memory's number of batches divides."""
        batch_size = num_items // self._num_batches
        return self.sample(batch_size, seed, self._num_batches, self._history)

    def write_back(self, token, outputs) -> tf.Tensor:
        """Stores what updates have computed; see `refresh`.

        Args:
          token: keys of the steps.
          outputs: the arguments of `refresh` from `values` to `next_values`, its `advantages` and
            its `c_max`, as a nest. `c_max` may also be [N], as outputs of updates are; the last one
            counts.
        """
        *columns, advantages, c_max = tree.flatten(outputs)
        c_max = tf.reshape(c_max, [-1])[-1]
        return self.refresh(token, *columns, c_max, self._num_batches, advantages)

    def add(self, steps: Nest, rewards, values, terminated, advantages=None) -> tf.Tensor:
        """Adds a finished episode with rho = 1 and D_KL = 0; removes episodes until it fits.

        Args:
          steps: nest of [T + 1, ...], the states.
          rewards: [T] float32, not scaled; `rewards[t]` came after step t.
          values: [T + 1] float32, V of the states; the last one counts 0 at a true end.
          terminated: bool, whether the last state is a true end, not where the time was up.
          advantages: [T] float32, A of the actions; None where all are 0.

        Returns:
          The key of the episode, int64; step t has key + t.

        Raises:
          tf.errors.InvalidArgumentError: an argument or a column is wrong, and the message names
            it; the memory is unchanged.
        """
        columns = self.signature.flatten(steps)
        if advantages is None:
            advantages = tf.zeros_like(rewards, tf.float32)
        return self._ops.episode_add(self._handle, rewards, values, advantages, terminated, columns)

    def sample(
        self, batch_size, seed=None, num_batches: int = 1, history: int | None = None
    ) -> EpisodeSample:
        """Draws batches of steps, N = num_batches * batch_size in all.

        Args:
          batch_size: steps in a batch, none of them twice; an int or an int32 scalar tensor.
          seed: an int or an int64 scalar tensor that determines the draw, together with the
            memory's contents. None or 0 draws with the memory's own generator.
          num_batches: batches, which are drawn independently.
          history: H, the most states before each step to be drawn with it, none of another episode;
            None draws the state of the step and the next one alone.

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
        """Draws batches of episodes with equal chances, and of each a window of its steps.

        A window begins at a uniform step of the episode, or at the latest step from which
        `max_steps` of them follow, so that the end of a long episode is drawn more often than each
        other part (the authors' program of ReF-ER).

        Args:
          batch_size: episodes in a batch, none of them twice; an int or an int32 scalar tensor.
          max_steps: most steps of a window; an int or an int32 scalar tensor.
          seed: see `sample`.
          num_batches: batches, which are drawn independently.

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
        """Stores what updates have computed; returns how many of the steps are gone (int64).

        Afterwards the Retrace estimates of each episode's latest step among them, and of all steps
        before it, follow from what is stored.

        Args:
          keys: [N] int64. Of equal keys the last one counts.
          values: [N] float32, V.
          rhos: [N] float32, importance weights, not negative.
          divergences: [N] float32, D_KL.
          errors: [N] float32, not negative: the priorities of prioritised sampling.
          next_values: [N] float32, V of the next states; they count where `bootstraps` was true.
          c_max: float32, at least 1; `statistics` and the removal "far_policy" use the latest one.
          num_batches: updates of equal size that the steps are from, one behind the other.
          advantages: [N] float32, A of the actions; None where all are 0.

        Raises:
          tf.errors.InvalidArgumentError: an argument is wrong, and the message names it; the memory
            is unchanged.
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
        """Returns what is stored of steps, keys [B] int64."""
        return StoredSteps(*tf.unstack(self._ops.episode_stored(self._handle, keys)))

    def contains(self, keys) -> tf.Tensor:
        """Returns which of the steps, keys [B] int64, are stored, [B] bool."""
        return ~tf.math.is_nan(self.stored(keys).values)

    def reward_scale(self) -> tf.Tensor:
        """Returns the root of the mean squared reward (float64); 0 for an empty memory."""
        return self._ops.episode_reward_scale(self._handle)

    def set_reward_scale(self, scale, recompute: bool) -> None:
        """Divides rewards by scale + 1e-7 from now on (appendix B); before, they are not scaled.

        A scale of 0, of rewards that are all 0, leaves them as they are: the first one that is not
        would count 1e7-fold.

        Args:
          scale: a finite scalar, not negative.
          recompute: whether to compute all Retrace estimates anew now. Otherwise an estimate
            changes when `refresh` computes it next.
        """
        self._ops.episode_set_reward_scale(
            self._handle, tf.cast(scale, tf.float64), recompute=recompute
        )

    def distance(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns how far the steps are from the policy by what the last updates of them computed.

        Returns:
          far_fraction: float32, the part of the steps that is far by the c_max of the last
            `refresh`; 0 for an empty memory.
          mean_divergence: float32, mean D_KL of the steps.
        """
        counters, mean_divergence = self._ops.episode_statistics(self._handle)
        far_fraction = counters[-1] / tf.maximum(counters[0], 1)
        return tf.cast(far_fraction, tf.float32), tf.cast(mean_divergence, tf.float32)

    def observation_moments(self, column: str = "observation") -> tuple[tf.Tensor, tf.Tensor]:
        """Returns a float32 column's mean and population standard deviation over all states.

        Both have the column's shape, in float64.

        Args:
          column: name of the column, with slashes as in `signature.names`.

        Raises:
          ValueError: the memory has no column of that name.
        """
        if column not in self.signature.names:
            raise ValueError(f'column "{column}" is none of {self.signature.names}')
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
        """Returns how many items a batch of a `draw` can have, given the counters."""
        return counters.items

    def __len__(self) -> int:
        """Returns the number of steps."""
        return self.statistics().steps

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all that the memory holds to a file, as `Memory.save` does.

        Raises:
          ReplayFileError: the file cannot be written; one of that name is as it was.
        """
        saving.check_saved(self._ops.episode_save(self._handle, os.fsencode(path)))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Makes this memory, which must be empty, the one that was saved, as `Memory.load` does.

        Raises:
          ReplayFileError: the file cannot be read, is damaged, or is of a memory of other arguments
            (the seed does not matter), or this memory is in use. It is unchanged.
        """
        saving.check_saved(self._ops.episode_load(self._handle, os.fsencode(path)))

    def check(self) -> None:
        """Checks all invariants; raises tf.errors.InternalError that names a broken one."""
        self._ops.episode_check(self._handle)


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
