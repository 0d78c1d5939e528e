"""A benchmark. This module imports neither TensorFlow nor NumPy."""

from collections.abc import Callable, Iterator, Mapping
import dataclasses
import importlib.util
import pathlib
from typing import Any

from common.agents.declaration import AgentDeclaration
from common.benchmarks import report
from common.cluster.layout import imported

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
      program: the agent that is measured.
      repeats: of each measurement, whose median counts.
      peers: whether other replays are measured, too.
    """

    program: AgentDeclaration
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
        return imported(f"common.benchmarks.{self.function}")

    def measure(self, bench: Bench, is_quick: bool = False) -> list[report.Row]:
        """Measures in this process."""
        return list(self.imported()(bench, **{**self.sizes, **(self.quick if is_quick else {})}))
