"""Keeping of a run: the loop around its updates until a limit is reached, and its orderly end."""

from collections.abc import Callable, Mapping
import dataclasses
from typing import Any

from absl import logging

from common.cluster.parameters import ParameterService
from common.cluster.processes import report_ready
from common.learning.bookkeeping import Bookkeeping, BookkeepingOptions
from common.learning.learner import Learner
from common.learning.updates import Updates
from common.replay.replay_memory import AnyStatistics
from common.roles.run_context import RunContext


def make_bookkeeping(
    context: RunContext,
    learner: Learner,
    updates: Updates,
    parameters: ParameterService,
    accepted: Callable[[], Mapping[int, int]],
    **overrides: Any,
) -> Bookkeeping:
    """Builds the bookkeeping of a run.

    Args:
      context: of the run.
      learner: see `Bookkeeping`, also for the arguments below.
      updates: makes the updates.
      parameters: publishes the snapshots.
      accepted: asks for the number of items accepted from each incarnation.
      **overrides: of the options that follow from the agent.
    """
    agent = context.agent
    options = BookkeepingOptions(
        agent.metrics,
        agent.samples_per_update,
        agent.num_copies,
        agent.publish_period,
        context.checkpoint_seconds,
    )
    return Bookkeeping(
        context.directory,
        learner,
        updates,
        parameters,
        accepted,
        dataclasses.replace(options, **overrides),
    )


def keep(
    context: RunContext,
    bookkeeping: Bookkeeping,
    updates: Updates,
    idle: Callable[[], object],
    statistics: Callable[[], AnyStatistics],
    evaluate: Callable[[bool], None] = lambda finished: None,
) -> bool:
    """Makes updates until a limit is reached or a stop is requested.

    When the run is over, its last checkpoint and then its last snapshot tell the other roles so.

    Args:
      context: of the run.
      bookkeeping: of the run.
      updates: of the run.
      idle: called after each step that made no update.
      statistics: asks the replay for its counters.
      evaluate: evaluates if that is due: before each step, and with True once the run is over.

    Returns:
      Whether the run is over.
    """
    stop, counters, limits = context.stop, bookkeeping.counters, context.limits
    bookkeeping.publish()
    while not stop.requested and not limits.reached(
        counters.wall_seconds, counters.actor_steps, bookkeeping.steps
    ):
        evaluate(False)
        metrics = updates.step()
        bookkeeping.after_call(metrics)
        report_ready()
        if metrics is None:
            idle()
        else:
            stop.take_time()

    stop.take_time()
    updates.close()
    if not stop.requested:
        evaluate(True)
    finished = not stop.requested
    if finished:
        bookkeeping.save()  # before the other roles end: a keeper resumed later would lack them
        bookkeeping.publish(finished=True)
    bookkeeping.settle(statistics)
    logging.info(
        "finished at learner step %d, actor step %d, after %.0f s",
        bookkeeping.steps,
        counters.actor_steps,
        counters.wall_seconds,
    )
    return finished
