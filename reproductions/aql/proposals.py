"""Distributions of actions, given features of the state: the proposal mu(a | s), a flat softmax.

The proposal is a product of softmax and Gaussian sub-actions (section 4). The features come from
hidden layers before it (`networks`). NumPy twins sample for the actors.
"""

from collections.abc import Iterator
import itertools
import math

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.networks import packing
from common.values import categorical
from reproductions.aql.actions import ActionSpace

OUTPUT_SCALE = 0.01
"""Factor on Sonnet's initial weights, so that the first proposals are near uniform."""


class Proposal(snt.Module):
    """Distribution mu(a | s) = prod_d mu_d(a_d | s, a_<d) (section 4).

    Logits are linear in the features of the state and the encodings of earlier sub-actions, as
    section 5.1 says. It gives no encoding of continuous sub-actions: these enter with their value,
    and the mean of their Gaussian is linear as well. Samples are clipped to [-1, 1]; the density is
    that of the unclipped Gaussian.

    Attributes:
      state_weights: [H, S], weights of the features.
      action_weights: [S, S], weights of the encodings. Each row belongs to an entry of an earlier
        sub-action's encoding. All other weights have no effect, nor has any without autoregression.
      bias: [S].
      parameters: these three.
    """

    def __init__(
        self,
        num_features: int,
        space: ActionSpace,
        autoregressive: bool = True,
        variance: float = 0.25,
    ):
        """Builds the variables.

        Args:
          num_features: H.
          space: the space of the actions: D sub-actions with S entries in an encoding.
          autoregressive: whether a sub-action depends on earlier sub-actions (appendix A3).
          variance: variance of each continuous sub-action (section 5.1).
        """
        super().__init__()
        self.space = space
        self.autoregressive = autoregressive
        self.variance = variance
        size = space.encoded_size
        deviation = OUTPUT_SCALE / math.sqrt(num_features + size)
        initial = snt.initializers.TruncatedNormal(stddev=deviation)
        self.state_weights = tf.Variable(
            initial([num_features, size], tf.float32), name="state_weights"
        )
        self.action_weights = tf.Variable(initial([size, size], tf.float32), name="action_weights")
        self.bias = tf.Variable(tf.zeros([size]), name="bias")
        self.parameters = (self.state_weights, self.action_weights, self.bias)
        owner = np.repeat(np.arange(space.size), space.widths)
        self._mask = (owner[:, np.newaxis] < owner).astype(np.float32) * autoregressive

    def log_prob_and_entropy(
        self, features: tf.Tensor, actions: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns log mu(a | s) and an entropy, in nats: [B, H], [B, D] -> [B] each.

        The entropy is the sum over sub-actions of the entropy of mu_d(. | s, a_<d) at the action.
        It is an estimate, not in the paper: an autoregressive mu's entropy has no closed form.
        """
        encoded = self.space.encode(actions)
        outputs = features @ self.state_weights + self.bias
        outputs += encoded @ (self._mask * self.action_weights)
        log_prob, entropy = tf.zeros_like(outputs[:, 0]), tf.zeros_like(outputs[:, 0])
        start = 0
        for k, run in itertools.groupby(self.space.choices):  # equal sub-actions at once
            count = len(list(run))
            block = slice(start, start + count * max(k, 1))
            start = block.stop
            shape = [-1, count, max(k, 1)]
            output, taken = (
                tf.reshape(outputs[:, block], shape),
                tf.reshape(encoded[:, block], shape),
            )
            if k:
                log_p = tf.nn.log_softmax(output)
                log_prob += tf.reduce_sum(taken * log_p, axis=[1, 2])
                entropy -= tf.reduce_sum(tf.exp(log_p) * log_p, axis=[1, 2])
            else:
                normalizer = 0.5 * math.log(2 * math.pi * self.variance)
                squares = tf.reduce_sum(tf.square(taken - output), axis=[1, 2])
                log_prob -= squares / (2 * self.variance) + count * normalizer
                entropy += count * (normalizer + 0.5)
        return log_prob, entropy


class _DistributionTwin:
    """Base of the twins: the parameters of a distribution in NumPy.

    Attributes:
      num_parameters: length P of the vector that `load` takes.
    """

    def __init__(self, distribution: "Proposal | FlatPolicy"):
        self._space = distribution.space
        self._shapes = packing.shapes(distribution.parameters)
        flat = packing.to_numpy(distribution.parameters)
        self.num_parameters = flat.size
        self.load(flat)

    def load(self, flat: np.ndarray) -> None:
        """Loads a copy of the parameters, [P] float32 in the order of `parameters`."""
        self._parameters = packing.unpack(np.array(flat, np.float32), self._shapes)


class ProposalTwin(_DistributionTwin):
    """NumPy twin of a `Proposal`, from which actors sample."""

    def __init__(self, proposal: Proposal):
        super().__init__(proposal)
        self._autoregressive = proposal.autoregressive
        is_value = np.repeat(np.array(self._space.choices) == 0, self._space.widths)
        self._value_columns = np.flatnonzero(is_value)
        self._deviation = np.float32(math.sqrt(proposal.variance))

    def sample(self, features: np.ndarray, num: int, generator: np.random.Generator) -> np.ndarray:
        """Returns independent samples for each state, float32 [K, num, D]; features are [K, H]."""
        space, rows = self._space, len(features) * num
        state_weights, action_weights, bias = self._parameters
        outputs = np.repeat(features @ state_weights + bias, num, axis=0)
        outputs += self._noise(rows, generator)
        actions = np.empty((rows, space.size), np.float32)
        encoded = np.zeros((rows, space.encoded_size), np.float32)
        starts = np.arange(rows) * space.encoded_size
        for d, (k, offset, width) in enumerate(zip(space.choices, space.offsets, space.widths)):
            output = outputs[:, offset : offset + width]
            if d and self._autoregressive:
                weights = action_weights[:offset, offset : offset + width]
                output += encoded[:, :offset] @ weights
            if k:
                index = output.argmax(axis=1)
                actions[:, d] = index
                encoded.ravel()[starts + (offset + index)] = 1
            else:
                np.clip(output[:, 0], -1, 1, out=actions[:, d])
                encoded[:, offset] = actions[:, d]
        return actions.reshape(len(features), num, space.size)

    def log_prob(self, features: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Returns log mu(a | s) in nats; the space must have no continuous sub-actions.

        Args:
          features: [K, H].
          actions: [K, D], an action at each state.

        Returns:
          [K] float32.
        """
        total = np.zeros(len(actions), np.float32)
        for logits, taken in self._logits(features, actions):
            largest = logits.max(axis=1, keepdims=True)
            normalizer = np.log(np.exp(logits - largest).sum(axis=1)) + largest[:, 0]
            total += (taken * logits).sum(axis=1) - normalizer
        return total

    def probabilities(self, features: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns mu_d(. | s, a_<d) of each sub-action at an action, float32 [K_d] each.

        Args:
          features: [H], the features of a state.
          action: [D], from a space without continuous sub-actions.
        """
        rows = self._logits(features[np.newaxis], action[np.newaxis])
        return tuple(categorical.softmax_np(logits)[0] for logits, _ in rows)

    def _logits(
        self, features: np.ndarray, actions: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields the logits of each sub-action at actions, and its encoding, [K, K_d] each."""
        encoded = self._space.encode(actions)
        state_weights, action_weights, bias = self._parameters
        outputs = features @ state_weights + bias
        for offset, width in zip(self._space.offsets, self._space.widths):
            block = slice(offset, offset + width)
            logits = outputs[:, block]
            if self._autoregressive:
                logits = logits + encoded[:, :offset] @ action_weights[:offset, block]
            yield logits, encoded[:, block]

    def _noise(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Returns noise [rows, S]: Gumbel for finite sub-actions, Gaussian for continuous ones.

        The index of the largest logit plus Gumbel noise is a sample of the softmax.
        """
        noise = generator.standard_exponential((rows, self._space.encoded_size), np.float32)
        np.maximum(noise, np.finfo(np.float32).tiny, out=noise)
        np.log(noise, out=noise)
        np.negative(noise, out=noise)
        if self._value_columns.size:
            shape = (rows, self._value_columns.size)
            normal = generator.standard_normal(shape, np.float32)
            noise[:, self._value_columns] = self._deviation * normal
        return noise


class FlatPolicy(snt.Module):
    """Distribution softmax(W h + b) over the indices of a finite space's actions.

    It is IMPALA's policy in DeepMind Lab. The paper does not say how IMPALA chooses among 3,528
    actions, only that they slow it down, which they would not with a product over sub-actions.

    Attributes:
      space: the space of the N actions.
      weights: [H, N].
      bias: [N].
      parameters: weights, then bias.
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


class FlatPolicyTwin(_DistributionTwin):
    """NumPy twin of a `FlatPolicy`."""

    def __init__(self, policy: FlatPolicy):
        super().__init__(policy)
        self._actions = policy.space.all_actions()

    def sample(self, features: np.ndarray, num: int, generator: np.random.Generator) -> np.ndarray:
        """Returns independent samples for each state, float32 [K, num, D]; features are [K, H]."""
        logits = self._logits(features)
        ends = np.exp(logits - logits.max(axis=1, keepdims=True)).cumsum(axis=1, dtype=np.float64)
        points = generator.random((len(features), num)) * ends[:, -1:]
        found = [np.searchsorted(*row, "right") for row in zip(ends, points)]
        return self._actions[np.minimum(found, len(self._actions) - 1)]

    def log_prob(self, features: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """Returns log pi(a | s) in nats: features [K, H], actions [K, D] -> float32 [K]."""
        logits = self._logits(features)
        logits -= logits.max(axis=1, keepdims=True)
        taken = logits[np.arange(len(logits)), self._space.flat_index(actions)]
        return taken - np.log(np.exp(logits).sum(axis=1))

    def _logits(self, features: np.ndarray) -> np.ndarray:
        weights, bias = self._parameters
        return features @ weights + bias
