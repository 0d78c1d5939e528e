"""Whole episodes; updates draw single steps or windows of them (ReF-ER)."""

from collections.abc import Mapping, Sequence
import math
from typing import Any

import dm_env
import numpy as np
import tree

from common.data.data import Adder, Data, Delivery, StoredState, takes_action
from common.environments.batch import ABSENT, FIRST, LAST
from common.environments.spec import UnusableEnvironmentError
from common.replay.episode_memory import EpisodeMemory, WindowMemory
from common.replay.episode_wire import Episode, Episodes, EpisodeWire
from common.replay.memory import Proportional, RankBased, Uniform
from common.replay.store import RateLimiter
from common.types import Nest


class EpisodeAdder(Adder):
    """Collector of the episodes of K environments, which are delivered when they have ended.

    ABSENT rows are neither counted nor stored, and the episode that they interrupt is dropped. An
    actor step counts when its action is chosen, even if its episode is still running. The policy's
    extras "value" and "advantage" become the `values` and `advantages` of its episodes. The last
    state of an episode has the extras of its observation, and an action of zeros.
    """

    def __init__(self, num_environments: int, max_steps: int, send_batch: float = 0):
        """Creates an adder for K environments.

        Args:
          num_environments: K.
          max_steps: maximum length of an episode: the capacity of the memory, in steps.
          send_batch: actor steps that are collected for a delivery.
        """
        super().__init__()
        self._max_steps = max_steps
        self._send_batch = send_batch
        self._finished: list[Episode] = []
        self._num_collected = 0
        self._running = [_Running() for _ in range(num_environments)]

    def observe(
        self, timestep: dm_env.TimeStep, extras: Mapping[str, np.ndarray]
    ) -> Sequence[Delivery]:
        """Counts the actions taken at this timestep, and collects the episodes that end at it.

        Raises:
          UnusableEnvironmentError: a discount is neither 1 nor, at the end of an episode, 0.
        """
        is_end = (timestep.step_type == LAST) & (timestep.discount == 0)
        wrong = timestep.discount[~is_end & (timestep.discount != 1)]
        if wrong.size:
            raise UnusableEnvironmentError(
                f"--environment returned a discount of {wrong[0]:g}: this agent needs 1 at each "
                "step; at the last step of an episode 0, or 1 if only a time limit ended it"
            )
        for index, step_type in enumerate(timestep.step_type):
            running = self._running[index]
            if step_type in (FIRST, ABSENT):
                running = self._running[index] = _Running()
            else:
                running.rewards.append(timestep.reward[index])
            if step_type == LAST:
                no_action = np.zeros_like(running.states[-1].action)
                running.append(int(index), timestep.observation, no_action, extras)
                self._finished.append(running.episode(is_end[index]))
        num_steps = int(np.count_nonzero(takes_action(timestep)))
        self.num_steps += num_steps
        self._num_collected += num_steps
        return self.flush() if self._num_collected >= self._send_batch else ()

    def flush(self) -> Sequence[Delivery]:
        """Returns the finished episodes, with the number of all steps since the last delivery."""
        rows = Episodes(self._num_collected, tuple(self._finished))
        self._finished, self._num_collected = [], 0
        return [Delivery(rows, rows.num_steps)] if rows.num_steps or rows.episodes else ()

    def act(
        self, timestep: dm_env.TimeStep, action: np.ndarray, extras: Mapping[str, np.ndarray]
    ) -> None:
        """Stores the states at which an action is taken; see base class.

        Raises:
          UnusableEnvironmentError: an episode is longer than the memory.
        """
        for index in np.flatnonzero(takes_action(timestep)):
            if len(self._running[index].states) == self._max_steps:
                raise UnusableEnvironmentError(
                    f"--environment has an episode of more than {self._max_steps} steps, the most "
                    "that the memory can hold: raise --config.replay_capacity or shorten episodes"
                )
            self._running[index].append(int(index), timestep.observation, action[index], extras)


class _Running:
    """A running episode of an environment.

    Attributes:
      states: states so far, with all extras.
      rewards: rewards of the steps between these states.
    """

    def __init__(self):
        self.states: list[StoredState] = []
        self.rewards: list[float] = []

    def append(
        self, index: int, observation: Nest, action: np.ndarray, extras: Mapping[str, np.ndarray]
    ) -> None:
        """Appends the state in row `index` of a batch."""
        nest = observation, dict(extras)
        seen, own = tree.map_structure(lambda leaf: np.array(leaf[index]), nest)
        self.states.append(StoredState(seen, np.array(action), own))

    def episode(self, terminated: bool) -> Episode:
        """Returns the finished episode."""
        states = tree.map_structure(lambda *leaves: np.stack(leaves), *self.states)
        zeros = np.zeros(len(self.states), np.float32)
        # The memory stores these two separately from the columns of a state.
        names = "value", "advantage"
        values, advantages = (
            np.asarray(states.extras.pop(name, zeros), np.float32) for name in names
        )
        rewards = np.array(self.rewards, np.float32)
        return Episode(states, rewards, values, bool(terminated), advantages[:-1])


class WholeEpisodes(Data):
    """Whole episodes, which are added to the memory when they have ended.

    A step counts when its action is executed, although a running episode cannot be drawn yet.
    """

    send_batch = 64  # not in the paper
    acts_during_updates = True

    def __init__(
        self,
        config: Any,
        sample: Uniform | Proportional | RankBased,
        removal: str,
        window: int | None = None,
        history: int | None = None,
    ):
        """Copies fields of the configuration.

        Args:
          config: a paper's dataclass of hyperparameters.
          sample: distribution from which the learner draws single steps.
          removal: rule for the episodes that a full memory removes; see `EpisodeMemory`.
          window: maximum length of the windows that the learner draws from a `WindowMemory` in its
            process; None draws single steps.
          history: maximum number of earlier states drawn with a single step; see
            `EpisodeMemory.sample`.
        """
        self._config = config
        self._sample, self._removal = sample, removal
        self._window, self._history = window, history

    def make_adder(self, *, actors: range, send_batch: float = 0, **_: Any) -> EpisodeAdder:
        """Builds the adder of some actors; the memory assigns the keys."""
        return EpisodeAdder(len(actors), self._config.replay_capacity, send_batch)

    def make_store(self, specs: Nest, seed: int, num_shards: int = 1) -> EpisodeMemory:
        """Builds the memory; see base class."""
        config = self._config
        columns = specs, math.ceil(config.replay_capacity / num_shards), config.discount
        options = dict(removal=self._removal, seed=seed + 1, num_batches=config.updates_per_call)
        if self._window:
            return WindowMemory(*columns, self._window, **options)
        return EpisodeMemory(*columns, self._sample, **options, history=self._history)

    def wire(self, specs: Nest) -> EpisodeWire:
        """See base class."""
        return EpisodeWire(specs)

    def rate_limiter(self, num_samples: int, num_ahead: int | None) -> RateLimiter:
        """Returns a limit under which a call is due as soon as its steps have been executed.

        Between calls, actor steps - (steps per update) * learner steps is constant. Actors wait for
        the learner only once the finished episodes contain the steps of a batch.
        """
        del num_ahead
        config = self._config
        ratio = config.samples_per_insert or None
        return RateLimiter(
            config.min_replay_size, ratio, float(num_samples), min_items=config.batch_size
        )
