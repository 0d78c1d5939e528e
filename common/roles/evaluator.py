"""The evaluator's process: periodic evaluation of the published policy without exploration."""

from collections.abc import Callable
import time

from absl import logging
import numpy as np
import tensorflow as tf

from common.agents.trained import restore_newest
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Patience, report_ready
from common.learning.counters import SavedCounters
from common.networks import packing
from common.remote.parameters import LearnerStatus, ParameterClient, Snapshot
from common.roles.evaluation import Evaluation
from common.roles.run_context import RunContext

_POLL_SECONDS = 1.0
"""Time between requests to the learner about whether the run is over."""


def run(context: RunContext) -> None:
    """Evaluates a snapshot every `evaluation_seconds`, and finally the run's last checkpoint.

    When the run ends, the evaluation in progress is abandoned in favour of the last checkpoint's.
    """
    _Evaluator(context).run()


class _Evaluator:
    def __init__(self, context: RunContext):
        self._context = context
        self._evaluation = Evaluation(context)
        self._client = ParameterClient(context.client(context.topology.keeper_address))

    def run(self) -> None:
        stop, patience = (
            self._context.stop,
            Patience(f"no answer from the {self._context.topology.jobs[0].name}"),
        )
        version, next_time = 0, time.monotonic()
        while not stop.requested:
            status = self._status()
            if status is None or status.finished:
                final = self._final_checkpoint(is_over=status is not None)
                if final is not None:
                    self._evaluation.run(final.flat, final.status, lambda: stop.requested)
                    return
                patience.check()
            else:
                patience.renew()
                report_ready()
            is_due = status is not None and status.learner_steps > 0
            snapshot = None
            if is_due and time.monotonic() >= next_time:
                snapshot = self._read(version)
            if snapshot is None:
                stop.wait(0.5)
                continue
            version = snapshot.status.version
            next_time = time.monotonic() + self._context.evaluation_seconds
            self._evaluation.run(snapshot.flat, snapshot.status, self._make_interrupt())
            patience.renew()  # the episodes may have taken long

    def _status(self) -> LearnerStatus | None:
        """Returns the learner's progress, or None if it does not answer."""
        try:
            return self._client.latest()
        except ServiceUnavailableError as error:
            logging.log_every_n_seconds(logging.WARNING, "waiting for the learner: %s", 60, error)
            return None

    def _read(self, version: int) -> Snapshot | None:
        try:
            return self._client.read(if_newer_than=version)
        except ServiceUnavailableError:
            return None

    def _make_interrupt(self) -> Callable[[], bool]:
        """Returns a function that says at each step of an evaluation whether to abandon it."""
        next_time = time.monotonic() + _POLL_SECONDS

        def is_interrupted() -> bool:
            nonlocal next_time
            if self._context.stop.requested:
                return True
            if time.monotonic() < next_time:
                return False
            status = self._status()
            next_time = time.monotonic() + _POLL_SECONDS
            return status is not None and status.finished

        return is_interrupted

    def _final_checkpoint(self, is_over: bool) -> Snapshot | None:
        """Returns the newest checkpoint if it is the run's last, otherwise None.

        Args:
          is_over: whether the learner said that the run is over. If not, the checkpoint is the last
            one if it reaches the run's limits.
        """
        path, progress, counters = self._context.directory.checkpoints, _Steps(), SavedCounters()
        if not restore_newest(path, {"learner": progress, "progress": counters}):
            return None
        status = LearnerStatus(
            version=0,
            learner_steps=int(progress.steps),
            actor_steps=int(np.sum(counters.accepted.numpy())),
            wall_seconds=float(counters.wall_seconds),
            finished=True,
        )
        if not is_over and not self._context.limits.reached(
            status.wall_seconds, status.actor_steps, status.learner_steps
        ):
            return None
        learner = self._context.agent.make_learner(self._context.spec, seed=0)
        restore_newest(path, {"learner": learner})
        return Snapshot(status, packing.to_numpy(learner.actor_variables))


class _Steps(tf.Module):
    """The learner's step count alone, to be restored from a checkpoint."""

    def __init__(self):
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
