"""Configuration of agents that learn from rollouts. This module does not import TensorFlow."""

from common.config import Config

HELD_ROLLOUTS = 2
"""Capacity of a store in rollouts: 2, because actors may send a rollout twice."""


class RolloutConfig(Config):
    """Base of hyperparameters; the sizes of a rollout determine the fields common to all agents.

    Attributes:
      horizon: steps of a rollout.
      num_epochs: passes over a rollout.
    """

    horizon: int
    num_epochs: int

    @property
    def replay_capacity(self) -> int:
        """Capacity of the store of rollouts, in steps."""
        return HELD_ROLLOUTS * self.horizon

    @property
    def min_replay_size(self) -> int:
        """Steps before the first update, in addition to a full rollout: 0."""
        return 0

    @property
    def samples_per_insert(self) -> float:
        """Steps drawn for updates per environment step."""
        return float(self.num_epochs)

    @property
    def actor_period(self) -> int:
        """Timesteps between requests for parameters: a whole rollout."""
        return self.horizon
