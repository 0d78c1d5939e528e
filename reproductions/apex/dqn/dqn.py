"""Ape-X DQN (Horgan et al. 2018), from observation to loss; equations numbered as in the README.

A dueling network (section 3.1, appendix C) learns by double Q-learning with n-step returns
(algorithm 2). Each actor has its own epsilon and computes initial priorities (algorithm 1).
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from common.acting.policy import EpsilonGreedy, Policy, epsilon_ladder
from common.agents.agent import GraphPolicy, TransitionAgent
from common.data.transitions import StoredTransition, Transitions
from common.environments.spec import EnvironmentSpec
from common.learning.learner import (
    CenteredRMSProp,
    Gradients,
    Learner,
    copy_in_branch,
    copy_variables,
    create_variables,
)
from common.networks import numpy_twins, packing
from common.networks.control import ReluMLP
from common.networks.images import SIZES, DuelingNetwork, make_torso
from common.replay import memory
from common.types import Batch, Nest
from common.values import value_learning
from reproductions.apex.dqn.config import AGENT, DQNConfig


def make_network(
    config: DQNConfig, spec: EnvironmentSpec, dtype: tf.DType = tf.float32
) -> DuelingNetwork:
    """Builds the network and its variables: observations [B, ...] -> float32 [B, A].

    Args:
      config: hyperparameters.
      spec: the environment's spec.
      dtype: dtype of the convolutions and the hidden layers, float32 or bfloat16.
    """
    torso, hidden = make_torso(config, spec, SIZES, dtype=dtype)
    return DuelingNetwork(torso, hidden, spec.action_size, config.rescale_gradient)


def td_targets(
    transition: StoredTransition, online: DuelingNetwork, target: DuelingNetwork
) -> tf.Tensor:
    """Returns G_t = R_{t:t+n} + gamma_{t:t+n} q(S_{t+n}, a*, theta^-), [B] (eq 5).

    a* = argmax_a q(S_{t+n}, a, theta) (eq 4). No gradient flows into G_t.

    Args:
      transition: B transitions.
      online: the network with theta.
      target: the network with theta^-.
    """
    state = transition.observation_t
    return value_learning.double_q_target(
        transition.n_step_reward,
        transition.n_step_discount,
        q_value=target(state),
        q_selector=online(state),
    )


def losses(errors: tf.Tensor) -> tf.Tensor:
    """Returns l_t = 1/2 delta_t^2 (eq 7), not a Huber loss: its gradient delta_t is unbounded."""
    return 0.5 * tf.square(errors)


class DQNLearner(Learner):
    """Learner with theta, theta^-, centred RMSProp, and algorithm 2's update (lines 5 to 8)."""

    def __init__(self, config: DQNConfig, spec: EnvironmentSpec):
        super().__init__()
        self._config = config
        dtype = tf.as_dtype(config.precision)
        self.network = make_network(config, spec, dtype)
        self.target_network = make_network(config, spec, dtype)
        # Without momentum (appendix C).
        self.optimizer = CenteredRMSProp(
            config.learning_rate, config.rmsprop_decay, config.rmsprop_epsilon
        )
        theta = self.network.trainable_variables
        copy_variables(theta, self.target_network.trainable_variables)
        create_variables(self.optimizer, theta)

    @property
    def actor_variables(self) -> tuple:
        """Variables that the actors copy: the online theta."""
        return self.network.trainable_variables

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of a step on B transitions with observations [B, ...].

        The outputs are the new priorities |delta| + floor [B] (eq 9), without importance weights.
        """
        transition: StoredTransition = batch.steps
        theta = self.network.trainable_variables
        weights = value_learning.normalize_by_max(
            value_learning.importance_weights(
                batch.probabilities, batch.size, self._config.importance_exponent
            )
        )
        target = td_targets(transition, self.network, self.target_network)
        with tf.GradientTape() as tape:
            q = self.network(transition.observation_tm1)
            taken = value_learning.action_value(q, transition.action_tm1)
            errors = target - taken  # delta_t (eq 6)
            loss = tf.reduce_mean(weights * losses(errors))  # eq 12
        gradients = tape.gradient(loss, theta)
        norm = tf.linalg.global_norm(gradients)
        if self._config.max_gradient_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._config.max_gradient_norm, norm)
        priorities = tf.abs(errors) + self._config.priority_floor
        metrics = {
            "loss": loss,
            "mean_q": tf.reduce_mean(tf.reduce_max(q, axis=1)),
            "q_max": tf.reduce_max(q),
            "priority_mean": tf.reduce_mean(priorities),
            "priority_max": tf.reduce_max(priorities),
            "importance_weight_mean": tf.reduce_mean(weights),
            "gradient_norm": norm,
        }
        return Gradients(gradients, priorities, metrics)

    def apply(self, gradients: Sequence[tf.Tensor]) -> None:
        """Takes a step of the optimiser; see base class."""
        theta = self.network.trainable_variables
        self.optimizer.apply(gradients, theta)
        self.steps.assign_add(1)
        theta_minus = self.target_network.trainable_variables
        copy_in_branch(self.steps, self._config.target_period, theta, theta_minus)


class DQNActor(Policy):
    """Epsilon-greedy policy for its copy of q, with a different epsilon_i for each actor (eq 14).

    With each action it returns two values as extras: that of the action taken and the largest one.
    Initial priorities are computed from them without running the network again (appendix F).
    """

    def __init__(
        self, config: DQNConfig, spec: EnvironmentSpec, epsilons: Sequence[float], seed: int
    ):
        """Creates the policy of K actors.

        Args:
          config: hyperparameters.
          spec: the environment's spec.
          epsilons: K probabilities, one for each actor.
          seed: seed of the exploration.
        """
        self._network = make_network(config, spec)
        self._q_values = tf.function(self._network, autograph=False)
        self._explore = EpsilonGreedy(epsilons, seed)
        self._priority_floor = config.priority_floor
        self._load = packing.loader(self._network.trainable_variables)

    def load(self, flat: np.ndarray) -> None:
        """Loads theta, [P] float32 in the order of the network's trainable_variables."""
        self._load(flat)

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Returns the layers of the greedy policy of an MLP; see base class.

        The action with the highest advantage also has the highest value.
        """
        torso, stream = self._network.torso, self._network.advantage
        if not isinstance(torso, ReluMLP):
            raise ValueError("the network has convolutions, so it is not an MLP")
        below = numpy_twins.twin(torso).layers() if torso.layers else []
        hidden, output = (
            [part.w.numpy(), part.b.numpy()] for part in (stream.hidden, stream.output)
        )
        return [*below, ("linear", hidden), ("relu", []), ("linear", output), ("argmax", [])]

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """Acts on observations [K, ...].

        Returns:
          action: int32 [K].
          state: unchanged.
          extras: float32 [K]: "q_taken", the value of the action, and "q_max", the largest value.
        """
        q = self._q_values(observation).numpy()
        action = self._explore(q)
        taken = np.take_along_axis(q, action[:, np.newaxis], axis=1)[:, 0]
        return action, state, {"q_taken": taken, "q_max": q.max(axis=1)}

    def initial_priorities(
        self,
        transitions: StoredTransition,
        extras_tm1: dict[str, np.ndarray],
        extras_t: dict[str, np.ndarray],
    ) -> np.ndarray:
        """Returns |R + gamma max_a q(S_{t+n}, a) - q(S_t, A_t)| + floor, [M] float32 (eq 13).

        q is the actor's copy as it was when it observed each state.
        """
        bootstrap = transitions.n_step_discount * extras_t["q_max"]
        delta = transitions.n_step_reward + bootstrap - extras_tm1["q_taken"]
        return np.abs(delta) + np.float32(self._priority_floor)


class ApexDQN(TransitionAgent):
    """Ape-X DQN, and its studies by configuration."""

    declaration = AGENT
    jit_compile = False  # XLA slows convolutions on a CPU

    def __init__(self, config: DQNConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        self.trim_period = config.removal_period
        self.prefetch = config.prefetch
        if config.single_process:  # it can draw batches ahead only within a call
            self.updates_per_call = config.prefetch
        self.data = Transitions(
            config,
            memory.prioritized(config.priority_exponent),
            memory.Fifo(),
            num_copies=config.num_copies,
            reward_clip=config.reward_clip or None,
            is_soft=True,
        )

    def build_learner(self, spec: EnvironmentSpec, seed: int) -> DQNLearner:
        """Builds the learner of algorithm 2."""
        del seed
        return DQNLearner(self.config, spec)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> DQNActor:
        """Builds the policy of algorithm 1, with a separate epsilon for each actor."""
        config = self.config
        if config.epsilons:
            epsilons = [config.epsilons[actor % len(config.epsilons)] for actor in actors]
        else:
            ladder = epsilon_ladder(config.epsilon, config.epsilon_alpha, num_actors)
            epsilons = ladder[actors.start : actors.stop]
        return DQNActor(config, spec, epsilons, seed)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> DQNActor:
        """Builds the same policy; its few random actions have the same seed in every evaluator."""
        return DQNActor(
            self.config, spec, [self.config.evaluation_epsilon] * num_environments, seed=0
        )

    def graph_policy(self, learner: DQNLearner, spec: EnvironmentSpec) -> GraphPolicy:
        """Returns the greedy policy, without the evaluator's few random actions."""
        del spec

        def act(observation: tf.Tensor, state: Nest) -> tuple[tf.Tensor, Nest]:
            return tf.argmax(learner.network(observation), axis=1, output_type=tf.int32), state

        return act
