"""The learning curve of a run as a picture."""

from pathlib import Path

from common.reporting.csv_rows import RESULT, read_numbers
from common.reporting.records import whole_file
from common.reporting.run_directory import RunDirectory
from common.user_error import UserError

COLOR_NAMES = {
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
    "grey": "#7F7F7F",
}
"""Colours that colour-blind readers tell apart (Okabe and Ito 2008), in order of use, by name."""
COLORS = tuple(COLOR_NAMES.values())


def learning_curve(run: RunDirectory, output_png: Path, title: str) -> None:
    """Draws the evaluations' returns against wall-clock minutes and against actor steps.

    The line is the mean over the episodes of an evaluation, its band their standard deviation.

    Args:
      run: the run.
      output_png: the picture; its directory must exist.
      title: text above the picture.

    Raises:
      UserError: there is no evaluation to draw, or evaluator.csv is malformed.
      OSError: the picture cannot be written.
    """
    # Imported here because most processes that import this package do not draw.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = read_numbers(run.evaluator_csv, RESULT)
    if rows.empty:
        raise UserError(f"{run.evaluator_csv} has no evaluations yet: there is nothing to draw")
    rows = rows.sort_values("wall_seconds")
    mean, std = rows["episode_return_mean"], rows["episode_return_std"]
    figure = Figure(figsize=(8.0, 3.3), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    by_time, by_steps = figure.subplots(1, 2, sharey=True)
    for axes, positions, label in (
        (by_time, rows["wall_seconds"] / 60, "wall-clock time (minutes)"),
        (by_steps, rows["actor_steps"], "actor steps"),
    ):
        axes.fill_between(
            positions, mean - std, mean + std, color=COLORS[0], alpha=0.15, linewidth=0
        )
        marker = "o" if len(rows) < 3 else None  # one or two points make no visible line
        axes.plot(positions, mean, color=COLORS[0], linewidth=1.4, marker=marker)
        axes.set_xlabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xlim(left=0)
        axes.tick_params(labelsize=8)
    by_time.set_ylabel("episode return (mean ± std)")
    by_steps.xaxis.set_major_formatter(lambda value, _: count_text(value))
    figure.suptitle(title, fontsize=11)
    # The same rows give the same bytes, because the file does not name matplotlib's version.
    with whole_file(output_png) as file:
        figure.savefig(file, format="png", metadata={"Software": None})


def count_text(value: float) -> str:
    """Returns a count for an axis: "500", "20k", "1.5M", "2G"."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
