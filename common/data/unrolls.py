"""Adder of unrolls, which follow each other without overlap, for a batch of environments."""

import dm_env
import numpy as np
import tree

from common.types import Nest, Unrolls

_FIRST = int(dm_env.StepType.FIRST)


class UnrollAdder:
    """Converter of the timesteps of K environments to unrolls of T timesteps (AQL algorithm 1).

    An unroll begins where the one before it ended, whatever happens in the environment: it may span
    several episodes, and FIRST and LAST are timesteps like the others. The reward and the discount
    of a timestep are those of the step that follows it, so an unroll is complete once the next
    timestep is observed. A reset has neither: they are 0 at the last timestep of an episode. Time
    limits and true ends differ in the discount of the step that led to that timestep.

    Call both methods once for each timestep, with the policy's output for its observation:

        unrolls = adder.observe(timestep, extras)      # Unrolls, or None
        adder.act(timestep, action, extras)

    Everything stored or returned is a copy. Unrolls have no column of actions: a policy whose
    learner needs them gives them as extras. The extra "state" of a recurrent policy, its state
    before a timestep, is kept of the first timestep alone.
    """

    def __init__(self, num_environments: int, length: int):
        """Makes an adder without timesteps.

        Args:
          num_environments: K.
          length: T, timesteps of an unroll.
        """
        self._num_environments = num_environments
        self._length = length
        self._number = 0
        self._stored = 0  # timesteps of the present unroll
        self._columns: Nest = None  # (observation, extras), leaves [K, T, ...]
        self._state: Nest = ()
        self._leaves: list[np.ndarray] = []
        self._begin_unroll()

    def observe(self, timestep: dm_env.TimeStep, extras: dict[str, np.ndarray]) -> Unrolls | None:
        """Adds the step that led to a timestep, and returns the unrolls that it completes.

        Args:
          timestep: of K environments, as an `EnvironmentBatch` returns it.
          extras: not used; `act` gets them too.

        Returns:
          An unroll of each environment (M = K) at every T-th timestep, otherwise None.
        """
        del extras
        if not self._stored:
            return None
        before = self._stored - 1
        # Also where an environment resets within an episode, whose last timestep then is no LAST.
        is_last = timestep.step_type == _FIRST
        self._is_last[:, before] = is_last
        self._reward[:, before] = np.where(is_last, 0, timestep.reward)
        self._discount[:, before] = np.where(is_last, 0, timestep.discount)
        if self._stored < self._length:
            return None
        observation, extras = tree.unflatten_as(self._columns, self._leaves)
        unrolls = Unrolls(
            environment_index=np.arange(self._num_environments, dtype=np.int32),
            number=np.full(self._num_environments, self._number, np.int64),
            observation=observation,
            reward=self._reward,
            discount=self._discount,
            is_last=self._is_last,
            extras=extras,
            state=self._state,
        )
        self._number += 1
        self._begin_unroll()
        return unrolls

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: dict[str, np.ndarray]
    ) -> None:
        """Stores the timestep that `observe` just got.

        Args:
          timestep: of K environments.
          action: not used.
          extras: named arrays [K, ...], the policy's extras at its observation.
        """
        del action
        if not self._stored:
            self._state = tree.map_structure(np.array, extras.get("state", ()))
        kept = {name: extra for name, extra in extras.items() if name != "state"}
        columns = (timestep.observation, kept)
        leaves = tree.flatten(columns)
        if not self._stored:
            shape = (self._num_environments, self._length)
            self._columns = columns
            self._leaves = [np.empty((*shape, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]
        for stored, leaf in zip(self._leaves, leaves, strict=True):
            stored[:, self._stored] = leaf
        self._stored += 1

    def _begin_unroll(self) -> None:
        """Makes new arrays, since those of the last unroll belong to its receiver."""
        shape = (self._num_environments, self._length)
        self._stored = 0
        self._reward = np.empty(shape, np.float32)
        self._discount = np.empty(shape, np.float32)
        self._is_last = np.empty(shape, bool)
