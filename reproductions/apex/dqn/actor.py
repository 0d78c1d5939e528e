"""Ape-X DQN: the actors of a process, and the evaluator's policy (algorithm 1, section 4.1)."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from common.acting import epsilon_greedy
from common.acting.policy import ExploringPolicy
from common.agents.agent import EnvironmentSpec
from common.networks import packing
from common.types import Nest, NStepTransitions
from reproductions.apex.dqn import networks as networks_lib
from reproductions.apex.dqn.config import DQNConfig


class DQNActor(ExploringPolicy):
    """epsilon_i-greedy by its copy of q, with an epsilon of its own for each actor (eq 14).

    With each action it buffers two action values, of the action taken and the largest, from which
    initial priorities are computed without running the network again (appendix F).
    """

    def __init__(
        self, config: DQNConfig, spec: EnvironmentSpec, epsilons: Sequence[float], seed: int
    ):
        """Makes the policy of K actors, one for each of the epsilons."""
        self._network = networks_lib.make_network(config, spec)
        self._q_values = tf.function(self._network)
        self._explore = epsilon_greedy.EpsilonGreedy(epsilons, seed)
        self._priority_floor = config.priority_floor
        self._shapes = packing.shapes(self._network.trainable_variables)

    def load(self, flat: np.ndarray) -> None:
        """Takes over theta, [P] float32 in the order of the network's trainable_variables."""
        values = packing.unpack(flat, self._shapes)
        for variable, value in zip(self._network.trainable_variables, values, strict=True):
            variable.assign(value)

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """uint8 [K, H, W, C] -> actions int32 [K], state, buffered action values [K] each."""
        q = self._q_values(observation).numpy()
        action = self._explore(q)
        taken = np.take_along_axis(q, action[:, np.newaxis], axis=1)[:, 0]
        return action, state, {"q_taken": taken, "q_max": q.max(axis=1)}

    def initial_priorities(self, transitions: NStepTransitions) -> np.ndarray:
        """|R + gamma max_a q(S_{t+n}, a) - q(S_t, A_t)| and the floor, [M] float32 (eq 13).

        By the copy of q of the time when each state was seen.
        """
        bootstrap = transitions.n_step_discount * transitions.extras_t["q_max"]
        delta = transitions.n_step_reward + bootstrap - transitions.extras_tm1["q_taken"]
        return np.abs(delta) + np.float32(self._priority_floor)


def make_actor(
    config: DQNConfig, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
) -> DQNActor:
    """The policy of these of the run's actors."""
    if config.epsilons:
        epsilons = [config.epsilons[actor % len(config.epsilons)] for actor in actors]
    else:
        ladder = epsilon_greedy.ladder(config.epsilon, config.epsilon_alpha, num_actors)
        epsilons = ladder[actors.start : actors.stop]
    return DQNActor(config, spec, epsilons, seed)


def make_evaluator(config: DQNConfig, spec: EnvironmentSpec, num_environments: int) -> DQNActor:
    """The policy that is evaluated; its few random actions repeat from one evaluator to another."""
    return DQNActor(config, spec, [config.evaluation_epsilon] * num_environments, seed=0)
