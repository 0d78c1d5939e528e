"""Base class of agents that learn from sequences of timesteps."""

import abc
from typing import Any

import dm_env
import numpy as np

from common.acting.policy import Adder, Policy
from common.acting.sequence_adder import SequenceAdder
from common.agents.item_agent import ItemAgent
from common.environments.spec import EnvironmentSpec
from common.replay import keys
from common.replay.distributions import UNKNOWN_PRIORITY
from common.types import Items, StoredTimestep, Timesteps

_LAST = int(dm_env.StepType.LAST)


class SequenceAgent(ItemAgent):
    """An agent whose replay has timesteps, and items that view T consecutive ones.

    Sequences overlap: every timestep begins one, and the memory stores each timestep once.
    """

    def __init__(self, config: Any, setting: str):
        """Copies the fields that configurations of sequence agents have in common.

        Args:
          config: a paper's dataclass of hyperparameters.
          setting: name of the configuration, for CSV files.
        """
        super().__init__(config, setting)
        self.sequence_length = config.sequence_length

    @abc.abstractmethod
    def step_specs(self, spec: EnvironmentSpec) -> StoredTimestep:
        """See base class."""

    def make_adder(self, num_environments: int) -> Adder:
        """Builds the adder for a batch of environments."""
        return SequenceAdder(
            num_environments, self.sequence_length, self.discount, self.reward_clip
        )

    def count_steps(self, added: Timesteps) -> int:
        """Returns the number of timesteps at which an action was taken."""
        return int(np.count_nonzero(added.timesteps.step_type != _LAST))

    def items(
        self, actor: Policy, actors: range, shard: int, added: Timesteps, incarnation: int
    ) -> Items:
        """Returns the timesteps and the sequences that they complete, whose priority is unknown.

        Args:
          actor: not used.
          actors: index of the actor in each row of the batch of environments.
          shard: number of the replay shard that gets the items.
          added: S timesteps and I sequences.
          incarnation: number that the shard assigned to this start of the actors.
        """
        del actor
        num_items = len(added.item_step)

        def keys_of(environment_index: np.ndarray, step: np.ndarray) -> np.ndarray:
            actor_of_row = np.asarray(actors)[environment_index]
            return keys.transition_keys(shard, actor_of_row, incarnation, step)

        return Items(
            keys_of(added.environment_index, added.step),
            added.timesteps,
            np.full(num_items, UNKNOWN_PRIORITY, np.float32),
            keys_of(added.item_environment_index, added.item_step),
            np.full(num_items, self.sequence_length, np.int32),
        )
