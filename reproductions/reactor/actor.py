"""Reactor's acting policy, of workers and of the evaluator (sections 3.4 and 6.4)."""

import numpy as np
import tensorflow as tf
import tree

from common.acting.policy import Policy
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.networks.recurrent import LSTMState
from common.types import Nest
from reproductions.reactor import networks as networks_lib
from reproductions.reactor.config import ReactorConfig
from reproductions.reactor.networks import ReactorState


class ReactorPolicy(Policy):
    """Policy that draws actions from pi, with its floor, and returns pi as mu.

    Its recurrent state is that of the policy's LSTM, since acting needs no values. With stored
    states it is that of both LSTMs and an extra of each timestep.
    """

    def __init__(self, config: ReactorConfig, spec: EnvironmentSpec, seed: int):
        """Makes the policy with random parameters.

        Args:
          config: hyperparameters.
          spec: of the environment.
          seed: of the actions.
        """
        self._network = networks_lib.make_network(config, spec)
        self._stored_state = config.stored_state
        self._step = tf.function(
            self._both if config.stored_state else self._policy_only, autograph=False
        )
        self._random = np.random.default_rng(seed)
        self._load = packing.loader(self._network.trainable_variables)

    def load(self, flat: np.ndarray) -> None:
        """Loads the network, [P] float32 in the order of its trainable_variables."""
        self._load(flat)

    def initial_state(self, num_environments: int) -> ReactorState | LSTMState:
        """Returns zeros, [K, 128] each."""
        state = self._network.initial_state(num_environments)
        state = tree.map_structure(lambda leaf: leaf.numpy(), state)
        return state if self._stored_state else state.policy

    def __call__(self, observation: np.ndarray, state: Nest):
        """Acts on observations [K, ...].

        Returns:
          action: int32 [K].
          state: after the observations.
          extras: "mu", pi(.|x) float32 [K, A] from which the actions were drawn. With stored states
            also "state", the `ReactorState` before the observations.
        """
        policy, new_state = self._step(observation, state)
        mu = policy.numpy()
        new_state = tree.map_structure(lambda leaf: leaf.numpy(), new_state)
        extras = {"mu": mu}
        if self._stored_state:
            extras["state"] = state
        return self._draw(mu), new_state, extras

    def _draw(self, mu: np.ndarray) -> np.ndarray:
        """Returns an action int32 [K] for each row of probabilities [K, A]."""
        ends = mu.cumsum(axis=1, dtype=np.float64)
        points = self._random.random((len(mu), 1)) * ends[:, -1:]  # they sum to 1 but for rounding
        return (ends > points).argmax(axis=1).astype(np.int32)

    def _both(self, observation: tf.Tensor, state: ReactorState) -> tuple[tf.Tensor, ReactorState]:
        """Returns pi [K, A] and the state of both LSTMs."""
        no_reset = tf.zeros([1, tf.shape(observation)[0]], tf.bool)  # the caller resets the state
        outputs, state = self._network.unroll(observation[tf.newaxis], no_reset, state)
        return outputs.policy[0], state

    def _policy_only(self, observation: tf.Tensor, state: LSTMState) -> tuple[tf.Tensor, LSTMState]:
        """Returns pi [K, A] and the state of the policy's LSTM; the graph drops the values."""
        policy, states = self._both(observation, ReactorState(state, state))
        return policy, states.policy
