"""A deterministic policy and the critic that it climbs: learnt, saved and sent together."""

from typing import NamedTuple

from common.networks import control, heads


class ActorCritic(NamedTuple):
    """policy: [B, D] -> [B, A]. critic: ([B, D], [B, A]) -> outputs [B, ...], as its head's."""

    policy: control.ControlPolicy
    critic: heads.Critic

    @property
    def variables(self) -> tuple:
        """Of the policy, then of the critic: the order in which they are packed for the actors."""
        return (*self.policy.trainable_variables, *self.critic.trainable_variables)
