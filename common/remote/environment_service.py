"""The service of environments that a learner in another process steps."""

from collections.abc import Callable
import contextlib
import queue
import threading
import time
from typing import Any, NamedTuple

import dm_env
from dm_env import specs
import numpy as np
import tensorflow as tf
import tree

from common.cluster import rpc
from common.cluster.processes import Patience, StopRequest
from common.environments.batch import EnvironmentBatch

_WAIT_SECONDS = 0.2
"""Time between looks at whether to end, of a thread that waits."""


class _Call(NamedTuple):
    """A caller's wish; without actions it asks for a session.

    Attributes:
      session: that it is about.
      actions: [K, ...] or None.
      reply: gets the timestep and the seconds that it took; None if there is no such session.
    """

    session: int
    actions: np.ndarray | None
    reply: queue.SimpleQueue


class EnvironmentService:
    """K environments for a `RemoteBatch`, made and stepped by the thread that calls `serve`.

    The caller names a session: a number for which the environments are made anew. A process that
    has been restarted, or whose last reply was lost, does not know the caller's session, so no
    episode goes on with a step missing.
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
        self._session: int | None = None
        self._calls: queue.SimpleQueue[_Call] = queue.SimpleQueue()
        self._finished, self._ended = threading.Event(), threading.Event()
        k = num_environments
        observation = [np.zeros((k, *leaf.shape), leaf.dtype) for leaf in tree.flatten(observation_spec)]
        zeros = (np.zeros(k, np.int32), *np.zeros((2, k), np.float32), *observation)
        self._no_reply = (np.bool_(False), np.float32(0), *zeros)
        session = rpc.Count("session")
        actions = tf.TensorSpec((k, *action_spec.shape), tf.as_dtype(action_spec.dtype))
        server.register("environments_begin", self._begin, [session])
        server.register("environments_step", self._step, [session, actions])
        server.register("environments_finish", self._finish, [])

    def serve(self, stop: StopRequest) -> None:
        """Makes and steps environments until the caller's run is over or a stop is requested.

        Raises:
          PatienceError: nobody has called for too long.
          UnusableEnvironmentError: see `common.environments.watched.WatchedBatch`.
        """
        patience = Patience("no learner has stepped these environments")
        environments, is_new = None, True
        try:
            while not (stop.requested or self._finished.is_set()):
                try:
                    call = self._calls.get(timeout=_WAIT_SECONDS)
                except queue.Empty:
                    patience.check()
                    continue
                patience.renew()
                if call.actions is None:
                    if call.session != self._session:
                        if environments is not None:
                            environments.close()
                        environments, is_new = self._make(call.session), True
                        self._session = call.session
                elif environments is None or call.session != self._session:
                    call.reply.put(None)
                else:
                    begin = time.monotonic()
                    timestep = environments.reset() if is_new else environments.step(call.actions)
                    is_new = False
                    call.reply.put((timestep, time.monotonic() - begin))
        finally:
            self._ended.set()

    def _begin(self, session):
        return tf.numpy_function(self._begin_now, [session], tf.bool)

    def _begin_now(self, session) -> np.bool_:
        """Returns whether a session has begun; if not, asks for it."""
        if session == self._session:
            return np.bool_(True)
        self._calls.put(_Call(int(session), None, queue.SimpleQueue()))
        return np.bool_(False)

    def _step(self, session, actions):
        dtypes = [tf.as_dtype(column.dtype) for column in self._no_reply]
        return tf.numpy_function(self._step_now, [session, actions], dtypes)

    def _step_now(self, session, actions) -> tuple:
        """Returns whether there is such a session, the seconds of the step, and the timestep."""
        call = _Call(int(session), actions, queue.SimpleQueue())
        self._calls.put(call)
        while not self._ended.is_set():
            with contextlib.suppress(queue.Empty):
                reply = call.reply.get(timeout=_WAIT_SECONDS)
                if reply is None:
                    break
                timestep, seconds = reply
                return (np.bool_(True), np.float32(seconds), *_columns(timestep))
        return self._no_reply

    def _finish(self):
        return tf.numpy_function(self._finish_now, [], tf.bool)

    def _finish_now(self) -> np.bool_:
        self._finished.set()
        return np.bool_(True)


def _columns(timestep: dm_env.TimeStep) -> tuple[np.ndarray, ...]:
    step_type, reward, discount, observation = timestep
    return (step_type, reward, discount, *tree.flatten(observation))
