"""The service of environments that a learner in another process steps."""

from collections.abc import Callable
import threading
import time
from typing import Any

from dm_env import specs
import numpy as np
import tensorflow as tf
import tree

from common.cluster import rpc
from common.cluster.processes import Patience, StopRequest
from common.environments.batch import EnvironmentBatch

_WAIT_SECONDS = 0.5
"""Time after which a call is answered without the timestep that it waits for."""


class EnvironmentService:
    """K environments for a `RemoteBatch`, made and stepped by the thread that calls `serve`.

    The caller names a session, a number for which the environments are made anew, and numbers its
    steps from 0, at which episodes start. So a step whose reply was lost may be asked for again,
    and a process that was restarted, and knows no session, goes on with no episode.
    """

    def __init__(
        self,
        server: rpc.Server,
        num_environments: int,
        observation_spec: Any,
        action_spec: specs.Array,
        make: Callable[[int], EnvironmentBatch],
    ):
        """Registers the methods on a server that has not started yet.

        Args:
          server: offers the methods.
          num_environments: K.
          observation_spec: of one environment.
          action_spec: of one environment.
          make: makes the environments of a session.
        """
        self._make = make
        self._changed = threading.Condition()
        self._session = self._wanted = -1
        self._number = -1  # of the session's latest step
        self._actions: np.ndarray | None = None  # of that step, until it is done
        self._columns: tuple | None = None  # of its reply
        self._finished = self._ended = False
        k = num_environments
        observation = [
            np.zeros((k, *leaf.shape), leaf.dtype) for leaf in tree.flatten(observation_spec)
        ]
        self._nothing = (
            *(np.float32(0), np.zeros(k, np.int32), *np.zeros((2, k), np.float32)),
            *observation,
        )
        session, number = rpc.Count("session"), rpc.Count("number")
        actions = tf.TensorSpec((k, *action_spec.shape), tf.as_dtype(action_spec.dtype))
        server.register("environments_begin", self._begin, [session])
        server.register("environments_step", self._step, [session, number, actions])
        server.register("environments_finish", self._finish, [])

    def serve(self, stop: StopRequest) -> None:
        """Makes and steps environments until the caller's run is over or a stop is requested.

        Raises:
          PatienceError: nobody has called for too long.
          UnusableEnvironmentError: see `common.environments.watched.WatchedBatch`.
        """
        patience = Patience("no learner has stepped these environments")
        environments: EnvironmentBatch | None = None
        try:
            while not (stop.requested or self._finished):
                with self._changed:
                    is_asked = self._changed.wait_for(self._is_asked, _WAIT_SECONDS)
                    wanted, number, actions = self._wanted, self._number, self._actions
                if not is_asked:
                    patience.check()
                    continue
                patience.renew()
                if wanted != self._session:
                    if environments is not None:
                        environments.close()
                    environments = self._make(wanted)
                    with self._changed:
                        self._session, self._number = wanted, -1
                        self._actions = self._columns = None
                    continue
                assert environments is not None
                begin = time.monotonic()
                timestep = environments.step(actions) if number else environments.reset()
                seconds = np.float32(time.monotonic() - begin)
                with self._changed:
                    self._columns = (seconds, *timestep[:3], *tree.flatten(timestep.observation))
                    self._actions = None
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _is_asked(self) -> bool:
        return self._wanted != self._session or self._actions is not None

    def _begin(self, session):
        return tf.numpy_function(self._begin_now, [session], tf.bool)

    def _begin_now(self, session) -> np.bool_:
        """Returns whether a session has begun; if not, asks for it."""
        with self._changed:
            self._wanted = int(session)
            self._changed.notify_all()
            return np.bool_(self._session == session)

    def _step(self, session, number, actions):
        dtypes = [tf.bool, tf.bool, *(tf.as_dtype(column.dtype) for column in self._nothing)]
        return tf.numpy_function(self._step_now, [session, number, actions], dtypes)

    def _step_now(self, session, number, actions) -> tuple:
        """Returns whether there is such a session, whether its step is done, and the timestep."""
        with self._changed:
            if session != self._session:
                return (np.False_, np.False_, *self._nothing)
            if number == self._number + 1:
                self._number, self._actions, self._columns = int(number), actions, None
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._columns or self._ended, _WAIT_SECONDS)
            return (
                np.True_,
                np.bool_(self._columns is not None),
                *(self._columns or self._nothing),
            )

    def _finish(self):
        return tf.numpy_function(self._finish_now, [], tf.bool)

    def _finish_now(self) -> np.bool_:
        self._finished = True
        return np.True_
