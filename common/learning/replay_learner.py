"""A learner that draws what it learns from a replay memory."""

from collections.abc import Callable
from concurrent import futures

from absl import logging
import tensorflow as tf

from common.cluster.processes import Patience
from common.learning.draw import Draw, SavedDraw
from common.learning.update_loop import Metrics, UpdateLoop
from common.replay import memory as memory_lib
from common.replay import seeds
from common.replay.schedule import Schedule


class ReplayLearner:
    """Sample, update, write priorities back (Ape-X algorithm 2), several updates at a time.

    With `prefetch` the next samples are drawn by a background thread while the updates run, and the
    priorities are written by the same thread after that draw, so the order is always the same. It
    hides the way to a memory in another process; priorities lag by one call more.

    What a call draws follows from the seed, the learner step that it begins at and the memory's
    contents. A draw that is ahead when a checkpoint is written belongs to it (`store`), since the
    priorities that are written next would change it: so a learner that is cut off goes on as if it
    had not been.
    """

    def __init__(
        self,
        memory,
        loop: UpdateLoop,
        steps: tf.Variable,
        schedule: Schedule,
        prefetch: bool,
        retry_on: tuple[type[Exception], ...] = (),
        seed: int = 0,
    ):
        """Makes the loop; nothing is drawn before the first `step`.

        Args:
          memory: `Memory` or `RemoteMemory`.
          loop: the updates of one call.
          steps: the learner's own count of updates.
          schedule: says when the learner may sample.
          prefetch: whether to draw ahead.
          retry_on: errors of the memory that mean "not now": a replay that is gone for a while.
          seed: of what is drawn, not negative.
        """
        self._memory = memory
        self._loop = loop
        self._steps = steps
        self._schedule = schedule
        self._retry_on = retry_on
        self._patience = Patience("no answer from the replay")
        self._seed = seed
        self._resumes = True
        self.saved_draw = SavedDraw()
        """For checkpoints: filled by `store`; what the first call learns from if restored."""
        self._worker = futures.ThreadPoolExecutor(1, "replay") if prefetch else None
        self._ahead: futures.Future | None = None
        self._written: futures.Future | None = None
        self.statistics: memory_lib.Statistics | None = None
        """The memory's counters when it was last asked; None before, and while it is gone."""
        self.priority_lag = 0.0
        """Learner steps from the draw of the last call's batches to their new priorities."""

    def step(self) -> Metrics | None:
        """Does the updates of one call and returns their metrics.

        Returns None if the memory is not filled, has no credit or is gone: wait a little then.
        """
        draw = self._next()
        if draw is None:
            return None
        priorities, metrics = self._loop(draw.sample)
        self._write(draw.sample.keys, priorities)
        self.priority_lag = float(int(self._steps) - draw.step)
        return metrics

    def store(self) -> None:
        """Waits for what is under way and keeps the draw ahead in `saved_draw`; call before a save.

        Raises:
          Exception: what went wrong in the background.
        """
        if self._written is not None:
            self._written.result()
        if not self._resumes:
            self.saved_draw.store(self._ahead.result() if self._ahead is not None else None)

    def close(self) -> None:
        """Waits for what is under way."""
        if self._worker is not None:
            self._worker.shutdown(wait=True)

    def _next(self) -> Draw | None:
        step = int(self._steps)
        if self._worker is None:
            return self._draw(step, step)
        ahead = self._ahead or self._worker.submit(self._draw, step, step)
        draw = ahead.result()
        self._ahead = None
        if draw is not None:
            following = step + self._loop.num_updates
            self._ahead = self._worker.submit(self._draw, step, following)
        return draw

    def _draw(self, step: int, begin: int) -> Draw | None:
        """Draws at learner step `step` for the call that begins at `begin`."""
        return self._unless_gone(self._draw_now, step, begin)

    def _draw_now(self, step: int, begin: int) -> Draw | None:
        self.statistics = self._memory.statistics()
        if self._resumes:
            draw = self.saved_draw.read(self._memory)
            self._resumes = False
            if draw is not None:
                return draw
        if not self._schedule.may_sample(self.statistics, self._loop.num_samples):
            return None
        seed = seeds.derive(self._seed, begin)
        return Draw(self._memory.sample(self._loop.num_samples, seed=seed), step)

    def _write(self, keys: tf.Tensor, priorities: tf.Tensor) -> None:
        if self._worker is None:
            self._unless_gone(self._memory.update_priorities, keys, priorities)
            return
        if self._written is not None:
            self._written.result()  # raises what went wrong, one call later
        self._written = self._worker.submit(
            self._unless_gone, self._memory.update_priorities, keys, priorities
        )

    def _unless_gone(self, function: Callable, *args):
        try:
            result = function(*args)
        except self._retry_on as error:
            self.statistics = None
            logging.log_every_n_seconds(logging.WARNING, "waiting for the replay: %s", 60, error)
            self._patience.check(error)
            return None
        self._patience.renew()
        return result
