"""Configuration of agents that learn from rollouts. This module does not import TensorFlow."""

from common.config import Config

HELD_ROLLOUTS = 2
"""Rollouts that a store has room for, since actors may send twice."""


class RolloutConfig(Config):
    """Base of hyperparameters: what all agents have follows from the sizes of a rollout.

    Attributes:
      horizon: steps of a rollout.
      num_epochs: passes over a rollout.
    """

    horizon: int
    num_epochs: int

    @property
    def replay_capacity(self) -> int:
        """Steps that the store of the rollout holds."""
        return HELD_ROLLOUTS * self.horizon

    @property
    def min_replay_size(self) -> int:
        """Steps before the first update: none but those of a rollout."""
        return 0

    @property
    def samples_per_insert(self) -> float:
        """Steps learnt from per environment step."""
        return float(self.num_epochs)

    @property
    def actor_period(self) -> int:
        """Timesteps between pulls of parameters: none within a rollout."""
        return self.horizon
