"""Ape-X DPG (Horgan et al. 2018), from observation to loss; equations numbered as in the README.

Policy pi and critic q (section 3.2, appendix D) learn from n-step returns (algorithm 2). Actors
compute initial priorities (algorithm 1).
"""

import numpy as np
import tensorflow as tf

from common.agents import actor_critic
from common.agents.actor_critic import (
    ActorCritic,
    ActorCriticActor,
    ActorCriticAgent,
    ActorCriticLearner,
    make_optimizers,
)
from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Gradients
from common.networks import control
from common.types import Batch
from common.values import policy_gradients, value_learning
from reproductions.apex.dpg.config import AGENT, DPGConfig

_ACTIVATIONS = {"elu": tf.nn.elu, "tanh": tf.tanh}


def make_networks(config: DPGConfig, spec: EnvironmentSpec) -> ActorCritic:
    """Builds both networks and their variables (phi, psi).

    The critic's layers are 400, tanh, 300 and a scalar; the policy's are 300, tanh, 200 and the
    action. The paper does not say what follows the second layer, or where the action enters the
    critic; here it enters with the observation.
    """
    activation = _ACTIVATIONS[config.activation]
    return actor_critic.make_networks(config, spec, control.ScalarHead(), activation)


def td_errors(
    transition: StoredTransition, networks: ActorCritic, target: ActorCritic
) -> tf.Tensor:
    """Returns delta_t = G_t - q(S_t, A_t, psi), [B] (eqs 15, 16).

        G_t = R_{t:t+n} + gamma_{t:t+n} q(S_{t+n}, pi(S_{t+n}, phi^-), psi^-)

    No gradient flows into G_t.

    Args:
      transition: B transitions.
      networks: the online networks (phi, psi).
      target: the target networks (phi^-, psi^-).
    """
    state = transition.observation_t
    bootstrap = target.critic(state, target.policy(state))
    returns = transition.n_step_reward + transition.n_step_discount * bootstrap
    prediction = networks.critic(transition.observation_tm1, transition.action_tm1)
    return tf.stop_gradient(returns) - prediction


def critic_loss(errors: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Returns 1/B sum_k w_k 1/2 delta_k^2 (eqs 12, 16): errors [B], weights [B] -> scalar."""
    return tf.reduce_mean(weights * 0.5 * tf.square(errors))


def policy_loss(
    observation: tf.Tensor,
    networks: ActorCritic,
    dqda_clip: float | None,
    dqda_norm: float | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns a loss whose minimisation raises q(S_t, pi(S_t, phi), psi), psi held fixed (eq 17).

    Returns:
      A loss whose gradient with respect to phi is equation 17 with the sign reversed and dq/da
      clipped (appendix D), the mean of q, and the share of saturated actions.
    """
    return policy_gradients.dpg_loss(
        networks.policy(observation),
        lambda action: networks.critic(observation, action),
        dqda_clip,
        dqda_norm,
    )


class DPGLearner(ActorCriticLearner):
    """Learner with (phi, psi), (phi^-, psi^-), two Adams, and algorithm 2's update."""

    def __init__(self, config: DPGConfig, spec: EnvironmentSpec):
        super().__init__(
            lambda: make_networks(config, spec),
            *make_optimizers(config.learning_rate, config),
            config.target_period,
            target_rate=config.target_rate,
            critic_decay=config.critic_decay,
            max_critic_norm=config.max_gradient_norm,
            max_policy_element=config.weight_clip,
        )
        self._config = config

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B transitions.

        The outputs are the new priorities |delta| + floor [B] (eqs 9, 19).
        """
        steps: StoredTransition = batch.steps
        last = self.target_networks.features(steps.observation_t)
        weights = value_learning.normalize_by_max(
            value_learning.importance_weights(
                batch.probabilities, batch.size, self._config.importance_exponent
            )
        )

        def weighted_loss(state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            transition = steps._replace(observation_tm1=state, observation_t=last)
            errors = td_errors(transition, self.networks, self.target_networks)
            return critic_loss(errors, weights), errors

        gradients = self.gradients_of(
            steps.observation_tm1,
            weighted_loss,
            lambda state: policy_loss(
                state, self.networks, self._config.dqda_clip or None, self._config.dqda_norm or None
            ),
        )
        priorities = tf.abs(gradients.errors) + self._config.priority_floor
        return Gradients(gradients, priorities, gradients.metrics(priorities, weights))


class DPGActor(ActorCriticActor):
    """Actor with a = pi(S, phi) + N(0, sigma^2 I), clipped to the bounds (eq 18).

    sigma is the same for all actors.
    """

    def __init__(self, config: DPGConfig, spec: EnvironmentSpec, seed: int):
        super().__init__(config, make_networks(config, spec), spec.action_size, seed)
        self._priority_floor = config.priority_floor

    def initial_priorities(
        self,
        transitions: StoredTransition,
        extras_tm1: dict[str, np.ndarray],
        extras_t: dict[str, np.ndarray],
    ) -> np.ndarray:
        """Returns |R + gamma_{t:t+n} q(S_{t+n}, pi(S_{t+n})) - q(S_t, A_t)| + floor (eqs 13, 19).

        q and pi are the actor's copies of the online networks as they were when it observed each
        state.

        Returns:
          [M] float32.
        """
        bootstrap = transitions.n_step_discount * extras_t["bootstrap"]
        errors = transitions.n_step_reward + bootstrap - extras_tm1["taken"]
        return (np.abs(errors) + self._priority_floor).astype(np.float32)


class ApexDPG(ActorCriticAgent):
    """Ape-X DPG, and its studies by configuration."""

    declaration = AGENT

    def __init__(self, config: DPGConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting, make_networks, is_soft=True)
        self.trim_period = config.removal_period
        # `config.prefetch` batches, rounded up to whole calls.
        self.prefetch = -(-config.prefetch // config.updates_per_call)

    def build_learner(self, spec: EnvironmentSpec, seed: int) -> DPGLearner:
        """Builds the learner of algorithm 2."""
        del seed
        return DPGLearner(self.config, spec)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> DPGActor:
        """Builds the actor of algorithm 1; actors differ only in their noise."""
        del actors, num_actors  # the NumPy twins take batches of any size
        return DPGActor(self.config, spec, seed)
