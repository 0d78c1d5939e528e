"""Networks of V-RACER, NAF, DDPG and ACER (Novati & Koumoutsakos 2019, sections 2, 4, appendix A).

They take standardised observations [B, D], or a `Window` of them if recurrent; `view_of` builds
either from a batch. Actions are in canonical units, and only DDPG's are bounded.
"""

from collections.abc import Callable, Sequence
import functools
from typing import NamedTuple

import sonnet as snt
import tensorflow as tf

from common.agents.actor_critic import ActorCritic
from common.data.data import StoredState
from common.networks import standardizer
from common.networks.control import Layer, SoftsignMLP
from common.networks.recurrent import LSTMNetwork, LSTMState, Window
from common.networks.standardizer import Standardizer
from common.replay.episode_wire import EpisodeBatch, HistoryBatch
from common.values import closed_form
from reproductions.refer.config import ReferConfig
from reproductions.refer.ppo.config import ReferPPOConfig


def make_layers(
    config: ReferConfig | ReferPPOConfig,
    input_size: int,
    output_size: int,
    activation: Layer | None = None,
) -> SoftsignMLP | LSTMNetwork:
    """Builds two hidden layers, of LSTMs if the configuration says so, and an output layer."""
    if config.recurrent:
        return LSTMNetwork(input_size, [config.lstm_size] * 2, output_size, activation)
    return SoftsignMLP(input_size, [config.hidden_size] * 2, output_size, activation)


def outputs_at(
    layers: SoftsignMLP | LSTMNetwork, inputs: tf.Tensor, before: Sequence[LSTMState] = ()
) -> tf.Tensor:
    """Returns the outputs at inputs [N, F]; recurrent layers start from the states `before`."""
    return layers.at(inputs, before) if before else layers(inputs)


def num_coefficients(kind: str, action_size: int) -> int:
    """Returns the number of a network's outputs that are coefficients of f.

    Args:
      kind: `ReferConfig.advantage`.
      action_size: A.
    """
    return {
        "none": 0,
        "quadratic": action_size * (action_size + 1) // 2,
        "gaussian": 1 + 2 * action_size,
    }[kind]


class VracerOutputs(NamedTuple):
    """Outputs of a `VracerNetwork`.

    Attributes:
      value: [B], V.
      mean: [B, A], m of the policy.
      coefficients: [B, C], the advantage's, see `vracer.centred_advantage`; [B, 0] without one.
    """

    value: tf.Tensor
    mean: tf.Tensor
    coefficients: tf.Tensor


class GaussianNetwork(snt.Module):
    """Layers of a policy N(m(s), Sigma).

    The diagonal of Sigma is the softplus of parameters that all states share (appendix A). It is at
    least `standardizer.MIN_VARIANCE`, since it only shrinks without rule 2.

    Attributes:
      mlp: layers on the observations; an `LSTMNetwork` if the configuration says so.
      raw_variance: float32 [A] variable.
      parameters: variables of `mlp`, then `raw_variance`.
    """

    def __init__(
        self, config: ReferConfig, observation_size: int, action_size: int, output_size: int
    ):
        super().__init__()
        self.mlp = make_layers(config, observation_size, output_size)
        self.raw_variance = standardizer.variance_variable(config.initial_variance, action_size)
        self.parameters = (*self.mlp.trainable_variables, self.raw_variance)

    @property
    def variance(self) -> tf.Tensor:
        """The diagonal of Sigma, [A]."""
        return standardizer.variance_of_raw(self.raw_variance)


class VracerNetwork(GaussianNetwork):
    """V-RACER's value and policy in one network (section 4).

    Its layers output [B, 1 + A + C]: values, means and coefficients.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        output_size = 1 + action_size + num_coefficients(config.advantage, action_size)
        super().__init__(config, observation_size, action_size, output_size)
        self._action_size = action_size

    def __call__(self, observation: tf.Tensor | Window) -> VracerOutputs:
        """Returns the outputs at standardised observations."""
        outputs, end = self.mlp(observation), 1 + self._action_size
        return VracerOutputs(outputs[:, 0], outputs[:, 1:end], outputs[:, end:])


class NafOutputs(NamedTuple):
    """Outputs of a `NafNetwork`.

    Attributes:
      value: [B], V.
      mean: [B, A], m, the best action.
      lower: [B, A, A], L.
    """

    value: tf.Tensor
    mean: tf.Tensor
    lower: tf.Tensor


class NafNetwork(snt.Module):
    """NAF's value, best action and matrix in one network (section 2, eq 4).

    Attributes:
      mlp: observations -> [B, 1 + A + A (A + 1) / 2]; an `LSTMNetwork` if the configuration says
        so.
      parameters: variables of `mlp`.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        super().__init__()
        self._action_size = action_size
        output_size = 1 + action_size + action_size * (action_size + 1) // 2
        self.mlp = make_layers(config, observation_size, output_size)
        self.parameters = self.mlp.trainable_variables

    def __call__(self, observation: tf.Tensor | Window) -> NafOutputs:
        """Returns values, means and matrices at standardised observations."""
        size = self._action_size
        outputs = self.mlp(observation)
        lower = closed_form.lower_triangular(outputs[:, 1 + size :], size)
        return NafOutputs(outputs[:, 0], outputs[:, 1 : 1 + size], lower)

    def value(self, observation: tf.Tensor | Window) -> tf.Tensor:
        """Returns the values [B] alone."""
        return self.mlp(observation)[:, 0]


class ValueOfAction(snt.Module):
    """DDPG's critic and ACER's advantage: a network of the observation and the action.

    Attributes:
      mlp: [B, D + A] -> [B, 1]; an `LSTMNetwork` if the configuration says so, which takes the
        stored actions at earlier states.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        super().__init__()
        self.mlp = make_layers(config, observation_size + action_size, 1)

    def __call__(
        self, observation: tf.Tensor, action: tf.Tensor, before: Sequence[LSTMState] = ()
    ) -> tf.Tensor:
        """Returns values [B] of actions [B, A] at standardised observations [B, D]."""
        return outputs_at(self.mlp, tf.concat([observation, action], axis=-1), before)[:, 0]

    def of(
        self, observation: tf.Tensor | Window, before: tf.Tensor | None
    ) -> Callable[[tf.Tensor], tf.Tensor]:
        """Returns the function from actions [B, A] to their values [B].

        Args:
          observation: standardised, [B, D], or windows of T.
          before: [B, T - 1, A], earlier actions, which all values share; None without windows.
        """
        if not isinstance(observation, Window):
            return functools.partial(self, observation)
        earlier, last = observation.inputs[:, :-1], observation.inputs[:, -1]
        states = self.mlp.states(Window(tf.concat([earlier, before], axis=-1), observation.begins))
        return functools.partial(self, last, before=states)


def make_ddpg_networks(config: ReferConfig, observation_size: int, action_size: int) -> ActorCritic:
    """Builds DDPG's policy, whose means are in (-1, 1), and its critic."""
    return ActorCritic(
        make_layers(config, observation_size, action_size, tf.tanh),
        ValueOfAction(config, observation_size, action_size),
    )


class AcerPolicy(GaussianNetwork):
    """ACER's policy, whose layers output the means."""

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        super().__init__(config, observation_size, action_size, action_size)

    def __call__(
        self, observation: tf.Tensor, before: Sequence[LSTMState] = ()
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns means and standard deviations, [B, A], at standardised observations [B, D]."""
        mean = outputs_at(self.mlp, observation, before)
        return mean, tf.broadcast_to(tf.sqrt(self.variance), tf.shape(mean))


class DuelingCritic(snt.Module):
    """ACER's stochastic dueling network: V, and an advantage centred by samples (eq 38).

        Q(s, a) = V(s) + A(s, a) - 1/n sum_j A(s, u_j),  u_j from the policy

    Attributes:
      value: standardised observations [B, D] -> [B, 1]; an `LSTMNetwork` if the configuration says
        so.
      advantage: observations and actions -> [B].
      parameters: variables of both.
    """

    def __init__(self, config: ReferConfig, observation_size: int, action_size: int):
        super().__init__()
        self.value = make_layers(config, observation_size, 1)
        self.advantage = ValueOfAction(config, observation_size, action_size)
        self.parameters = (*self.value.trainable_variables, *self.advantage.trainable_variables)

    def advantages(
        self, observation: tf.Tensor, actions: tf.Tensor, before: Sequence[LSTMState] = ()
    ) -> tf.Tensor:
        """Returns A of n actions at each state: [B, D], [n, B, A] -> [n, B], in one product."""
        shape = tf.shape(actions)
        observations, before = tf.nest.map_structure(
            lambda column: tf.tile(column, [shape[0], 1]), (observation, before)
        )
        flat = self.advantage(observations, tf.reshape(actions, [-1, actions.shape[-1]]), before)
        return tf.reshape(flat, shape[:2])


class View(NamedTuple):
    """B steps in the form that networks take.

    Attributes:
      states: columns of [B, ...] at the steps.
      observation: a network's input at the steps: standardised [B, D], or for recurrent networks
        the windows that end with the steps, before which their state is zeros.
      next_observation: the input at the states after the steps; windows start at the same states.
      actions_before: [B, H, A], actions in the windows before the steps; None without windows.
      next_actions_before: [B, H + 1, A], actions before the states after the steps; None likewise.
    """

    states: StoredState
    observation: tf.Tensor | Window
    next_observation: tf.Tensor | Window
    actions_before: tf.Tensor | None = None
    next_actions_before: tf.Tensor | None = None


def view_of(steps: EpisodeBatch | HistoryBatch, standardizer: Standardizer) -> View:
    """Returns the networks' inputs at steps; steps with a history are for recurrent networks."""
    observation, action = standardizer(steps.states.observation), steps.states.action
    if isinstance(steps, EpisodeBatch):
        return View(steps.states, observation, standardizer(steps.next_states.observation))
    begins = observation.shape[1] - 2 - steps.lengths
    return View(
        tf.nest.map_structure(lambda column: column[:, -2], steps.states),
        Window(observation[:, :-1], begins),
        Window(observation, begins),
        action[:, :-2],
        action[:, :-1],
    )
