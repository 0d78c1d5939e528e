"""The PPO of ReF-ER (Novati & Koumoutsakos 2019, appendices A and B), from observation to loss.

Its objective is that of Schulman et al. (2017), equation 7.
"""

import numpy as np
import tensorflow as tf

from common.agents.agent import GraphPolicy
from common.agents.proximal import (
    GaussianPolicy,
    ProximalAgent,
    ProximalLearner,
    ProximalNetworks,
    ProximalSteps,
)
from common.data.data import StoredState
from common.data.rollouts import RolloutSteps
from common.environments.spec import EnvironmentSpec
from common.networks.recurrent import History, Window
from common.networks.standardizer import RunningMoments
from common.types import Metrics, Nest
from common.values import policy_gradients
from reproductions.refer import rules
from reproductions.refer.networks import make_layers
from reproductions.refer.ppo.config import AGENT, ReferPPOConfig


def make_networks(
    config: ReferPPOConfig, observation_size: int, action_size: int
) -> ProximalNetworks:
    """Builds policy and value with two layers each (appendix A; section 5.4 for LSTM layers).

    Softsign layers and variances that all states share are not in the paper; V-RACER has them.
    """
    mean, value = (make_layers(config, observation_size, size) for size in (action_size, 1))
    return ProximalNetworks(mean, value, action_size, config.initial_variance)


class RecurrentPolicy(GaussianPolicy):
    """A policy of LSTM networks, whose extras include the history before each step."""

    def __init__(self, networks: ProximalNetworks, history: int, *sizes_and_noise):
        """Takes H, the size of the history, and the other arguments of `GaussianPolicy`."""
        self._history = history
        self._observation_size = sizes_and_noise[0]
        super().__init__(networks, *sizes_and_noise)

    def initial_state(self, num_environments: int) -> History:
        """Returns empty histories."""
        return History.empty(num_environments, self._history, self._observation_size)

    def layers(self) -> list[tuple[str, list[np.ndarray]]]:
        """Raises ValueError; see base class."""
        raise ValueError("the policy is recurrent, so layers alone do not define its actions")

    def __call__(self, observation: np.ndarray, state: History):
        """Adds the history to the extras: "history" [K, H, D] and "length" [K]; see base class."""
        action, after, extras = super().__call__(observation, state)
        return action, after, extras | {"history": state.observations, "length": state.lengths}

    def _outputs(
        self, observation: np.ndarray, state: History
    ) -> tuple[np.ndarray, np.ndarray, History]:
        inputs, after = state.extended(observation)
        window = Window(self._standardized(inputs), state.begins)
        return self._mean_twin.at_end(window), self._value_twin.at_end(window), after


class ReferPPOLearner(ProximalLearner):
    """PPO with a clipped objective, fixed scales of observations and annealed learning rates.

    Attributes:
      reward_moments: moments of all rewards so far.
    """

    def __init__(self, config: ReferPPOConfig, observation_size: int, action_size: int):
        networks = make_networks(config, observation_size, action_size)
        super().__init__(config, observation_size, networks)
        self.reward_moments = RunningMoments(())

    def prepare(self, rollout: RolloutSteps) -> None:
        """Sets the scale of observations at the first rollout, the scale of rewards at each.

        Appendix B's scales are from a memory, which PPO does not have. Here sigma_r is over all
        rewards so far: those of single rollouts may differ so much that V, which is in units of
        sigma_r, says nothing.
        """
        if not self.standardizer.is_set:
            # In float32 the mean of equal numbers may differ from them.
            observation = rollout.states.observation.numpy().astype(np.float64)
            self.standardizer.set(observation.mean(0), observation.std(0))
        moments = self.reward_moments
        moments.update(rollout.rewards.numpy())
        scale = tf.sqrt(moments.square + moments.mean**2)
        if scale > 0:
            self.reward_scale.assign(tf.cast(scale, tf.float32))

    def begin(self, rollout: RolloutSteps) -> ProximalSteps:
        """Returns the steps; with recurrent networks the observation of each is a `Window`."""
        steps, extras = super().begin(rollout), rollout.states.extras
        if not self._config.recurrent:
            return steps
        history = History(extras["history"], extras["length"])
        before = self.standardizer(history.observations)
        inputs = tf.concat([before, steps.observation[:, tf.newaxis]], axis=1)
        return steps._replace(observation=Window(inputs, history.begins))

    def policy_losses(
        self, rho: tf.Tensor, advantage: tf.Tensor, divergence: tf.Tensor
    ) -> tf.Tensor:
        """Returns -min(rho A, clip(rho) A); see base class."""
        del divergence
        return policy_gradients.clipped_surrogate(rho, advantage, self._config.clip)

    def apply(self, gradients: Nest) -> None:
        """Takes a step with annealed rates; see base class."""
        config, update = self._config, self.steps.read_value()
        step = update * config.batch_size // config.num_epochs
        for rate, initial in (
            (self.policy_learning_rate, config.policy_learning_rate),
            (self.value_learning_rate, config.value_learning_rate),
        ):
            rate.assign(rules.annealed(initial, step, config.annealing))
        super().apply(gradients)

    def end(self, steps: Nest) -> Metrics:
        """Adds the policy's learning rate; see base class."""
        return {**super().end(steps), "learning_rate": self.policy_learning_rate.read_value()}


class ReferPPO(ProximalAgent):
    """PPO as in appendix A."""

    declaration = AGENT

    def __init__(self, config: ReferPPOConfig, setting: str = AGENT.settings.default):
        super().__init__(config, setting)
        self.noise_bound = config.noise_bound
        if config.recurrent:
            self.jit_compile = False  # XLA needs minutes for unrolled LSTMs

    def make_networks(self, spec: EnvironmentSpec) -> ProximalNetworks:
        """Builds the policy and the value network."""
        return make_networks(self.config, spec.observation_size, spec.action_size)

    def make_policy(self, spec: EnvironmentSpec, seed: int | None) -> GaussianPolicy:
        """Builds the policy, with noise from `seed`, or without noise if it is None."""
        if not self.config.recurrent:
            return super().make_policy(spec, seed)
        sizes = spec.observation_size, spec.action_size
        networks, history = self.make_networks(spec), self.config.history
        return RecurrentPolicy(networks, history, *sizes, seed, self.noise_bound)

    def step_specs(self, spec: EnvironmentSpec) -> StoredState:
        """Adds the history before a step, if the networks are recurrent; see base class."""
        states = super().step_specs(spec)
        if self.config.recurrent:
            history = tf.TensorSpec([self.config.history, spec.observation_size])
            states.extras.update(history=history, length=tf.TensorSpec([], tf.int32))
        return states

    def graph_policy(self, learner: ReferPPOLearner, spec: EnvironmentSpec) -> GraphPolicy:
        """Returns the policy's mean; see base class."""
        if not self.config.recurrent:
            return super().graph_policy(learner, spec)

        def act(observation: tf.Tensor, state: History) -> tuple[tf.Tensor, History]:
            inputs, after = state.extended(observation)
            window = Window(learner.standardizer(inputs), state.begins)
            return learner.networks.mean(window), after

        return act

    def build_learner(self, spec: EnvironmentSpec, seed: int) -> ReferPPOLearner:
        """Builds the learner."""
        del seed
        return ReferPPOLearner(self.config, spec.observation_size, spec.action_size)
