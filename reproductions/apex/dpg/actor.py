"""Ape-X DPG's actor (algorithm 1, appendix D)."""

import numpy as np

from common.acting.noise import GaussianNoise
from common.agents.actor_critic import ActorCriticActor
from common.environments.spec import EnvironmentSpec
from common.types import NStepTransitions
from reproductions.apex.dpg import networks as networks_lib
from reproductions.apex.dpg.config import DPGConfig


class DPGActor(ActorCriticActor):
    """Actor with a = pi(S, phi) + N(0, sigma^2 I), clipped to the bounds (eq 18).

    sigma is the same for all actors.
    """

    def __init__(self, config: DPGConfig, spec: EnvironmentSpec, seed: int):
        super().__init__(
            networks_lib.make_networks(config, spec),
            spec.action_size,
            GaussianNoise(config.noise_sigma, seed),
        )
        self._priority_floor = config.priority_floor

    def initial_priorities(self, transitions: NStepTransitions) -> np.ndarray:
        """Returns |R + gamma_{t:t+n} q(S_{t+n}, pi(S_{t+n})) - q(S_t, A_t)| + floor (eqs 13, 19).

        q and pi are the actor's copies of the online networks as they were when it observed each
        state.

        Returns:
          [M] float32.
        """
        bootstrap = transitions.n_step_discount * transitions.extras_t["bootstrap"]
        errors = transitions.n_step_reward + bootstrap - transitions.extras_tm1["taken"]
        return (np.abs(errors) + self._priority_floor).astype(np.float32)
