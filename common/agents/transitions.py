"""Data of n-step transitions, each an item."""

from collections.abc import Sequence
import itertools
from typing import Any

import numpy as np
import tree

from common.acting import n_step_adder
from common.acting.policy import ExploringPolicy
from common.agents.items import ItemData
from common.remote.outbox import Delivery, Writer
from common.replay import keys
from common.types import Items, NStepTransitions, StoredTransition


class Transitions(ItemData):
    """n-step transitions, with initial priorities that the actors compute (Ape-X appendix F)."""

    inserts_late = True

    def __init__(self, config: Any, *args: Any, **kwargs: Any):
        """Reads `n_step` and `send_batch` of the configuration, too; see base class."""
        super().__init__(config, *args, send_batch=config.send_batch, **kwargs)

    def make_adder(self, num_environments: int, share: float = 1.0) -> n_step_adder.NStepAdder:
        """Builds the adder for a batch of environments."""
        del share
        config = self._config
        return n_step_adder.NStepAdder(
            num_environments, config.n_step, config.discount, self._reward_clip
        )

    def make_writer(
        self, *, policy: ExploringPolicy, actors: range, shard: int, in_batches: bool, **_: Any
    ) -> Writer:
        """Builds the writer of some actors; see base class."""
        send_batch = self.send_batch if in_batches else 0
        return _TransitionWriter(policy, actors, shard, self.num_copies, send_batch)


class _TransitionWriter(Writer):
    def __init__(
        self, policy: ExploringPolicy, actors: range, shard: int, num_copies: int, send_batch: int
    ):
        super().__init__(send_batch)
        self._policy = policy
        self._actors = np.asarray(actors)
        self._shard = shard
        self._num_copies = num_copies

    def count_steps(self, added: NStepTransitions) -> int:
        """Returns the number of transitions: each begins with another actor step."""
        return len(added.step)

    def deliveries(self, collected: Sequence[NStepTransitions]) -> list[Delivery]:
        """Returns the items of transitions, cut evenly into deliveries of `send_batch` or more."""
        transitions = n_step_adder.concatenate(collected)
        num_steps = len(transitions.step)
        # The end of an episode completes many transitions at once.
        number = max(1, num_steps // self._send_batch) if self._send_batch else 1
        ends = np.linspace(0, num_steps, number + 1).astype(int)
        parts = [
            tree.map_structure(lambda column, rows=slice(*rows): column[rows], transitions)
            for rows in itertools.pairwise(ends)
        ]
        return [Delivery(self._items(part), len(part.step)) for part in parts]

    def _items(self, added: NStepTransitions) -> Items:
        """Returns C = `num_copies` items for each transition.

        The key of copy j of a transition that begins at step t has the step C * t + j.
        """
        copies = self._num_copies
        steps = copies * added.step[:, None] + np.arange(copies)
        actor_of_row = self._actors[added.environment_index][:, None]
        step_keys = keys.transition_keys(self._shard, actor_of_row, self.incarnation, steps)
        stored = StoredTransition.of(added), self._policy.initial_priorities(added)
        if copies > 1:
            stored = tree.map_structure(lambda column: np.repeat(column, copies, axis=0), stored)
        return Items(step_keys.reshape(-1), *stored)
