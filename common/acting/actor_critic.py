"""A deterministic policy that explores, and the same one without noise, on NumPy twins."""

import numpy as np

from common.acting import noise as noise_lib
from common.acting.policy import Nest
from common.networks import numpy_twins
from common.networks.actor_critic import ActorCritic


class ActorCriticActor:
    """The policy's action with noise.

    With each action it buffers two outputs of its copy of the critic, from which Ape-X (appendix F)
    computes initial priorities without running the networks again: of the action taken, and of the
    policy's own. A paper's actor inherits it and adds `initial_priorities`, see
    `common.agents.agent.Actor`.
    """

    def __init__(
        self,
        networks: ActorCritic,
        action_size: int,
        noise: noise_lib.GaussianNoise | noise_lib.OrnsteinUhlenbeckNoise,
    ):
        self._policy = numpy_twins.twin(networks.policy)
        self._critic = numpy_twins.twin(networks.critic)
        self._action_size = action_size
        self._noise = noise

    def load(self, flat: np.ndarray) -> None:
        """Takes over both networks, [P] float32 in the order of `ActorCritic.variables`."""
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


class ActorCriticEvaluator:
    """The policy without noise."""

    def __init__(self, networks: ActorCritic):
        self._policy = numpy_twins.twin(networks.policy)

    def load(self, flat: np.ndarray) -> None:
        """Takes over the policy from both networks, [P] float32."""
        self._policy.load(flat[: self._policy.num_parameters])

    def initial_state(self, num_environments: int) -> Nest:
        """None."""
        del num_environments
        return ()

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """[K, D] -> actions [K, A], state, no extras."""
        return self._policy(observation), state, {}
