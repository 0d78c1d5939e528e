"""D4PG, algorithm 1: the actor."""

import numpy as np

from common.acting import noise
from common.agents.actor_critic import ActorCriticActor
from common.types import NStepTransitions
from reproductions.d4pg import critics
from reproductions.d4pg import networks as networks_lib
from reproductions.d4pg.config import D4PGConfig


class D4PGActor(ActorCriticActor):
    """a = pi_theta(x) + epsilon N(0, I), clipped to the bounds (algorithm 1, actor, line 2).

    It needs its copy of Z_w for initial priorities: that is why algorithm 1 replicates w as well as
    theta.
    """

    def __init__(self, config: D4PGConfig, observation_size: int, action_size: int, seed: int):
        noise_seed, critic_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        super().__init__(
            networks_lib.make_networks(config, observation_size, action_size),
            action_size,
            make_noise(config, noise_seed),
        )
        self._kind = critics.make_critic_kind(config, critic_seed)

    def initial_priorities(self, transitions: NStepTransitions) -> np.ndarray:
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
