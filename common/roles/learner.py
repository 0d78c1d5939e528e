"""The learner's process: updates beside a replay, until the run is over."""

import dataclasses
import functools
import pathlib
import time

from absl import logging
import tensorflow as tf

from common.agents.agent import Agent, EnvironmentSpec, schedule_for
from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError
from common.cluster.handshake import Credentials
from common.cluster.parameters import EVALUATOR, ParameterService
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.learning.bookkeeping import Bookkeeping
from common.learning.counters import Counters
from common.learning.replay_learner import ReplayLearner, UndecodableReplayError
from common.learning.update_loop import UpdateLoop
from common.replay.service import RemoteMemory, ReplayService
from common.replay.shards import ShardedMemory
from common.reporting.run_directory import RunDirectory
from common.roles.in_process import InProcessActors
from common.roles.replay import make_memory

FAREWELL_SECONDS = 1800.0
"""How long the learner stays for the evaluator's last evaluation, at most."""
SILENCE_SECONDS = 60.0
"""How long it stays for an evaluator that does not ask for news: one that is started again in this
time still evaluates the last parameters."""


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
        memory,
        loop,
        learner.steps,
        schedule_for(agent),
        _prefetch(agent, local),
        retry_on=(ServiceUnavailableError, tf.errors.FailedPreconditionError),
        seed=seed,
        decode=functools.partial(agent.decode, spec=spec),
        removal_period=agent.removal_period,
    )
    books = Bookkeeping(
        RunDirectory(directory),
        agent,
        learner,
        replay_learner,
        parameters,
        replay.accepted,
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
    try:
        while not stop.requested and not limits.reached(books.counters, books.steps):
            metrics = replay_learner.step()
            books.after_call(metrics)
            if metrics is None:
                wait()
    except UndecodableReplayError:
        books.save()
        raise

    replay_learner.close()
    finished = not stop.requested
    if finished:
        books.save()  # actors end with this version: whoever resumes before them would have none
        version = books.publish(finished=True)
    books.settle(memory.statistics)
    if not local:
        _leave(memory, finished)  # an evaluation may take longer than a replay's patience
    if finished and topology.addresses("evaluator"):
        _wait_for_evaluator(parameters, version, stop)
    server.close()
    logging.info(
        "finished at learner step %d, actor step %d, after %.0f s",
        books.steps,
        books.counters.actor_steps,
        books.counters.wall_seconds,
    )


def _prefetch(agent: Agent, local: bool) -> int:
    """Calls to draw ahead: of a memory in this process only what is worth decoding beside it."""
    decodes = type(agent).decode is not Agent.decode
    return agent.prefetch if not local or (decodes and not agent.single_process) else 0


def _wait_for_evaluator(parameters: ParameterService, version: int, stop: StopRequest) -> None:
    """Keeps the last snapshot readable until the evaluator is through with it, or seems dead."""
    logging.info("waiting for the last evaluation")
    begin = heard_at = time.monotonic()
    asked = parameters.times_asked(EVALUATOR)
    while parameters.acknowledged(EVALUATOR) < version:
        now, before = time.monotonic(), asked
        asked = parameters.times_asked(EVALUATOR)
        if asked != before:
            heard_at = now
        if now - heard_at > SILENCE_SECONDS:
            logging.warning(
                "no last evaluation: nothing from the evaluator for %.0f s", now - heard_at
            )
            return
        if now - begin > FAREWELL_SECONDS:
            logging.warning("no last evaluation: it takes more than %.0f s", FAREWELL_SECONDS)
            return
        if stop.wait(0.1):
            return


def _leave(memory: RemoteMemory | ShardedMemory, finished: bool) -> None:
    try:
        memory.disconnect(finished)
    except ServiceUnavailableError as error:
        logging.warning("the replay was not told that this learner ends: %s", error)
