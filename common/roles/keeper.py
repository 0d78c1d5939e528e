"""The process that keeps a run: learner, parameter server, or all in one process."""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

from absl import logging

from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import report_ready
from common.learning.bookkeeping import Bookkeeping, BookkeepingOptions
from common.learning.learner import Learner
from common.learning.parameter_server import AppliedGradients
from common.learning.trainer import Trainer
from common.networks import packing
from common.remote.gradients import GradientQueue
from common.remote.outbox import RemoteStore
from common.remote.parameters import TARGET
from common.remote.shards import ShardedStore
from common.replay.store import Counters
from common.reporting import csv_rows
from common.roles.actors import ActingBeside, LocalActing, next_call_is_due
from common.roles.evaluator import Evaluation
from common.roles.run_context import RunContext

_IDLE_SECONDS = 0.002
_IDLE_SECONDS_ELSEWHERE = 0.01
"""Time between calls to a store in another process that has no batch."""
_KEEP_VERSIONS = 4
_KEEP_VERSIONS_OF_EACH = 32
"""Versions kept where each update is published: a call may take as long as several updates."""


@dataclasses.dataclass
class _Data:
    """The part of a run's keeper that depends on where its data is.

    Attributes:
      trainer: makes the updates.
      accepted: returns the actor steps accepted from each incarnation.
      counters: returns the counters of the store.
      idle: called after each step without an update.
      begin: called with the bookkeeping, before the server starts.
      end: called when the run ends, with whether it is over.
      evaluate: evaluates if that is due: before each step, and with True once the run is over.
      options: of the bookkeeping, where they do not follow from the agent.
    """

    trainer: Trainer | AppliedGradients
    accepted: Callable[[], Mapping[int, int]]
    counters: Callable[[], Counters]
    idle: Callable[[], object]
    begin: Callable[[Bookkeeping], None] = lambda bookkeeping: None
    end: Callable[[bool], None] = lambda finished: None
    evaluate: Callable[[bool], None] = lambda finished: None
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


def run(context: RunContext) -> None:
    """Makes updates from the newest checkpoint on, until a limit or a request to stop.

    When the run is over, its last checkpoint and then its last snapshot tell the other roles so.
    """
    agent, stop, limits = context.agent, context.stop, context.limits
    # Before the server: this seeds TensorFlow, which crashes an existing server.
    learner = agent.make_learner(context.spec, context.seed)
    server = context.server()
    data = _make_data(context, learner, server)
    options = BookkeepingOptions(
        agent.samples_per_update,
        agent.data.num_copies,
        agent.publish_period,
        context.checkpoint_seconds,
    )
    options = dataclasses.replace(options, **data.options)
    keep_versions = _KEEP_VERSIONS_OF_EACH if options.publish_period == 1 else _KEEP_VERSIONS
    parameters = context.parameter_service(
        server, learner.num_parameters, keep_versions=keep_versions
    )
    trainer = data.trainer
    bookkeeping = Bookkeeping(
        context.directory, learner, trainer, parameters, data.accepted, options
    )
    data.begin(bookkeeping)
    server.start()

    counters = bookkeeping.counters
    bookkeeping.publish()
    while not stop.requested and not limits.reached(
        counters.wall_seconds, counters.actor_steps, bookkeeping.steps
    ):
        data.evaluate(False)
        metrics = trainer.step()
        bookkeeping.after_call(metrics)
        report_ready()
        if metrics is None:
            data.idle()
        else:
            stop.take_time()

    stop.take_time()
    trainer.close()
    finished = not stop.requested
    if finished:
        data.evaluate(True)
    finished = not stop.requested
    if finished:
        bookkeeping.close_store_file(is_over=True)
        bookkeeping.poll()
        bookkeeping.save()  # before the other roles end: a keeper resumed later would lack them
        bookkeeping.publish(finished=True)
    bookkeeping.settle(data.counters)
    logging.info(
        "finished at learner step %d, actor step %d, after %.0f s",
        bookkeeping.steps,
        counters.actor_steps,
        counters.wall_seconds,
    )
    data.end(finished)
    server.close()
    bookkeeping.close_store_file(is_over=False)


def _make_data(context: RunContext, learner: Learner, server: rpc.Server) -> _Data:
    layout, topology = context.layout, context.topology
    if layout.keeper.acts:
        return _acted_here(context, learner)
    if layout.applies_gradients:
        return _gradients(context, learner, server)
    if topology.own_address in topology.service(layout.store):
        return _served_here(context, learner, server)
    return _elsewhere(context, learner)


def _elsewhere(context: RunContext, learner: Learner) -> _Data:
    """Returns the part for a store in other processes; several shards act as one store."""
    agent, spec = context.agent, context.spec
    shards = [
        RemoteStore(context.client(address), agent.data.wire(context.step_specs))
        for address in context.topology.service(context.layout.store)
    ]
    store = shards[0] if len(shards) == 1 else ShardedStore(shards)

    def disconnect(finished: bool) -> None:
        try:
            store.disconnect(finished)
        except ServiceUnavailableError as error:
            if finished:  # one that was stopped, too, has ended
                logging.warning("the replay was not told that the run is over: %s", error)

    limiter = agent.rate_limiter()
    return _Data(
        agent.make_trainer(learner, store, spec, context.seed, limiter, agent.prefetch),
        store.accepted,
        store.counters,
        lambda: context.stop.wait(_IDLE_SECONDS_ELSEWHERE),
        end=disconnect,
    )


def _served_here(context: RunContext, learner: Learner, server: rpc.Server) -> _Data:
    """Returns the part for a store in this process to which actors elsewhere add."""
    agent, spec = context.agent, context.spec
    store = agent.data.make_store(context.step_specs, context.seed)
    limiter = agent.rate_limiter()
    prefetch = agent.prefetch if agent.decodes else 0
    return _Data(
        agent.make_trainer(learner, store, spec, context.seed, limiter, prefetch),
        context.store_service(server, store).accepted,
        store.counters,
        lambda: context.stop.wait(_IDLE_SECONDS),
        begin=lambda bookkeeping: _load(context, bookkeeping, store),
    )


def _gradients(context: RunContext, learner: Learner, server: rpc.Server) -> _Data:
    """Returns the part for gradients that workers send (Reactor, 3.4)."""
    agent = context.agent
    queue = GradientQueue(learner.num_parameters)
    inbox = context.store_service(server, queue).inbox
    target = context.parameter_service(server, learner.num_parameters, name=TARGET)
    bookkeeping: Bookkeeping

    def publish_target() -> None:
        counters = bookkeeping.counters
        flat = packing.to_numpy(learner.target_variables)
        target.publish(flat, int(learner.steps), counters.actor_steps, counters.wall_seconds)

    def on_applied() -> None:
        if int(learner.steps) % agent.target_period == 0:
            publish_target()

    def begin(made: Bookkeeping) -> None:
        nonlocal bookkeeping
        bookkeeping = made
        updates.resume()
        publish_target()

    updates = AppliedGradients(learner, queue, inbox, on_applied)
    return _Data(
        updates,
        inbox.accepted,
        lambda: updates.counters or Counters(),
        lambda: None,
        begin=begin,
        options={"publish_period": 1},
    )


def _acted_here(context: RunContext, learner: Learner) -> _Data:
    """Returns the part for a process that acts, learns and maybe evaluates itself (DDPG, ReF-ER).

    Its actors act in turns with the updates, or beside them if the data allows it. It evaluates
    itself before the first update, every `evaluation_steps` learner steps, and at the end; without
    that value an evaluator does.
    """
    agent, spec, seed = context.agent, context.spec, context.seed
    store = agent.data.make_store(context.step_specs, seed)
    limiter = agent.rate_limiter(in_turns=True)
    trainer = agent.make_trainer(learner, store, spec, seed, limiter)
    actors: LocalActing
    evaluator: _OwnEvaluator
    # Whoever evaluates itself has no evaluator that reads snapshots and the end of the run.
    period = context.values["evaluation_steps"]

    def act() -> None:
        if agent.data.inserts_late:
            call = limiter, trainer.num_samples, agent.data.num_copies
            actors.act(next_call_is_due(*call, actors, store.counters()))
        else:
            actors.act()

    def begin(bookkeeping: Bookkeeping) -> None:
        nonlocal actors, evaluator
        bookkeeping.counters.count_unreported()
        actors = LocalActing(context, store, bookkeeping, seed)
        _load(context, bookkeeping, actors.adder.replay or store)
        if agent.data.acts_beside:
            trainer.beside = ActingBeside(
                limiter, trainer.num_samples, agent.data.num_copies, actors, context.stop
            )
        if period:
            evaluator = _OwnEvaluator(context, bookkeeping, period)

    return _Data(
        trainer,
        lambda: {actors.adder.incarnation: actors.num_steps},
        store.counters,
        act,
        begin=begin,
        end=lambda finished: actors.close() if finished else None,
        evaluate=(lambda finished: evaluator.run_if_due(finished)) if period else lambda _: None,
        options={"poll_seconds": 0.0}
        | ({"publish_period": period, "quiet_seconds": 0.0} if period else {}),
    )


def _load(context: RunContext, bookkeeping: Bookkeeping, store: Any) -> None:
    """Loads what was saved of a store in this process, and saves it with each checkpoint."""
    bookkeeping.store_file = context.store_file(store)
    bookkeeping.store_file.load()
    least = context.agent.min_replay_size
    if bookkeeping.steps and least and not store.counters().items:
        logging.info("the replay is empty: it is filled with %d items first", least)


class _OwnEvaluator:
    """Evaluations that the keeper makes itself, every `period` learner steps."""

    def __init__(self, context: RunContext, bookkeeping: Bookkeeping, period: int):
        self._stop = context.stop
        self._bookkeeping = bookkeeping
        self._period = period
        self._evaluation = Evaluation(context)
        last = csv_rows.last_row(context.directory.evaluator_csv, ("learner_steps",))
        self._evaluated = int(last["learner_steps"]) if last else -1

    def run_if_due(self, finished: bool) -> None:
        """Evaluates the learner's parameters if that is due, or if the run is over."""
        bookkeeping, period = self._bookkeeping, self._period
        if not finished and bookkeeping.steps // period <= self._evaluated // period:
            return
        self._evaluation.run(
            bookkeeping.parameters(), bookkeeping.status(finished), lambda: self._stop.requested
        )
        self._evaluated = bookkeeping.steps
