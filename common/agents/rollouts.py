"""Data of rollouts: the steps of all actors with one version of the parameters."""

from collections.abc import Sequence
import math
from typing import Any

import tensorflow as tf

from common.acting.rollout_adder import RolloutAdder
from common.agents.data import Data
from common.agents.rollout_config import HELD_ROLLOUTS
from common.remote.outbox import Delivery, Writer
from common.replay.rate_limiter import UNLIMITED, RateLimiter
from common.replay.rollout_store import Rollout, RolloutStore, RolloutWire
from common.types import AddedRollout, Nest, RolloutSteps


class Rollouts(Data):
    """Rollouts of a horizon of steps, of which each actor makes its share and then waits.

    The columns of the store are those of the states, with the step's reward, value and advantage.
    """

    on_policy = True
    in_lockstep = True

    def __init__(
        self, horizon: int, discount: float, lambda_: float, unroll_length: int | None = None
    ):
        """Takes a rollout's size and the terms of its advantages.

        Args:
          horizon: steps of all actors in a rollout.
          discount: gamma, per step.
          lambda_: of generalised advantage estimation.
          unroll_length: see `RolloutAdder`.
        """
        self._horizon = horizon
        self._of_advantages = discount, lambda_, unroll_length

    def make_adder(self, num_environments: int, share: float = 1.0) -> RolloutAdder:
        """Builds the adder for a batch of environments."""
        # Rounded, since the share of three actors of seven is no number of binary digits.
        num_steps = math.ceil(round(share * self._horizon, 6))
        return RolloutAdder(num_environments, num_steps, *self._of_advantages)

    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> RolloutStore:
        """Builds the store, with room for actors that send twice; see base class."""
        del seed, num_shards
        return RolloutStore(_columns(specs), HELD_ROLLOUTS * self._horizon)

    def wire(self, specs: Nest) -> RolloutWire:
        """See base class."""
        return RolloutWire(_columns(specs))

    def make_writer(self, **_: Any) -> Writer:
        """Builds the writer of some actors; see base class."""
        return _RolloutWriter()

    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns no limit: actors wait for the parameters that were made of their steps."""
        del num_samples, num_ahead
        return UNLIMITED


def _columns(states: Nest) -> RolloutSteps:
    scalar = tf.TensorSpec([])
    return RolloutSteps(states, scalar, scalar, scalar)


class _RolloutWriter(Writer):
    def count_steps(self, added: AddedRollout) -> int:
        """Returns the number of steps executed."""
        return added.num_steps

    def deliveries(self, collected: Sequence[AddedRollout]) -> list[Delivery]:
        """Returns each part of a rollout by itself."""
        return [
            Delivery(Rollout(added.version, added.steps), added.num_steps) for added in collected
        ]
