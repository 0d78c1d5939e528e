"""What the networks get of a batch of steps: single states, or windows for recurrent networks."""

import tensorflow as tf

from common.networks.recurrent import Window
from common.networks.standardizer import Standardizer
from common.types import EpisodeBatch, HistoryBatch


class StateView:
    """Steps for networks that see one state.

    Attributes:
      states: columns of [B, ...] at the steps.
    """

    def __init__(self, steps: EpisodeBatch, standardizer: Standardizer):
        self._next_states = steps.next_states
        self._standardizer = standardizer
        self.states = steps.states

    @property
    def observation(self) -> tf.Tensor:
        """A network's input at the steps: standardised observations [B, D]."""
        return self._standardizer(self.states.observation)

    @property
    def next_observation(self) -> tf.Tensor:
        """The input at the states after the steps, [B, D]."""
        return self._standardizer(self._next_states.observation)

    def action(self, last: tf.Tensor) -> tf.Tensor:
        """Returns a critic's second input for actions [B, A] at the steps: the same."""
        return last

    next_action = action


class WindowView:
    """Steps for recurrent networks, which begin with a state of zeros before a window of each.

    Attributes:
      states: columns of [B, ...] at the steps.
    """

    def __init__(self, steps: HistoryBatch, standardizer: Standardizer):
        self._windows = steps.states
        self._observation = standardizer(steps.states.observation)  # [B, H + 2, D]
        self._begins = self._observation.shape[1] - 2 - steps.lengths
        self.states = tf.nest.map_structure(lambda column: column[:, -2], steps.states)

    @property
    def observation(self) -> Window:
        """A network's input at the steps: the standardised observations up to them."""
        return Window(self._observation[:, :-1], self._begins)

    @property
    def next_observation(self) -> Window:
        """The input at the states after the steps."""
        return Window(self._observation, self._begins)

    def action(self, last: tf.Tensor) -> tf.Tensor:
        """Returns a critic's second input for actions [B, A] at the steps, after those before."""
        return tf.concat([self._windows.action[:, :-2], last[:, tf.newaxis]], axis=1)

    def next_action(self, last: tf.Tensor) -> tf.Tensor:
        """Returns the same for actions at the states after the steps."""
        return tf.concat([self._windows.action[:, :-1], last[:, tf.newaxis]], axis=1)


View = StateView | WindowView
