"""Windows of whole episodes, as a memory of episodes draws them."""

from typing import NamedTuple

import tensorflow as tf

from common.types import Batch, Nest, WindowBatch


class EpisodeWindows(NamedTuple):
    """Windows of N episodes drawn from a memory, in batches one behind the other.

    L is the longest of them. All end with the last of L steps and L + 1 states; a shorter one
    repeats its first step, and the state of that, in front.

    Attributes:
      keys: [N] int64, of the first steps.
      lengths: [N] int64, steps of the windows.
      steps: nest of [N, L + 1, ...], the states.
      rewards: [N, L] float32, scaled.
      bootstraps: [N] bool, whether the last state is no true end.
      count: int64 scalar, episodes in the memory.
    """

    keys: tf.Tensor
    lengths: tf.Tensor
    steps: Nest
    rewards: tf.Tensor
    bootstraps: tf.Tensor
    count: tf.Tensor

    @property
    def step_keys(self) -> tf.Tensor:
        """The keys of all steps, [N, L] int64; where a window repeats its first step, so it is."""
        longest = tf.shape(self.rewards, tf.int64)[1]
        padding = longest - self.lengths[:, tf.newaxis]
        return self.keys[:, tf.newaxis] + tf.maximum(tf.range(longest) - padding, 0)

    @property
    def token(self) -> tf.Tensor:
        """`step_keys`, one window behind the other, [N L]."""
        return tf.reshape(self.step_keys, [-1])

    def batch(self) -> Batch:
        """Returns what updates learn from, with a `WindowBatch` as its steps."""
        steps = WindowBatch(self.steps, self.rewards, self.lengths, self.bootstraps)
        count = tf.cast(self.count, tf.float32)
        return Batch(steps, tf.fill(tf.shape(self.keys), 1.0 / count), count)
