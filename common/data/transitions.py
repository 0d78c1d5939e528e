"""Data of n-step transitions, each an item.

Adder of n-step transitions for a batch of environments (Ape-X appendix F).
"""

from collections.abc import Sequence
import itertools
from typing import Any

import dm_env
import numpy as np
import tree

from common.acting.policy import ExploringPolicy
from common.data.data import ItemData
from common.remote.outbox import Delivery, Writer
from common.replay import columns
from common.types import Items, Nest, NStepTransitions, StoredTransition

_FIRST = int(dm_env.StepType.FIRST)
_LAST = int(dm_env.StepType.LAST)


def concatenate(batches: Sequence[NStepTransitions]) -> NStepTransitions:
    """Concatenates batches of the same structure, in order.

    Raises:
      ValueError: there are no batches.
    """
    if not batches:
        raise ValueError("there are no transitions to concatenate")
    return tree.map_structure(lambda *leaves: np.concatenate(leaves), *batches)


class NStepAdder:
    """Converter of the timesteps of K environments to n-step transitions.

    For a transition that begins at S_t and ends k steps later (Ape-X appendix F, restored):

        R_{t:t+k}     = sum_{i=0}^{k-1} (prod_{j=1}^{i} gamma_{t+j}) R_{t+i+1}
        gamma_{t:t+k} = prod_{j=1}^{k} gamma_{t+j}
        gamma_j       = gamma * the environment's discount_j

    k is n, or less if the episode ends first. No transition spans two episodes, and none is cut
    short at the beginning of an episode. Termination (discount 0) gives gamma_{t:t+k} = 0. A time
    limit (LAST with discount 1) gives gamma^k, so that the learner bootstraps from the true last
    observation; the paper sets the discount to 0 at any end. A discount of 0 within an episode (an
    Atari game's lost life) cuts the return, and the episode goes on. Rewards are clipped before
    they are summed.

    Call both methods once for each timestep, with the policy's output for its observation:

        finished = adder.observe(timestep, extras)      # NStepTransitions, or None
        adder.act(timestep, action, extras)

    `act` opens a transition in each environment that is not at LAST. `observe` adds the timestep's
    reward to the open transitions and returns those that it completes, the oldest of an environment
    first. Everything stored or returned is a copy.

    All environments advance together, so the transitions opened at time t are in slot t mod n of a
    ring, and a mask says which of them are open.
    """

    def __init__(
        self, num_environments: int, n: int, gamma: float, reward_clip: float | None = None
    ):
        """Makes an adder without open transitions.

        Args:
          num_environments: K.
          n: steps of a transition.
          gamma: discount per step.
          reward_clip: bound on the magnitude of a reward; None does not clip.
        """
        self._num_environments = num_environments
        self._n = n
        self._gamma = gamma
        self._reward_clip = np.inf if reward_clip is None else reward_clip
        self._time = 0
        self._next_step = np.zeros(num_environments, np.int64)
        self._is_open = np.zeros((n, num_environments), bool)
        self._steps = np.zeros((n, num_environments), np.int64)
        # float64, so that a result is rounded only once. Valid only where a transition is open.
        self._rewards = np.zeros((n, num_environments))
        self._discounts = np.zeros((n, num_environments))
        self._ring: Nest = None  # (observation, action, extras), leaves [n, K, ...]
        self._ring_leaves: list[np.ndarray] = []

    def observe(
        self, timestep: dm_env.TimeStep, extras_t: dict[str, np.ndarray]
    ) -> NStepTransitions | None:
        """Adds a timestep to the open transitions and returns those that it completes.

        Args:
          timestep: of K environments, as an `EnvironmentBatch` returns it.
          extras_t: named arrays [K, ...], the policy's extras at the timestep's observation.

        Returns:
          The completed transitions, or None if there are none.
        """
        step_type = timestep.step_type
        # A reset within an episode drops its open transitions, because they have no end.
        self._is_open &= step_type != _FIRST
        reward = np.clip(timestep.reward, -self._reward_clip, self._reward_clip)
        self._rewards += self._discounts * reward
        self._discounts *= self._gamma * timestep.discount.astype(np.float64)

        oldest = self._time % self._n
        is_last = step_type == _LAST
        if is_last.any():
            by_age = np.arange(self._time, self._time + self._n) % self._n
            due = self._is_open[by_age]
            due[1:] &= is_last
            ages, environments = np.nonzero(due)
            slots = by_age[ages]
        else:
            environments = np.flatnonzero(self._is_open[oldest])
            slots = np.full(environments.size, oldest)
        if not environments.size:
            return None

        self._is_open[slots, environments] = False
        observation_tm1, action_tm1, extras_tm1 = tree.unflatten_as(
            self._ring, [leaf[slots, environments] for leaf in self._ring_leaves]
        )
        return NStepTransitions(
            environment_index=environments.astype(np.int32),
            step=self._steps[slots, environments],
            observation_tm1=observation_tm1,
            action_tm1=action_tm1,
            n_step_reward=self._rewards[slots, environments].astype(np.float32),
            n_step_discount=self._discounts[slots, environments].astype(np.float32),
            observation_t=tree.map_structure(lambda leaf: leaf[environments], timestep.observation),
            extras_tm1=extras_tm1,
            extras_t={name: leaf[environments] for name, leaf in extras_t.items()},
        )

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras_t: dict[str, np.ndarray]
    ) -> None:
        """Opens a transition in each environment that is not at LAST.

        Args:
          timestep: the timestep that `observe` just got.
          action: [K, A] or [K], the action taken at its observation.
          extras_t: named arrays [K, ...], the policy's extras at its observation.
        """
        stored = (timestep.observation, action, extras_t)
        leaves = tree.flatten(stored)
        if self._ring is None:
            self._ring_leaves = [np.empty((self._n, *leaf.shape), leaf.dtype) for leaf in leaves]
            self._ring = tree.unflatten_as(stored, self._ring_leaves)
        slot = self._time % self._n
        for ring, leaf in zip(self._ring_leaves, leaves, strict=True):
            ring[slot] = leaf
        opened = timestep.step_type != _LAST
        self._is_open[slot] = opened
        self._steps[slot] = self._next_step
        self._next_step += opened
        self._rewards[slot] = 0
        self._discounts[slot] = 1
        self._time += 1


class Transitions(ItemData):
    """n-step transitions, with initial priorities that the actors compute (Ape-X appendix F)."""

    inserts_late = True

    def __init__(self, config: Any, *args: Any, **kwargs: Any):
        """Reads `n_step` and `send_batch` of the configuration, too; see base class."""
        super().__init__(config, *args, send_batch=config.send_batch, **kwargs)

    def make_adder(self, num_environments: int, share: float = 1.0) -> NStepAdder:
        """Builds the adder for a batch of environments."""
        del share
        config = self._config
        return NStepAdder(num_environments, config.n_step, config.discount, self._reward_clip)

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
        transitions = concatenate(collected)
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
        step_keys = columns.transition_keys(self._shard, actor_of_row, self.incarnation, steps)
        stored = StoredTransition.of(added), self._policy.initial_priorities(added)
        if copies > 1:
            stored = tree.map_structure(lambda column: np.repeat(column, copies, axis=0), stored)
        return Items(step_keys.reshape(-1), *stored)
