"""The benchmarks in one table. This module imports neither TensorFlow nor NumPy."""

from collections.abc import Callable, Iterator, Mapping
import dataclasses
import importlib
import importlib.util
import pathlib
from typing import TYPE_CHECKING, Any

from common.benchmarks import report

if TYPE_CHECKING:
    from common.benchmarks.roles import BenchmarkedProgram

REVERB = pathlib.Path(__file__).parents[2] / ".venv-peers"
"""The environment of Reverb, which needs another TensorFlow than ours."""
IS_INSTALLED = {
    "cpprb": lambda: importlib.util.find_spec("cpprb") is not None,
    "Reverb": lambda: (REVERB / ".installed").exists(),
}


@dataclasses.dataclass(frozen=True)
class Bench:
    """A request to measure a case.

    Attributes:
      program: whose agent is measured.
      repeats: of each measurement, whose median counts.
      peers: whether other replays are measured, too.
    """

    program: "BenchmarkedProgram"
    repeats: int
    peers: bool = False

    def in_turns(
        self,
        title: str,
        candidates: Mapping[str, report.Measure],
        times: int = 1,
        warm_up: bool = True,
    ) -> report.Medians:
        """Returns `report.in_turns` with so many measurements in each repeat."""
        return report.in_turns(title, candidates, self.repeats * times, warm_up)

    def rates(
        self, title: str, steps: Mapping[str, Callable[[], object]], calls: int, size: int = 1
    ) -> report.Medians:
        """Returns the medians of calls a second, in turns, each of which counts as `size`."""
        return self.in_turns(
            title,
            {
                name: lambda step=step: size * report.rate(step, calls)
                for name, step in steps.items()
            },
        )


@dataclasses.dataclass(frozen=True)
class Case:
    """A benchmark.

    Attributes:
      name: its name on the command line.
      agent: name in `reproductions.AGENTS` of the agent that is measured.
      function: "module:function" in this directory, `function(bench, **sizes)`, which yields rows.
      measures: description for users.
      quick: sizes that show that it works, not how fast.
      sizes: sizes that differ from the function's defaults.
      peers: replays that it is compared with on request.
      one_thread: whether NumPy and TensorFlow have one thread, as in an actor's process.
      uses_gpu: whether it may use a GPU, as its role.
      by_name_only: whether a request for several cases leaves it out.
    """

    name: str
    agent: str
    function: str
    measures: str
    quick: Mapping[str, Any]
    sizes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    peers: tuple[str, ...] = ()
    one_thread: bool = False
    uses_gpu: bool = False
    by_name_only: bool = False

    def missing_peers(self) -> list[str]:
        """Returns those of its peers that are not installed."""
        return [peer for peer in self.peers if not IS_INSTALLED[peer]()]

    def imported(self) -> Callable[..., Iterator[report.Row]]:
        """Imports the function, and TensorFlow with it."""
        module, _, name = self.function.partition(":")
        return getattr(importlib.import_module(f"common.benchmarks.{module}"), name)

    def measure(self, bench: Bench, is_quick: bool = False) -> list[report.Row]:
        """Measures in this process."""
        return list(self.imported()(bench, **{**self.sizes, **(self.quick if is_quick else {})}))


CASES = (
    Case(
        "replay",
        "d4pg",
        "replay_cases:replay",
        "the memory of transitions: loops, bytes, latency, service",
        dict(capacity=20_000, loops=100, samples=200, copied_bytes=2**24),
        peers=("cpprb", "Reverb"),
    ),
    Case(
        "image_replay",
        "apex_dqn",
        "replay_cases:image_replay",
        "the same with images of Pong",
        dict(capacity=1000, loops=10, service_loops=16, transitions=1000, games=4),
        peers=("cpprb",),
    ),
    Case(
        "learner",
        "d4pg",
        "learner_cases:learner",
        "D4PG's updates, also beside actors",
        dict(items=20_000, updates=32, actor_seconds=1.0),
        uses_gpu=True,
    ),
    Case(
        "image_learner",
        "apex_dqn",
        "learner_cases:item_learner",
        "Ape-X DQN's updates",
        dict(items=1000, games=8, updates=2),
        uses_gpu=True,
    ),
    Case(
        "actor",
        "d4pg",
        "actor_cases:actor",
        "D4PG's actor with humanoids",
        dict(actors=4, batch_steps=50, turns=1),
        one_thread=True,
    ),
    Case(
        "image_actor",
        "apex_dqn",
        "actor_cases:actor",
        "Ape-X DQN's actor in Pong",
        dict(actors=4, batch_steps=20, turns=1),
        dict(environment="atari:pong", batch_steps=40),
        one_thread=True,
    ),
    Case(
        "sequence_learner",
        "reactor",
        "learner_cases:item_learner",
        "Reactor's updates, and Retrace alone",
        dict(items=200, games=2, updates=4),
        dict(games=8, updates=40, precisions=("float32",), atoms=51),
        uses_gpu=True,
    ),
    Case(
        "priority_tree",
        "reactor",
        "memory_cases:priority_tree",
        "the tree that infers Reactor's priorities",
        dict(items=(1000,), calls=20, frames=2000),
    ),
    Case(
        "sequence_actor",
        "reactor",
        "actor_cases:actor",
        "the actor of Reactor's worker in Pong",
        dict(batch_steps=100, turns=1),
        dict(environment="atari:pong", actors=1, batch_steps=400, in_worker=True),
        one_thread=True,
    ),
    Case(
        "parameter_server",
        "reactor",
        "run_cases:parameter_server",
        "Reactor's parameter server under ten simulated workers",
        dict(workers=2, rounds=5),
    ),
    Case(
        "episodes",
        "refer",
        "learner_cases:episodes",
        "ReF-ER's process, which acts and learns",
        dict(capacity=2**13, updates=16, updates_per_call=(4, 1)),
    ),
    Case(
        "episode_memory",
        "refer",
        "memory_cases:episode_memory",
        "the memory of episodes",
        dict(capacity=2**13, length=100, calls=20),
    ),
    Case(
        "unroll_actor",
        "aql",
        "actor_cases:unroll_actor",
        "AQL's search for actions, and actors that search",
        dict(actors=2, searches=2, batch_steps=35),
        one_thread=True,
    ),
    Case(
        "unroll_learner",
        "aql",
        "learner_cases:unroll_learner",
        "AQL's updates",
        dict(updates=4),
        uses_gpu=True,
    ),
    Case(
        "workers",
        "reactor",
        "run_cases:workers",
        "whole runs of Reactor with two workers and with one, minutes long: only by name",
        dict(seconds=30.0, min_replay_size=100),
        uses_gpu=True,
        by_name_only=True,
    ),
)
