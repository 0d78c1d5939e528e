"""The updates of a call, with other work of the same process beside them."""

from collections.abc import Callable
from concurrent import futures

from common.learning.replay_learner import Loop
from common.replay.memory import Sample
from common.types import Metrics, Nest


class ConcurrentLoop:
    """A loop whose calls run a function in another thread while they make their updates.

    What the function inserts into the memory comes after the draw of the call's sample and before
    the write-back of its outputs, so that equal seeds give equal runs.
    """

    def __init__(self, loop: Loop, prepare: Callable[[], None], beside: Callable[[], None]):
        """Starts the thread.

        Args:
          loop: makes the updates.
          prepare: called at the beginning of a call, before the updates: what the function needs of
            the networks, it has to copy now.
          beside: the function. A call ends when both it and the updates have ended, and raises its
            error.
        """
        self._loop = loop
        self._prepare = prepare
        self._beside = beside
        self._thread = futures.ThreadPoolExecutor(1, "beside")

    @property
    def num_updates(self) -> int:
        """Updates per call."""
        return self._loop.num_updates

    @property
    def num_samples(self) -> int:
        """Items that a call learns from."""
        return self._loop.num_samples

    def __call__(self, sample: Sample) -> tuple[Nest, Metrics]:
        """Makes the updates of a sample; returns their outputs and their mean metrics."""
        self._prepare()
        beside = self._thread.submit(self._beside)
        try:
            return self._loop(sample)
        finally:
            beside.result()
