"""AQL (Van de Wiele et al. 2020), from unroll to loss, with any of its searches.

The module has the losses, the learner (section 4, algorithm 2, appendix A2) and the acting policy,
which takes the best action that a search finds (algorithm 1). The T timesteps of an unroll are s_1
to s_T. Losses are sums over time and batch, as in algorithm 2.
"""

import abc
from collections.abc import Sequence
import math

import numpy as np
import tensorflow as tf

from common.acting.policy import Policy, Proposals, ProposingPolicy
from common.data.unrolls import Unrolls
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Gradients, Learner, create_variables
from common.networks import numpy_twins
from common.types import Batch, Nest
from common.values import multistep
from reproductions.aql import networks, proposals, search
from reproductions.aql.actions import ActionSpace
from reproductions.aql.config import AQLConfig
from reproductions.aql.networks import FeedforwardTwin, RecurrentTwin, ValueTwin, load_parts
from reproductions.aql.search import QFunction


def targets(
    reward: tf.Tensor,
    discount: tf.Tensor,
    is_last: tf.Tensor,
    best_value: tf.Tensor,
    gamma: float,
    lambda_: float,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns Peng's Q(lambda) targets of s_1 to s_{T-1}, and their weights (appendix A2).

        G_t = r_t + gamma c_t [(1 - lambda) V_{t+1} + lambda G_{t+1}],  G_T := V_T

    Lambda is constant, even at exploratory actions. The targets bootstrap from the last timestep of
    an episode, so that a time limit (c = 1) is not an end, but no trace crosses it. The weight of
    that timestep is 0, since no action was taken there. No gradient flows into any argument.

    Args:
      reward: [T, B] floating, the reward of the step that follows each timestep.
      discount: [T, B], c, the environment's discount of that step.
      is_last: [T, B] bool.
      best_value: [T, B], V = Q(s, a*).
      gamma: discount per step.
      lambda_: trace parameter.

    Returns:
      target: [T - 1, B], G.
      weight: [T - 1, B], 1, or 0 at the last timestep of an episode.
    """
    ends = tf.cast(is_last, reward.dtype)
    target = multistep.q_lambda_returns(
        reward[:-1], gamma * discount[:-1], best_value[1:], lambda_ * (1 - ends[1:])
    )
    return tf.stop_gradient(target), 1 - ends[:-1]


def targets_of(
    unroll: Unrolls, best_value: tf.Tensor, config: AQLConfig
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns `targets` of B unrolls, given V of their timesteps, [T, B]."""
    columns = map(tf.transpose, (unroll.reward, unroll.discount, unroll.is_last))
    return targets(*columns, best_value, config.discount, config.trace)


def value_loss(value: tf.Tensor, target: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Returns the sum of weight (G - Q(s, a))^2 (eq 4 with Q(lambda)); [T - 1, B] each -> scalar.

    Gradients flow into `value` only: the target is a constant.
    """
    return tf.reduce_sum(weight * tf.square(tf.stop_gradient(target) - value))


def proposal_loss(log_prob: tf.Tensor, entropy: tf.Tensor, entropy_cost: float) -> tf.Tensor:
    """Returns the sum of -log mu(a*) - lambda H(mu) (eq 3); [T, B] each -> scalar."""
    return -tf.reduce_sum(log_prob + entropy_cost * entropy)


def time_major(values: tf.Tensor, length: int) -> tf.Tensor:
    """Returns values [B, T], or [B * T] with one unroll after another, as [T, B]."""
    return tf.transpose(tf.reshape(values, [-1, length]))


def flat(column: tf.Tensor) -> tf.Tensor:
    """Reshapes a column [B, T, N] to [B * T, N]."""
    return tf.reshape(column, [-1, column.shape[-1]])


class AQLLearner(Learner):
    """Learner of Q, without a target network, and of the proposal if the search has one.

    It does not search itself: it uses the a* that the actors found and stored.

    Attributes:
      value: Q, whose loss also trains the shared layers.
      proposal: the proposal with its hidden layers; None if the search has no proposal.
    """

    def __init__(self, config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace):
        """Builds the networks, two optimisers and their variables."""
        super().__init__()
        self._config = config
        self.value = networks.ValueNetwork(config, spec, space)
        self.proposal: networks.ProposalNetwork | None = None
        if config.search == "proposal":
            num_features = self.value.shared.output_size
            self.proposal = networks.ProposalNetwork(config, num_features, space)
        self.value_optimizer = networks.make_optimizer(config)
        create_variables(self.value_optimizer, self.value.parameters)
        if self.proposal is not None:
            self.proposal_optimizer = networks.make_optimizer(config)
            create_variables(self.proposal_optimizer, self.proposal.parameters)

    @property
    def actor_variables(self) -> tuple[tf.Variable, ...]:
        """Variables of Q, then of the proposal."""
        proposal = () if self.proposal is None else self.proposal.parameters
        return (*self.value.parameters, *proposal)

    def gradients(self, batch: Batch) -> Gradients:
        """Returns the gradients of both losses on B unrolls; nothing is written back."""
        config, unroll = self._config, batch.steps
        length, best = unroll.reward.shape[1], flat(unroll.extras["best_index"])
        with tf.GradientTape() as tape:
            features = networks.features_of(self.value.shared, unroll)
            part = self.value.state(features)
            taken = flat(unroll.extras["action_index"])
            value = time_major(self.value.values(part, taken), length)
            with tape.stop_recording():
                best_value = time_major(self.value.values(part, best), length)
            target, weight = targets_of(unroll, best_value, config)
            loss = value_loss(value[:-1], target, weight)
        value_gradients = tape.gradient(loss, self.value.parameters)
        metrics = {
            "value_loss": tf.math.divide_no_nan(loss, tf.reduce_sum(weight)),
            "mean_q": tf.reduce_mean(best_value),
            "value_gradient_norm": tf.linalg.global_norm(value_gradients),
        }
        proposal_gradients = ()
        if self.proposal is not None:
            proposal_gradients, more = self._proposal_gradients(features, best)
            metrics |= more
        return Gradients((value_gradients, proposal_gradients), (), metrics)

    def _proposal_gradients(self, features: tf.Tensor, best: tf.Tensor) -> tuple:
        """Returns the gradients of the proposal's own layers at all timesteps, and metrics."""
        with tf.GradientTape() as tape:
            hidden = self.proposal.trunk(tf.stop_gradient(features))
            log_prob, entropy = self.proposal.proposal.log_prob_and_entropy(hidden, best)
            loss = proposal_loss(log_prob, entropy, self._config.entropy_cost)
        gradients = tape.gradient(loss, self.proposal.parameters)
        return gradients, {
            "proposal_loss": -tf.reduce_mean(log_prob),
            "entropy": tf.reduce_mean(entropy),
            "proposal_gradient_norm": tf.linalg.global_norm(gradients),
        }

    def apply(self, gradients: tuple) -> None:
        """Takes a step of both optimisers; see base class."""
        value_gradients, proposal_gradients = gradients
        self.value_optimizer.apply(value_gradients, self.value.parameters)
        if self.proposal is not None:
            self.proposal_optimizer.apply(proposal_gradients, self.proposal.parameters)
        self.steps.assign_add(1)


def epsilons(
    num_actors: int, low: float = AQLConfig.epsilon, high: float = AQLConfig.high_epsilon
) -> np.ndarray:
    """Returns each actor's constant probability of a uniform action (appendix A2).

    The first tenth of the actors has the high probability: 10 of 100. For other numbers of actors,
    which are not in the paper, the tenth is rounded: 1 of 2 to 14 actors, 0 of a single actor.

    Args:
      num_actors: number of actors in the whole run.
      low: probability of the other actors.
      high: probability of the first tenth of the actors.

    Returns:
      float64 [num_actors].
    """
    tenth = math.floor(num_actors / 10 + 0.5)
    num_high = max(tenth, 1) if num_actors > 1 else 0
    return np.where(np.arange(num_actors) < num_high, high, low)


class SharedLayersPolicy(Policy):
    """Policy that acts on the features of the layers that its networks share.

    If these layers are recurrent, the policy's state before an observation is the LSTM's state with
    the last action and its reward. It is also an extra, "state"; an unroll keeps its first one.

    Attributes:
      space: the space of the actions.
      shared: twin of the shared layers.
    """

    def __init__(
        self, spec: EnvironmentSpec, space: ActionSpace, shared: FeedforwardTwin | RecurrentTwin
    ):
        """Creates the policy.

        Args:
          spec: the environment's spec.
          space: the space of the actions; its `to_environment` converts them for the environment.
          shared: twin of the shared layers.
        """
        self._spec = spec
        self.space = space
        self.shared = shared
        self.sees_rewards = shared.is_recurrent

    def initial_state(self, num_environments: int) -> Nest:
        """See base class."""
        return self.shared.initial_state(num_environments)

    def with_reward(self, state: Nest, reward: np.ndarray) -> Nest:
        """See base class."""
        return state._replace(reward=reward) if self.sees_rewards else state

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """Acts on observations, [K, Ds] float32 or [K, H, W, C] uint8.

        Returns:
          action: in the form that the environment takes, see `ActionSpace.to_environment`.
          state: the state after the action, without the action's reward.
          extras: the extras of `act`; with recurrent layers also "state", the argument.
        """
        features, after = self.shared(observation, state)
        action, extras = self.act(features)
        if self.sees_rewards:
            after = after._replace(action=self.space.encode(action))
            extras["state"] = state
        return self.space.to_environment(action, self._spec), after, extras

    @abc.abstractmethod
    def act(self, features: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Returns actions of the space, float32 [K, D], and extras; features are [K, F]."""


class SearchPolicy(SharedLayersPolicy, ProposingPolicy):
    """Policy that takes the action with the highest Q that its search finds, or explores uniformly.

    Attributes:
      value: twin of Q.
      trunk: twin of the proposal's hidden layers, features [K, F] -> [K, H]; None without proposal.
      proposal: twin of the proposal; None if the search has no proposal.
    """

    def __init__(
        self,
        config: AQLConfig,
        spec: EnvironmentSpec,
        space: ActionSpace,
        epsilons: Sequence[float],
        seed: int,
    ):
        """Creates the policy with random parameters.

        Args:
          config: hyperparameters.
          spec: the environment's spec.
          space: the space of the actions; its `to_environment` converts them for the environment.
          epsilons: [K], probability of a uniform action in each row of a batch.
          seed: seed of the search's samples and of the exploration.
        """
        self._config = config
        self._epsilons = np.array(epsilons, np.float64)
        self._generator = np.random.default_rng(seed)
        value = networks.ValueNetwork(config, spec, space)
        self.value = ValueTwin(value, config.num_proposal_samples + config.num_uniform_samples)
        super().__init__(spec, space, self.value.shared)
        self._all_actions = space.all_actions() if config.search == "exact" else None
        self.trunk: numpy_twins.MLPTwin | None = None
        self.proposal: proposals.ProposalTwin | None = None
        if config.search == "proposal":
            network = networks.ProposalNetwork(config, value.shared.output_size, self.space)
            self.trunk = numpy_twins.twin(network.trunk)
            self.proposal = proposals.ProposalTwin(network.proposal)

    def load(self, flat: np.ndarray) -> None:
        """Loads `AQLLearner.actor_variables`, [P] float32."""
        load_parts([part for part in (self.value, self.trunk, self.proposal) if part], flat)

    def act(self, features: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Searches for the best actions; see base class.

        The extras are actions of the space, float32 [K, D]: "action_index", the action taken, and
        "best_index", a*, which is also searched for where the policy explores.
        """
        config = self._config
        num_uniform = config.num_uniform_samples
        if config.search in ("cem", "exact"):
            num_uniform = 0
        # Exploration takes the first sample, so one is drawn even if the search uses none.
        uniform = self.space.uniform((len(features), max(num_uniform, 1)), self._generator)
        best = self._search(self.value.at(features), features, uniform[:, :num_uniform])
        action = search.act(best, uniform, self._epsilons, self._generator)
        return action, {"action_index": action, "best_index": best}

    def _search(self, q: QFunction, features: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Returns a* [K, D]."""
        config, num_rows = self._config, len(features)
        if config.search == "cem":
            return search.cem(q, num_rows, self.space.size, self._generator, config)
        if self._all_actions is not None:
            return self._all_actions[self.value.all_values(features).argmax(axis=1)]
        if self.proposal is not None:
            proposed = self._proposed(self.trunk(features))
        else:
            shape = (num_rows, config.num_proposal_samples)
            proposed = self.space.uniform(shape, self._generator)
        return search.search(q, proposed, uniform)

    def _proposed(self, hidden: np.ndarray) -> np.ndarray:
        """Returns the proposal's samples [K, N, D], given the outputs of its trunk."""
        return self.proposal.sample(hidden, self._config.num_proposal_samples, self._generator)

    def require_proposals(self) -> None:
        """See base class."""
        if self.proposal is None:
            raise ValueError("the search of this setting has no proposal")
        if not all(self.space.choices):
            raise ValueError("the proposal is continuous, so its samples have no probabilities")
        if self.sees_rewards:
            raise ValueError("the network is recurrent, so an observation alone has no proposals")

    def propose(self, observation: np.ndarray) -> Proposals:
        """Searches at an observation, [Ds] float32; see base class."""
        features, _ = self.shared(observation[np.newaxis], ())
        hidden = self.trunk(features)
        proposed = self._proposed(hidden)
        uniform = self.space.uniform((1, self._config.num_uniform_samples), self._generator)
        q = self.value.at(features)
        best = search.search(q, proposed, uniform)
        probabilities = self.proposal.probabilities(hidden[0], best[0])
        return Proposals(q(proposed)[0], probabilities, best[0].astype(np.int64))
