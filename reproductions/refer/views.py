"""Inputs of the networks from a batch of steps: states, or windows for recurrent networks."""

import tensorflow as tf

from common.networks.recurrent import Window
from common.networks.standardizer import Standardizer
from common.types import EpisodeBatch, HistoryBatch


class StateView:
    """Steps for networks that see one state.

    Attributes:
      states: columns of [B, ...] at the steps.
      actions_before: None; those of a window.
      next_actions_before: likewise.
    """

    actions_before = next_actions_before = None

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


class WindowView:
    """Steps for recurrent networks, which begin with a state of zeros before a window of each.

    Attributes:
      states: columns of [B, ...] at the steps.
      actions_before: [B, H, A], in the windows before the steps.
      next_actions_before: [B, H + 1, A], before the states after the steps.
    """

    def __init__(self, steps: HistoryBatch, standardizer: Standardizer):
        self.actions_before = steps.states.action[:, :-2]
        self.next_actions_before = steps.states.action[:, :-1]
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


View = StateView | WindowView
