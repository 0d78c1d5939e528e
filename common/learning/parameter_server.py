"""Learning with a parameter server (Reactor, section 3.4): the server's and the worker's side.

A worker computes the gradients of a learner step with the server's newest parameters. The server
applies the gradients.
"""

from collections.abc import Callable, Mapping

from absl import logging
import numpy as np
import tensorflow as tf

from common.cluster.processes import StopRequest
from common.learning.learner import DivergedError, Learner, check_steps
from common.learning.updates import Updates
from common.networks import packing
from common.remote.gradients import GradientQueue, GradientSender
from common.remote.inbox import Inbox
from common.remote.parameters import LearnerStatus, ParameterClient, Snapshot
from common.replay.store import Counters, Drawn
from common.types import Batch, Metrics, Nest

_WAIT_SECONDS = 0.05
_MOST_DIVERGED = 3
"""Starts of a worker with a non-finite update, without an applied update between them, that end the
server. Each start fills a new replay, which may lack the data that caused the failure."""


class _SavedNumbers(tf.Module):
    """Numbers of the last applied updates in a checkpoint.

    Attributes:
      incarnations: int64 [n], incarnations of workers.
      numbers: int64 [n], number of the last update applied from each incarnation.
    """

    def __init__(self):
        super().__init__()
        self.incarnations = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)
        self.numbers = tf.Variable(tf.zeros([0], tf.int64), shape=[None], trainable=False)


class AppliedGradients:
    """The updates of a parameter server, with the interface of `common.learning.trainer.Trainer`.

    A single thread calls `step`, publishes and saves, so no half-applied update is published or
    saved. A worker learns that its update was applied at the next `step`, when the caller has
    published the parameters.

    Updates are applied regardless of their staleness. The paper names no bound either: it removes
    momentum from Adam because asynchrony has the effect of momentum (section 3.4.1). A bound would
    drop all updates of a worker that is slower than the others. A worker waits for its update
    before it computes the next, so each worker has at most a single update under way, and an update
    after a long pause is just a single step of Adam.

    An update that is not finite is not applied. Its worker ends, and may restart. After three such
    starts of a worker without any applied update between them, the parameters are at fault, and the
    server ends as well.

    Attributes:
      priority_lag: 0, because workers own the priorities.
      state: numbers of the updates that the networks contain, so that no update is applied twice.
    """

    priority_lag = 0.0

    def __init__(
        self, learner: Learner, queue: GradientQueue, inbox: Inbox, on_applied: Callable[[], None]
    ):
        """Prepares the graph.

        Args:
          learner: the networks and the optimiser. Its `apply` takes a gradient for each of its
            `actor_variables`, in their order.
          queue: the queue of updates.
          inbox: the inbox of the queue.
          on_applied: called after each update.
        """
        self._learner = learner
        self._queue = queue
        self._inbox = inbox
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
        """Sums of the counters of the workers' replays; None if no worker has reported lately."""
        reported = self._inbox.reported()
        return Counters.total(reported) if reported else None

    def resume(self) -> None:
        """Continues from the restored `state`."""
        incarnations, numbers = self._saved.incarnations.numpy(), self._saved.numbers.numpy()
        self._applied = dict(zip(incarnations.tolist(), numbers.tolist(), strict=True))
        self._inbox.acknowledge(self._applied)

    def step(self) -> Metrics | None:
        """Applies the next update; returns its metrics, or None if no update has arrived.

        The metrics are the worker's metrics, the staleness in updates, the number of workers and
        the number of refused updates.

        Raises:
          DivergedError: updates stay non-finite, even after restarts of a worker.
          UserError: the learner has not counted the update.
        """
        self._inbox.acknowledge(self._applied)
        update = self._queue.draw(timeout_seconds=_WAIT_SECONDS)
        if update is None:
            return None
        worker, incarnation, number, learner_steps = update.head.tolist()
        before = int(self._learner.steps)
        # It is below 0 if the worker has parameters from after the restored checkpoint.
        staleness = max(0, before - learner_steps)
        self._applied[incarnation] = number
        if not (np.isfinite(update.metrics).all() and self._apply(update.steps)):
            self._num_refused += 1
            logging.warning("refused an update of worker %d: it is not finite", worker)
            starts = self._diverged.setdefault(worker, set())
            starts.add(incarnation)
            if len(starts) == _MOST_DIVERGED:
                raise DivergedError(
                    f"{_MOST_DIVERGED} starts of worker {worker} ended with an update that is not "
                    "finite, and no update was applied between them"
                )
            return None
        self._diverged.clear()
        check_steps(before, int(self._learner.steps), 1)
        self._on_applied()
        return {
            **dict(zip(map(bytes.decode, update.names), update.metrics.tolist(), strict=True)),
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
        """Releases the waiting workers."""
        self._inbox.close()

    def _apply_finite(self, flat: tf.Tensor) -> tf.Tensor:
        is_finite = tf.reduce_all(tf.math.is_finite(flat))
        gradients = packing.split(flat, self._learner.actor_variables)
        tf.cond(is_finite, lambda: self._learner.apply(gradients), lambda: None)
        return is_finite


_NO_SNAPSHOT = Snapshot(LearnerStatus(0, 0, 0, 0.0, False), np.empty(0, np.float32))


class RemoteStep(Updates):
    """Learner steps with the server's newest parameters (Reactor, section 3.4), a step per call.

    It also provides the parameters for the worker's actors.
    """

    num_updates = 1
    are_counted = False

    def __init__(
        self,
        learner: Learner,
        online: ParameterClient,
        target: ParameterClient,
        updates: GradientSender,
        batch_size: int,
        jit_compile: bool,
        stop: StopRequest,
    ):
        """Prepares the graph.

        Args:
          learner: computes a gradient for each of its `actor_variables`, in their order.
          online: reads the network.
          target: reads the target network.
          updates: sends the gradients.
          batch_size: items per update.
          jit_compile: whether XLA compiles the gradients.
          stop: ends the waits.
        """
        self._learner = learner
        self._online, self._target = online, target
        self._updates = updates
        self.num_samples = batch_size
        self._stop = stop
        self._snapshot = _NO_SNAPSHOT
        self._target_version = 0
        self._gradients = tf.function(
            self._packed_gradients, jit_compile=jit_compile, autograph=False
        )
        self._assign_online = packing.loader(learner.actor_variables)
        self._assign_target = packing.loader(learner.target_variables)

    @property
    def version(self) -> int:
        """Version of the newest snapshot here, 0 before the first."""
        return self._snapshot.status.version

    @property
    def finished(self) -> bool:
        """True if the newest snapshot here is the run's last."""
        return self._snapshot.status.finished

    @property
    def steps(self) -> int:
        """Learner steps of the newest snapshot here."""
        return self._snapshot.status.learner_steps

    @property
    def wall_seconds(self) -> float:
        """Seconds from the run's first start to the newest snapshot here."""
        return self._snapshot.status.wall_seconds

    def parameters(self) -> np.ndarray:
        """Returns the network's parameters, [P] float32, of the newest snapshot here."""
        return self._snapshot.flat

    def download(self) -> bool:
        """Reads the newest network, and the target if it has changed.

        Returns:
          False if a stop was requested before any network arrived.

        Raises:
          ClusterError: the server refuses this worker, or does not answer for too long.
        """
        patience = self._updates.patience
        return patience.until_answered(self._read, lambda: self._stop.requested) is not None

    def _read(self) -> bool:
        """Loads newer parameters, if there are any; returns True once the server has answered."""
        target = self._target.read(if_newer_than=self._target_version)
        online = self._online.read(if_newer_than=self.version)
        if target is not None:
            self._assign_target(target.flat)
            self._target_version = target.status.version
        if online is not None:
            self._assign_online(online.flat)
            self._learner.steps.assign(online.status.learner_steps)
            self._snapshot = online
        return True

    def __call__(self, drawn: Drawn) -> tuple[Nest, Metrics]:
        """Downloads, computes gradients and sends them; see base class."""
        self.download()
        flat, outputs, metrics = self._gradients(drawn.batch())
        self._updates.push(self.steps, flat, metrics)
        self._learner.steps.assign_add(1)  # the local count: gives the next draw another seed
        return outputs, metrics

    def _packed_gradients(self, batch: Batch):
        gradients, outputs, metrics = self._learner.gradients(batch)
        return packing.pack(tf.nest.flatten(gradients)), outputs, metrics
