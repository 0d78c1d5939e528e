"""A worker's process: it acts, keeps a memory of its own and computes gradients (Reactor, 3.4)."""

import threading

from absl import logging

from common.acting import actor_start
from common.agents.item_agent import ItemAgent
from common.cluster.errors import ServiceUnavailableError
from common.cluster.parameters import TARGET, ParameterClient
from common.cluster.processes import StopRequest, report_ready
from common.learning.remote_step import RemoteStep
from common.learning.update_client import UpdateClient
from common.replay.memory import Memory, Statistics
from common.replay.schedule import Schedule
from common.roles.in_process_actors import InProcessActors
from common.roles.run_context import RunContext

_POLL_SECONDS = 0.002
_UNLEARNT_SECONDS = 10.0
"""Longest end of a worker that has sent no update yet: nobody misses it."""


def run(context: RunContext) -> None:
    """Acts in one thread and learns in another until the run is over or a stop is requested.

    The schedule holds both to the agent's ratio of samples to inserts. After a restart the memory
    is empty, and environment and exploration use other random numbers than before.
    """
    agent, spec, stop = context.agent, context.spec, context.stop
    assert isinstance(agent, ItemAgent)
    stop.end_within(_UNLEARNT_SECONDS, lambda: None)
    actors: InProcessActors | None = None

    def progress() -> tuple[int, Statistics]:
        return actors.num_added if actors else 0, memory.statistics()

    client = context.client(context.topology.keeper_address)
    updates = UpdateClient(client, context.actors.start, progress, stop)
    if not updates.join():
        return
    seed = actor_start.actor_seed(context.seed, context.actors.start, updates.incarnation)
    learner = agent.make_learner(spec, seed)
    memory = agent.make_memory(spec, seed)
    step = RemoteStep(
        learner,
        ParameterClient(client),
        ParameterClient(client, TARGET),
        updates,
        agent.metrics,
        agent.batch_size,
        agent.jit_compile,
        stop,
    )
    if not step.download():
        return
    schedule = agent.schedule(in_turns=True)
    replay_learner = agent.replay_learner(learner, memory, spec, seed, schedule, loop=step)
    actors = InProcessActors(context, memory, updates.incarnation, step)
    acting = _ActingThread(actors, memory, schedule, stop)
    while not (stop.requested or step.finished):
        acting.raise_error()
        if actors.num_added:
            report_ready()
        if replay_learner.step() is None:  # the memory fills, or the actor has to catch up
            if updates.report_if_due():
                step.download()
            stop.wait(_POLL_SECONDS)
        else:
            stop.take_time()
    stop.take_time()
    acting.close()
    replay_learner.close()
    try:
        updates.report()
    except ServiceUnavailableError as error:
        logging.warning("the last actor steps were not reported: %s", error)
    acted = actors.num_added
    logging.info(
        "acted for %d steps, %d items accepted, until learner step %d", acted, acted, step.steps
    )


class _ActingThread:
    """The acting thread of a worker, held back by a schedule."""

    def __init__(
        self, actors: InProcessActors, memory: Memory, schedule: Schedule, stop: StopRequest
    ):
        self._actors = actors
        self._memory = memory
        self._schedule = schedule
        self._stop = stop
        self._closed = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._act, name="act", daemon=True)
        self._thread.start()

    def raise_error(self) -> None:
        """Raises the error that ended the thread, if one has."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Ends the thread after the present step."""
        self._closed = True
        self._thread.join()
        self.raise_error()

    def _act(self) -> None:
        try:
            while not (self._closed or self._stop.requested):
                if self._schedule.may_insert(self._memory.statistics()):
                    self._actors.pull()
                    self._actors.step()
                    self._actors.insert()
                else:
                    self._stop.wait(_POLL_SECONDS)
        except Exception as error:  # pylint: disable=broad-except
            self._error = error
