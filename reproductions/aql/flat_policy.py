"""One softmax over all actions of a product space: IMPALA's policy in DeepMind Lab.

The paper does not say how IMPALA chooses among 3,528 actions, but that they slow it down, which the
product of sub-actions would not.
"""

import math

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.networks import packing
from reproductions.aql.actions import ActionSpace
from reproductions.aql.proposals import OUTPUT_SCALE


class FlatPolicy(snt.Module):
    """Distribution softmax(W h + b) over the numbers of a finite space's actions.

    Attributes:
      space: of the actions, N in all.
      weights: [H, N].
      bias: [N].
      parameters: both.
    """

    def __init__(self, num_features: int, space: ActionSpace):
        """Builds the variables; `num_features` is H."""
        super().__init__()
        self.space = space
        initial = snt.initializers.TruncatedNormal(stddev=OUTPUT_SCALE / math.sqrt(num_features))
        number = int(space.num_actions)
        self.weights = tf.Variable(initial([num_features, number], tf.float32), name="weights")
        self.bias = tf.Variable(tf.zeros([number]), name="bias")
        self.parameters = (self.weights, self.bias)

    def log_prob_and_entropy(
        self, features: tf.Tensor, actions: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns log pi(a | s) and the entropy in nats: [B, H], [B, D] -> [B] each."""
        log_p = tf.nn.log_softmax(features @ self.weights + self.bias)
        log_prob = tf.gather(log_p, self.space.flat_index(actions), axis=1, batch_dims=1)
        return log_prob, -tf.reduce_sum(tf.exp(log_p) * log_p, axis=1)


class FlatPolicyTwin:
    """NumPy twin of a `FlatPolicy`.

    Attributes:
      num_parameters: length P of the vector that `load` takes.
    """

    def __init__(self, policy: FlatPolicy):
        self._space = policy.space
        self._actions = policy.space.all_actions()
        self._shapes = packing.shapes(policy.parameters)
        flat = packing.to_numpy(policy.parameters)
        self.num_parameters = flat.size
        self.load(flat)

    def load(self, flat: np.ndarray) -> None:
        """Loads a copy of the parameters, [P] float32 in the order of `FlatPolicy.parameters`."""
        self._weights, self._bias = packing.unpack(np.array(flat, np.float32), self._shapes)

    def sample(self, features: np.ndarray, num: int, generator: np.random.Generator) -> np.ndarray:
        """Returns independent actions of each state, float32 [K, num, D], given features [K, H]."""
        logits = self._logits(features)
        ends = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1, dtype=np.float64)
        points = generator.random((len(features), num)) * ends[:, -1:]
        found = [np.searchsorted(one, point, "right") for one, point in zip(ends, points)]
        return self._actions[np.minimum(found, len(self._actions) - 1)]

    def log_prob(self, features: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Returns log pi(a | s) in nats: [K, H], an action at each state [K, D] -> float32 [K]."""
        logits = self._logits(features)
        logits -= logits.max(axis=1, keepdims=True)
        taken = logits[np.arange(len(logits)), self._space.flat_index(actions)]
        return taken - np.log(np.exp(logits).sum(axis=1))

    def _logits(self, features: np.ndarray) -> np.ndarray:
        return features @ self._weights + self._bias
