"""Evaluations of a run's policy without exploration, a row of evaluator.csv each."""

from collections.abc import Callable
import math

from absl import logging
import numpy as np

from common import environments
from common.acting.evaluate import environment_seeds, run_episodes
from common.learning import stored_policy
from common.learning.stored_policy import StoredPolicy
from common.remote.parameters import LearnerStatus
from common.reporting import columns
from common.reporting.csv_rows import CsvRows
from common.reporting.tensorboard import Events
from common.roles.run_context import RunContext


class Evaluation:
    """The environments and the policy of a run's evaluations, the best of which is kept.

    The policy acts without exploration noise (D4PG section 4).
    """

    def __init__(self, context: RunContext):
        """Makes the environments, whose seeds are those of no actor and no other run."""
        self._context = context
        self._environments = context.watch(
            lambda: environments.make_batch(
                context.environment,
                environment_seeds(context.seed, context.evaluation_episodes),
                evaluation=True,
                frames=context.agent.num_frames,
            )
        )
        self._policy = context.agent.make_evaluator(
            context.spec, self._environments.num_environments
        )
        self._rows = CsvRows(context.directory.evaluator_csv, columns.EVALUATOR)
        self._events = Events(context.directory.tensorboard / "evaluator")
        best = stored_policy.read(context.directory.best_policy)
        self._best = best.episode_return if best else -math.inf

    def run(
        self, flat: np.ndarray, status: LearnerStatus, is_interrupted: Callable[[], bool]
    ) -> None:
        """Runs the episodes of a snapshot, and writes a row unless it is interrupted.

        Args:
          flat: [P] float32, the parameters.
          status: of the learner at these parameters; the last evaluation has episodes of its own
            number.
          is_interrupted: called at each step.
        """
        self._policy.load(flat)
        context = self._context
        episodes = context.final_episodes if status.finished else context.evaluation_episodes
        returns = run_episodes(self._environments, self._policy, episodes, is_interrupted)
        if len(returns) < episodes:
            logging.info("abandoned the evaluation of learner step %d", status.learner_steps)
            return
        frames = environments.frames_per_step(context.environment)
        mean, deviation = float(returns.mean()), float(returns.std())
        self._rows.append(
            {
                "paper": context.agent.declaration.paper,
                "setting": context.agent.setting,
                "environment": context.environment,
                "seed": context.seed,
                "wall_seconds": round(status.wall_seconds, 2),
                "actor_steps": status.actor_steps,
                "environment_frames": status.actor_steps * frames,
                "learner_steps": status.learner_steps,
                "episode_return_mean": mean,
                "episode_return_std": deviation,
                "episodes": len(returns),
            }
        )
        if mean > self._best:
            self._best = mean
            found = StoredPolicy(flat, status.learner_steps, mean)
            stored_policy.write(context.directory.best_policy, found)
        scalars = {"episode_return": mean, "episode_return_std": deviation}
        self._events.write(
            {f"evaluator/{name}": value for name, value in scalars.items()}, status.learner_steps
        )
