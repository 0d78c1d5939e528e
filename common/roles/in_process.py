"""The process of a run without distribution, which acts, learns and evaluates (DDPG, ReF-ER)."""

from collections.abc import Callable
from concurrent import futures

from common.agents.replay_agent import ReplayAgent
from common.cluster.parameters import ParameterService
from common.learning.bookkeeping import Bookkeeping
from common.learning.replay_learner import Loop
from common.replay.accounts import Accounts
from common.replay.memory import Sample
from common.reporting import csv_rows
from common.roles import keeper
from common.roles.evaluation import Evaluation
from common.roles.in_process_actors import InProcessActors
from common.roles.run_context import RunContext
from common.types import Metrics, Nest


def run(context: RunContext) -> None:
    """Acts and learns until a limit is reached or a stop is requested.

    Its actors act in turns with the updates, or beside them if the agent says so. It evaluates
    itself every `evaluation_steps` learner steps, and at the end; without that value an evaluator
    does.
    """
    agent, spec = context.agent, context.spec
    assert isinstance(agent, ReplayAgent)
    # Before the server: this seeds TensorFlow, which crashes an existing server.
    learner = agent.make_learner(spec, context.seed)
    server = context.server()
    memory = agent.make_memory(spec, context.seed)
    parameters = ParameterService(server, learner.num_parameters)
    schedule = agent.schedule(in_turns=True)
    loop: Loop = agent.update_loop(learner)

    def act_until_due() -> None:
        while not schedule.may_sample(memory.statistics(), loop.num_samples):
            actors.step()

    if agent.acts_beside_updates:
        loop = _ActingBeside(loop, lambda: actors.pull(), act_until_due)
    updates = agent.replay_learner(learner, memory, spec, context.seed, schedule, loop=loop)
    incarnation = int(Accounts().next_incarnation())
    bookkeeping = keeper.make_bookkeeping(
        context,
        learner,
        updates,
        parameters,
        lambda: {incarnation: actors.num_added},
        poll_seconds=0.0,
    )
    bookkeeping.counters.count_unreported()
    actors = InProcessActors(context, memory, incarnation, bookkeeping)

    def act() -> None:
        actors.pull()
        actors.step()

    server.start()
    keeper.keep(
        context, bookkeeping, updates, act, memory.statistics, _evaluate(context, bookkeeping)
    )
    server.close()


class _ActingBeside:
    """The updates of a call, with the actors acting until the next call may be made.

    The actors act in another thread, with the parameters of before the call. What they insert comes
    after the call's draw and before its write-back, so that equal seeds give equal runs.
    """

    def __init__(self, loop: Loop, pull: Callable[[], None], act_until_due: Callable[[], None]):
        self._loop = loop
        self._pull = pull
        self._act_until_due = act_until_due
        self._thread = futures.ThreadPoolExecutor(1, "act")

    @property
    def num_updates(self) -> int:
        """Updates per call."""
        return self._loop.num_updates

    @property
    def num_samples(self) -> int:
        """Items that a call learns from."""
        return self._loop.num_samples

    def __call__(self, sample: Sample) -> tuple[Nest, Metrics]:
        """Makes the updates of a sample; returns their outputs and their mean metrics."""
        self._pull()
        acting = self._thread.submit(self._act_until_due)
        try:
            return self._loop(sample)
        finally:
            acting.result()


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
