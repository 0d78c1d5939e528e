"""Policies of V-RACER, NAF, DDPG and ACER for actors and evaluators, run as NumPy twins."""

from typing import NamedTuple

import numpy as np

from common.acting.policy import OrnsteinUhlenbeckNoise, Policy, truncated_normal
from common.networks import numpy_twins, standardizer
from common.networks.control import SoftsignMLP
from common.networks.recurrent import LSTMNetwork
from common.networks.standardizer import EPSILON
from common.types import Nest
from reproductions.refer import advantages, networks
from reproductions.refer.config import ReferConfig


class PolicyOutputs(NamedTuple):
    """A policy N(m, Sigma) at K states, and their values; all float32.

    Attributes:
      value: [K], V; zeros from DDPG and ACER.
      mean: [K, A], m.
      variance: [A], the diagonal of Sigma.
      coefficients: [K, C], of V-RACER's advantage.
    """

    value: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    coefficients: np.ndarray


class ActingState(NamedTuple):
    """The state of a policy between two steps, each part () where there is none.

    Attributes:
      network: of recurrent layers.
      noise: of Ornstein-Uhlenbeck noise, [K, A] float32.
    """

    network: Nest = ()
    noise: Nest = ()


STATELESS = ActingState()
"""The state of a policy of an MLP and Gaussian noise."""


class PolicyNetwork:
    """NumPy twin of a network that acts: standardised observations -> `PolicyOutputs`.

    The network's first outputs are V and m; V-RACER's others are coefficients of its advantage.

    Attributes:
      num_parameters: length of the vector that `load` takes.
    """

    def __init__(self, network: SoftsignMLP | LSTMNetwork, action_size: int, sigma: float):
        """Makes the twin.

        Args:
          network: whose outputs are to be read.
          action_size: A.
          sigma: standard deviation of the policy, unless the parameters have it.
        """
        self._twin = numpy_twins.twin(network)
        self._is_recurrent = isinstance(network, LSTMNetwork)
        self._action_size = action_size
        self._variance = np.full(action_size, sigma**2, np.float32)
        self.num_parameters = self._twin.num_parameters

    def load(self, flat: np.ndarray) -> None:
        """Loads the network's variables, [P] float32 in the order of the learner."""
        self._twin.load(flat)

    def initial_state(self, num_environments: int) -> Nest:
        """Returns the state before an episode; () of an MLP."""
        return self._twin.initial_state(num_environments) if self._is_recurrent else ()

    def __call__(self, observation: np.ndarray, state: Nest) -> tuple[PolicyOutputs, Nest]:
        """Returns the policy and the values at observations [K, D] float32, and the next state."""
        if self._is_recurrent:
            outputs, state = self._twin(observation, state)
        else:
            outputs = self._twin(observation)
        return self._split(outputs), state

    def _split(self, outputs: np.ndarray) -> PolicyOutputs:
        end = 1 + self._action_size
        return PolicyOutputs(outputs[:, 0], outputs[:, 1:end], self._variance, outputs[:, end:])


class NafPolicyNetwork(PolicyNetwork):
    """NumPy twin of NAF's V and m."""

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        network = networks.NafNetwork(config, observation_size, action_size)
        super().__init__(network.mlp, action_size, config.sigma)


class LearntVariance(PolicyNetwork):
    """Base of the twins whose last parameters are those of Sigma."""

    def __init__(self, network: SoftsignMLP | LSTMNetwork, action_size: int, variance: float):
        """Makes the twin, with the variance that Sigma has at the start."""
        super().__init__(network, action_size, variance**0.5)
        self.num_parameters += action_size

    def load(self, flat: np.ndarray) -> None:
        """Loads the network's variables; see base class."""
        super().load(flat[: -self._action_size])
        self._variance = standardizer.variance_of_raw_np(flat[-self._action_size :])


class VracerPolicyNetwork(LearntVariance):
    """NumPy twin of V-RACER's V, m and Sigma."""

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        network = networks.VracerNetwork(config, observation_size, action_size)
        super().__init__(network.mlp, action_size, config.initial_variance)


class MeansOnly(PolicyNetwork):
    """Base of the twins whose network has no V."""

    def _split(self, outputs: np.ndarray) -> PolicyOutputs:
        zeros = np.zeros(len(outputs), np.float32)
        return PolicyOutputs(zeros, outputs, self._variance, outputs[:, :0])


class DdpgPolicyNetwork(MeansOnly):
    """NumPy twin of DDPG's policy."""

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        network = networks.make_ddpg_networks(config, observation_size, action_size).policy
        super().__init__(network, action_size, config.sigma)


class AcerPolicyNetwork(LearntVariance, MeansOnly):
    """NumPy twin of ACER's policy, m and Sigma."""

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        network = networks.AcerPolicy(config, observation_size, action_size)
        super().__init__(network.mlp, action_size, config.initial_variance)


_NETWORKS: dict[str, type[PolicyNetwork]] = {
    "vracer": VracerPolicyNetwork,
    "naf": NafPolicyNetwork,
    "ddpg": DdpgPolicyNetwork,
    "acer": AcerPolicyNetwork,
}


class ReferPolicy(Policy):
    """The policy of an agent: actors draw actions from it, evaluators take its mean.

    Actions are not clipped. Gaussian noise is truncated (appendix A). With Ornstein-Uhlenbeck noise
    the extras have the policy without it, N(m, sigma^2 I).
    """

    def __init__(
        self,
        config: ReferConfig,
        observation_size: int,
        action_size: int,
        seed: int = 0,
        explores: bool = True,
    ):
        """Builds the policy; `load` gives it the learner's parameters.

        Args:
          config: hyperparameters.
          observation_size: D.
          action_size: A.
          seed: of the noise.
          explores: whether actions have noise; an evaluator's have none.
        """
        self._config = config
        self._sizes = observation_size, action_size
        self._network = _NETWORKS[config.agent](config, observation_size, action_size)
        self._explores = explores
        self._mean = np.zeros(observation_size, np.float32)
        self._deviation = np.ones(observation_size, np.float32)
        self._generator = np.random.default_rng(seed)
        self._ou: OrnsteinUhlenbeckNoise | None = None
        if explores and config.agent in ("naf", "ddpg") and config.noise == "ou":
            self._ou = OrnsteinUhlenbeckNoise(config.ou_sigma, config.ou_theta, seed, clip=False)

    def load(self, flat: np.ndarray) -> None:
        """Loads `ReferLearner.actor_variables`, [P] float32.

        Raises:
          ValueError: the length is wrong; the old parameters stay.
        """
        size, _ = self._sizes
        expected = 2 * size + self._network.num_parameters
        if flat.shape != (expected,):
            raise ValueError(
                f"The policy has {expected} parameters, moments of the observations included, but "
                f"the vector has shape {flat.shape}: it comes from networks of other sizes."
            )
        self._mean, self._deviation = flat[:size].copy(), flat[size : 2 * size].copy()
        self._network.load(flat[2 * size :])

    def initial_state(self, num_environments: int) -> ActingState:
        """Returns the state of network and noise before an episode."""
        network = self._network.initial_state(num_environments)
        if self._ou is None:
            return ActingState(network)
        return ActingState(network, self._ou.initial_state((num_environments, self._sizes[1])))

    def __call__(self, observation: np.ndarray, state: ActingState = STATELESS):
        """Acts on observations [K, D] float32.

        Returns:
          action: [K, A] float32.
          state: after the observations.
          extras: float32: "mean" [K, A] and "variance" [K, A] of the policy, "value" [K]. An actor
            with an advantage also gives that of the action, "advantage" [K].
        """
        standardized = (observation - self._mean) / (self._deviation + np.float32(EPSILON))
        outputs, network = self._network(standardized, state.network)
        value, mean, variance, coefficients = outputs
        state = state._replace(network=network)
        extras = {"mean": mean, "variance": np.broadcast_to(variance, mean.shape), "value": value}
        if not self._explores:
            return mean.copy(), state, extras
        if self._ou is not None:
            action, noise = self._ou(mean, state.noise)
            return action, state._replace(noise=noise), extras
        noise = truncated_normal(self._generator, mean.shape, self._config.noise_bound)
        action = mean + np.sqrt(variance) * noise
        if self._config.advantage != "none":
            extras["advantage"] = advantages.advantage_np(
                self._config, coefficients, action, mean, variance
            )
        return action, state, extras
