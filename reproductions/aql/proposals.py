"""The proposal distribution mu(a | s), a product of softmax and Gaussian sub-actions (section 4).

Its features, those of the state, come from hidden layers before it (`networks`).

Product spaces of sub-actions (section 2). This module does not import TensorFlow by itself.
"""

from collections.abc import Sequence
import itertools
import math
from typing import Any

import numpy as np
import sonnet as snt
import tensorflow as tf

from common.environments import lab_actions
from common.environments.spec import EnvironmentSpec
from common.networks import packing


def own_choices(spec: EnvironmentSpec, num_levels: int) -> tuple[int, ...]:
    """Returns K of each of an environment's own sub-actions; see `ActionSpace.of`."""
    if spec.is_discrete:
        return (spec.action_size,)
    return spec.action_choices or (num_levels,) * spec.action_size


class ActionSpace:
    """A product A_1 x ... x A_D of finite sets and intervals [-1, 1].

    An action is float32 [..., D]: of a sub-action with K choices the index 0 .. K - 1, of a
    continuous one its value in [-1, 1]. Its encoding is float32 [..., S]: one-hot numbers of each
    finite sub-action, the value of each continuous one.

    Attributes:
      choices: K of each sub-action; 0 of a continuous one.
      size: D.
      widths: entries of each sub-action in an encoding, max(K, 1).
      offsets: index of each sub-action's first entry in an encoding.
      encoded_size: S.
      num_actions: product of the choices; infinity if a sub-action is continuous.
    """

    def __init__(self, choices: Sequence[int], elements: Sequence[np.ndarray] = ()):
        """Makes the space of sub-actions with `choices` values each, or 0 for [-1, 1].

        Args:
          choices: K of each sub-action.
          elements: of each sub-action int [K, E], the E elements of an environment's action for
            which each of its choices stands. Without them a choice is an element.

        Raises:
          ValueError: there is no sub-action, or one has a negative number of choices.
        """
        self.choices = tuple(int(k) for k in choices)
        if not self.choices or min(self.choices) < 0:
            raise ValueError(f"choices must be one or more numbers of at least 0, got {choices}")
        self.size = len(self.choices)
        self._elements = tuple(elements)
        self.widths = tuple(max(k, 1) for k in self.choices)
        self.encoded_size = sum(self.widths)
        self.offsets = tuple(int(i) for i in np.cumsum((0, *self.widths[:-1])))
        self.num_actions = math.prod(self.choices) if min(self.choices) else math.inf
        counts = np.array(self.choices)
        self._is_continuous = counts == 0
        self._counts = counts.astype(np.float32)
        # The value of an index is linspace(-1, 1, K)[index], 0 if there is one only.
        self._scales = np.where(counts > 1, 2.0 / np.maximum(counts - 1, 1), 0.0)
        self._scales[self._is_continuous] = 1.0
        self._lows = np.where(counts > 1, -1.0, 0.0)
        # By entry of an encoding: its sub-action, its index there, whether it is a value.
        self._owners = np.repeat(np.arange(self.size), self.widths)
        self._indices = (
            np.arange(self.encoded_size) - np.repeat(self.offsets, self.widths)
        ).astype(np.float32)
        self._is_value = np.repeat(self._is_continuous, self.widths)
        self._choice_offsets = np.array(self.offsets)[~self._is_continuous]

    @classmethod
    def of(cls, spec: EnvironmentSpec, num_levels: int, action_set: str = "own") -> "ActionSpace":
        """Returns the space of an environment.

        Args:
          spec: of the environment. Integers and discrete actions have their own choices.
          num_levels: choices of each element of a continuous action; 0 leaves it continuous.
          action_set: "own", the environment's actions; of the integers of DeepMind Lab
            "structured", seven sub-actions of a few values, or "curated", one sub-action.
        """
        if action_set != "own":
            elements = [np.array(lab_actions.CURATED)]
            if action_set == "structured":
                elements = [np.array(one)[:, np.newaxis] for one in lab_actions.STRUCTURED]
            return cls([len(rows) for rows in elements], elements)
        return cls(own_choices(spec, num_levels))

    def to_environment(self, actions: np.ndarray, spec: EnvironmentSpec) -> np.ndarray:
        """Returns actions [K, D] as an environment takes them.

        Returns:
          int32 [K] of a discrete action, int32 [K, D] of integers, canonical float32 [K, D].
        """
        if self._elements:
            parts = [rows[actions[:, d].astype(np.intp)] for d, rows in enumerate(self._elements)]
            return np.concatenate(parts, axis=1).astype(np.int32)
        if spec.is_discrete:
            return actions[:, 0].astype(np.int32)
        return actions.astype(np.int32) if spec.action_choices else self.values(actions)

    def values(self, actions: np.ndarray) -> np.ndarray:
        """Returns canonical values in [-1, 1] of actions, float32 [..., D]."""
        return (self._lows + self._scales * actions).astype(np.float32)

    def uniform(self, shape: Sequence[int], generator: np.random.Generator) -> np.ndarray:
        """Returns uniformly random actions, float32 [*shape, D]."""
        numbers = generator.random((*shape, self.size), np.float32)  # below 1, also times K
        return np.where(self._is_continuous, 2 * numbers - 1, np.floor(numbers * self._counts))

    def encode(self, actions: Any) -> Any:
        """Returns encodings: array or tensor [..., D] -> the same kind [..., S].

        The dtype is that of the actions if it is floating, otherwise float32.
        """
        if isinstance(actions, np.ndarray):
            if actions.dtype.kind != "f":
                actions = actions.astype(np.float32)
            rows = actions.reshape(-1, self.size)
            encoded = np.zeros((len(rows), self.encoded_size), actions.dtype)
            entries = rows[:, ~self._is_continuous].astype(np.intp) + self._choice_offsets
            entries += np.arange(len(rows))[:, np.newaxis] * self.encoded_size
            encoded.ravel()[entries.ravel()] = 1
            encoded[:, self._is_value] = rows[:, self._is_continuous]
            return encoded.reshape(*actions.shape[:-1], self.encoded_size)
        import tensorflow as tf

        if not actions.dtype.is_floating:
            actions = tf.cast(actions, tf.float32)
        spread = tf.gather(actions, self._owners, axis=-1)
        one_hot = tf.cast(tf.equal(spread, self._indices.astype(spread.dtype.name)), spread.dtype)
        return tf.where(self._is_value, spread, one_hot)

    def all_actions(self) -> np.ndarray:
        """Returns every action of a finite space, float32 [num_actions, D], by `flat_index`."""
        every = np.unravel_index(np.arange(self.num_actions), self.choices)
        return np.stack(every, axis=-1).astype(np.float32)

    def flat_index(self, actions: Any) -> Any:
        """Returns numbers of a finite space's actions: [..., D] -> the same kind, int64 [...]."""
        if isinstance(actions, np.ndarray):
            actions = actions.astype(np.int64)
        else:
            import tensorflow as tf

            actions = tf.cast(actions, tf.int64)
        number = actions[..., 0]
        for d, choices in enumerate(self.choices[1:], start=1):
            number = number * choices + actions[..., d]
        return number


OUTPUT_SCALE = 0.01
"""Weights begin this much smaller than Sonnet's, so that the first proposals are near uniform."""


class Proposal(snt.Module):
    """Distribution mu(a | s) = prod_d mu_d(a_d | s, a_<d) (section 4).

    Logits or means are linear in the features of the state and the encodings of the sub-actions
    before, as section 5.1 says. A continuous sub-action, for which it has no encoding, enters with
    its value, and its Gaussian's mean is linear, too. Samples are clipped to [-1, 1]; the density
    is the Gaussian's own.

    Attributes:
      state_weights: [H, S], of the features.
      action_weights: [S, S], row: an entry of an earlier sub-action's encoding. All other entries
        count nothing, and without autoregression none counts.
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
          space: of the actions, D sub-actions with S entries in an encoding.
          autoregressive: whether a sub-action depends on those before it (appendix A3).
          variance: of each continuous sub-action (section 5.1).
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

    def log_prob(self, features: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Returns log mu(a | s) in nats: features [B, H], actions [B, D] -> [B]."""
        return self.log_prob_and_entropy(features, actions)[0]

    def entropy(self, features: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """Returns the sum over sub-actions of the entropies of mu_d(. | s, a_<d) along an action.

        The entropy of an autoregressive mu has no closed form. This estimate is not in the paper.

        Args:
          features: [B, H].
          actions: [B, D], teachers of the sub-actions after them.

        Returns:
          [B], in nats.
        """
        return self.log_prob_and_entropy(features, actions)[1]

    def log_prob_and_entropy(
        self, features: tf.Tensor, actions: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns `log_prob` and `entropy`, [B] each, from one pass through the layer."""
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


class ProposalTwin:
    """NumPy twin of a `Proposal`, from which actors sample.

    Attributes:
      num_parameters: length P of the vector that `load` takes.
    """

    def __init__(self, proposal: Proposal):
        self._space = proposal.space
        self._autoregressive = proposal.autoregressive
        self._shapes = packing.shapes(proposal.parameters)
        is_value = np.repeat(np.array(self._space.choices) == 0, self._space.widths)
        self._value_columns = np.flatnonzero(is_value)
        self._deviation = np.float32(math.sqrt(proposal.variance))
        flat = packing.to_numpy(proposal.parameters)
        self.num_parameters = flat.size
        self.load(flat)

    def load(self, flat: np.ndarray) -> None:
        """Loads a copy of the parameters, [P] float32 in the order of `Proposal.parameters`."""
        arrays = packing.unpack(np.array(flat, np.float32), self._shapes)
        self._state_weights, self._action_weights, self._bias = arrays

    def sample(self, features: np.ndarray, num: int, generator: np.random.Generator) -> np.ndarray:
        """Returns independent actions of each state, float32 [K, num, D], given features [K, H]."""
        space, rows = self._space, len(features) * num
        outputs = np.repeat(features @ self._state_weights + self._bias, num, axis=0)
        outputs += self._noise(rows, generator)
        actions = np.empty((rows, space.size), np.float32)
        encoded = np.zeros((rows, space.encoded_size), np.float32)
        starts = np.arange(rows) * space.encoded_size
        for d, (k, offset, width) in enumerate(zip(space.choices, space.offsets, space.widths)):
            output = outputs[:, offset : offset + width]
            if d and self._autoregressive:
                weights = self._action_weights[:offset, offset : offset + width]
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
        """Returns log mu(a | s) in nats, of a space without continuous sub-actions.

        Args:
          features: [K, H].
          actions: [K, D], one at each state.

        Returns:
          [K] float32.
        """
        space = self._space
        encoded = space.encode(actions)
        outputs = features @ self._state_weights + self._bias
        total = np.zeros(len(actions), np.float32)
        for offset, width in zip(space.offsets, space.widths):
            block = slice(offset, offset + width)
            logits = outputs[:, block]
            if self._autoregressive:
                logits = logits + encoded[:, :offset] @ self._action_weights[:offset, block]
            largest = logits.max(axis=1, keepdims=True)
            normalizer = np.log(np.exp(logits - largest).sum(axis=1)) + largest[:, 0]
            total += (encoded[:, block] * logits).sum(axis=1) - normalizer
        return total

    def probabilities(self, features: np.ndarray, action: np.ndarray) -> tuple[np.ndarray, ...]:
        """Returns mu_d(. | s, a_<d) of each sub-action along an action, float32 [K_d] each.

        Args:
          features: [H] of a state.
          action: [D], of a space without continuous sub-actions.
        """
        space = self._space
        encoded = space.encode(action)
        found = []
        for offset, width in zip(space.offsets, space.widths):
            block = slice(offset, offset + width)
            logits = features @ self._state_weights[:, block] + self._bias[block]
            if self._autoregressive:
                logits += encoded[:offset] @ self._action_weights[:offset, block]
            exponentials = np.exp(logits - logits.max())
            found.append(exponentials / exponentials.sum())
        return tuple(found)

    def _noise(self, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Returns noise [rows, S]: Gumbel's, whose maximum samples a softmax, and Gaussian."""
        noise = generator.standard_exponential((rows, self._space.encoded_size), np.float32)
        np.maximum(noise, np.finfo(np.float32).tiny, out=noise)
        np.log(noise, out=noise)
        np.negative(noise, out=noise)
        if self._value_columns.size:
            shape = (rows, self._value_columns.size)
            normal = generator.standard_normal(shape, np.float32)
            noise[:, self._value_columns] = self._deviation * normal
        return noise
