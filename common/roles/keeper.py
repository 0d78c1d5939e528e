"""The process that keeps a run: learner, parameter server, or all in one process.

`run` is the loop of all papers. A `Keeper` is the part that depends on where the run's data is.
"""

from collections.abc import Callable, Mapping
import dataclasses
import math
from typing import Any

from absl import logging

from common.cluster import rpc_server
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import report_ready
from common.learning import checkpoint
from common.learning.bookkeeping import Bookkeeping, BookkeepingOptions
from common.learning.learner import Learner
from common.learning.parameter_server import AppliedGradients
from common.learning.trainer import Trainer
from common.networks import packing
from common.remote.gradients import GradientQueue
from common.remote.inbox import StoreService
from common.remote.outbox import RemoteStore
from common.remote.parameters import TARGET
from common.remote.shards import ShardedStore
from common.replay.store import Counters
from common.reporting import csv_rows
from common.roles.actors import LocalActing, Turns, acting_during_updates
from common.roles.evaluator import Evaluation
from common.roles.run_context import RunContext
from common.user_error import UserError

_KEEP_VERSIONS = 4
_KEEP_VERSIONS_OF_EACH = 32
"""Versions kept if each update is published, since a call may take as long as several updates."""


def run(context: RunContext) -> None:
    """Trains from the newest checkpoint until the run reaches a limit or a stop is requested.

    When the run is over, its last checkpoint and then its last snapshot tell the other roles so.
    """
    stop, limits = context.stop, context.limits
    # Before the server: this seeds TensorFlow, which crashes an existing server.
    learner = context.agent.make_learner(context.spec, context.seed)
    if context.init_from and checkpoint.newest(context.directory.checkpoints) is None:
        checkpoint.load_networks(context.init_from, learner)
    server = context.server()
    keeper = make_keeper(context, learner, server)
    trainer, bookkeeping = keeper.trainer, keeper.bookkeeping
    evaluator = _OwnEvaluator(context, bookkeeping)
    bookkeeping.publish()  # before anybody can ask
    server.start()

    counters = bookkeeping.counters

    def is_over() -> bool:
        return limits.reached(
            counters.wall_seconds, counters.actor_steps, bookkeeping.steps
        ) or limits.is_solved_by(evaluator.best_return)

    while not (stop.requested or is_over()):
        evaluator.run_if_due()
        metrics = trainer.step()
        bookkeeping.after_call(metrics)
        report_ready()
        if metrics is None:
            keeper.await_data()
        else:
            stop.take_time()

    stop.take_time()
    trainer.close()
    # Save before the last evaluation and the end of the other roles: a keeper that is killed after
    # them is not resumed, or is resumed without them.
    bookkeeping.poll()
    bookkeeping.save()
    if not stop.requested:
        evaluator.run_if_due(finished=True)
    finished = not stop.requested
    if finished:
        bookkeeping.close_store_file(is_over=True)
        bookkeeping.publish(finished=True)
    bookkeeping.settle(keeper.counters)
    logging.info(
        "finished at learner step %d, actor step %d, after %.0f s",
        bookkeeping.steps,
        counters.actor_steps,
        counters.wall_seconds,
    )
    keeper.close(finished)


class Keeper:
    """A run's updates and bookkeeping; subclasses differ in where the data is.

    Attributes:
      context: the context of the run.
      learner: the networks and optimisers.
      trainer: runs the updates.
      bookkeeping: the run's counters, log, checkpoints and snapshots.
      store: the store of the trainer's draws, here or elsewhere; not in a `ParameterServer`.
      idle_seconds: how long to wait for data after a step without an update.
    """

    store: Any
    idle_seconds = 0.002

    def __init__(
        self,
        context: RunContext,
        learner: Learner,
        server: rpc_server.Server,
        trainer: Trainer | AppliedGradients,
        accepted: Callable[[], Mapping[int, int]],
        **options: Any,
    ):
        """Restores the newest checkpoint, if there is one.

        Args:
          context: the context of the run.
          learner: the networks and optimisers, not restored yet.
          server: this process's server, which has not started yet.
          trainer: runs the learner's updates.
          accepted: returns the actor steps accepted from each incarnation; raises
            ServiceUnavailableError if the store does not answer.
          **options: fields of `BookkeepingOptions` that replace those derived from the agent.
        """
        agent = context.agent
        self.context, self.learner, self.trainer = context, learner, trainer
        self._server = server
        from_agent = BookkeepingOptions(
            agent.samples_per_update,
            agent.data.num_copies,
            agent.publish_period,
            context.checkpoint_seconds,
            q_bound=agent.q_bound(context.environment),
            keep_every=context.keep_every,
        )
        chosen = dataclasses.replace(from_agent, **options)
        keep_versions = _KEEP_VERSIONS_OF_EACH if chosen.publish_period == 1 else _KEEP_VERSIONS
        parameters = context.parameter_service(
            server, learner.num_parameters, keep_versions=keep_versions
        )
        self.bookkeeping = Bookkeeping(
            context.directory, learner, trainer, parameters, accepted, chosen
        )

    def counters(self) -> Counters:
        """Returns the store's counters; raises ServiceUnavailableError if it does not answer."""
        return self.store.counters()

    def await_data(self) -> None:
        """Waits a moment for data, or acts; called after each step without an update."""
        self.context.stop.wait(self.idle_seconds)

    def close(self, finished: bool) -> None:
        """Closes the server and the store's file; `finished` says that the run is over as well."""
        self._server.close()
        self.bookkeeping.close_store_file(is_over=False)

    def _load(self, store: Any) -> None:
        """Loads the saved contents of a store in this process; saves them with each checkpoint."""
        file = self.bookkeeping.store_file = self.context.store_file(store)
        file.load()
        least = self.context.agent.min_replay_size
        if self.bookkeeping.steps and least and not store.counters().items:
            logging.info("the replay is empty: learning waits until it has %d items", least)


class RemoteStoreKeeper(Keeper):
    """A keeper with a store in other processes (Ape-X, D4PG)."""

    idle_seconds = 0.01  # between calls to the store

    def __init__(self, context: RunContext, learner: Learner, server: rpc_server.Server):
        """Connects to the store; several shards act as one."""
        agent, spec = context.agent, context.spec
        shards = [
            RemoteStore(context.client(address), agent.data.wire(context.step_specs))
            for address in context.topology.service(context.layout.store)
        ]
        self.store = shards[0] if len(shards) == 1 else ShardedStore(shards)
        trainer = agent.make_trainer(
            learner, self.store, spec, context.seed, agent.rate_limiter(), agent.prefetch
        )
        super().__init__(context, learner, server, trainer, self.store.accepted)

    def close(self, finished: bool) -> None:
        """Tells the store that the learner leaves, then closes the server."""
        try:
            self.store.disconnect(finished)
        except ServiceUnavailableError as error:
            if finished:  # after a stop, the replay has been stopped as well
                logging.warning("could not tell the replay that the run is over: %s", error)
        super().close(finished)


class ServingKeeper(Keeper):
    """A keeper with a store in its process, to which actors elsewhere add (AQL, PPO)."""

    def __init__(self, context: RunContext, learner: Learner, server: rpc_server.Server):
        """Creates, serves and loads the store."""
        agent, spec, seed = context.agent, context.spec, context.seed
        self.store = agent.data.make_store(context.step_specs, seed)
        service = StoreService(server, self.store)
        prefetch = agent.prefetch if agent.decodes else 0
        trainer = agent.make_trainer(
            learner, self.store, spec, seed, agent.rate_limiter(), prefetch
        )
        super().__init__(context, learner, server, trainer, service.accepted)
        self._load(self.store)


class ParameterServer(Keeper):
    """A keeper that applies gradients, which workers compute from their own data (Reactor, 3.4)."""

    def __init__(self, context: RunContext, learner: Learner, server: rpc_server.Server):
        """Serves a queue for gradients, and also publishes the target networks."""
        num_parameters = learner.num_parameters
        queue = GradientQueue(num_parameters)
        inbox = StoreService(server, queue).inbox
        self._target = context.parameter_service(server, num_parameters, name=TARGET)
        self._updates = AppliedGradients(learner, queue, inbox, self._after_update)
        super().__init__(context, learner, server, self._updates, inbox.accepted, publish_period=1)
        self._updates.resume()
        self._publish_target()

    def counters(self) -> Counters:
        """Returns the counters of the workers' replays, summed."""
        return self._updates.counters or Counters()

    def await_data(self) -> None:
        """Does nothing, because the previous step has waited for gradients."""

    def _after_update(self) -> None:
        if int(self.learner.steps) % self.context.agent.target_period == 0:
            self._publish_target()

    def _publish_target(self) -> None:
        flat, counters = packing.to_numpy(self.learner.target_variables), self.bookkeeping.counters
        steps = int(self.learner.steps)
        self._target.publish(flat, steps, counters.actor_steps, counters.wall_seconds)


class ActingKeeper(Keeper):
    """A keeper with both actors and store in its process (DDPG, ReF-ER).

    The actors act in turns with the updates, or during them if the data allows it.

    Attributes:
      actors: the actors, which alone fill the store.
    """

    def __init__(self, context: RunContext, learner: Learner, server: rpc_server.Server):
        """Creates and loads the store, and starts episodes."""
        agent, spec, seed = context.agent, context.spec, context.seed
        self.store = agent.data.make_store(context.step_specs, seed)
        limiter = agent.rate_limiter(in_turns=True)
        trainer = agent.make_trainer(learner, self.store, spec, seed, limiter)
        self._turns = Turns(limiter, trainer.num_samples, agent.data.num_copies)
        options = {"poll_seconds": 0.0, "is_pulled": True}
        if period := context.values["evaluation_steps"]:
            # Then no evaluator needs snapshots, or time to notice the end of the run.
            options |= {"publish_period": period, "quiet_seconds": 0.0, "is_pulled": False}
        super().__init__(context, learner, server, trainer, self._accepted, **options)
        self.bookkeeping.counters.count_unreported()
        self.actors = LocalActing(context, self.store, self.bookkeeping, seed)
        self._load(self.actors.adder.replay or self.store)
        if agent.data.acts_during_updates:
            trainer.around = acting_during_updates(self._turns, self.actors, context.stop)

    def _accepted(self) -> Mapping[int, int]:
        return {self.actors.adder.incarnation: self.actors.num_steps}

    def await_data(self) -> None:
        """Acts."""
        if self.context.agent.data.inserts_late:
            counters = self.store.counters()
            self.actors.act(self._turns.next_call_is_due(self.actors, counters))
        else:
            self.actors.act()


def make_keeper(context: RunContext, learner: Learner, server: rpc_server.Server) -> Keeper:
    """Returns the keeper that fits the place of the run's data; `server` has not started yet.

    Raises:
      UserError: a single process acts and learns in turns, but nothing determines when it acts.
    """
    layout, topology, agent = context.layout, context.topology, context.agent
    if layout.keeper.acts:
        has_turns = agent.rate_limiter(in_turns=True).samples_per_insert is not None
        if not (has_turns or agent.data.wire(context.step_specs).consumes):
            raise UserError(
                "--config.samples_per_insert is 0 (no limit), but here one process acts and learns "
                "in turns and would never act after the first update: set it above 0, such as "
                f"{agent.batch_size} (batch_size) for an update after each step"
            )
        return ActingKeeper(context, learner, server)
    if layout.applies_gradients:
        return ParameterServer(context, learner, server)
    if topology.own_address in topology.service(layout.store):
        return ServingKeeper(context, learner, server)
    return RemoteStoreKeeper(context, learner, server)


class _OwnEvaluator:
    """The keeper's own evaluations, if the run has no evaluator.

    If the layout's value `evaluation_steps` is set, the keeper evaluates before the first update,
    every `evaluation_steps` learner steps, and at the end.
    """

    def __init__(self, context: RunContext, bookkeeping: Bookkeeping):
        self._period = context.values.get("evaluation_steps")
        self._bookkeeping, self._best = bookkeeping, -math.inf
        if self._period:
            self._stop = context.stop
            self._evaluation = Evaluation(context)
            last = csv_rows.last_row(context.directory.evaluator_csv, ("learner_steps",))
            self._evaluated = int(last["learner_steps"]) if last else -1

    @property
    def best_return(self) -> float:
        """The highest mean return of keeper's or evaluator's evaluations; see `LearnerLog`."""
        return self._best if self._period else self._bookkeeping.best_return

    def run_if_due(self, finished: bool = False) -> None:
        """Evaluates the learner's parameters if that is due, or if the run is finished."""
        if not self._period:
            return
        bookkeeping, period = self._bookkeeping, self._period
        if finished or bookkeeping.steps // period > self._evaluated // period:
            mean = self._evaluation.run(
                bookkeeping.parameters(), bookkeeping.status(finished), lambda: self._stop.requested
            )
            self._evaluated = bookkeeping.steps
            if mean is not None and self._evaluated:
                self._best = max(self._best, mean)
