"""A worker's process: it acts, keeps a store of its own and computes gradients (Reactor, 3.4)."""

import threading

from absl import logging

from common.acting import actor_start
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import UNLEARNT_SECONDS, StopRequest, report_ready
from common.learning.metrics import DivergedError
from common.learning.remote_step import RemoteStep
from common.remote.gradients import GradientSender
from common.remote.parameters import TARGET, ParameterClient
from common.replay.rate_limiter import RateLimiter
from common.replay.store import Counters, Store
from common.roles.acting import LocalActing
from common.roles.run_context import RunContext

_POLL_SECONDS = 0.002


def run(context: RunContext) -> None:
    """Acts in one thread and learns in another until the run is over or a stop is requested.

    The limiter holds both to the agent's ratio of samples to inserts. After a restart environment
    and exploration use other random numbers than before.
    """
    agent, spec, stop = context.agent, context.spec, context.stop
    stop.end_within(UNLEARNT_SECONDS, lambda: None)  # nobody misses a worker without an update
    actors: LocalActing | None = None

    def progress() -> tuple[int, Counters]:
        return actors.num_steps if actors else 0, store.counters()

    client = context.client(context.topology.keeper_address)
    sender = GradientSender(client, context.actors.start, progress, stop)
    if not sender.join():
        return
    seed = actor_start.actor_seed(context.seed, context.actors.start, sender.incarnation)
    learner = agent.make_learner(spec, seed)
    store = agent.make_store(spec, seed)
    file = context.store_file(store)
    file.load()
    step = RemoteStep(
        learner,
        ParameterClient(client),
        ParameterClient(client, TARGET),
        sender,
        agent.metrics,
        agent.batch_size,
        agent.jit_compile,
        stop,
    )
    if not step.download():
        return
    limiter = agent.rate_limiter(in_turns=True)
    trainer = agent.make_trainer(learner, store, spec, seed, limiter, updates=step)
    actors = LocalActing(context, store, step, seed, sender.incarnation)
    acting = _ActingThread(actors, store, limiter, stop)
    while not (stop.requested or step.finished):
        acting.raise_error()
        if actors.num_steps:
            report_ready()
        try:
            metrics = trainer.step()
        except DivergedError:
            file.close(is_over=True)  # a start with the same contents would diverge again
            raise
        if metrics is None:  # the store fills, or the actor has to catch up
            if sender.report_if_due():
                step.download()
            stop.wait(_POLL_SECONDS)
        else:
            stop.take_time()
        file.save_if_due()
    stop.take_time()
    acting.close()
    trainer.close()
    try:
        sender.report()
    except ServiceUnavailableError as error:
        logging.warning("the last actor steps were not reported: %s", error)
    file.close(is_over=step.finished)
    acted = actors.num_steps
    logging.info("acted for %d steps, %d accepted, until learner step %d", acted, acted, step.steps)


class _ActingThread:
    """The acting thread of a worker, held back by a rate limiter."""

    def __init__(self, actors: LocalActing, store: Store, limiter: RateLimiter, stop: StopRequest):
        self._actors = actors
        self._store = store
        self._limiter = limiter
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
                if self._limiter.may_insert(self._store.counters()):
                    self._actors.act()
                else:
                    self._stop.wait(_POLL_SECONDS)
        except Exception as error:  # pylint: disable=broad-except
            self._error = error
