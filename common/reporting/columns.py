"""The columns of a run's CSV files; results/README.md explains each, with its unit."""

from collections.abc import Sequence

EVALUATOR = (
    "paper",
    "setting",
    "environment",
    "seed",
    "wall_seconds",
    "actor_steps",
    "environment_frames",
    "learner_steps",
    "episode_return_mean",
    "episode_return_std",
    "episodes",
)

ACTING = (
    "wall_seconds",
    "actor",
    "incarnation",
    "actor_steps",
    "episode_return",
    "episode_length",
    "parameter_version",
    "parameter_age_steps",
)

PROGRESS = ("wall_seconds", "actor_steps", "learner_steps")
"""The columns of learner.csv that say how far a run is."""

RESULT = (*PROGRESS, "episode_return_mean", "episode_return_std", "episodes")
"""The columns of evaluator.csv that say what an evaluation found; no cell of them is empty."""

LIVES = ("first_actor", "last_actor")

LEARNER = (
    "wall_seconds",
    "learner_steps",
    "actor_steps",
    "learner_steps_per_second",
    "actor_steps_per_second",
    "samples_per_insert",
    "parameter_version",
    "priority_lag_steps",
    "replay_size",
)

LIMITS = ("max_minutes", "max_actor_steps", "max_learner_steps")
"""The columns of a kept run's limits."""

COUNTS = frozenset(
    (
        *(*PROGRESS, *LIVES, *LIMITS, "environment_frames", "episodes", "episode_length", "seed"),
        *("actor", "parameter_version", "replay_size", "starts", "usable_cores"),
    )
)
"""The columns of numbers from 0 on."""

NUMBERS = COUNTS | {*EVALUATOR, *ACTING, *LEARNER} - {"paper", "setting", "environment"}
"""The columns of finite numbers; a metric may be NaN, too."""


def learner(metrics: Sequence[str]) -> tuple[str, ...]:
    """Returns the columns of a learner.csv: those of every agent, then the metrics of this one.

    Raises:
      ValueError: a metric appears twice, or has the name of a column of every agent.
    """
    columns = (*LEARNER, *metrics)
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise ValueError(f"learner.csv would have these columns twice: {repeated}")
    return columns
