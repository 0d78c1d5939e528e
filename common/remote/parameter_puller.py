"""Reading of published parameters in the background, without delaying the actors."""

from collections.abc import Callable
import threading
import time

from absl import logging
import numpy as np

from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Patience, StopRequest
from common.remote.parameters import ParameterClient, Snapshot

_CLOSE_SECONDS = 6.0
"""Longest wait for the thread to end; longer than the timeout of a call."""


class ParameterPuller:
    """Background reader of the newest snapshot.

    While the learner is gone, actors continue with their last parameters (Ape-X appendix F).

    Attributes:
      version: version of the parameters in use.
      age_steps: learner steps between the snapshot in use and the one before it.
      finished: whether the snapshot in use is the run's last.
    """

    def __init__(self, client: ParameterClient):
        self._client = client
        self._wanted = threading.Event()
        self._closed = False
        self._snapshot: Snapshot | None = None
        self.version = 0
        self.age_steps = 0
        self.finished = False
        self._learner_steps = 0
        self._began = 0.0
        self._error: Exception | None = None
        self._patience = Patience("no answer from the learner")
        self._thread = threading.Thread(target=self._pull_on_request, name="pull", daemon=True)

    def wait(self, load: Callable[[np.ndarray], None], stop: StopRequest) -> bool:
        """Waits for the first snapshot, loads it and starts the background thread.

        Args:
          load: takes the parameters, [P] float32.
          stop: ends the wait.

        Returns:
          False if a stop was requested before the first snapshot.

        Raises:
          ClusterError: the learner refuses the token, or does not answer for too long.
        """
        while not stop.requested:
            try:
                snapshot = self._client.read()
            except ServiceUnavailableError as error:
                logging.log_every_n_seconds(
                    logging.WARNING, "waiting for the learner: %s", 60, error
                )
                snapshot = None
                self._patience.check(error)
            if snapshot is not None:
                self._snapshot = snapshot
                self.apply(load)
                self._patience.renew()
                self._thread.start()
                return True
            stop.wait(0.2)
        return False

    def request(self) -> None:
        """Requests the newest snapshot; returns at once."""
        self._wanted.set()

    def apply(self, load: Callable[[np.ndarray], None]) -> None:
        """Loads the snapshot that has arrived since the last call, if one has.

        Args:
          load: takes the parameters, [P] float32.

        Raises:
          ClusterError: the learner refuses the token, or has been gone for too long.
        """
        if self._error is not None:
            raise self._error
        snapshot, self._snapshot = self._snapshot, None
        # On a slow network the same snapshot can arrive twice.
        if snapshot is not None and snapshot.status.version > self.version:
            load(snapshot.flat)
            status = snapshot.status
            self.version, self.finished = status.version, status.finished
            self.age_steps = status.learner_steps - self._learner_steps
            self._learner_steps = status.learner_steps
            self._began = time.monotonic() - status.wall_seconds

    @property
    def wall_seconds(self) -> float:
        """Time since the run's first start by the learner's clock, less a snapshot's transit."""
        return time.monotonic() - self._began

    def close(self) -> None:
        """Ends the background thread."""
        self._closed = True
        self._wanted.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_SECONDS)

    def _pull_on_request(self) -> None:
        try:
            while True:
                requested = self._wanted.wait(timeout=1.0)
                if self._closed:
                    return
                self._wanted.clear()
                try:
                    self._pull(requested)
                    self._patience.renew()
                except ServiceUnavailableError as error:
                    logging.log_every_n_seconds(
                        logging.WARNING, "keeping parameters: %s", 60, error
                    )
                    self._patience.check(error)
        except Exception as error:  # pylint: disable=broad-except
            self._error = error  # `apply` raises it in the acting thread

    def _pull(self, requested: bool) -> None:
        # Without a request, checks for the end of the run: an actor may be waiting for credit.
        if requested or self._client.latest().finished:
            self._snapshot = self._client.read(if_newer_than=self.version) or self._snapshot
