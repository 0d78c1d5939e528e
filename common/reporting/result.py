"""The result of a run: its last evaluation and its learning curve."""

from common.reporting import columns, csv_rows
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectory
from common.reporting.user_error import UserError


def of(run: RunDirectory, title: str, finished: bool) -> str:
    """Draws the learning curve of a run and returns the lines that say how it ended.

    Args:
      run: the directory of the run.
      title: agent and environment.
      finished: whether the run has reached its limits.
    """
    over = "finished: " if finished else ""
    try:
        return over + _words(run, title)
    except UserError as error:  # the run is as good as without its picture
        return f"{over}the evaluations cannot be shown: {error}"


def _words(run: RunDirectory, title: str) -> str:
    evaluation = csv_rows.last_row(run.evaluator_csv, columns.RESULT)
    if evaluation is None:
        return f"no evaluation; the logs are in {run.logs}"
    from common.reporting import curves

    picture = run.path / "learning_curve.png"
    curves.learning_curve(run, picture, title)
    return (
        f"evaluator return {evaluation['episode_return_mean']:.1f} +- "
        f"{evaluation['episode_return_std']:.1f} ({evaluation['episodes']} episodes) after "
        f"{evaluation['wall_seconds']:.0f} s, {evaluation['actor_steps']:,} actor steps, "
        f"{evaluation['learner_steps']:,} learner steps\nlearning curve {picture}"
    )


def is_over(run: RunDirectory, limits: Budget) -> bool:
    """Returns whether a run has reached its limits, and its last evaluation has, too.

    The last evaluation must be of the last update. run.json says whether a run is over where there
    are no evaluations.
    """
    row = csv_rows.last_row(run.evaluator_csv, columns.PROGRESS)
    if row is None:
        ended = {"outcome": "finished", "budget": limits.to_json()}
        return any(start.items() >= ended.items() for start in run.read_starts()[-1:])
    learnt = csv_rows.last_row(run.learner_csv, ("learner_steps",))
    is_newest = learnt is None or row["learner_steps"] >= learnt["learner_steps"]
    return is_newest and limits.reached_by(row)
