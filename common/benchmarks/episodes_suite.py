"""Speed of a process that acts beside its updates and refreshes the episodes in its memory.

An update and the environment steps that it pays for are a pair: at one step an update, 1,000 pairs
a second are 1,000 updates and 1,000 steps in HalfCheetah, with the draws and sweeps that belong to
them. The memory is full, of episodes of 1,000 steps whose actions are the untrained policy's.
CSV rows and snapshots of a run are left out. TensorFlow may use all cores.
"""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

import numpy as np

from common import environments
from common.agents.episode_agent import EpisodeAgent, batch_of
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram
from common.environments.batch import BatchedEnvironment
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.replay.episodes import EpisodeMemory
from common.roles.acting_beside import ActingBeside
from common.types import Episode, Episodes, StoredState

_ENVIRONMENT = "gym:HalfCheetah-v4"
_EPISODE_STEPS = 1000
_PEER = "updates in one graph, one fixed sample"


@dataclasses.dataclass(frozen=True)
class EpisodesSizes:
    """Amount of what is measured.

    Attributes:
      capacity: steps in the memory.
      updates: of each repeat.
      updates_per_call: numbers of updates in a graph call.
    """

    capacity: int = 2**18
    updates: int = 512
    updates_per_call: tuple[int, ...] = (16, 4, 1)


FULL = EpisodesSizes()
QUICK = EpisodesSizes(capacity=2**13, updates=16, updates_per_call=(4, 1))


def measure(program: BenchmarkedProgram, sizes: EpisodesSizes, repeats: int) -> list[Row]:
    """Returns the rows of the episodes suite: of the default agent, then of other ones."""
    most = sizes.updates_per_call[0]
    configs: dict[str, dict[str, Any]] = {
        **{f"{number}_a_call": {"updates_per_call": number} for number in sizes.updates_per_call},
        "by_rank": {"updates_per_call": most, "sampling": "rank"},
        "naf": {"updates_per_call": most, "agent": "naf"},
        "ddpg": {"updates_per_call": most, "agent": "ddpg", "batch_size": 128},
    }
    rows = []
    for name, config in configs.items():
        pairs = _Pairs(program, sizes.capacity, config)
        calls = max(1, sizes.updates // pairs.num_updates)
        speeds = interleave(
            f"episodes/{name}",
            {
                "pairs": functools.partial(pairs.updates_per_second, pairs.step, calls),
                "fixed": functools.partial(pairs.updates_per_second, pairs.update, calls),
            },
            repeats,
        )
        pairs.memory.check()
        rows.append(Row(f"episodes/{name}", speeds["pairs"], "pairs/s", _PEER, speeds["fixed"]))
    acting = interleave(
        "episodes/acting", {"steps": functools.partial(rate, pairs.act, sizes.updates)}, repeats
    )
    return [*rows, Row("episodes/acting", acting["steps"], "steps/s")]


class _Pairs:
    """An agent with a full memory, and its three kinds of work.

    Attributes:
      memory: of the agent.
      num_updates: updates of a `step` or an `update`.
      step: draws, updates and writes back, and acts beside the updates until the next call is due.
      update: makes the updates of a call, always of the same sample.
      act: advances the environment by a timestep; nothing is stored.
    """

    def __init__(self, program: BenchmarkedProgram, capacity: int, config: dict[str, Any]):
        say("filling, tracing and compiling")
        agent = program.make_agent(replay_capacity=capacity, min_replay_size=capacity, **config)
        assert isinstance(agent, EpisodeAgent)
        batch = BatchedEnvironment([environments.make(_ENVIRONMENT, 0)])
        spec = EnvironmentSpec.of(batch)
        learner = agent.make_learner(spec, 0)
        actor = agent.make_actor(spec, range(1), 1, 0)
        self.num_updates = agent.updates_per_call
        self.memory = agent.make_memory(spec, 0)
        _fill(self.memory, agent, actor, spec, capacity)
        actors = _Actors(agent, self.memory, actor, batch, learner, capacity)
        updates = agent.updates_in_turns(learner, self.memory, spec, 0)
        updates.beside = ActingBeside(updates.schedule, updates.num_samples, lambda: actors)

        def step() -> None:
            while updates.step() is None:
                actors.step()
                actors.insert()

        self.step: Callable[[], None] = step
        step()
        loop = agent.update_loop(learner)
        samples = batch_of(self.memory.sample(agent.batch_size, 1, self.num_updates))
        self.update: Callable[[], object] = lambda: loop(samples)
        self.act = agent.acting_loop(actor, batch, lambda added: None, lambda *episode: None).step

    def updates_per_second(self, call: Callable[[], object], calls: int) -> float:
        """Returns the updates a second of `step` or `update`."""
        return self.num_updates * rate(call, calls)


class _Actors:
    """An actor with its environment, as `acting_beside` takes it."""

    def __init__(self, agent, memory, actor, batch, learner, num_added: int):
        self.num_added = num_added
        self._insert = functools.partial(agent.insert, memory, actor, range(1))
        self._actor = actor
        self._added: list[Episodes] = []
        self._learner = learner
        self.step = agent.acting_loop(actor, batch, self._add, lambda *episode: None).step

    def pull(self) -> None:
        self._actor.load(packing.to_numpy(self._learner.actor_variables))

    def insert(self) -> None:
        for added in self._added:
            self._insert(added, 0)
        self._added.clear()

    def _add(self, added: Episodes) -> None:
        self._added.append(added)
        self.num_added += added.num_steps


def _fill(
    memory: EpisodeMemory, agent: EpisodeAgent, actor, spec: EnvironmentSpec, capacity: int
) -> None:
    """Adds episodes until another one would not fit, and counts as many steps as fit."""
    rng = np.random.default_rng(0)
    steps = min(_EPISODE_STEPS, capacity)
    for _ in range(capacity // steps):
        observation = rng.normal(size=(steps + 1, spec.observation_size)).astype(np.float32)
        action, _, extras = actor(observation, actor.initial_state(steps + 1))
        values = extras.pop("value")
        rewards = rng.normal(size=steps).astype(np.float32)
        episode = Episode(0, StoredState(observation, action, extras), rewards, values, False)
        agent.insert(memory, actor, range(1), Episodes(steps, (episode,)), 0)
    memory.count_steps(capacity % steps)
