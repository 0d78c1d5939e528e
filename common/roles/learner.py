"""The learner's process: updates from a replay until the run is over."""

from collections.abc import Callable
import functools
from typing import Protocol

from absl import logging

from common.agents.replay_agent import ReplayAgent
from common.cluster.errors import ServiceUnavailableError
from common.cluster.parameters import ParameterService
from common.cluster.processes import report_ready
from common.learning.bookkeeping import Bookkeeping, BookkeepingOptions
from common.replay.replay_memory import ReplayMemory
from common.replay.service import RemoteMemory, ReplayService
from common.replay.shards import ShardedMemory
from common.roles import replay
from common.roles.run_context import RunContext


class InTurns(Protocol):
    """The parts of a run that take turns with the learner in its process."""

    def act(self) -> None:
        """Advances the actors by a timestep, whenever the schedule allows no update."""

    def evaluate(self, finished: bool) -> None:
        """Evaluates if that is due: before each call of the learner, and once it has finished."""


def run(
    context: RunContext,
    make_turns: Callable[[RunContext, ReplayService, Bookkeeping], InTurns] | None = None,
) -> None:
    """Learns from the newest checkpoint on, until a limit is reached or a stop is requested.

    Args:
      context: of the run.
      make_turns: builds the actors of this process; None if they have processes of their own.
    """
    agent, spec, topology, stop = context.agent, context.spec, context.topology, context.stop
    assert isinstance(agent, ReplayAgent)
    in_turns = make_turns is not None
    # Before the server: this seeds TensorFlow, which crashes an existing server.
    learner = agent.make_learner(spec, context.seed)
    server = context.server()
    memory: ReplayMemory
    service: ReplayService | None = None
    if in_turns or topology.hosts(replay.JOB):
        memory = own_memory = agent.make_memory(spec, context.seed)
        service = ReplayService(server, own_memory)
        accepted, disconnect = service.accepted, None
        prefetch = agent.prefetch if agent.decodes and not in_turns else 0
    else:
        memory = remote = _remote_memory(context, agent)
        accepted, disconnect = remote.accepted, remote.disconnect
        prefetch = agent.prefetch
    parameters = ParameterService(
        server, sum(variable.shape.num_elements() for variable in learner.actor_variables)
    )
    replay_learner = agent.replay_learner(
        learner, memory, spec, context.seed, agent.schedule(in_turns), prefetch
    )
    bookkeeping = Bookkeeping(
        context.directory,
        learner,
        replay_learner,
        parameters,
        accepted,
        BookkeepingOptions(
            agent.metrics,
            agent.batch_size,
            agent.num_copies,
            agent.publish_period,
            context.checkpoint_seconds,
        ),
    )
    turns: InTurns | None = None
    if make_turns is not None:
        assert service is not None
        turns = make_turns(context, service, bookkeeping)
    act: Callable[[], object] = turns.act if turns else functools.partial(stop.wait, 0.01)
    server.start()

    counters, limits = bookkeeping.counters, context.limits
    bookkeeping.publish()
    while not stop.requested and not limits.reached(
        counters.wall_seconds, counters.actor_steps, bookkeeping.steps
    ):
        if turns is not None:
            turns.evaluate(finished=False)
        metrics = replay_learner.step()
        bookkeeping.after_call(metrics)
        report_ready()
        if metrics is None:
            act()

    replay_learner.close()
    if turns is not None and not stop.requested:
        turns.evaluate(finished=True)
    finished = not stop.requested
    if finished:
        bookkeeping.save()  # before the other roles end: a learner resumed later would lack them
        bookkeeping.publish(finished=True)
    bookkeeping.settle(memory.statistics)
    if disconnect is not None:
        try:
            disconnect(finished)
        except ServiceUnavailableError as error:
            logging.warning("the replay was not told that this learner ends: %s", error)
    server.close()
    logging.info(
        "finished at learner step %d, actor step %d, after %.0f s",
        bookkeeping.steps,
        counters.actor_steps,
        counters.wall_seconds,
    )


def _remote_memory(context: RunContext, agent: ReplayAgent) -> RemoteMemory | ShardedMemory:
    """Returns the memory in other processes; several shards act as one memory."""
    shards = [
        RemoteMemory(context.client(address), agent.step_specs(context.spec))
        for address in context.topology.service(replay.JOB)
    ]
    return shards[0] if len(shards) == 1 else ShardedMemory(shards)
