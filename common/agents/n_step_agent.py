"""Base class of agents that learn from n-step transitions."""

import abc
from typing import Any

import numpy as np
import tree

from common.acting.n_step_adder import NStepAdder
from common.acting.policy import Adder, ExploringPolicy
from common.agents.item_agent import ItemAgent
from common.environments.spec import EnvironmentSpec
from common.replay import keys
from common.types import Items, NStepTransitions, StoredTransition


class NStepAgent(ItemAgent):
    """An agent whose replay has n-step transitions, each an item.

    Attributes:
      n_step: n, steps of a transition.
    """

    def __init__(self, config: Any, setting: str):
        """Copies the fields that configurations of n-step agents have in common.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: name of the configuration, for CSV files.
        """
        super().__init__(config, setting)
        self.n_step: int = config.n_step
        self.send_batch = config.send_batch

    @abc.abstractmethod
    def step_specs(self, spec: EnvironmentSpec) -> StoredTransition:
        """See base class."""

    @abc.abstractmethod
    def make_actor(
        self, spec: EnvironmentSpec, actors: range, num_actors: int, seed: int
    ) -> ExploringPolicy:
        """See base class."""

    def make_adder(self, num_environments: int) -> Adder:
        """Builds the adder for a batch of environments."""
        return NStepAdder(num_environments, self.n_step, self.discount, self.reward_clip)

    def count_steps(self, added: NStepTransitions) -> int:
        """Returns the number of transitions: each begins with another actor step."""
        return len(added.step)

    def items(
        self,
        actor: ExploringPolicy,
        actors: range,
        shard: int,
        added: NStepTransitions,
        incarnation: int,
    ) -> Items:
        """Returns the replay items of M transitions, C = `num_copies` items for each.

        The key of copy j of a transition that begins at step t has the step C * t + j.

        Args:
          actor: computes the initial priorities.
          actors: index of the actor in each row of the batch of environments.
          shard: number of the replay shard that gets the items.
          added: M transitions.
          incarnation: number that the shard assigned to this start of the actors.
        """
        copies = self.num_copies
        steps = copies * added.step[:, None] + np.arange(copies)
        actor_of_row = np.asarray(actors)[added.environment_index][:, None]
        step_keys = keys.transition_keys(shard, actor_of_row, incarnation, steps)
        stored = StoredTransition.of(added), actor.initial_priorities(added)
        if copies > 1:
            stored = tree.map_structure(lambda column: np.repeat(column, copies, axis=0), stored)
        return Items(step_keys.reshape(-1), *stored)
