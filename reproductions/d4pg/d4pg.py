"""D4PG (Barth-Maron et al. 2018), from observation to loss; equations numbered as in the README.

The critic Z_w(x, a) has one of three kinds of output layer (figure 7): categorical, a mixture of
Gaussians, or the mean alone, as in D3PG and DDPG. A kind says what the outputs mean: the backup Y,
the distance d(Y, Z) that the critic minimises, the mean that the policy maximises, and the priority
that follows from the distance. Networks, learner and actors are the same for all kinds.
"""

from typing import Protocol

import numpy as np
import sonnet as snt
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
from common.values import categorical, gaussian, policy_gradients
from common.values.value_learning import importance_weights
from reproductions.d4pg.config import AGENT, D4PGConfig


class CriticKind(Protocol):
    """Output layer of a critic and the meaning of its outputs, [B] or [B, F]."""

    def head(self) -> snt.Module:
        """Builds the output layer."""

    def backup(self, reward: tf.Tensor, discount: tf.Tensor, outputs: tf.Tensor, seed: tf.Tensor):
        """Returns Y = R_N + gamma_N Z' (eq 9).

        Args:
          reward: [B], R_N.
          discount: [B], gamma_N.
          outputs: outputs of the target critic, which parameterise Z'.
          seed: [2] int32, for kinds that draw samples.

        Returns:
          [B] or [B, ...], in the representation that `distance` takes.
        """

    def distance(self, target: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Returns d(Y, Z), [B]; no gradient flows into Y = `target`."""

    def mean(self, outputs: tf.Tensor) -> tf.Tensor:
        """Returns E[Z], [B]."""

    def priorities(self, distance):
        """Returns raw priorities [B], not negative, of distances, a tensor or an array."""

    def initial_distance(
        self, transitions: StoredTransition, taken: np.ndarray, bootstrap: np.ndarray
    ) -> np.ndarray:
        """Returns d(Y, Z), [M], from the outputs of an actor's critic.

        Args:
          transitions: M transitions.
          taken: [M, ...], outputs at (x_i, a_i).
          bootstrap: [M, ...], outputs at (x_{i+N}, pi(x_{i+N})).
        """


class CategoricalCritic:
    """Critic of D4PG: probabilities of l fixed atoms (appendix A).

    Attributes:
      support: [l] float32, the atoms.
    """

    def __init__(self, config: D4PGConfig):
        self.support = categorical.support(config.v_min, config.v_max, config.num_atoms)
        self._support_np = self.support.numpy()

    def head(self) -> snt.Module:
        """Builds the layer of l logits."""
        return control.CategoricalHead(len(self._support_np))

    def backup(self, reward, discount, outputs, seed):
        """Returns the moved atoms' projection onto the support (eq 15): probabilities [B, l]."""
        del seed
        positions = categorical.target_positions(reward, discount, self.support)
        return categorical.project(positions, tf.nn.softmax(outputs), self.support)

    def distance(self, target, outputs):
        """Returns the cross-entropy (eq 16)."""
        return categorical.cross_entropy(target, outputs)

    def mean(self, outputs):
        """Returns the expected atom (eq 7)."""
        return categorical.mean(outputs, self.support)

    def priorities(self, distance):
        """Returns the distance itself, "the absolute distributional TD-error" (section 4)."""
        return distance

    def initial_distance(self, transitions, taken, bootstrap):
        """Returns the cross-entropy with the projected backup, in NumPy (eqs 15, 16)."""
        positions = (
            transitions.n_step_reward[:, np.newaxis]
            + transitions.n_step_discount[:, np.newaxis] * self._support_np
        )
        probabilities = categorical.softmax_np(bootstrap)
        target = categorical.project_np(positions, probabilities, self._support_np)
        return categorical.cross_entropy_np(target, taken)


class ScalarCritic:
    """Critic of D3PG and DDPG: the mean alone (eq 4)."""

    def head(self) -> snt.Module:
        """Builds the layer of one value."""
        return control.ScalarHead()

    def backup(self, reward, discount, outputs, seed):
        """Returns R_N + gamma_N Q' (eq 8), [B]."""
        del seed
        return reward + discount * outputs

    def distance(self, target, outputs):
        """Returns (Q - Y)^2, without a factor 1/2, as printed (eq 4)."""
        return tf.square(outputs - tf.stop_gradient(target))

    def mean(self, outputs):
        """Returns the outputs, which are means already."""
        return outputs

    def priorities(self, distance):
        """Returns the absolute TD-error |Q - Y| (section 4)."""
        return distance**0.5

    def initial_distance(self, transitions, taken, bootstrap):
        """Returns (Q - Y)^2, in NumPy (eqs 4, 8)."""
        target = transitions.n_step_reward + transitions.n_step_discount * bootstrap
        return np.square(taken - target)


class MixtureCritic:
    """Critic of D4PG with a mixture of Gaussians (appendices A and C).

    `seed` determines the samples of `initial_distance`.
    """

    def __init__(self, config: D4PGConfig, seed: int):
        self._config = config
        self._generator = np.random.default_rng(seed)

    def head(self) -> snt.Module:
        """Builds the layer of the components' weights, means and variances."""
        return control.MixtureHead(self._config.num_components)

    def backup(self, reward, discount, outputs, seed):
        """Returns samples R_N + gamma_N z_j with z_j drawn from Z' (appendix A), [B, J]."""
        distribution = gaussian.mixture(outputs, self._config.min_variance)
        samples = gaussian.sample_mixture(distribution, self._config.num_target_samples, seed)
        return reward[:, tf.newaxis] + discount[:, tf.newaxis] * samples

    def distance(self, target, outputs):
        """Returns -1/J sum_j log p(R_N + gamma_N z_j); the paper prints J times this, the sum."""
        distribution = gaussian.mixture(outputs, self._config.min_variance)
        return gaussian.sampled_cross_entropy(distribution, target)

    def mean(self, outputs):
        """Returns the mixture's mean (eq 7)."""
        return gaussian.mixture_mean(outputs)

    def priorities(self, distance):
        """Returns |d|, following section 4 literally: d is below 0 where the density exceeds 1."""
        return abs(distance)

    def initial_distance(self, transitions, taken, bootstrap):
        """Returns `distance` from `backup`, with new samples (appendix A)."""
        columns = transitions.n_step_reward, transitions.n_step_discount, bootstrap, taken
        seed = self._generator.integers(2**31, size=2, dtype=np.int32)
        return self._distance_of(*columns, seed).numpy()

    @tf.function(autograph=False, reduce_retracing=True)
    def _distance_of(self, reward, discount, bootstrap, taken, seed):
        return self.distance(self.backup(reward, discount, bootstrap, seed), taken)


def make_critic_kind(config: D4PGConfig, seed: int = 0) -> CriticKind:
    """Returns the critic kind of a configuration.

    Args:
      config: its `critic` names the kind.
      seed: seed of the samples that an actor draws for initial priorities.
    """
    if config.critic == "scalar":
        return ScalarCritic()
    if config.critic == "mixture":
        return MixtureCritic(config, seed)
    return CategoricalCritic(config)


def make_networks(config: D4PGConfig, spec: EnvironmentSpec) -> ActorCritic:
    """Builds both networks and their variables (theta, w).

    If observations include heights of the terrain, each network has separate layers for them before
    they join the other inputs (section 4.3).
    """
    head = make_critic_kind(config).head()
    return actor_critic.make_networks(config, spec, head, terrain_sizes=config.terrain_sizes)


def backup(
    transition: StoredTransition, target: ActorCritic, kind: CriticKind, seed: tf.Tensor
) -> tf.Tensor:
    """Returns Y_i = R_N + gamma_N Z_w'(x_{i+N}, pi_theta'(x_{i+N})) (eqs 9, 15).

    Args:
      transition: B transitions.
      target: the target networks (theta', w').
      kind: the kind of critic, which computes Y in its own representation.
      seed: [2] int32, for kinds that draw samples.
    """
    action = target.policy(transition.observation_t)
    outputs = target.critic(transition.observation_t, action)
    return kind.backup(transition.n_step_reward, transition.n_step_discount, outputs, seed)


def policy_loss(
    observation: tf.Tensor, networks: ActorCritic, kind: CriticKind, dqda_norm: float | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns a loss whose minimisation raises E[Z_w(x, pi_theta(x))], w held fixed (eqs 7, 11).

    Returns:
      A loss whose gradient with respect to theta is equation 11 with the sign reversed, the mean of
      E[Z_w], and the share of saturated actions.
    """
    return policy_gradients.dpg_loss(
        networks.policy(observation),
        lambda action: kind.mean(networks.critic(observation, action)),
        dqda_norm=dqda_norm,
    )


class D4PGLearner(ActorCriticLearner):
    """Learner with (theta, w), (theta', w'), two Adams, and algorithm 1's update (lines 5 to 9).

    `seed` determines the samples of a mixture's backup. Networks are initialised from TensorFlow's
    global seed.
    """

    def __init__(self, config: D4PGConfig, spec: EnvironmentSpec, seed: int = 0):
        super().__init__(
            lambda: make_networks(config, spec),
            *make_optimizers(config.learning_rate, config),
            config.target_period,
            target_rate=config.target_rate,
            critic_decay=config.critic_decay,
            max_critic_norm=config.max_gradient_norm,
            max_policy_norm=config.max_gradient_norm,
        )
        self._config = config
        self._seed = seed
        self._kind = make_critic_kind(config)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B transitions (lines 5 to 7).

        The outputs are the new priorities [B] from d(Y_i, Z_w(x_i, a_i)), not negative.
        """
        steps: StoredTransition = batch.steps
        weights = importance_weights(
            batch.probabilities, batch.size, self._config.importance_exponent
        )
        # It depends on the step, so that a resumed learner draws the same samples.
        seed = tf.stack([self._seed, tf.cast(self.steps, tf.int32)])
        last = self.target_networks.features(steps.observation_t)
        target = backup(steps._replace(observation_t=last), self.target_networks, self._kind, seed)

        def critic_loss(state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            outputs = self.networks.critic(state, steps.action_tm1)
            distance = self._kind.distance(target, outputs)  # d(Y_i, Z_w(x_i, a_i))
            return tf.reduce_mean(weights * distance), distance

        def objective(state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            if self._config.policy_gradient_state == "last":  # algorithm 1 has the first, x_i
                state = self.networks.features(steps.observation_t)
            return policy_loss(state, self.networks, self._kind, self._config.dqda_norm or None)

        gradients = self.gradients_of(steps.observation_tm1, critic_loss, objective)
        priorities = self._kind.priorities(gradients.errors)
        return Gradients(gradients, priorities, gradients.metrics(priorities, weights))


class D4PGActor(ActorCriticActor):
    """Actor with a = pi_theta(x) + epsilon N(0, I), clipped to the bounds (algorithm 1, line 2).

    Initial priorities need its copy of Z_w, so algorithm 1 replicates w as well as theta.
    """

    def __init__(self, config: D4PGConfig, spec: EnvironmentSpec, seed: int):
        noise_seed, critic_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        super().__init__(config, make_networks(config, spec), spec.action_size, noise_seed)
        self._kind = make_critic_kind(config, critic_seed)

    def initial_priorities(
        self,
        transitions: StoredTransition,
        extras_tm1: dict[str, np.ndarray],
        extras_t: dict[str, np.ndarray],
    ) -> np.ndarray:
        """Returns priorities from d(R_N + gamma_N Z_w(x_{i+N}, pi(x_{i+N})), Z_w(x_i, a_i)).

        See equations 15 and 16. Z_w and pi are the actor's copies of the online networks as they
        were when it observed each state.

        Returns:
          [M] float32, not negative.
        """
        distance = self._kind.initial_distance(
            transitions, extras_tm1["taken"], extras_t["bootstrap"]
        )
        return self._kind.priorities(distance).astype(np.float32)


class D4PG(ActorCriticAgent):
    """D4PG, and its ablations by configuration."""

    declaration = AGENT

    def __init__(self, config: D4PGConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting, make_networks)

    def build_learner(self, spec: EnvironmentSpec, seed: int) -> D4PGLearner:
        """Builds the learner of algorithm 1."""
        return D4PGLearner(self.config, spec, seed)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> D4PGActor:
        """Builds the actor of algorithm 1; actors differ only in their noise."""
        del actors, num_actors  # the NumPy twins take batches of any size
        return D4PGActor(self.config, spec, seed)
