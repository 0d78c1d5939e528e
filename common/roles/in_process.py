"""The process of a run without distribution, which acts, learns and evaluates (DDPG, ReF-ER)."""

from collections.abc import Callable

from absl import logging

from common.learning.bookkeeping import Bookkeeping
from common.learning.episode_learner import EpisodeLearner
from common.replay.accounts import Accounts
from common.reporting import csv_rows
from common.roles import keeper
from common.roles.acting_beside import ActingBeside
from common.roles.evaluation import Evaluation
from common.roles.in_process_actors import InProcessActors
from common.roles.run_context import RunContext


def run(context: RunContext) -> None:
    """Acts and learns until a limit is reached or a stop is requested.

    Its actors act in turns with the updates, or beside them if the memory has episodes. It
    evaluates itself before the first update, every `evaluation_steps` learner steps, and at the
    end; without that value an evaluator does.
    """
    agent, spec = context.agent, context.spec
    # Before the server: this seeds TensorFlow, which crashes an existing server.
    learner = agent.make_learner(spec, context.seed)
    server = context.server()
    memory = agent.make_memory(spec, context.seed)
    parameters = context.parameter_service(server, learner.num_parameters)
    updates = agent.updates_in_turns(learner, memory, spec, context.seed)
    if isinstance(updates, EpisodeLearner):
        updates.beside = ActingBeside(updates.schedule, updates.num_samples, lambda: actors)
    incarnation = int(Accounts().next_incarnation())
    # Whoever evaluates itself has no evaluator that reads snapshots and the end of the run.
    period = context.values["evaluation_steps"]
    bookkeeping = keeper.make_bookkeeping(
        context,
        learner,
        updates,
        parameters,
        lambda: {incarnation: actors.num_added},
        poll_seconds=0.0,
        **({"publish_period": period, "quiet_seconds": 0.0} if period else {}),
    )
    bookkeeping.counters.count_unreported()
    if bookkeeping.steps and agent.min_replay_size:
        logging.info("the memory is empty: it is filled with %d steps", agent.min_replay_size)
    actors = InProcessActors(context, memory, incarnation, bookkeeping)

    def act() -> None:
        actors.pull()
        actors.step()
        actors.insert()

    server.start()
    keeper.keep(
        context, bookkeeping, updates, act, memory.statistics, _evaluate(context, bookkeeping)
    )
    server.close()


def _evaluate(context: RunContext, bookkeeping: Bookkeeping) -> Callable[[bool], None]:
    """Returns a function that evaluates the learner's parameters if that is due."""
    period = context.values["evaluation_steps"]
    if not period:
        return lambda finished: None
    evaluation = Evaluation(context)
    last = csv_rows.last_row(context.directory.evaluator_csv, ("learner_steps",))
    evaluated = int(last["learner_steps"]) if last else -1

    def evaluate(finished: bool) -> None:
        nonlocal evaluated
        steps = bookkeeping.steps
        if not finished and steps // period <= evaluated // period:
            return
        evaluation.run(
            bookkeeping.parameters(), bookkeeping.status(finished), lambda: context.stop.requested
        )
        evaluated = steps

    return evaluate
