"""D4PG, algorithm 1: the actor, and the evaluator's policy."""

import numpy as np

from common.acting import noise
from common.acting.n_step import Transitions
from common.acting.policy import Nest
from common.networks import numpy_twins
from reproductions.d4pg import critics
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
        noise_seed, critic_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        self._noise = make_noise(config, noise_seed)
        self._kind = critics.make_critic_kind(config, critic_seed)
        self._action_size = action_size

    def load(self, flat: np.ndarray) -> None:
        """Takes over (theta, w), [P] float32 in the order of `Networks.variables`."""
        self._policy.load(flat[: self._policy.num_parameters])
        self._critic.load(flat[self._policy.num_parameters :])

    def initial_state(self, num_environments: int) -> Nest:
        """The noise's, before an episode."""
        return self._noise.initial_state((num_environments, self._action_size))

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """[K, D] -> noisy actions [K, A], state, buffered outputs of the critic [K, ...]."""
        greedy = self._policy(observation)
        action, state = self._noise(greedy, state)
        outputs = self._critic(
            np.concatenate([observation, observation]), np.concatenate([action, greedy])
        )
        taken, bootstrap = np.split(outputs, 2)
        return action, state, {"taken": taken, "bootstrap": bootstrap}

    def initial_priorities(self, transitions: Transitions) -> np.ndarray:
        """By d(R_N + gamma_N Z_w(x_{i+N}, pi(x_{i+N})), Z_w(x_i, a_i)), [M] float32 (eqs 15, 16).

        By the actor's online copy of (theta, w) as it was when each state was seen.
        """
        distance = self._kind.initial_distance(
            transitions, transitions.extras_tm1["taken"], transitions.extras_t["bootstrap"]
        )
        return self._kind.priorities(distance).astype(np.float32)


def make_noise(config: D4PGConfig, seed: int) -> noise.GaussianNoise | noise.OrnsteinUhlenbeckNoise:
    """The exploration noise that a configuration names."""
    if config.noise == "ou":
        return noise.OrnsteinUhlenbeckNoise(config.noise_sigma, config.ou_theta, seed)
    return noise.GaussianNoise(config.noise_sigma, seed)


class D4PGEvaluator:
    """pi_theta without noise (section 4)."""

    def __init__(self, config: D4PGConfig, observation_size: int, action_size: int):
        networks = networks_lib.make_networks(config, observation_size, action_size)
        self._policy = numpy_twins.twin(networks.policy)

    def load(self, flat: np.ndarray) -> None:
        """Takes over theta from (theta, w), [P] float32."""
        self._policy.load(flat[: self._policy.num_parameters])

    def initial_state(self, num_environments: int) -> Nest:
        """None."""
        del num_environments
        return ()

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """[K, D] -> actions [K, A], state, no extras."""
        return self._policy(observation), state, {}
