"""D4PG's actor (Barth-Maron et al. 2018, algorithm 1; equations numbered as in the README)."""

import numpy as np

from common.acting import noise
from common.agents.actor_critic import ActorCriticActor
from common.environments.spec import EnvironmentSpec
from common.types import NStepTransitions
from reproductions.d4pg import critics
from reproductions.d4pg import networks as networks_lib
from reproductions.d4pg.config import D4PGConfig


class D4PGActor(ActorCriticActor):
    """Actor with a = pi_theta(x) + epsilon N(0, I), clipped to the bounds (algorithm 1, line 2).

    Initial priorities need its copy of Z_w, so algorithm 1 replicates w as well as theta.
    """

    def __init__(self, config: D4PGConfig, spec: EnvironmentSpec, seed: int):
        noise_seed, critic_seed = np.random.SeedSequence(seed).generate_state(2).tolist()
        super().__init__(
            networks_lib.make_networks(config, spec),
            spec.action_size,
            make_noise(config, noise_seed),
        )
        self._kind = critics.make_critic_kind(config, critic_seed)

    def initial_priorities(self, transitions: NStepTransitions) -> np.ndarray:
        """Returns priorities from d(R_N + gamma_N Z_w(x_{i+N}, pi(x_{i+N})), Z_w(x_i, a_i)).

        See equations 15 and 16. Z_w and pi are the actor's copies of the online networks as they
        were when it observed each state.

        Returns:
          [M] float32, not negative.
        """
        distance = self._kind.initial_distance(
            transitions, transitions.extras_tm1["taken"], transitions.extras_t["bootstrap"]
        )
        return self._kind.priorities(distance).astype(np.float32)


def make_noise(config: D4PGConfig, seed: int) -> noise.GaussianNoise | noise.OrnsteinUhlenbeckNoise:
    """Returns the exploration noise of a configuration."""
    if config.noise == "ou":
        return noise.OrnsteinUhlenbeckNoise(config.noise_sigma, config.ou_theta, seed)
    return noise.GaussianNoise(config.noise_sigma, seed)
