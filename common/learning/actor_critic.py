"""One step of a policy and a critic: what DDPG, D3PG, Ape-X DPG and D4PG share.

Which losses the two descend is the paper's own: its `learner.py` has them.
"""

from collections.abc import Callable
from typing import NamedTuple

import sonnet as snt
import tensorflow as tf

from common.learning import optimizers, targets
from common.networks.actor_critic import ActorCritic

METRICS = (
    "critic_loss",
    "mean_q",
    "priority_mean",
    "importance_weight_mean",
    "importance_weight_max",
    "critic_gradient_norm",
    "policy_gradient_norm",
)
"""What an update reports, with its columns in learner.csv."""


class Step(NamedTuple):
    """What a step found, all but `errors` scalars.

    errors: [B], what the critic's loss gave besides: TD errors or distances, before the step.
    mean_q: what the policy's loss gave besides: the mean value of its actions.
    critic_gradient_norm, policy_gradient_norm: before any clipping.
    """

    errors: tf.Tensor
    critic_loss: tf.Tensor
    mean_q: tf.Tensor
    critic_gradient_norm: tf.Tensor
    policy_gradient_norm: tf.Tensor

    def metrics(self, priorities: tf.Tensor, weights: tf.Tensor) -> dict[str, tf.Tensor]:
        """The METRICS, with the new priorities [B] and the importance weights [B]."""
        values = (
            self.critic_loss,
            self.mean_q,
            tf.reduce_mean(priorities),
            tf.reduce_mean(weights),
            tf.reduce_max(weights),
            self.critic_gradient_norm,
            self.policy_gradient_norm,
        )
        return dict(zip(METRICS, values, strict=True))


Loss = Callable[[], tuple[tf.Tensor, tf.Tensor]]
"""Gives a scalar, and what the step keeps besides."""


class ActorCriticLearner(tf.Module):
    """Online and target networks, an optimiser for each of policy and critic.

    A paper's learner inherits it and adds `update`, see `common.agents.agent.Learner`.
    """

    def __init__(
        self,
        make_networks: Callable[[], ActorCritic],
        make_optimizer: Callable[[], snt.Optimizer],
        target_period: int,
        max_critic_gradient_norm: float | None = None,
    ):
        """Builds all variables, also the optimisers'; targets begin as copies.

        Args:
          make_networks: called for the online ones, then for the targets.
          make_optimizer: called for the policy's, then for the critic's.
          target_period: steps from one copy of both targets to the next.
          max_critic_gradient_norm: the critic's gradient is scaled down to this global norm; None:
            as it is.
        """
        super().__init__()
        self._target_period = target_period
        self._max_critic_gradient_norm = max_critic_gradient_norm
        self.networks = make_networks()
        self.target_networks = make_networks()
        targets.copy(self.networks.variables, self.target_networks.variables)
        self.policy_optimizer = make_optimizer()
        self.critic_optimizer = make_optimizer()
        optimizers.create_variables(self.policy_optimizer, self.networks.policy.trainable_variables)
        optimizers.create_variables(self.critic_optimizer, self.networks.critic.trainable_variables)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="learner_steps")

    @property
    def actor_variables(self) -> tuple:
        """What is replicated to the actors: the online policy and critic."""
        return self.networks.variables

    def descend(self, critic_loss: Loss, policy_loss: Loss) -> Step:
        """One step of both optimisers, then the targets' turn.

        Both gradients are of the same networks, before either changes. The critic gets none from
        `policy_loss`, whatever it is.
        """
        policy_variables = self.networks.policy.trainable_variables
        critic_variables = self.networks.critic.trainable_variables
        with tf.GradientTape() as critic_tape:
            loss, errors = critic_loss()
        with tf.GradientTape() as policy_tape:
            to_descend, mean_q = policy_loss()
        critic_gradient = critic_tape.gradient(loss, critic_variables)
        policy_gradient = policy_tape.gradient(to_descend, policy_variables)
        critic_norm = tf.linalg.global_norm(critic_gradient)
        if self._max_critic_gradient_norm is not None:
            critic_gradient, _ = tf.clip_by_global_norm(
                critic_gradient, self._max_critic_gradient_norm, critic_norm
            )
        self.critic_optimizer.apply(critic_gradient, critic_variables)
        self.policy_optimizer.apply(policy_gradient, policy_variables)

        self.steps.assign_add(1)
        targets.copy_periodically(
            self.steps, self._target_period, self.networks.variables, self.target_networks.variables
        )
        return Step(errors, loss, mean_q, critic_norm, tf.linalg.global_norm(policy_gradient))
