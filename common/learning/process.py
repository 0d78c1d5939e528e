"""The learner's process: updates beside a replay, until the run is over."""

import dataclasses
import functools
import pathlib
import time

from absl import logging
import tensorflow as tf

from common.acting.in_process import InProcessActors
from common.agent import Agent, EnvironmentSpec, schedule_for
from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError
from common.cluster.handshake import Credentials
from common.cluster.parameters import ParameterService
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.learning.bookkeeping import Bookkeeping
from common.learning.counters import Counters
from common.learning.replay_learner import ReplayLearner
from common.learning.update_loop import UpdateLoop
from common.replay.process import make_memory
from common.replay.service import RemoteMemory, ReplayService
from common.replay.shards import ShardedMemory
from common.reporting.run_directory import RunDirectory

FAREWELL_SECONDS = 120.0
"""How long the learner stays for the evaluator's last evaluation."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """When a run is over, whichever comes first; None is never."""

    max_minutes: float | None = None
    max_actor_steps: int | None = None
    max_learner_steps: int | None = None

    def reached(self, counters: Counters, learner_steps: int) -> bool:
        """Whether one of them is."""
        pairs = (
            (self.max_minutes, counters.wall_seconds / 60),
            (self.max_actor_steps, counters.actor_steps),
            (self.max_learner_steps, learner_steps),
        )
        return any(limit is not None and value >= limit for limit, value in pairs)


def run_learner(
    agent: Agent,
    spec: EnvironmentSpec,
    topology: Topology,
    credentials: Credentials,
    directory: pathlib.Path,
    seed: int,
    limits: Limits,
    checkpoint_seconds: float,
    stop: StopRequest,
    environment_name: str,
    num_actors: int,
) -> None:
    """Learns until a limit is reached or `stop` is requested, from the last checkpoint on.

    An agent of a single process also acts here, whenever its updates have used up their credit.
    """
    # Before the server: it seeds TensorFlow, which crashes a server that is there.
    learner = agent.make_learner(spec, seed)
    server = rpc.Server(topology.bind_address, credentials, topology.own_address)
    local = topology.replay_in_learner
    if local:
        memory = make_memory(agent, spec, seed)
        replay = ReplayService(server, memory)
    else:
        shards = [
            RemoteMemory(rpc.Client(address, credentials, 5.0), agent.step_specs(spec))
            for address in topology.replay_addresses
        ]
        memory = replay = shards[0] if len(shards) == 1 else ShardedMemory(shards)
    parameters = ParameterService(
        server, sum(v.shape.num_elements() for v in learner.actor_variables)
    )
    loop = UpdateLoop(learner.update, agent.updates_per_call, agent.batch_size, agent.jit_compile)
    replay_learner = ReplayLearner(
        memory, loop, learner.steps, schedule_for(agent), prefetch=0 if local else agent.prefetch,
        retry_on=(ServiceUnavailableError, tf.errors.FailedPreconditionError), seed=seed,
        decode=agent.decode, removal_period=agent.removal_period,
    )
    books = Bookkeeping(
        RunDirectory(directory), agent, learner, replay_learner, parameters, replay.accepted,
        checkpoint_seconds,
    )
    wait = functools.partial(stop.wait, 0.01)
    if agent.single_process:
        actors = InProcessActors(
            agent, environment_name, replay, books, directory, num_actors, seed
        )
        wait = actors.step
    server.start()

    books.publish()
    while not stop.requested and not limits.reached(books.counters, books.steps):
        metrics = replay_learner.step()
        books.after_call(metrics)
        if metrics is None:
            wait()

    replay_learner.close()
    finished = not stop.requested
    if finished:
        version = books.publish(finished=True)
    books.settle(memory.statistics)
    if finished:
        _wait_for_evaluator(parameters, version, topology, stop)
    if not local:
        _leave(memory, finished)
    server.close()
    logging.info("finished at learner step %d, actor step %d, after %.0f s", books.steps,
                 books.counters.actor_steps, books.counters.wall_seconds)


def _wait_for_evaluator(
    parameters: ParameterService, version: int, topology: Topology, stop: StopRequest
) -> None:
    """Keeps the last snapshot readable until the evaluator is through with it."""
    deadline = time.monotonic() + FAREWELL_SECONDS
    while topology.addresses("evaluator") and parameters.acknowledged("evaluator") < version:
        if time.monotonic() > deadline or stop.wait(0.1):
            break


def _leave(memory: RemoteMemory | ShardedMemory, finished: bool) -> None:
    try:
        memory.leave(finished)
    except ServiceUnavailableError as error:
        logging.warning("the replay was not told that this learner ends: %s", error)
