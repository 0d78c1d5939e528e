"""A worker's side of the updates that a parameter server applies (Reactor, section 3.4)."""

from collections.abc import Callable
import time

from absl import logging
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.parameters import SLICE_SIZE
from common.cluster.processes import Patience, StopRequest
from common.learning.update_service import JOIN_METHOD, PUSH_METHOD, REPORT_METHOD
from common.replay.memory import Statistics

_REPORT_SECONDS = 1.0
_POLL_SECONDS = 0.001
_SLEPT = 0.8
"""Share of the last wait for an update that passes before the next one is asked about."""
_LONGEST_PAUSE = 0.2
"""Upper bound of that, in seconds: the first wait is for the server's graphs as well."""
_RETRY_SECONDS = 0.2


class UpdateClient:
    """A client of an `UpdateService`.

    Attributes:
      incarnation: of this start of the worker; 0 before `join`.
    """

    def __init__(
        self,
        client: rpc.Client,
        worker: int,
        acting: Callable[[], tuple[int, Statistics]],
        stop: StopRequest,
    ):
        """Prepares calls.

        Args:
          client: of the parameter server.
          worker: index of this worker.
          acting: returns what to report: actor steps of this start, and the memory's counters.
          stop: ends the waits.
        """
        self._client = client
        self._worker = worker
        self._acting = acting
        self._stop = stop
        self._number = 0
        self._reported_at = 0.0
        self._pause = 0.0
        self._patience = Patience("no answer from the parameter server")
        self.incarnation = 0

    def join(self) -> bool:
        """Gets an incarnation; returns False if a stop was requested before that."""
        while not self._stop.requested:
            try:
                self.incarnation = int(self._client.call(JOIN_METHOD))
                return True
            except ServiceUnavailableError as error:
                self.wait_for_server(error)
        return False

    def report(self) -> tuple[int, int]:
        """Reports the worker's acting.

        Returns:
          The numbers of the newest update received, and of the newest in published parameters.

        Raises:
          ServiceUnavailableError: the parameter server does not answer.
        """
        actor_steps, statistics = self._acting()
        arguments = [
            tf.constant(self._worker, tf.int64),
            tf.constant(self.incarnation, tf.int64),
            tf.constant(actor_steps, tf.int64),
            tf.constant(statistics, tf.int64),
        ]
        received, published = self._client.call(REPORT_METHOD, arguments).numpy().tolist()
        self._reported_at = time.monotonic()
        self._patience.renew()
        return received, published

    def report_if_due(self) -> bool:
        """Reports if the last report was a second ago, unless the server is gone.

        Returns:
          Whether it was due.

        Raises:
          ClusterError: the server is gone for too long.
        """
        if time.monotonic() - self._reported_at < _REPORT_SECONDS:
            return False
        try:
            self.report()
        except ServiceUnavailableError as error:
            self.wait_for_server(error)
        return True

    def push(self, learner_steps: int, gradients: tf.Tensor, metrics: tf.Tensor) -> bool:
        """Sends an update, and returns once the published parameters contain it.

        It is sent again until the server has it, also by a server that was restarted.

        Args:
          learner_steps: updates that the parameters had which the gradients are for.
          gradients: [P] float32.
          metrics: [M] float32.

        Returns:
          False if a stop was requested before that.

        Raises:
          ClusterError: the server refuses the update's size, or is gone for too long.
        """
        self._number += 1
        is_sent = False
        while not self._stop.requested:
            try:
                if not is_sent:
                    self._send(learner_steps, gradients, metrics)
                    is_sent, sent_at = True, time.monotonic()
                    time.sleep(self._pause)
                received, published = self.report()
                if published >= self._number:
                    self._pause = min(_SLEPT * (time.monotonic() - sent_at), _LONGEST_PAUSE)
                    return True
                is_sent = received >= self._number
                time.sleep(_POLL_SECONDS)
            except ServiceUnavailableError as error:
                is_sent = False
                self.wait_for_server(error)
        return False

    def _send(self, learner_steps: int, gradients: tf.Tensor, metrics: tf.Tensor) -> None:
        size = int(gradients.shape[0])
        futures = []
        for offset in range(0, size, SLICE_SIZE):
            numbers = self._worker, self.incarnation, self._number, learner_steps, size, offset
            arguments = [tf.constant(number, tf.int64) for number in numbers]
            values = gradients[offset : offset + SLICE_SIZE]
            futures.append(self._client.call_async(PUSH_METHOD, [*arguments, metrics, values]))
        for future in futures:
            needed = int(future.result())
            if needed != size:
                raise ClusterError(
                    f"the parameter server's network has {needed} parameters, this worker's "
                    f"{size}: start all roles with the same version of the program"
                )

    def wait_for_server(self, error: ServiceUnavailableError) -> None:
        """Waits a moment after a call that the server did not answer.

        Args:
          error: of that call.

        Raises:
          ClusterError: the server is gone for too long.
        """
        logging.log_every_n_seconds(
            logging.WARNING, "waiting for the parameter server: %s", 60, error
        )
        self._patience.check(error)
        self._stop.wait(_RETRY_SECONDS)
