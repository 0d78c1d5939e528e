"""Product spaces of sub-actions (section 2). Importing this module does not import TensorFlow."""

from collections.abc import Sequence
import math
from typing import Any

import numpy as np

from common.environments import lab_actions
from common.environments.spec import EnvironmentSpec


def own_choices(spec: EnvironmentSpec, num_levels: int) -> tuple[int, ...]:
    """Returns K of each sub-action of the action set "own"; see `ActionSpace.of`."""
    if spec.is_discrete:
        return (spec.action_size,)
    return tuple(k or num_levels for k in spec.action_choices or (0,) * spec.action_size)


class ActionSpace:
    """A product A_1 x ... x A_D of finite sets and intervals [-1, 1].

    An action is float32 [..., D]: an index 0 .. K - 1 for a sub-action with K choices, a value in
    [-1, 1] for a continuous sub-action. Its encoding is float32 [..., S]: a one-hot vector for each
    finite sub-action, the value for each continuous sub-action.

    Attributes:
      choices: K of each sub-action; 0 for a continuous sub-action.
      size: D, the number of sub-actions.
      widths: number of entries of each sub-action in an encoding, max(K, 1).
      offsets: index of each sub-action's first entry in an encoding.
      encoded_size: S, the number of entries in an encoding.
      num_actions: product of the choices; infinity if a sub-action is continuous.
      elements: the argument of the constructor.
    """

    def __init__(self, choices: Sequence[int], elements: Sequence[np.ndarray] = ()):
        """Creates the space.

        Args:
          choices: K of each sub-action; 0 for the interval [-1, 1].
          elements: an array int [K, E] for each sub-action, the E elements of the environment's
            action for which each choice stands. If empty, each choice is itself an element.
        """
        self.choices = tuple(int(k) for k in choices)
        self.size = len(self.choices)
        self.elements = tuple(elements)
        self.widths = tuple(max(k, 1) for k in self.choices)
        self.encoded_size = sum(self.widths)
        self.offsets = tuple(int(i) for i in np.cumsum((0, *self.widths[:-1])))
        self.num_actions = math.prod(self.choices) if min(self.choices) else math.inf
        counts = np.array(self.choices)
        self._is_continuous = counts == 0
        self._counts = counts.astype(np.float32)
        # The value of an index is linspace(-1, 1, K)[index], or 0 if K is 1.
        self._scales = np.where(counts > 1, 2.0 / np.maximum(counts - 1, 1), 0.0)
        self._scales[self._is_continuous] = 1.0
        self._lows = np.where(counts > 1, -1.0, 0.0)
        # For each entry of an encoding: its sub-action, its index there, whether it is a value.
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
          spec: the environment's spec. Integers and discrete actions keep their own choices.
          num_levels: number of choices of each continuous element; 0 leaves them continuous.
          action_set: "own", the environment's actions; for the integers of DeepMind Lab also
            "structured", seven sub-actions of a few values each, or "curated", one sub-action.
        """
        if action_set != "own":
            elements = [np.array(lab_actions.CURATED)]
            if action_set == "structured":
                elements = [np.array(rows)[:, np.newaxis] for rows in lab_actions.STRUCTURED]
            return cls([len(rows) for rows in elements], elements)
        return cls(own_choices(spec, num_levels))

    def to_environment(self, actions: np.ndarray, spec: EnvironmentSpec) -> np.ndarray:
        """Converts actions [K, D] to the form that the environment takes.

        Returns:
          int32 [K] for discrete actions, int32 [K, N] for N integers, canonical float32 [K, D] for
          continuous actions. Hybrid actions are float32 [K, D] with indices of finite elements.
        """
        if self.elements:
            parts = [rows[actions[:, d].astype(np.intp)] for d, rows in enumerate(self.elements)]
            return np.concatenate(parts, axis=1).astype(np.int32)
        if spec.is_discrete:
            return actions[:, 0].astype(np.int32)
        if spec.is_hybrid:
            return np.where(spec.action_choices, actions, self.values(actions))
        return actions.astype(np.int32) if spec.action_choices else self.values(actions)

    def values(self, actions: Any) -> Any:
        """Returns canonical values in [-1, 1]: array or tensor [..., D] -> the same, float32."""
        if isinstance(actions, np.ndarray):
            return (self._lows + self._scales * actions).astype(np.float32)
        import tensorflow as tf

        return tf.cast(self._lows + self._scales * tf.cast(actions, tf.float64), tf.float32)

    def uniform(self, shape: Sequence[int], generator: np.random.Generator) -> np.ndarray:
        """Returns uniformly random actions, float32 [*shape, D]."""
        numbers = generator.random((*shape, self.size), np.float32)  # below 1, also times K
        return np.where(self._is_continuous, 2 * numbers - 1, np.floor(numbers * self._counts))

    def encode(self, actions: Any) -> Any:
        """Returns encodings: array or tensor [..., D] -> the same kind [..., S].

        Encodings have the dtype of the actions if that is floating, otherwise float32.
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
        """Returns a finite space's actions, float32 [num_actions, D], in `flat_index` order."""
        every = np.unravel_index(np.arange(self.num_actions), self.choices)
        return np.stack(every, axis=-1).astype(np.float32)

    def flat_index(self, actions: Any) -> Any:
        """Returns indices into `all_actions`: array or tensor [..., D] -> the same, int64 [...]."""
        if isinstance(actions, np.ndarray):
            actions = actions.astype(np.int64)
        else:
            import tensorflow as tf

            actions = tf.cast(actions, tf.int64)
        number = actions[..., 0]
        for d, choices in enumerate(self.choices[1:], start=1):
            number = number * choices + actions[..., d]
        return number
