"""Updates of a parameter server: it applies the gradients that workers send (Reactor, 3.4)."""

from collections.abc import Callable, Mapping, Sequence

from absl import logging
import numpy as np
import tensorflow as tf

from common.learning import metrics as metrics_lib
from common.learning.learner import Learner
from common.networks import packing
from common.remote.gradients import GradientQueue
from common.remote.inbox import Inbox
from common.replay.store import Counters
from common.types import Metrics

METRICS = ("staleness", "staleness_max", "num_workers", "num_refused")
"""Metrics of an applied update beside the agent's; staleness is in updates."""
_WAIT_SECONDS = 0.05
_MOST_DIVERGED = 3
"""Starts of a worker, with no update applied between them, that may end with an update that is not
finite. Each begins with another replay, of which the next one may be free of what made it so."""


class _SavedNumbers(tf.Module):
    """Numbers of the last applied updates in a checkpoint.

    Attributes:
      incarnations: int64 [n], of workers.
      numbers: int64 [n], of the last update applied from each incarnation.
    """

    def __init__(self):
        super().__init__()
        self.incarnations = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)
        self.numbers = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)


class AppliedGradients:
    """The updates of a parameter server, as `common.learning.trainer.Trainer` makes others.

    The thread that calls `step` applies, publishes and saves, so nothing is torn. A worker learns
    that its update is applied at the next `step`, when the caller has published the parameters.

    An update is applied however stale it is. The paper names no bound either: it takes momentum out
    of Adam because asynchrony brings its own (section 3.4.1). A bound would drop all updates of a
    worker that is slower than the others. Since a worker waits for its update before it computes
    the next one, at most one of each is under way, and an update after a long pause of its worker
    is a single step of Adam.

    An update that is not finite is not applied. Its worker ends, and may start again. Once a worker
    has done so several times and nobody's update was applied meanwhile, the parameters are at
    fault, and the server ends, too.

    Attributes:
      priority_lag: 0; workers own the priorities.
      state: numbers of the updates that the networks contain, so that none is applied twice.
    """

    priority_lag = 0.0

    def __init__(
        self,
        learner: Learner,
        queue: GradientQueue,
        inbox: Inbox,
        metrics: Sequence[str],
        on_applied: Callable[[], None],
    ):
        """Prepares the graph.

        Args:
          learner: the networks and the optimiser. Its gradients are one for each of its
            `actor_variables`, in their order.
          queue: has the updates.
          inbox: of the queue.
          metrics: names of the metrics that come with an update.
          on_applied: called after each update.
        """
        self._learner = learner
        self._queue = queue
        self._inbox = inbox
        self._metrics = metrics
        self._on_applied = on_applied
        self._saved = _SavedNumbers()
        self.state: Mapping[str, tf.Module] = {"updates": self._saved}
        self._applied: dict[int, int] = {}
        self._num_refused = 0
        self._diverged: dict[int, set[int]] = {}  # incarnations by worker
        self._apply = tf.function(
            self._apply_finite,
            input_signature=[tf.TensorSpec([learner.num_parameters])],
            autograph=False,
        )

    @property
    def counters(self) -> Counters | None:
        """Counters of the workers' memories, summed; None if no worker has reported lately."""
        reported = self._inbox.reported()
        return Counters.total(reported) if reported else None

    def resume(self) -> None:
        """Continues from the restored `state`."""
        incarnations, numbers = self._saved.incarnations.numpy(), self._saved.numbers.numpy()
        self._applied = dict(zip(incarnations.tolist(), numbers.tolist(), strict=True))
        self._inbox.acknowledge(self._applied)

    def step(self) -> Metrics | None:
        """Applies the next update; returns its metrics, or None if none has come.

        Raises:
          DivergedError: every update is not finite, also those of workers that started again.
        """
        self._inbox.acknowledge(self._applied)
        update = self._queue.draw(timeout_seconds=_WAIT_SECONDS)
        if update is None:
            return None
        worker, incarnation, number, learner_steps = update.head.tolist()
        # Below 0 after a restart: the worker has parameters that the checkpoint lacks.
        staleness = max(0, int(self._learner.steps) - learner_steps)
        if number > self._inbox.received(incarnation):
            self._refuse(worker, "it names another delivery")  # which would count as taken
            return None
        self._applied[incarnation] = number
        if not (np.isfinite(update.metrics).all() and self._apply(update.steps)):
            self._refuse(worker, "it has values that are not finite")
            starts = self._diverged.setdefault(worker, set())
            starts.add(incarnation)
            if len(starts) == _MOST_DIVERGED:
                raise metrics_lib.diverged(
                    f"{_MOST_DIVERGED} starts of worker {worker} ended with an update that is not "
                    "finite, and no update was applied between them"
                )
            return None
        self._diverged.clear()
        self._on_applied()
        return {
            **dict(zip(self._metrics, update.metrics.tolist(), strict=True)),
            "staleness": staleness,
            "staleness_max": staleness,
            "num_workers": len(self._inbox.reported()),
            "num_refused": self._num_refused,
        }

    def flush(self) -> None:
        """Writes the numbers to `state`."""
        self._saved.incarnations.assign(list(self._applied))
        self._saved.numbers.assign(list(self._applied.values()))

    def close(self) -> None:
        """Releases the workers that wait."""
        self._inbox.close()

    def _refuse(self, worker: int, reason: str) -> None:
        self._num_refused += 1
        logging.warning("refused an update of worker %d: %s", worker, reason)

    def _apply_finite(self, flat: tf.Tensor) -> tf.Tensor:
        is_finite = tf.reduce_all(tf.math.is_finite(flat))
        gradients = packing.split(flat, self._learner.actor_variables)
        tf.cond(is_finite, lambda: self._learner.apply(gradients), lambda: None)
        return is_finite
