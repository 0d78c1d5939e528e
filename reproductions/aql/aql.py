"""Acting policies: the best action that a search finds (algorithm 1), or D3PG's own."""

import abc
from collections.abc import Sequence
import math

import numpy as np

from common.acting.noise import OrnsteinUhlenbeckNoise
from common.acting.policy import Policy
from common.acting.proposals import Proposals, ProposingPolicy
from common.environments.spec import EnvironmentSpec
from common.networks import numpy_twins
from common.networks.mlp import ReluMLP
from common.types import Nest
from reproductions.aql import networks, proposals, search
from reproductions.aql.actions import ActionSpace
from reproductions.aql.config import AQLConfig
from reproductions.aql.recurrent import RecurrentTwin
from reproductions.aql.search import QFunction
from reproductions.aql.twins import FeedforwardTwin, ValueTwin, load_parts


def epsilons(
    num_actors: int, low: float = AQLConfig.epsilon, high: float = AQLConfig.high_epsilon
) -> np.ndarray:
    """Returns each actor's constant probability of a uniform action (appendix A2).

    The first tenth of the actors has the high one: 10 of 100. For other numbers, which are not in
    the paper, the tenth is rounded, and is one actor of two to 14, none of one.

    Args:
      num_actors: of the whole run.
      low: of the others.
      high: of the first tenth.

    Returns:
      float64 [num_actors].
    """
    tenth = math.floor(num_actors / 10 + 0.5)
    num_high = max(tenth, 1) if num_actors > 1 else 0
    return np.where(np.arange(num_actors) < num_high, high, low)


class SharedLayersPolicy(Policy):
    """Policy that acts on the features of the layers that its networks share.

    Where these are recurrent, a state is that before an observation: of the LSTM, with the last
    action and its reward. It is an extra, "state", of which an unroll keeps the first.

    Attributes:
      space: of the actions.
      shared: twin of the shared layers.
    """

    def __init__(
        self, spec: EnvironmentSpec, space: ActionSpace, shared: FeedforwardTwin | RecurrentTwin
    ):
        """Makes the policy.

        Args:
          spec: of the environment.
          space: of the actions, which the environment takes as `ActionSpace.to_environment` says.
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
          action: as the environment takes it, see `ActionSpace.to_environment`.
          state: after the action, without its reward.
          extras: of `act`, and "state".
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
    """Policy that takes the action of the highest Q that its search finds, or a uniform one.

    Attributes:
      value: twin of Q.
      trunk: twin of the proposal's hidden layers, features [K, F] -> [K, H]; None without proposal.
      proposal: twin of the proposal; None without.
    """

    def __init__(
        self,
        config: AQLConfig,
        spec: EnvironmentSpec,
        space: ActionSpace,
        epsilons: Sequence[float],
        seed: int,
    ):
        """Makes the policy with random parameters.

        Args:
          config: hyperparameters.
          spec: of the environment.
          space: of the actions, which the environment takes as `ActionSpace.to_environment` says.
          epsilons: [K], probability of a uniform action in each row of a batch.
          seed: of the samples and of the exploration.
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
        """Searches; see base class.

        The extras are actions of the space, float32 [K, D]: "action_index", the one that is taken,
        and "best_index", a*, which is found wherever the policy explores, too.
        """
        config = self._config
        num_uniform = config.num_uniform_samples
        if config.search in ("cem", "exact"):
            num_uniform = 0
        # Exploration takes the first one, also where the search has none.
        uniform = self.space.uniform((len(features), max(num_uniform, 1)), self._generator)
        best = self._search(self.value.at(features), features, uniform[:, :num_uniform])
        action = search.act(best, uniform, self._epsilons, self._generator)
        return action, {"action_index": action, "best_index": best}

    def _search(self, q: QFunction, features: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """Returns a* [K, D]."""
        config, num_rows = self._config, len(features)
        if config.search == "cem":
            return search.cem(
                q,
                num_rows,
                self.space.size,
                self._generator,
                config.cem_samples,
                config.cem_elites,
                config.cem_iterations,
                config.cem_min_std,
                config.cem_uniform_samples,
            )[0]
        if self._all_actions is not None:
            return self._all_actions[self.value.all_values(features).argmax(axis=1)]
        if self.proposal is not None and self.trunk is not None:
            proposed = self.proposal.sample(
                self.trunk(features), config.num_proposal_samples, self._generator
            )
        else:
            shape = (num_rows, config.num_proposal_samples)
            proposed = self.space.uniform(shape, self._generator)
        return search.search(q, proposed, uniform)[0]

    def require_proposals(self) -> None:
        """See base class."""
        if self.proposal is None:
            raise ValueError("its search has no proposal")
        if not all(self.space.choices):
            raise ValueError("its proposal is continuous, without probabilities to draw")
        if self.sees_rewards:
            raise ValueError("its network is recurrent: an observation alone has no proposals")

    def propose(self, observation: np.ndarray) -> Proposals:
        """Searches at an observation, [Ds] float32; see base class."""
        assert self.proposal is not None and self.trunk is not None
        config = self._config
        features, _ = self.shared(observation[np.newaxis], ())
        hidden = self.trunk(features)
        proposed = self.proposal.sample(hidden, config.num_proposal_samples, self._generator)
        uniform = self.space.uniform((1, config.num_uniform_samples), self._generator)
        q = self.value.at(features)
        best, _ = search.search(q, proposed, uniform)
        probabilities = self.proposal.probabilities(hidden[0], best[0])
        return Proposals(q(proposed)[0], probabilities, best[0].astype(np.int64))


class DeterministicPolicy(Policy):
    """D3PG's policy, with Ornstein-Uhlenbeck noise or without (section 5.1)."""

    def __init__(
        self, config: AQLConfig, spec: EnvironmentSpec, space: ActionSpace, seed: int | None
    ):
        """Makes the policy with random parameters.

        Args:
          config: hyperparameters.
          spec: of the environment.
          space: of the actions, all continuous.
          seed: of the noise; None: no noise.
        """
        shared = ReluMLP(spec.observation_size, config.shared_sizes)
        policy = networks.make_policy(config, shared.output_size, space.size)
        self._action_size = space.size
        self._shared = FeedforwardTwin(shared)
        self._policy = numpy_twins.twin(policy)
        self._noise: OrnsteinUhlenbeckNoise | None = None
        if seed is not None:
            self._noise = OrnsteinUhlenbeckNoise(config.ou_sigma, config.ou_theta, seed)

    def load(self, flat: np.ndarray) -> None:
        """Loads `D3PGLearner.actor_variables`, [P] float32."""
        load_parts([self._policy, self._shared], flat)

    def initial_state(self, num_environments: int) -> Nest:
        """Returns the noise before an episode."""
        if self._noise is None:
            return ()
        return self._noise.initial_state((num_environments, self._action_size))

    def __call__(self, observation: np.ndarray, state: Nest = ()):
        """Acts on observations [K, Ds] float32.

        Returns:
          action: [K, A] float32.
          state: of the noise.
          extras: float32 [K, A]: "action_index", the action, "best_index", the policy's own.
        """
        features, _ = self._shared(observation, ())
        best = self._policy(features)
        action = best
        if self._noise is not None:
            action, state = self._noise(best, state)
        return action, state, {"action_index": action, "best_index": best}
