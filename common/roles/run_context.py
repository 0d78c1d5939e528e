"""The facts of a run that every role gets."""

import dataclasses
import os
import sys

from common.agents.agent import Agent
from common.cluster import rpc
from common.cluster.handshake import Credentials
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.environments.batch import EnvironmentBatch
from common.environments.spec import EnvironmentSpec
from common.environments.watched import WatchedBatch
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectory

CALL_SECONDS = 5.0
"""Timeout of a role's calls to its partners."""


@dataclasses.dataclass(frozen=True)
class RunContext:
    """A run, as one of its processes sees it.

    Attributes:
      agent: the paper's agent.
      environment: its name, as given to `common.environments.make`.
      spec: of the environment.
      topology: the cluster and this process's task in it.
      credentials: presented with each call, and asked of callers.
      directory: of the run.
      seed: of the run.
      actors: the paper's actors in this process, none if it does not act.
      num_actors: of the whole run.
      limits: when the run is over.
      checkpoint_seconds: time between checkpoints.
      evaluation_episodes: episodes of an evaluation.
      evaluation_seconds: time between evaluations.
      stop: tells when the process is asked to end.
    """

    agent: Agent
    environment: str
    spec: EnvironmentSpec
    topology: Topology
    credentials: Credentials
    directory: RunDirectory
    seed: int
    actors: range
    num_actors: int
    limits: Budget
    checkpoint_seconds: float
    evaluation_episodes: int
    evaluation_seconds: float
    stop: StopRequest

    def client(self, address: str, timeout_seconds: float = CALL_SECONDS) -> rpc.Client:
        """Returns a client of a partner."""
        return rpc.Client(address, self.credentials, timeout_seconds)

    def watch(self, environments: EnvironmentBatch) -> WatchedBatch:
        """Returns environments that are checked, and that end this process if they hang."""
        return WatchedBatch(environments, self.environment, _end_process)

    def server(self) -> rpc.Server:
        """Returns a server at this task's address, which has not started yet."""
        return rpc.Server(self.topology.bind_address, self.credentials, self.topology.own_address)


def _end_process(message: str) -> None:
    """Ends this process from a thread, whatever the main thread does; it may be started again."""
    print(f"error: {message}", file=sys.stderr, flush=True)
    os._exit(1)
