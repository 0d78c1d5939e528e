"""Acting beside the updates of the same process."""

from collections.abc import Callable, Iterator
from concurrent import futures
import contextlib
from typing import Protocol

from common.replay.replay_memory import AnyStatistics
from common.replay.schedule import Schedule


class Actors(Protocol):
    """The part of `common.roles.in_process_actors.InProcessActors` that is needed here."""

    num_added: int

    def pull(self) -> None:
        """Loads newer parameters if they are due."""

    def step(self) -> None:
        """Advances every environment by one timestep."""

    def insert(self) -> None:
        """Inserts into the memory what the steps have added."""


class ActingBeside:
    """A context for the updates of a call, during which actors act until the next call is due.

    The actors use the parameters of before the call, and insert after it, so that equal seeds give
    equal runs.
    """

    def __init__(self, schedule: Schedule, num_samples: int, actors: Callable[[], Actors]):
        """Starts the thread of the actors.

        Args:
          schedule: says when a call is due.
          num_samples: items that a call draws.
          actors: returns the actors, which may be made later.
        """
        self._schedule = schedule
        self._num_samples = num_samples
        self._actors = actors
        self._thread = futures.ThreadPoolExecutor(1, "act")

    @contextlib.contextmanager
    def __call__(self, statistics: AnyStatistics) -> Iterator[None]:
        """Enters the context of a call; `statistics` are the memory's counters before it."""
        actors = self._actors()
        actors.pull()
        acting = self._thread.submit(self._act, actors, statistics)
        try:
            yield
        finally:
            acting.result()
        actors.insert()

    def _act(self, actors: Actors, statistics: AnyStatistics) -> None:
        sampled = statistics.sampled + self._num_samples
        while True:
            now = statistics._replace(inserted=actors.num_added, sampled=sampled)
            if self._schedule.may_sample(now, self._num_samples):
                return
            actors.step()
