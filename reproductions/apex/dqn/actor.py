"""Ape-X DQN's actors and evaluator (algorithm 1, section 4.1)."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from common.acting import epsilon_greedy
from common.acting.policy import ExploringPolicy
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Nest, NStepTransitions
from reproductions.apex.dqn import networks as networks_lib
from reproductions.apex.dqn.config import DQNConfig


class DQNActor(ExploringPolicy):
    """Epsilon-greedy policy for its copy of q, with a different epsilon_i for each actor (eq 14).

    With each action it returns two action values as extras: of the action taken and the largest.
    Initial priorities are computed from them without running the network again (appendix F).
    """

    def __init__(
        self, config: DQNConfig, spec: EnvironmentSpec, epsilons: Sequence[float], seed: int
    ):
        """Makes the policy of K actors.

        Args:
          config: hyperparameters.
          spec: of the environment.
          epsilons: K probabilities, one for each actor.
          seed: of the exploration.
        """
        self._network = networks_lib.make_network(config, spec)
        self._q_values = tf.function(self._network, autograph=False)
        self._explore = epsilon_greedy.EpsilonGreedy(epsilons, seed)
        self._priority_floor = config.priority_floor
        self._load = packing.loader(self._network.trainable_variables)

    def load(self, flat: np.ndarray) -> None:
        """Loads theta, [P] float32 in the order of the network's trainable_variables."""
        self._load(flat)

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """Acts on observations [K, ...].

        Returns:
          action: int32 [K].
          state: unchanged.
          extras: action values float32 [K]: "q_taken" of the action, "q_max" the largest.
        """
        q = self._q_values(observation).numpy()
        action = self._explore(q)
        taken = np.take_along_axis(q, action[:, np.newaxis], axis=1)[:, 0]
        return action, state, {"q_taken": taken, "q_max": q.max(axis=1)}

    def initial_priorities(self, transitions: NStepTransitions) -> np.ndarray:
        """Returns |R + gamma max_a q(S_{t+n}, a) - q(S_t, A_t)| + floor, [M] float32 (eq 13).

        q is the actor's copy as it was when it observed each state.
        """
        bootstrap = transitions.n_step_discount * transitions.extras_t["q_max"]
        delta = transitions.n_step_reward + bootstrap - transitions.extras_tm1["q_taken"]
        return np.abs(delta) + np.float32(self._priority_floor)


def make_actor(
    config: DQNConfig, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
) -> DQNActor:
    """Builds the policy of some of the run's actors.

    Args:
      config: hyperparameters.
      spec: of the environment.
      actors: indices of these actors.
      num_actors: number of actors in the whole run.
      seed: of the exploration.
    """
    if config.epsilons:
        epsilons = [config.epsilons[actor % len(config.epsilons)] for actor in actors]
    else:
        ladder = epsilon_greedy.ladder(config.epsilon, config.epsilon_alpha, num_actors)
        epsilons = ladder[actors.start : actors.stop]
    return DQNActor(config, spec, epsilons, seed)


def make_evaluator(config: DQNConfig, spec: EnvironmentSpec, num_environments: int) -> DQNActor:
    """Builds the policy to evaluate; its few random actions are the same in every evaluator."""
    return DQNActor(config, spec, [config.evaluation_epsilon] * num_environments, seed=0)
