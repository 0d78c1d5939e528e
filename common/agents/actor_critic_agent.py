"""What the agents of several papers have in common; `common.agents.agent` says what an agent is."""

from collections.abc import Callable
from typing import Any

from common.acting.actor_critic import ActorCriticEvaluator
from common.acting.n_step import Transitions
from common.agents.agent import Agent, EnvironmentSpec
from common.environments import requirements
from common.learning import actor_critic
from common.learning.transition import Transition, control_specs
from common.networks.actor_critic import ActorCritic


class ConfiguredAgent(Agent):
    """An agent whose numbers are those of its paper's configuration."""

    def __init__(self, config: Any, setting: str):
        """Takes over what the configurations of n-step agents have in common.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: its name.
        """
        self._config = config
        self.setting = setting
        self.n_step = config.n_step
        self.discount = config.discount
        self.batch_size = config.batch_size
        self.actor_period = config.actor_period
        self.send_batch = config.send_batch
        self.replay_capacity = config.replay_capacity
        self.min_replay_size = config.min_replay_size
        self.samples_per_insert = config.samples_per_insert or None

    def steps(self, transitions: Transitions) -> Transition:
        """Drops what only the initial priority needed."""
        return Transition.of(transitions)


class ActorCriticAgent(ConfiguredAgent):
    """An agent with a deterministic policy and a critic, for continuous control.

    A paper's agent inherits it and adds its learner, its actor and its memory's distributions.
    """

    metrics = actor_critic.METRICS
    jit_compile = True

    def __init__(
        self, config: Any, setting: str, make_networks: Callable[[Any, int, int], ActorCritic]
    ):
        """See `ConfiguredAgent`.

        Args:
          make_networks: of the configuration, an observation's size and an action's.
        """
        super().__init__(config, setting)
        self.updates_per_call = config.updates_per_call
        self._make_networks = make_networks

    def require(self, spec: EnvironmentSpec) -> None:
        """Flat observations, continuous actions."""
        requirements.require_control(spec)

    def step_specs(self, spec: EnvironmentSpec) -> Transition:
        """An n-step transition."""
        return control_specs(spec.observation_size, spec.action_size)

    def make_evaluator(self, spec: EnvironmentSpec, num_environments: int) -> ActorCriticEvaluator:
        """The policy without noise (D4PG section 4, Ape-X appendix D)."""
        del num_environments  # the twins take any batch
        return ActorCriticEvaluator(
            self._make_networks(self._config, spec.observation_size, spec.action_size)
        )
