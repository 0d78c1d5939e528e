"""The evaluator's process: the published policy without exploration, again and again."""

import pathlib
import time

from absl import logging
import numpy as np

from common import environments
from common.acting.evaluate import environment_seeds, run_episodes
from common.agent import Agent, EnvironmentSpec
from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError
from common.cluster.handshake import Credentials
from common.cluster.parameters import ParameterClient, Snapshot
from common.cluster.processes import Patience, StopRequest
from common.cluster.topology import Topology
from common.reporting import columns
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectory


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

    The policy is snapshotted and tested without exploration noise (D4PG section 4).
    """
    batch = environments.make_batch(
        environment_name, environment_seeds(seed, episodes), evaluation=True
    )
    policy = agent.make_evaluator(EnvironmentSpec.of(batch), batch.num_environments)
    initial_state = policy.initial_state(batch.num_environments)
    client = ParameterClient(rpc.Client(topology.address("learner"), credentials, 5.0))
    rows = CsvRows(RunDirectory(directory).evaluator_csv, columns.EVALUATOR)
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
        policy.load(snapshot.flat)
        returns = run_episodes(batch, policy, episodes, initial_state, lambda: stop.requested)
        if len(returns) < episodes:
            return
        patience.renew()  # the episodes may have taken long
        rows.append(_row(agent, environment_name, seed, snapshot, returns))
        if snapshot.status.finished:
            _acknowledge(client, version)
            return


def _read_if_due(client: ParameterClient, version: int, is_time: bool) -> Snapshot | None:
    """The newest snapshot, if there is one to evaluate: the run's last one is due at any time."""
    status = client.latest()
    if status.finished or (is_time and status.learner_steps > 0):
        return client.read(if_newer_than=version)
    return None


def _acknowledge(client: ParameterClient, version: int) -> None:
    try:
        client.acknowledge("evaluator", version)
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
