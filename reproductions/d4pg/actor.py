"""D4PG, algorithm 1: the actor, and the evaluator's policy."""

import numpy as np

from common.acting.n_step import Transitions
from common.acting.noise import GaussianNoise
from common.networks import numpy_twins
from common.values import categorical
from common.values import categorical_np
from reproductions.d4pg import networks as networks_lib
from reproductions.d4pg.config import D4PGConfig


class D4PGActor:
    """a = pi_theta(x) + epsilon N(0, I), clipped to the bounds (algorithm 1, actor, line 2).

    With each action it buffers two predictions of its copy of Z_w, from which Ape-X (appendix F)
    computes initial priorities without running the networks again: of the action taken, and of the
    policy's own. That is why algorithm 1 replicates w as well as theta.
    """

    def __init__(self, config: D4PGConfig, observation_size: int, action_size: int, seed: int):
        networks = networks_lib.make_networks(config, observation_size, action_size)
        self._policy = numpy_twins.twin(networks.policy)
        self._critic = numpy_twins.twin(networks.critic)
        self._noise = GaussianNoise(config.noise_sigma, seed)
        self._support = categorical.support(
            config.v_min, config.v_max, config.num_atoms
        ).numpy()

    def load(self, flat: np.ndarray) -> None:
        """Takes over (theta, w), [P] float32 in the order of `Networks.variables`."""
        self._policy.load(flat[: self._policy.num_parameters])
        self._critic.load(flat[self._policy.num_parameters :])

    def __call__(self, observation: np.ndarray, state=()):
        """[K, D] -> noisy actions [K, A], state, buffered logits [K, l]."""
        greedy = self._policy(observation)
        action = self._noise(greedy)
        logits = self._critic(
            np.concatenate([observation, observation]), np.concatenate([action, greedy])
        )
        taken, bootstrap = np.split(logits, 2)
        return action, state, {"taken_logits": taken, "bootstrap_logits": bootstrap}

    def initial_priorities(self, transitions: Transitions) -> np.ndarray:
        """d(Phi(R_N + gamma_N Z_w(x_{i+N}, pi(x_{i+N}))), Z_w(x_i, a_i)), [M] (eqs 15, 16).

        By the actor's online copy of (theta, w) as it was when each state was seen.
        """
        positions = (
            transitions.n_step_reward[:, np.newaxis]
            + transitions.n_step_discount[:, np.newaxis] * self._support
        )
        bootstrap = categorical_np.softmax(transitions.extras_t["bootstrap_logits"])
        target = categorical_np.project(positions, bootstrap, self._support)
        logits = transitions.extras_tm1["taken_logits"]
        return categorical_np.cross_entropy(target, logits).astype(np.float32)


class D4PGEvaluator:
    """pi_theta without noise (section 4)."""

    def __init__(self, config: D4PGConfig, observation_size: int, action_size: int):
        networks = networks_lib.make_networks(config, observation_size, action_size)
        self._policy = numpy_twins.twin(networks.policy)

    def load(self, flat: np.ndarray) -> None:
        """Takes over theta from (theta, w), [P] float32."""
        self._policy.load(flat[: self._policy.num_parameters])

    def __call__(self, observation: np.ndarray, state=()):
        """[K, D] -> actions [K, A], state, no extras."""
        return self._policy(observation), state, {}
