"""The process of a run without distribution, which acts, learns and evaluates in turns (DDPG)."""

from common.acting import episodes
from common.agents.replay_agent import ReplayAgent
from common.environments.spec import EnvironmentSpec
from common.learning.bookkeeping import Bookkeeping
from common.replay.service import ReplayService
from common.reporting import csv_rows
from common.roles import learner
from common.roles.evaluation import Evaluation
from common.roles.run_context import RunContext
from common.types import NStepTransitions


def run(context: RunContext) -> None:
    """Acts and learns until a limit is reached or a stop is requested.

    It evaluates itself every `evaluation_steps` learner steps, and at the end; without that value
    an evaluator does.
    """
    learner.run(context, _InTurns)


class _InTurns:
    def __init__(self, context: RunContext, replay: ReplayService, bookkeeping: Bookkeeping):
        bookkeeping.counters.count_unreported()
        self._bookkeeping = bookkeeping
        self._stop = context.stop
        self._period = context.values["evaluation_steps"]
        self._evaluation = Evaluation(context) if self._period else None
        last = csv_rows.last_row(context.directory.evaluator_csv, ("learner_steps",))
        self._evaluated = int(last["learner_steps"]) if last else 0
        self.act = InProcessActors(context, replay, bookkeeping).step

    def evaluate(self, finished: bool) -> None:
        """Evaluates the learner's parameters if that is due."""
        if self._evaluation is None:
            return
        steps = self._bookkeeping.steps
        if not finished and steps // self._period <= self._evaluated // self._period:
            return
        self._evaluation.run(
            self._bookkeeping.parameters().numpy(),
            self._bookkeeping.status(finished),
            lambda: self._stop.requested,
        )
        self._evaluated = steps


class InProcessActors:
    """Actors that use the learner's own parameters and add to its memory.

    The caller of `step` decides how many steps there are per update.
    """

    def __init__(self, context: RunContext, replay: ReplayService, bookkeeping: Bookkeeping):
        """Starts an episode in each environment.

        Args:
          context: of the run; all of its actors step together, as one batch.
          replay: stores the actors' transitions.
          bookkeeping: provides the run's clock, and the learner's parameters, which the actors copy
            every `agent.actor_period` timesteps.
        """
        agent = context.agent
        assert isinstance(agent, ReplayAgent)
        self._agent = agent
        self._actors = context.actors
        start = episodes.record_start(context.directory, self._actors)
        environments = context.watch(
            episodes.make_environments(
                context.environment, self._actors, context.seed, start, agent.num_frames
            )
        )
        self._actor = agent.make_actor(
            EnvironmentSpec.of(environments),
            self._actors,
            context.num_actors,
            episodes.actor_seed(context.seed, 0, start),
        )
        self._replay = replay
        self._bookkeeping = bookkeeping
        self._incarnation = replay.new_incarnation()
        self._num_added = 0
        self._timesteps = 0
        self._version = self._loaded_at = 0
        log = episodes.EpisodeLog(
            context.directory,
            self._actors,
            lambda: {
                "wall_seconds": round(bookkeeping.counters.wall_seconds, 2),
                "incarnation": self._incarnation,
                "parameter_version": self._version,
                "parameter_age_steps": bookkeeping.steps - self._loaded_at,
            },
        )
        self._loop = agent.acting_loop(self._actor, environments, self._add, log.write)

    def step(self) -> None:
        """Advances every environment by one timestep."""
        if self._timesteps % self._agent.actor_period == 0:
            self._actor.load(self._bookkeeping.parameters().numpy())
            self._version, self._loaded_at = self._bookkeeping.version, self._bookkeeping.steps
        self._loop.step()
        self._timesteps += 1

    def _add(self, transitions: NStepTransitions) -> None:
        items = self._agent.items(self._actor, self._actors, 0, transitions, self._incarnation)
        self._num_added += len(items.keys)
        self._replay.insert(self._incarnation, self._num_added, *items)
