"""Episodes that begin in recorded states, such as Atari's human starts.

Nair et al. 2015 took 100 states of each game from the play of a human expert. An agent plays on
from such a state, and only the rewards after it count; the limit of an episode includes the steps
before it (van Hasselt et al. 2015, "Robustness to human starts"). A file of starts contains seeds
and actions of episodes, so that any version of a simulator can read it:

    {"environment": "atari:pong",
     "origin": "who played, for people who read the scores",
     "episodes": [{"seed": 7, "actions": [0, 3, ...], "starts": [[120, -1.0], ...]}]}

A start is a number of actions and the return up to there, which shows a reader whether the
simulator still does the same. Actions are as agents give them.
"""

from collections.abc import Iterator, Sequence
import dataclasses
import itertools
import json
import pathlib
import reprlib
from typing import Any, NamedTuple

import dm_env
import numpy as np

from common.environments import registry
from common.environments.batch import BatchedEnvironment
from common.environments.canonical import Wrapper
from common.environments.spec import UnusableEnvironmentError
from common.user_error import UserError

NUM_STARTS = 100
"""Number of starts in a new file (Nair et al. 2015)."""
LATEST_STEP = 4_500
"""Upper limit of the step of a new start, exclusive: five minutes of Atari, the length of the games
that people played for the scores of Mnih et al. 2015."""


class StartState(NamedTuple):
    """A state in which an episode starts.

    Attributes:
      seed: seed of the environment.
      actions: the actions that lead to the state from the start of the first episode.
      episode_return: sum of the rewards of these actions.
    """

    seed: int
    actions: Sequence[Any]
    episode_return: float


@dataclasses.dataclass(frozen=True)
class StartStates:
    """The content of a file of starts.

    Attributes:
      path: path of the file.
      environment: name of the environment.
      origin: who played.
      starts: the starts in the file's order.
    """

    path: pathlib.Path
    environment: str
    origin: str
    starts: tuple[StartState, ...]


def read(path: pathlib.Path, environment: str) -> StartStates:
    """Reads a file of starts.

    Raises:
      UnusableEnvironmentError: there is no such file, or it is malformed, without starts, or for
        another environment than `environment`.
    """
    try:
        content = json.loads(path.read_bytes())
        starts = tuple(start for episode in content["episodes"] for start in _starts_of(episode))
        found = StartStates(path, content["environment"], content["origin"], starts)
    except OSError as error:
        raise UnusableEnvironmentError(f"--starts={path}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise UnusableEnvironmentError(
            f"--starts={path} is not a file of start states ({type(error).__name__}: {error}): see "
            "docs/environments.md"
        ) from None
    if found.environment != environment or not starts:
        raise UnusableEnvironmentError(
            f"--starts={path} has {len(starts)} start states of {found.environment}, but the run "
            f"needs some of {environment}"
        )
    return found


def _starts_of(episode: dict[str, Any]) -> Iterator[StartState]:
    """Yields the starts of an episode in a file; raises ValueError if a start is impossible."""
    for step, before in episode["starts"]:
        seed, actions = int(episode["seed"]), episode["actions"]
        if not 0 <= seed < 2**32:
            raise ValueError(f"a seed must be in [0, 2^32), is {seed}")
        if not 0 <= step <= len(actions):
            raise ValueError(f"a start is after {step} actions of an episode of {len(actions)}")
        yield StartState(seed, actions[:step], float(before))


def make_batch(
    starts: StartStates, num_environments: int, seed: int, frames: int | None = None
) -> BatchedEnvironment:
    """Returns environments whose episodes begin at the starts, in an order drawn with `seed`.

    Environment i of K plays the starts i, i + K, ... of this order. All starts are played equally
    often if each environment plays its share of the episodes.

    Args:
      starts: the states in which episodes begin.
      num_environments: K.
      seed: seed of the order.
      frames: number of images in an observation, as in `common.environments.make`.
    """
    count, k = len(starts.starts), num_environments
    shuffled = [starts.starts[i] for i in np.random.default_rng(seed).permutation(count)]
    orders = [[shuffled[(i + n * k) % count] for n in range(count)] for i in range(k)]
    return BatchedEnvironment([StartedEnvironment(starts, order, frames) for order in orders])


class StartedEnvironment(Wrapper):
    """An environment whose episodes begin at given starts and follow the rules of evaluations.

    To reach a state, it creates a new environment and takes the actions that lead there.
    """

    def __init__(self, starts: StartStates, order: Sequence[StartState], frames: int | None = None):
        """Creates the environment that `starts` names, for episodes that begin at `order`'s states.

        The first state follows again after the last one.
        """
        self._starts = starts
        self._order = itertools.cycle(order)
        self._frames = frames
        self._start = next(self._order)
        super().__init__(self._make())
        self._is_new = self._is_over = True

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode.

        Raises:
          UnusableEnvironmentError: the environment does not take the actions, or they end the
            episode, or lead to another return than the file's.
        """
        if not self._is_new:
            self.wrapped.close()
            self._start = next(self._order)
            self.wrapped = self._make()
        self._is_new, start = False, self._start
        timestep, total = self.wrapped.reset(), 0.0
        for action in start.actions:
            try:
                timestep = self.wrapped.step(np.asarray(action, self.action_spec().dtype))
            except UserError:
                raise
            except Exception as error:  # whatever else the environment's code raises
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                raise UnusableEnvironmentError(
                    f"--starts={self._starts.path}: {self._starts.environment} refuses the action "
                    f"{reprlib.repr(action)} of seed {start.seed} ({reason})"
                ) from error
            total += timestep.reward or 0.0
            if timestep.last():
                break
        if timestep.last() or not np.isclose(total, start.episode_return, rtol=1e-3, atol=1e-3):
            raise UnusableEnvironmentError(
                f"--starts={self._starts.path}: seed {start.seed} and {len(start.actions)} actions "
                f"lead to a return of {total:g} instead of {start.episode_return:g}, or end the "
                f"episode: the file is from another version of {self._starts.environment}"
            )
        self._is_over = False
        return dm_env.restart(timestep.observation)

    def step(self, action: Any) -> dm_env.TimeStep:
        """Takes `action`; after a LAST step, starts an episode."""
        if self._is_over:
            return self.reset()
        timestep = self.wrapped.step(action)
        self._is_over = timestep.last()
        return timestep

    def _make(self) -> dm_env.Environment:
        return registry.make(self._starts.environment, self._start.seed, True, self._frames)


class RecordedEnvironment(StartedEnvironment):
    """An environment whose episodes are recorded, for a new file of starts.

    Attributes:
      episodes: seed, actions and rewards of each episode.
    """

    def __init__(self, name: str, seed: int, num_episodes: int, frames: int | None = None):
        """Creates the environment; `seed` determines a separate seed for each episode."""
        seeds = np.random.SeedSequence(seed).generate_state(num_episodes).tolist()
        begins = tuple(StartState(each, (), 0.0) for each in seeds)
        super().__init__(StartStates(pathlib.Path(), name, "", begins), begins, frames)
        self.episodes: list[tuple[int, list[Any], list[float]]] = []

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode."""
        timestep = super().reset()
        self.episodes.append((self._start.seed, [], []))
        return timestep

    def step(self, action: Any) -> dm_env.TimeStep:
        """Takes `action`; after a LAST step, starts an episode."""
        timestep = super().step(action)
        if not timestep.first():
            _, actions, rewards = self.episodes[-1]
            actions.append(np.asarray(action).tolist())
            rewards.append(float(timestep.reward))
        return timestep


def recorded(
    environments: Sequence[RecordedEnvironment], name: str, origin: str, seed: int
) -> dict[str, Any]:
    """Returns the content of a file of starts, at random times of recorded episodes.

    Args:
      environments: the environments that recorded the episodes.
      name: name of the environment.
      origin: who played.
      seed: seed with which the times are drawn.

    Raises:
      UnusableEnvironmentError: no episode has a state between its first and its last state.
    """
    episodes = [episode for each in environments for episode in each.episodes]
    moments = [
        (index, step)
        for index, (_, actions, _) in enumerate(episodes)
        for step in range(1, min(len(actions), LATEST_STEP))
    ]
    if not moments:
        raise UnusableEnvironmentError(
            f"all episodes of {name} ended after one step, so there are no start states to record"
        )
    drawn = np.random.default_rng(seed).permutation(len(moments))[:NUM_STARTS]
    chosen: dict[int, list[int]] = {}
    for index, step in sorted(moments[i] for i in drawn):
        chosen.setdefault(index, []).append(step)
    return {
        "environment": name,
        "origin": origin,
        "episodes": [
            {
                "seed": episodes[index][0],
                "actions": episodes[index][1][: steps[-1]],
                "starts": [[step, float(np.sum(episodes[index][2][:step]))] for step in steps],
            }
            for index, steps in chosen.items()
        ],
    }
