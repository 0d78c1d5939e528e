"""The agents of ReF-ER (Novati & Koumoutsakos 2019) and their policies, as a run's roles need them.

The policies of actors and evaluators are NumPy twins of the learners' networks.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.acting.policy import OrnsteinUhlenbeckNoise, Policy, truncated_normal
from common.agents.agent import Agent, GraphPolicy
from common.data.data import StoredState, gaussian_state_specs
from common.data.episodes import WholeEpisodes
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner
from common.learning.updates import FusedUpdates, StoreRules
from common.networks import numpy_twins, packing, standardizer
from common.networks.control import SoftsignMLP
from common.networks.recurrent import History, LSTMNetwork, Window
from common.networks.standardizer import Standardizer
from common.replay.episode_memory import EpisodeMemory
from common.replay.memory import Proportional, RankBased, Uniform
from common.types import Nest
from reproductions.refer import networks, vracer
from reproductions.refer.acer import AcerLearner
from reproductions.refer.config import AGENT, ReferConfig
from reproductions.refer.ddpg import DdpgLearner
from reproductions.refer.naf import NafLearner
from reproductions.refer.rules import ReferLearner, Refresh
from reproductions.refer.vracer import VracerLearner


class Kind(NamedTuple):
    """The parts of an agent that depend on `ReferConfig.agent`.

    Attributes:
      learner: class of the learner, called with the configuration and the sizes D and A.
      acting: builds the layers of the policy from the same arguments.
      has_value: whether V precedes m in the outputs of these layers.
      learns_variance: whether Sigma is learnt; the policy's last variable then determines it.
    """

    learner: type[VracerLearner | NafLearner | DdpgLearner | AcerLearner]
    acting: Callable[[ReferConfig, int, int], SoftsignMLP | LSTMNetwork]
    has_value: bool = False
    learns_variance: bool = False


KINDS = {
    "vracer": Kind(
        VracerLearner,
        lambda *arguments: networks.VracerNetwork(*arguments).mlp,
        has_value=True,
        learns_variance=True,
    ),
    "naf": Kind(NafLearner, lambda *arguments: networks.NafNetwork(*arguments).mlp, has_value=True),
    "ddpg": Kind(DdpgLearner, lambda *arguments: networks.make_ddpg_networks(*arguments).policy),
    "acer": Kind(
        AcerLearner, lambda *arguments: networks.AcerPolicy(*arguments).mlp, learns_variance=True
    ),
}
"""The agents by `ReferConfig.agent`."""


class ActingState(NamedTuple):
    """The state of a policy between two steps; a part that the policy does not have is ().

    Attributes:
      network: a `History` of recurrent networks, or the state of ACER's recurrent layers.
      noise: state of the Ornstein-Uhlenbeck noise, [K, A] float32.
    """

    network: Nest = ()
    noise: Nest = ()


STATELESS = ActingState()
"""The state of a policy with an MLP and Gaussian noise."""


class ReferPolicy(Policy):
    """The policy of an agent: actors draw actions from it, evaluators take its mean.

    Actions are not clipped. Gaussian noise is truncated (appendix A). With Ornstein-Uhlenbeck noise
    the extras describe the policy without this noise, N(m, sigma^2 I).
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
          seed: seed of the noise.
          explores: whether actions have noise; an evaluator's have none.
        """
        self._config, self._kind = config, KINDS[config.agent]
        self._observation_size, self._action_size = observation_size, action_size
        self._explores = explores
        self._standardizer = numpy_twins.twin(Standardizer(observation_size))
        self._twin = numpy_twins.twin(self._kind.acting(config, observation_size, action_size))
        variance = config.initial_variance if self._kind.learns_variance else config.sigma**2
        self._variance = np.full(action_size, variance, np.float32)
        sizes = self._standardizer.num_parameters, self._twin.num_parameters
        self._shapes = [(n,) for n in (*sizes, action_size * self._kind.learns_variance)]
        self._generator = np.random.default_rng(seed)
        self._ou: OrnsteinUhlenbeckNoise | None = None
        if explores and config.agent in ("naf", "ddpg") and config.noise == "ou":
            self._ou = OrnsteinUhlenbeckNoise(config.ou_sigma, config.ou_theta, seed, clip=False)

    def load(self, flat: np.ndarray) -> None:
        """Loads `ReferLearner.actor_variables`, [P] float32.

        Raises:
          ValueError: the length is wrong; the old parameters stay.
        """
        moments, network, raw_variance = packing.unpack(flat, self._shapes)
        self._standardizer.load(moments)
        self._twin.load(network)
        if self._kind.learns_variance:
            self._variance = standardizer.variance_of_raw_np(raw_variance)

    def initial_state(self, num_environments: int) -> ActingState:
        """Returns the state of network and noise before an episode."""
        network: Nest = ()
        if _acts_from_windows(self._config):
            history, size = self._config.history, self._observation_size
            network = History.empty(num_environments, history, size)
        elif self._config.recurrent:
            network = self._twin.initial_state(num_environments)
        if self._ou is None:
            return ActingState(network)
        return ActingState(network, self._ou.initial_state((num_environments, self._action_size)))

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Returns the layers of m; see base class."""
        if self._config.recurrent:
            raise ValueError("the policy is recurrent, so layers alone do not define its actions")
        *layers, (name, parameters) = self._twin.layers()
        if name == "linear":
            begin = int(self._kind.has_value)
            mean = slice(begin, begin + self._action_size)
            parameters = [parameter[..., mean] for parameter in parameters]
        return [*self._standardizer.layers(), *layers, (name, parameters)]

    def __call__(self, observation: np.ndarray, state: ActingState = STATELESS):
        """Acts on observations [K, D] float32.

        Returns:
          action: [K, A] float32.
          state: the state after the observations.
          extras: float32: "mean" [K, A] and "variance" [K, A] of the policy, "value" [K]. If the
            configuration has an advantage, an actor adds that of the action, "advantage" [K].
        """
        variance, network = self._variance, state.network
        if _acts_from_windows(self._config):
            inputs, after = network.extended(observation)
            outputs = self._twin.at_end(Window(self._standardizer(inputs), network.begins))
        elif self._config.recurrent:
            outputs, after = self._twin(self._standardizer(observation), network)
        else:
            outputs, after = self._twin(self._standardizer(observation)), network
        state = state._replace(network=after)
        value = np.zeros(len(outputs), np.float32)
        if self._kind.has_value:
            value, outputs = outputs[:, 0], outputs[:, 1:]
        mean, coefficients = np.split(outputs, [self._action_size], axis=1)
        extras = {"mean": mean, "variance": np.broadcast_to(variance, mean.shape), "value": value}
        if not self._explores:
            return mean.copy(), state, extras
        if self._ou is not None:
            action, noise = self._ou(mean, state.noise)
            return action, state._replace(noise=noise), extras
        noise = truncated_normal(self._generator, mean.shape, self._config.noise_bound)
        action = mean + np.sqrt(variance) * noise
        if self._config.advantage != "none":
            extras["advantage"] = vracer.centred_advantage_np(
                self._config, coefficients, action, mean, variance
            )
        return action, state, extras


def _acts_from_windows(config: ReferConfig) -> bool:
    """Returns whether a policy acts from windows, from which all but ACER learn."""
    return config.recurrent and config.agent != "acer"


class Refer(Agent, StoreRules):
    """V-RACER, NAF or DDPG with plain or prioritised replay or ReF-ER; or ACER."""

    declaration = AGENT
    publish_period = 1000  # for the evaluator; the actors act in the process of the learner

    def __init__(self, config: ReferConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        is_acer = config.agent == "acer"
        # XLA would compile ACER's update again for each length of the longest window. For unrolled
        # LSTMs it takes minutes, and V-RACER's updates are then slower.
        self.jit_compile = not (is_acer or config.recurrent)
        self.updates_per_call = config.updates_per_call
        # Section 5.1.
        sample = {
            "uniform": Uniform(),
            "rank": RankBased(config.priority_exponent, config.rank_period),
            # Half the exponent, since the memory stores squared errors.
            "proportional": Proportional(config.priority_exponent / 2, config.priority_mix),
        }[config.sampling]
        window = (config.window or config.replay_capacity) if is_acer else None
        history = config.history if _acts_from_windows(config) else None
        self.data = WholeEpisodes(config, sample, config.removal, window, history)

    def step_specs(self, spec: EnvironmentSpec) -> StoredState:
        """Returns the columns of a state, with the mean and variance of mu."""
        return gaussian_state_specs(spec)

    def build_learner(self, spec: EnvironmentSpec, seed: int) -> ReferLearner:
        """Builds the learner of the configured agent."""
        del seed
        kind = KINDS[self.config.agent]
        return kind.learner(self.config, spec.observation_size, spec.action_size)

    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> ReferPolicy:
        """Builds the exploring policy; all actors act alike."""
        del actors, num_actors
        return ReferPolicy(self.config, spec.observation_size, spec.action_size, seed)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> ReferPolicy:
        """Builds the policy without noise; not in the paper, which shows training episodes only."""
        del num_environments
        return ReferPolicy(
            self.config, spec.observation_size, spec.action_size, seed=0, explores=False
        )

    def graph_policy(self, learner: ReferLearner, spec: EnvironmentSpec) -> GraphPolicy:
        """Returns the policy's means; see base class."""
        kind, size = KINDS[self.config.agent], spec.action_size
        first = learner.policy_variables[0]
        network: SoftsignMLP | LSTMNetwork = next(
            part
            for part in learner.submodules
            if isinstance(part, SoftsignMLP | LSTMNetwork) and part.trainable_variables[0] is first
        )
        begin = int(kind.has_value)

        def act(observation: tf.Tensor, state: ActingState) -> tuple[tf.Tensor, ActingState]:
            before = state.network
            if _acts_from_windows(self.config):
                inputs, after = before.extended(observation)
                outputs = network(Window(learner.standardizer(inputs), before.begins))
            elif self.config.recurrent:
                outputs, states = network.step(learner.standardizer(observation), before)
                after = tuple(states)
            else:
                outputs, after = network(learner.standardizer(observation)), before
            return outputs[:, begin : begin + size], state._replace(network=after)

        return act

    def updates(self, learner: Learner, store: EpisodeMemory, seed: int) -> FusedUpdates:
        """Builds the updates of a call, in one graph that also draws steps and writes back."""
        return FusedUpdates(super().updates(learner, store, seed), learner, store, self, seed)

    def prepare(
        self, learner: ReferLearner, memory: EpisodeMemory, step: int, is_first: bool
    ) -> None:
        """Sets the scales of observations and of rewards if they are due (appendix B).

        A run that resumes, or starts with the networks of another run, takes the scale of its
        observations from the checkpoint.
        """
        if step == 0 and not learner.standardizer.is_set:
            learner.standardizer.set(*memory.observation_moments())
        period = self.config.reward_scale_period
        if is_first or step // period != (step - self.updates_per_call) // period:
            scale = memory.reward_scale()
            memory.set_reward_scale(scale, recompute=is_first)
            learner.reward_scale.assign(tf.cast(scale, tf.float32))

    def before_updates(self, learner: ReferLearner, memory: EpisodeMemory) -> None:
        """Sets the part of the memory that is far from the policy (eq 12) and the mean D_KL."""
        far_fraction, divergence = memory.distance()
        learner.far_fraction.assign(far_fraction)
        learner.mean_divergence.assign(divergence)

    def write_back(
        self, learner: ReferLearner, memory: EpisodeMemory, keys: tf.Tensor, outputs: Refresh
    ) -> None:
        """Stores what the updates computed for their steps (section 4, algorithm 3)."""
        memory.write_back(keys, (*outputs, learner.c_max()))
