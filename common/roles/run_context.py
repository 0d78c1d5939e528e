"""The context of a run, which every role receives."""

from collections.abc import Callable, Mapping
import contextlib
import dataclasses
import pathlib
from typing import Any

from common.agents.agent import Agent
from common.cluster import processes, rpc, rpc_server
from common.cluster.credentials import Credentials
from common.cluster.layout import Layout
from common.cluster.processes import PatienceError, StopRequest
from common.cluster.topology import Topology
from common.environments import watch
from common.environments.batch import EnvironmentBatch, WatchedBatch
from common.environments.spec import EnvironmentSpec
from common.remote.parameters import ParameterService
from common.replay.saving import BYTES_PER_SECOND, StoreFile
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectory
from common.types import Nest

CALL_SECONDS = 5.0
"""Timeout of a role's calls to its partners."""


@dataclasses.dataclass(frozen=True)
class RunContext:
    """A run from the point of view of one of its processes.

    Attributes:
      agent: the paper's agent.
      environment: name of the environment; see `common.environments.make`.
      spec: the environment's spec.
      layout: the processes of the run.
      topology: the cluster and the task of this process.
      credentials: presented with each call, and required from callers.
      directory: the run's directory.
      seed: the run's seed.
      actors: indices of the paper's actors in this process; empty if it does not act.
      num_actors: number of actors in the whole run.
      limits: limits of the run, which is over when it reaches one of them.
      checkpoint_seconds: time between checkpoints.
      evaluation_episodes: episodes per evaluation.
      final_episodes: episodes of the last evaluation.
      evaluation_seconds: time between evaluations.
      episode_steps: longest episode of an evaluation.
      saves_replay: whether the contents of this process's store survive a stop.
      keeps_replay: whether they also survive the end of the run.
      values: values of the layout's own flags, by name.
      stop: the request to end this process.
      closing: closes resources once everything is written, because closing them may hang.
      film_every: number of evaluations from one film to the next; 0 makes no films.
      keep_every: learner steps between checkpoints that are never removed; 0 keeps none.
      init_from: run directory whose networks a new run starts with; None: random networks.
      start_states: file of states from which the last evaluation also plays; None: no such file.
      store_files: the files of the stores in this process.
    """

    agent: Agent
    environment: str
    spec: EnvironmentSpec
    layout: Layout
    topology: Topology
    credentials: Credentials
    directory: RunDirectory
    seed: int
    actors: range
    num_actors: int
    limits: Budget
    checkpoint_seconds: float
    evaluation_episodes: int
    final_episodes: int
    evaluation_seconds: float
    episode_steps: int
    saves_replay: bool
    values: Mapping[str, Any]
    stop: StopRequest
    keeps_replay: bool = False
    closing: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)
    film_every: int = 0
    keep_every: int = 0
    init_from: pathlib.Path | None = None
    start_states: pathlib.Path | None = None
    store_files: list[StoreFile] = dataclasses.field(default_factory=list)

    def run(self, role: Callable[["RunContext"], None]) -> None:
        """Runs a role, and saves its stores if it has waited too long for another role.

        Raises:
          PatienceError: the role has waited too long.
        """
        try:
            role(self)
        except PatienceError:
            for file in self.store_files:
                file.close(is_over=False)
            raise

    @property
    def step_specs(self) -> Nest:
        """Specs of the store's columns; see `Agent.step_specs`."""
        return self.agent.step_specs(self.spec)

    def client(self, address: str, timeout_seconds: float = CALL_SECONDS) -> rpc.Client:
        """Returns a client of the service at an address, with this process's credentials."""
        return rpc.Client(address, self.credentials, timeout_seconds)

    def watch(self, make: Callable[[], EnvironmentBatch], start: int = 0) -> WatchedBatch:
        """Returns environments that are checked, and end this process if a simulator hangs.

        Args:
          make: creates the environments. Python's and NumPy's global generators are seeded first,
            with a seed for this run, task and start.
          start: number of earlier starts of this task; 0 if each start plays the same episodes.
        """
        processes.seed_generators(self.seed, self.topology.job, self.topology.index, start)
        with watch.Call.of_making(self.environment):
            environments = make()
        return WatchedBatch(environments, self.environment)

    def store_file(self, store: Any) -> StoreFile:
        """Returns the file of a store in this process; all tasks of a job share a write rate."""
        job = self.topology.job
        name, num_files = f"{job}_{self.topology.index}", len(self.topology.cluster.get(job, ()))
        if store.by_actor:  # another start may have another number of processes
            name, num_files = "actors", 1
        path, rate = self.directory.replay / f"{name}.replay", BYTES_PER_SECOND / max(1, num_files)
        period, is_on = self.checkpoint_seconds, self.saves_replay
        file = StoreFile(store, path, period, is_on, rate, self.keeps_replay)
        self.store_files.append(file)
        return file

    def server(self) -> rpc_server.Server:
        """Returns a server at this task's address that has not started yet."""
        return rpc_server.Server(
            self.topology.bind_address, self.credentials, self.topology.own_address
        )

    def parameter_service(
        self, server: rpc_server.Server, num_parameters: int, **options: Any
    ) -> ParameterService:
        """Returns a `ParameterService` for this start of the keeper."""
        start = len(self.directory.read_starts())
        return ParameterService(server, num_parameters, start=start, **options)
