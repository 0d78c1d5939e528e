"""The roles of real runs, in this process or in others, and other programs for a benchmark."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import functools
import math
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

from common import environments
from common.agents.agent import Agent
from common.agents.declaration import AgentDeclaration
from common.benchmarks.report import say
from common.cluster import credentials, rpc
from common.cluster.credentials import Credentials
from common.cluster.errors import ServiceUnavailableError
from common.cluster.layout import Layout
from common.cluster.processes import StopRequest, set_parent_death_signal
from common.cluster.topology import Topology
from common.environments.spec import EnvironmentSpec
from common.program import layouts
from common.reporting.budget import EPISODE_STEPS, Budget
from common.reporting.run_directory import RunDirectory
from common.roles.keeper import ActingKeeper, ServingKeeper
from common.roles.run_context import RunContext

_START_SECONDS = 120.0


@contextlib.contextmanager
def run_context(
    agent: Agent,
    environment: str,
    layout: Layout,
    topology: Topology | None = None,
    token: str = "",
    num_actors: int = 1,
) -> Iterator[RunContext]:
    """Yields the context of a run without limits, whose directory is deleted afterwards.

    Args:
      agent: agent of the run.
      environment: name of the environment.
      layout: layout of the run.
      topology: the cluster and the task of this process; None: a cluster of the keeper alone.
      token: token of the cluster; "": a new token.
      num_actors: number of actors of the run, all in this process if it acts.
    """
    topology = topology or Topology.local(layout.roles, {layout.keeper.name: 1})
    made = environments.make(environment, 0, frames=agent.declaration.num_frames)
    spec = EnvironmentSpec.of(made)
    made.close()
    with tempfile.TemporaryDirectory(prefix="benchmark_") as path:
        directory = RunDirectory(path)
        directory.open({})
        context = RunContext(
            agent=agent,
            environment=environment,
            spec=spec,
            layout=layout,
            topology=topology,
            credentials=Credentials(token or credentials.new_token(), topology.job),
            directory=directory,
            seed=0,
            actors=range(num_actors),
            num_actors=num_actors,
            limits=Budget(),
            checkpoint_seconds=math.inf,
            evaluation_episodes=1,
            final_episodes=1,
            evaluation_seconds=math.inf,
            episode_steps=EPISODE_STEPS,
            saves_replay=False,
            values={"evaluation_steps": None},
            stop=StopRequest(),
        )
        with context.closing:
            yield context


@contextlib.contextmanager
def acting_keeper(agent: Agent, environment: str, num_actors: int = 1) -> Iterator[ActingKeeper]:
    """Yields the keeper of a run in one process, which no other process calls."""
    say(f"creating {num_actors} actors for {environment}")
    with run_context(agent, environment, layouts.ONE_PROCESS, num_actors=num_actors) as context:
        learner = agent.make_learner(context.spec, context.seed)
        server = context.server()
        keeper = ActingKeeper(context, learner, server)
        server.close()  # an open server does not survive another keeper's learner
        yield keeper
        keeper.close(finished=True)


def played(
    agent: Agent, environment: str, items: int, num_actors: int = 1
) -> tuple[Any, EnvironmentSpec]:
    """Returns a store with the items of untrained actors, and the environment's spec."""
    with acting_keeper(agent, environment, num_actors) as keeper:
        while keeper.counters().items < items:
            keeper.actors.act()
        return keeper.store, keeper.context.spec


@contextlib.contextmanager
def serving_keeper(agent: Agent, environment: str) -> Iterator[ServingKeeper]:
    """Yields the keeper of a run whose store is in this process and whose actors are in others."""
    with run_context(agent, environment, layouts.LEARNER_AND_ACTORS) as context:
        learner = agent.make_learner(context.spec, context.seed)
        server = context.server()
        keeper = ServingKeeper(context, learner, server)
        keeper.bookkeeping.publish()
        server.start()
        yield keeper
        keeper.trainer.close()
        keeper.close(finished=True)


def command_of(
    agent: AgentDeclaration, role: str, config: Mapping[str, Any], flags: Mapping[str, Any]
) -> list[str]:
    """Returns the command of a role with the agent's default setting and these fields changed."""
    flags = {"role": role, **flags}
    for name, value in {**agent.settings.overrides[agent.settings.default], **config}.items():
        flags[f"config.{name}"] = repr(value) if isinstance(value, tuple) else value
    return [sys.executable, "-m", agent.module, *(f"--{k}={v}" for k, v in flags.items())]


class ChildProcess:
    """A program that runs as long as a `with` block.

    Args:
      name: its name in messages.
      command: its command line.
      variables: environment variables in addition to those of this process.
    """

    def __init__(
        self, name: str, command: Sequence[str], variables: Mapping[str, str] | None = None
    ):
        self._name = name
        self._command = command
        self._variables = {**os.environ, **(variables or {})}

    def __enter__(self) -> "ChildProcess":
        self._log = tempfile.TemporaryFile("w+", errors="replace")
        self._process = subprocess.Popen(
            self._command,
            env=self._variables,
            stdout=self._log,
            stderr=self._log,
            text=True,
            preexec_fn=functools.partial(set_parent_death_signal, os.getpid()),
        )
        return self

    def wait_until_available(self, client: rpc.Client) -> None:
        """Returns when its server answers.

        Raises:
          RuntimeError: it has ended, or does not answer in time.
        """
        deadline = time.monotonic() + _START_SECONDS
        while True:
            self.check()
            try:
                return client.wait_until_available(2.0)
            except ServiceUnavailableError:
                if time.monotonic() > deadline:
                    raise RuntimeError(
                        f"the {self._name} does not answer at {client.address}"
                    ) from None

    def wait(self, seconds: float) -> None:
        """Returns when the program has ended; raises RuntimeError if that takes longer."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"the {self._name} did not end in time") from None

    def check(self, *allowed: int | None) -> None:
        """Raises RuntimeError, with its last line, if it ended with a code that is not allowed."""
        code = self._process.poll()
        if code is not None and code not in allowed:
            self._log.seek(0)
            lines = [line for line in self._log.read().split("\n") if line.strip()]
            reasons = [line for line in lines if line.startswith(("error:", "Fatal Python error"))]
            words = (reasons or lines or ["no output"])[-1]
            raise RuntimeError(f"the {self._name} ended with exit code {code}: {words}")

    def __exit__(self, *_) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.wait()
        self._log.close()


@contextlib.contextmanager
def started_role(
    agent: AgentDeclaration,
    role: str,
    topology: Topology,
    token: str,
    environment: str,
    config: Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Iterator[ChildProcess]:
    """Runs a role of an agent, with these fields of the config changed and further flags."""
    variables = {"TF_CONFIG": topology.to_tf_config(role, 0), credentials.TOKEN_VARIABLE: token}
    with tempfile.TemporaryDirectory(prefix="benchmark_") as directory:
        flags = {"environment": environment, "workdir": f"{directory}/run", **(flags or {})}
        command = command_of(agent, role, config or {}, flags)
        with ChildProcess(f"{role} role", command, variables) as process:
            yield process


@contextlib.contextmanager
def replay_role(
    agent: AgentDeclaration, environment: str, capacity: int
) -> Iterator[tuple[Topology, str]]:
    """Runs the replay role and yields its cluster and the cluster's token."""
    topology = Topology.local(layouts.DISTRIBUTED.roles, {"learner": 1, "replay": 1})
    token, config = credentials.new_token(), {"replay_capacity": capacity, "min_replay_size": 1}
    with started_role(agent, "replay", topology, token, environment, config) as role:
        role.wait_until_available(rpc.Client(topology.address("replay"), token))
        yield topology, token
