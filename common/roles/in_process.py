"""The process of a run without distribution, which acts, learns and evaluates in turns (DDPG)."""

from collections.abc import Callable

from common.agents.replay_agent import ReplayAgent
from common.cluster.parameters import ParameterService
from common.learning.bookkeeping import Bookkeeping
from common.replay.accounts import Accounts
from common.reporting import csv_rows
from common.roles import keeper
from common.roles.evaluation import Evaluation
from common.roles.in_process_actors import InProcessActors
from common.roles.run_context import RunContext


def run(context: RunContext) -> None:
    """Acts and learns until a limit is reached or a stop is requested.

    It evaluates itself every `evaluation_steps` learner steps, and at the end; without that value
    an evaluator does.
    """
    agent, spec = context.agent, context.spec
    assert isinstance(agent, ReplayAgent)
    # Before the server: this seeds TensorFlow, which crashes an existing server.
    learner = agent.make_learner(spec, context.seed)
    server = context.server()
    memory = agent.make_memory(spec, context.seed)
    parameters = ParameterService(server, learner.num_parameters)
    schedule = agent.schedule(in_turns=True)
    updates = agent.replay_learner(learner, memory, spec, context.seed, schedule)
    incarnation = int(Accounts().next_incarnation())
    accepted: dict[int, int] = {}
    bookkeeping = keeper.make_bookkeeping(context, learner, updates, parameters, lambda: accepted)
    bookkeeping.counters.count_unreported()
    actors = InProcessActors(context, memory, incarnation, bookkeeping)

    def act() -> None:
        actors.step()
        accepted[incarnation] = actors.num_added

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
    evaluated = int(last["learner_steps"]) if last else 0

    def evaluate(finished: bool) -> None:
        nonlocal evaluated
        steps = bookkeeping.steps
        if not finished and steps // period <= evaluated // period:
            return
        evaluation.run(
            bookkeeping.parameters().numpy(),
            bookkeeping.status(finished),
            lambda: context.stop.requested,
        )
        evaluated = steps

    return evaluate
