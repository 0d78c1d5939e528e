"""The evaluator's process: the published policy without exploration, again and again."""

from collections.abc import Callable
import pathlib
import threading
import time

from absl import logging
import numpy as np

from common import environments
from common.acting.evaluate import environment_seeds, run_episodes
from common.agents.agent import Agent, EnvironmentSpec
from common.cluster import rpc
from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.handshake import Credentials
from common.cluster.parameters import EVALUATOR, ParameterClient, Snapshot
from common.cluster.processes import Patience, StopRequest
from common.cluster.topology import Topology
from common.reporting import columns
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectory

_NEWS_SECONDS = 1.0
_CLOSE_SECONDS = 6.0
"""Longer than a call may take."""


class _News:
    """Asks the learner, while an evaluation runs, whether the run's last snapshot is there.

    The learner, which waits for the evaluation of that one, sees by this that somebody is at it.
    """

    def __init__(self, client: ParameterClient):
        """Prepares to ask; a context manager does it."""
        self._client = client
        self._closed = threading.Event()
        self.last_version = 0
        """Of the last snapshot; 0 before it is there."""
        self._thread = threading.Thread(target=self._ask, name="news", daemon=True)

    def __enter__(self) -> "_News":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed.set()
        self._thread.join(_CLOSE_SECONDS)

    def _ask(self) -> None:
        while not self._closed.wait(_NEWS_SECONDS):
            try:
                status = self._client.latest()
            except ClusterError:
                continue  # the evaluator's own calls meet it, and say so
            if status.finished:
                self.last_version = status.version


def run_evaluator(
    agent: Agent,
    environment_name: str,
    topology: Topology,
    credentials: Credentials,
    directory: pathlib.Path,
    seed: int,
    episodes: int,
    period_seconds: float,
    stop: StopRequest,
) -> None:
    """Evaluates a snapshot every `period_seconds`, and always the run's last one.

    When that one appears, an evaluation that is under way is given up. The policy is snapshotted
    and tested without exploration noise (D4PG section 4).
    """
    batch = environments.make_batch(
        environment_name, environment_seeds(seed, episodes), evaluation=True
    )
    policy = agent.make_evaluator(EnvironmentSpec.of(batch), batch.num_environments)
    initial_state = policy.initial_state(batch.num_environments)
    client = ParameterClient(rpc.Client(topology.address("learner"), credentials, 5.0), EVALUATOR)
    rows = CsvRows(RunDirectory(directory).evaluator_csv, columns.EVALUATOR)

    def evaluate(snapshot: Snapshot, is_stopped: Callable[[], bool]) -> bool:
        """Whether it came to its end; only then it leaves a row."""
        policy.load(snapshot.flat)
        returns = run_episodes(batch, policy, episodes, initial_state, is_stopped)
        if len(returns) < episodes:
            return False
        rows.append(_row(agent, environment_name, seed, snapshot, returns))
        return True

    with _News(client) as news:
        last = _evaluate_until_last(client, news, evaluate, period_seconds, stop)
    if last is not None:
        _acknowledge(client, last)


def _evaluate_until_last(
    client: ParameterClient,
    news: _News,
    evaluate: Callable[[Snapshot, Callable[[], bool]], bool],
    period_seconds: float,
    stop: StopRequest,
) -> int | None:
    """Returns the version of the run's last snapshot, None if `stop` was requested before."""
    patience = Patience("no answer from the learner")
    version, next_time = 0, time.monotonic()
    while not stop.requested:
        try:
            snapshot = _read_if_due(client, version, time.monotonic() >= next_time)
            patience.renew()
        except ServiceUnavailableError as error:
            logging.log_every_n_seconds(logging.WARNING, "waiting for the learner: %s", 60, error)
            patience.check(error)
            snapshot = None
        if snapshot is None:
            stop.wait(0.5)
            continue
        version = snapshot.status.version
        next_time = time.monotonic() + period_seconds
        done = evaluate(snapshot, lambda: stop.requested or news.last_version > version)
        patience.renew()  # the episodes may have taken long
        if done and snapshot.status.finished:
            return version
        if not done and not stop.requested:
            logging.info(
                "gave up the evaluation of learner step %d for that of the last one",
                snapshot.status.learner_steps,
            )
    return None


def _read_if_due(client: ParameterClient, version: int, is_time: bool) -> Snapshot | None:
    """The newest snapshot, if there is one to evaluate: the run's last one is due at any time."""
    status = client.latest()
    if status.finished or (is_time and status.learner_steps > 0):
        return client.read(if_newer_than=version)
    return None


def _acknowledge(client: ParameterClient, version: int) -> None:
    try:
        client.acknowledge(version)
    except ServiceUnavailableError as error:
        logging.warning("the learner did not wait for the last evaluation: %s", error)


def _row(agent: Agent, environment_name: str, seed: int, snapshot: Snapshot, returns: np.ndarray):
    status = snapshot.status
    return {
        "paper": agent.name,
        "setting": agent.setting,
        "environment": environment_name,
        "seed": seed,
        "wall_seconds": round(status.wall_seconds, 2),
        "actor_steps": status.actor_steps,
        "environment_frames": status.actor_steps * environments.frames_per_step(environment_name),
        "learner_steps": status.learner_steps,
        "episode_return_mean": float(returns.mean()),
        "episode_return_std": float(returns.std()),
        "episodes": len(returns),
    }
