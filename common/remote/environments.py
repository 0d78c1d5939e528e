"""Environments that step in other processes than the learner, which chooses their actions."""

from collections.abc import Callable, Sequence
import contextlib
import threading
import time
from typing import Any

from absl import logging
import dm_env
from dm_env import specs
import numpy as np
import tensorflow as tf
import tree

from common.cluster import rpc, rpc_server, topology
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Background, Patience, StopRequest
from common.environments import watch
from common.environments.batch import ABSENT, EnvironmentBatch

_POLL_SECONDS = 0.1
"""Time between requests to a worker that is not ready."""
_MOST_SESSIONS = 2**20
"""Session numbers reserved for each start of the caller, more than a worker needs in one start."""


class RemoteBatch:
    """An `EnvironmentBatch` whose rows are stepped by worker processes, see `EnvironmentService`.

    A step waits for the slowest worker. If a worker does not answer, its rows are ABSENT until it
    is back with new episodes.
    """

    def __init__(
        self,
        clients: Sequence[rpc.Client],
        rows: Sequence[range],
        start: int,
        observation_spec: Any,
        action_spec: specs.Array,
        stop: StopRequest,
    ):
        """Creates the batch without calling any worker.

        Args:
          clients: a client for each worker.
          rows: the rows of the batch that each worker steps, in the order of the batch.
          start: number of earlier starts of this run's actors.
          observation_spec: nest of specs of one environment's observations.
          action_spec: spec of one environment's actions.
          stop: ends waits.
        """
        self._observation_spec, self._action_spec = observation_spec, action_spec
        self._stop = stop
        self._workers = [
            _Worker(client, own, start * _MOST_SESSIONS, stop)
            for client, own in zip(clients, rows, strict=True)
        ]
        self._patience = Patience("no worker has stepped an environment")

    @property
    def num_environments(self) -> int:
        """The number of environments, K."""
        return self._workers[-1].rows.stop

    def observation_spec(self) -> Any:
        """Returns the observation spec of one environment, without the batch dimension."""
        return self._observation_spec

    def action_spec(self) -> specs.Array:
        """Returns the action spec of one environment, without the batch dimension."""
        return self._action_spec

    def reset(self) -> dm_env.TimeStep:
        """Starts an episode in each environment once every worker is ready.

        If a stop is requested before that, the rows of workers that are not ready are ABSENT.

        Raises:
          ClusterError: a worker refuses this process, or takes too long to become ready.
        """
        for worker in self._workers:
            worker.begin()
        self._patience.renew()
        while not all(worker.is_ready for worker in self._workers):
            self._patience.check()
            if self._stop.wait(_POLL_SECONDS):
                break
        shape = (self.num_environments, *self._action_spec.shape)
        return self.step(np.zeros(shape, self._action_spec.dtype))

    def step(self, actions: np.ndarray) -> dm_env.TimeStep:
        """Takes one row of `actions`, [K, ...], in each environment whose worker is ready.

        Raises:
          ClusterError: a worker refuses this process, or no worker has answered for too long.
        """
        k = self.num_environments
        step_type = np.full(k, ABSENT, np.int32)
        reward, discount = np.zeros(k, np.float32), np.ones(k, np.float32)
        observation = tree.map_structure(
            lambda leaf: np.zeros((k, *leaf.shape), leaf.dtype), self._observation_spec
        )
        leaves = (step_type, reward, discount, *tree.flatten(observation))
        asked = [worker for worker in self._workers if worker.is_ready]
        for worker in asked:
            worker.ask(actions)
        has_answer = False
        for worker in asked:
            columns = worker.reply()
            if columns is None:
                worker.begin()
                continue
            has_answer = True
            for leaf, column in zip(leaves, columns, strict=True):
                leaf[worker.rows.start : worker.rows.stop] = column
        if has_answer:
            self._patience.renew()
        else:
            self._patience.check()
            self._stop.wait(_POLL_SECONDS)
        return dm_env.TimeStep(step_type, reward, discount, observation)

    def close(self) -> None:
        """Tells the workers that the run is over, unless this process alone is asked to stop."""
        if self._stop.requested:
            return
        for worker in watch.each(self._workers):
            worker.finish()


class _Worker:
    """A process that steps some rows of a batch.

    Attributes:
      rows: the rows of the batch that this worker steps.
    """

    def __init__(self, client: rpc.Client, rows: range, session: int, stop: StopRequest):
        self.rows = rows
        self._client, self._stop = client, stop
        self._next_session = np.int64(session)
        self._is_ready = False
        self._future: rpc.Future | None = None
        self._actors = f"actors {rows.start} to {rows[-1]} at {client.address}"

    @property
    def is_ready(self) -> bool:
        """True if the worker has started the current session; raises the error of a refusal."""
        self._beginning.check()
        return self._is_ready

    def begin(self) -> None:
        """Requests a new session in a background thread."""
        self._is_ready, self._number = False, np.int64(0)
        self._session, self._next_session = self._next_session, self._next_session + 1
        self._beginning = Background(self._begin, "begin")
        self._beginning.start()

    def ask(self, actions: np.ndarray) -> None:
        """Sends the worker its rows of `actions`, [K, ...], without waiting for the reply."""
        self._actions = actions[self.rows.start : self.rows.stop]
        self._asked_at = time.monotonic()
        with contextlib.suppress(ServiceUnavailableError):  # `reply` tries again
            self._future = self._call()

    def reply(self) -> list[np.ndarray] | None:
        """Returns the arrays of the step's timestep; None if it is lost or a stop is requested."""
        why: object = "this process was asked to stop"
        while True:
            try:
                future, self._future = self._future or self._call(), None
                is_there, is_done, *columns = future.result()
            except ServiceUnavailableError as error:
                # A call times out whether the process is gone or only busy. A worker with an
                # environment that hangs ends itself within `longest`.
                longest = (1 + len(self.rows)) * watch.limit_seconds
                is_late = time.monotonic() - self._asked_at > longest
                if is_late or topology.is_gone(self._client.address):
                    why = error
                    break
            else:
                if not is_there:
                    why = "their process has been restarted"
                    break
                if is_done:
                    self._number += 1
                    return [column.numpy() for column in columns]
            if self._stop.requested:
                break
        logging.warning("lost the environments of %s and their episodes: %s", self._actors, why)
        return None

    def _call(self) -> rpc.Future:
        """Requests the step; a repeated request returns the same timestep."""
        arguments = [self._session, self._number, self._actions]
        return self._client.call_async("environments_step", arguments)

    def finish(self) -> None:
        """Tells the worker that the run is over, if it answers."""
        try:
            self._client.call("environments_finish")
        except ServiceUnavailableError as error:
            logging.warning("%s were not told that the run is over: %s", self._actors, error)

    def _begin(self) -> None:
        while not self._stop.requested:
            try:
                if self._client.call("environments_begin", [self._session]):
                    logging.info("environments of %s have started", self._actors)
                    self._is_ready = True
                    return
            except ServiceUnavailableError as error:
                logging.log_every_n_seconds(logging.INFO, "waiting for environments: %s", 60, error)
            self._stop.wait(_POLL_SECONDS)


_WAIT_SECONDS = 0.5
"""Longest wait of a call for its timestep; the reply then says that the step is not done yet."""


class EnvironmentService:
    """K environments for a `RemoteBatch`, created and stepped by the thread that calls `serve`.

    Each call names a session by its number; a new session creates new environments. The steps of a
    session are numbered from 0, at which episodes start. A step whose reply was lost can therefore
    be requested again, and a restarted process, which knows no session, continues no episode.
    """

    def __init__(
        self,
        server: rpc_server.Server,
        num_environments: int,
        observation_spec: Any,
        action_spec: specs.Array,
        make: Callable[[int], EnvironmentBatch],
    ):
        """Registers the methods on a server that has not started yet.

        Args:
          server: offers the methods.
          num_environments: K.
          observation_spec: nest of specs of one environment's observations.
          action_spec: spec of one environment's actions.
          make: creates the environments of a session, given its number.
        """
        self._make = make
        self._environments: EnvironmentBatch | None = None
        self._changed = threading.Condition()
        self._session = self._wanted = -1
        self._number = -1  # number of the session's latest step
        self._actions: np.ndarray | None = None  # actions of that step, until it is done
        self._columns: tuple | None = None  # arrays of its timestep, once it is done
        self._finished = self._ended = False
        k = num_environments
        observation = [
            np.zeros((k, *leaf.shape), leaf.dtype) for leaf in tree.flatten(observation_spec)
        ]
        self._nothing = (np.zeros(k, np.int32), *np.zeros((2, k), np.float32), *observation)
        session, number = rpc_server.Count("session"), rpc_server.Count("number")
        actions = tf.TensorSpec((k, *action_spec.shape), tf.as_dtype(action_spec.dtype))
        dtypes = [tf.bool, tf.bool, *(tf.as_dtype(column.dtype) for column in self._nothing)]
        in_python = rpc_server.in_python
        server.register("environments_begin", in_python(self._begin, tf.bool), [session])
        step = in_python(self._step, dtypes)
        server.register("environments_step", step, [session, number, actions])
        server.register("environments_finish", in_python(self._finish, tf.bool), [])

    def serve(self, stop: StopRequest) -> None:
        """Creates and steps environments until the caller's run is over or a stop is requested.

        Raises:
          PatienceError: nobody has called for too long.
          UnusableEnvironmentError: see `common.environments.batch.WatchedBatch`.
        """
        patience = Patience("no learner has stepped these environments")
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
                    self.close()
                    self._environments = self._make(wanted)
                    with self._changed:
                        self._session, self._number = wanted, -1
                        self._actions = self._columns = None
                    continue
                environments = self._environments
                assert environments is not None
                timestep = environments.step(actions) if number else environments.reset()
                with self._changed:
                    self._columns = (*timestep[:3], *tree.flatten(timestep.observation))
                    self._actions = None
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def close(self) -> None:
        """Closes the environments of the current session, if any."""
        environments, self._environments = self._environments, None
        if environments is not None:
            environments.close()

    def _is_asked(self) -> bool:
        return self._wanted != self._session or self._actions is not None

    def _begin(self, session: np.int64) -> bool:
        """Requests a session; returns whether it has started."""
        with self._changed:
            self._wanted = int(session)
            self._changed.notify_all()
            return bool(self._session == session)

    def _step(self, session: np.int64, number: np.int64, actions: np.ndarray) -> tuple:
        """Returns whether the session is current, whether its step is done, and the timestep."""
        with self._changed:
            if session != self._session:
                return (False, False, *self._nothing)
            if number == self._number + 1:
                self._number, self._actions, self._columns = int(number), actions, None
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._columns or self._ended, _WAIT_SECONDS)
            return (True, self._columns is not None, *(self._columns or self._nothing))

    def _finish(self) -> bool:
        self._finished = True
        return True
