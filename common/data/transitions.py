"""n-step transitions as items of a `Memory` (Ape-X appendix F)."""

from collections.abc import Sequence
import itertools
from typing import Any, NamedTuple, Protocol

import dm_env
import numpy as np
import tensorflow as tf
import tree

from common.data.data import Adder, Delivery, ItemData, takes_action
from common.environments.batch import FIRST, LAST
from common.replay import columns
from common.replay.memory import Items
from common.types import Nest


class StoredTransition(NamedTuple):
    """The columns of n-step transitions from S_t to S_{t+k}, k <= n.

    In the names, `tm1` marks the beginning of a transition and `t` its end.

    Attributes:
      observation_tm1: nest of [B, ...], S_t.
      action_tm1: [B, A] (or [B]), A_t.
      n_step_reward: float32 [B], R_{t:t+k}.
      n_step_discount: float32 [B], gamma_{t:t+k}, by which the value of S_{t+k} is multiplied.
      observation_t: nest of [B, ...], S_{t+k}.
    """

    observation_tm1: Nest
    action_tm1: tf.Tensor | np.ndarray
    n_step_reward: tf.Tensor | np.ndarray
    n_step_discount: tf.Tensor | np.ndarray
    observation_t: Nest


class PrioritizingPolicy(Protocol):
    """A policy that computes initial priorities of transitions."""

    def initial_priorities(
        self,
        transitions: StoredTransition,
        extras_tm1: dict[str, np.ndarray],
        extras_t: dict[str, np.ndarray],
    ) -> np.ndarray:
        """Returns raw priorities [M] float32.

        Args:
          transitions: columns of [M, ...].
          extras_tm1: named arrays [M, ...], the policy's extras where the transitions begin.
          extras_t: named arrays [M, ...], the policy's extras where they end.
        """


class _Completed(NamedTuple):
    """M completed transitions; each began at step `step` of actor `actor`."""

    actor: np.ndarray
    step: np.ndarray
    transitions: StoredTransition
    extras_tm1: dict[str, np.ndarray]
    extras_t: dict[str, np.ndarray]


class NStepAdder(Adder):
    """Converter of the timesteps of K environments to n-step transitions.

    For a transition that begins at S_t and ends k steps later (Ape-X appendix F):

        R_{t:t+k}     = sum_{i=0}^{k-1} (prod_{j=1}^{i} gamma_{t+j}) R_{t+i+1}
        gamma_{t:t+k} = prod_{j=1}^{k} gamma_{t+j}
        gamma_j       = gamma * the environment's discount_j

    k is n, or less if the episode ends first. No transition spans two episodes or is shortened at
    the beginning of an episode. Termination (discount 0) gives gamma_{t:t+k} = 0. A time limit
    (LAST with discount 1) gives gamma^k, so that the learner bootstraps from the true last
    observation; the paper sets the discount to 0 at any end. A discount of 0 within an episode (an
    Atari game's lost life) cuts the return, and the episode continues. Rewards are clipped before
    they are summed.

    `act` opens a transition in each environment that takes an action, which is neither at LAST nor
    ABSENT. `observe` adds the timestep's reward to the open transitions and completes those that
    end, the oldest of an environment first. The transitions of an actor are numbered 0, 1, 2, ...
    over the lifetime of the adder, across episodes; the numbers of those that a lost environment
    left open stay unused. Their keys are built from these numbers: with C copies, the key of copy j
    of transition t has the step C * t + j.

    All environments advance together, so the transitions opened at time t are in slot t mod n of a
    ring, and a mask marks the open transitions.
    """

    def __init__(
        self,
        actors: range,
        n: int,
        gamma: float,
        reward_clip: float | None = None,
        *,
        policy: PrioritizingPolicy,
        shard: int = 0,
        num_copies: int = 1,
        send_batch: float = 0,
    ):
        """Creates an adder without open transitions.

        Args:
          actors: index of the actor in each of the K environments.
          n: steps of a transition.
          gamma: discount per step.
          reward_clip: bound on the magnitude of a reward; None does not clip.
          policy: computes the initial priorities of each delivery.
          shard: number of the shard that receives the transitions.
          num_copies: C, items for each transition.
          send_batch: transitions that are collected for a delivery.
        """
        super().__init__()
        num_environments = len(actors)
        self._actors = np.asarray(actors)
        self._n = n
        self._gamma = gamma
        self._reward_clip = np.inf if reward_clip is None else reward_clip
        self._policy = policy
        self._shard = shard
        self._num_copies = num_copies
        self._send_batch = send_batch
        self._collected: list[_Completed] = []
        self._num_collected = 0
        self._time = 0
        self._next_step = np.zeros(num_environments, np.int64)
        self._is_open = np.zeros((n, num_environments), bool)
        self._steps = np.zeros((n, num_environments), np.int64)
        # float64, so that results are rounded only once. Valid only where a transition is open.
        self._rewards = np.zeros((n, num_environments))
        self._discounts = np.zeros((n, num_environments))
        self._ring: Nest = None  # (observation, action, extras), leaves [n, K, ...]
        self._ring_leaves: list[np.ndarray] = []

    def observe(
        self, timestep: dm_env.TimeStep, extras: dict[str, np.ndarray]
    ) -> Sequence[Delivery]:
        """Adds a timestep to the open transitions; returns deliveries of at least `send_batch`."""
        completed = self._complete(timestep, extras)
        if completed is None:
            return ()
        self._collected.append(completed)
        self._num_collected += len(completed.step)
        self.num_steps += len(completed.step)
        return self.flush() if self._num_collected >= self._send_batch else ()

    def flush(self) -> Sequence[Delivery]:
        """Returns the collected transitions in deliveries of about equal size.

        Each has at least `send_batch` transitions, unless fewer were collected.
        """
        if not self._collected:
            return ()
        completed = tree.map_structure(lambda *leaves: np.concatenate(leaves), *self._collected)
        num_steps, self._collected, self._num_collected = self._num_collected, [], 0
        # The end of an episode completes many transitions at once.
        number = max(1, int(num_steps // self._send_batch)) if self._send_batch else 1
        ends = np.linspace(0, num_steps, number + 1).astype(int)
        parts = [
            tree.map_structure(lambda column, rows=slice(*rows): column[rows], completed)
            for rows in itertools.pairwise(ends)
        ]
        return list(map(self._delivery, parts))

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: dict[str, np.ndarray]
    ) -> None:
        """Opens a transition in each environment that takes an action; see base class."""
        stored = (timestep.observation, action, extras)
        leaves = tree.flatten(stored)
        if self._ring is None:
            self._ring_leaves = [np.empty((self._n, *leaf.shape), leaf.dtype) for leaf in leaves]
            self._ring = tree.unflatten_as(stored, self._ring_leaves)
        slot = self._time % self._n
        for ring, leaf in zip(self._ring_leaves, leaves, strict=True):
            ring[slot] = leaf
        opened = takes_action(timestep)
        self._is_open[slot] = opened
        self._steps[slot] = self._next_step
        self._next_step += opened
        self._rewards[slot] = 0
        self._discounts[slot] = 1
        self._time += 1

    def _delivery(self, completed: _Completed) -> Delivery:
        """Returns a delivery with C items for each transition."""
        num_steps, copies = len(completed.step), self._num_copies
        steps = copies * completed.step[:, None] + np.arange(copies)
        keys = columns.transition_keys(
            self._shard, completed.actor[:, None], self.incarnation, steps
        )
        priorities = self._policy.initial_priorities(
            completed.transitions, completed.extras_tm1, completed.extras_t
        )
        stored = completed.transitions, priorities
        if copies > 1:
            stored = tree.map_structure(lambda column: np.repeat(column, copies, axis=0), stored)
        return Delivery(Items(keys.reshape(-1), *stored), num_steps)

    def _complete(
        self, timestep: dm_env.TimeStep, extras: dict[str, np.ndarray]
    ) -> _Completed | None:
        """Adds a timestep to the open transitions; returns the transitions that it completes."""
        step_type = timestep.step_type
        # Transitions of an episode without LAST stay open; they have no end, so they are dropped.
        self._is_open &= step_type > FIRST
        reward = np.clip(timestep.reward, -self._reward_clip, self._reward_clip)
        self._rewards += self._discounts * reward
        self._discounts *= self._gamma * timestep.discount.astype(np.float64)

        by_age = np.arange(self._time, self._time + self._n) % self._n
        due = self._is_open[by_age]
        due[1:] &= step_type == LAST
        ages, environments = np.nonzero(due)
        slots = by_age[ages]
        if not environments.size:
            return None

        self._is_open[slots, environments] = False
        observation_tm1, action_tm1, extras_tm1 = tree.unflatten_as(
            self._ring, [leaf[slots, environments] for leaf in self._ring_leaves]
        )
        return _Completed(
            actor=self._actors[environments],
            step=self._steps[slots, environments],
            transitions=StoredTransition(
                observation_tm1,
                action_tm1,
                self._rewards[slots, environments].astype(np.float32),
                self._discounts[slots, environments].astype(np.float32),
                tree.map_structure(lambda leaf: leaf[environments], timestep.observation),
            ),
            extras_tm1=extras_tm1,
            extras_t={name: leaf[environments] for name, leaf in extras.items()},
        )


class Transitions(ItemData):
    """n-step transitions, with initial priorities that the actors compute (Ape-X appendix F)."""

    inserts_late = True

    def __init__(self, config: Any, *args: Any, **kwargs: Any):
        """Also reads the configuration's `send_batch` and, if it exists, `send_buffer`."""
        super().__init__(config, *args, send_batch=config.send_batch, **kwargs)
        if buffer := getattr(config, "send_buffer", 0):
            self.most_waiting = max(1, buffer // config.send_batch)

    def make_adder(
        self,
        *,
        policy: PrioritizingPolicy,
        actors: range,
        shard: int = 0,
        send_batch: float = 0,
        **_: Any,
    ) -> NStepAdder:
        """Builds the adder of some actors; see base class."""
        config = self._config
        return NStepAdder(
            actors,
            config.n_step,
            config.discount,
            self._reward_clip,
            policy=policy,
            shard=shard,
            num_copies=self.num_copies,
            send_batch=send_batch,
        )
