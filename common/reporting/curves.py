"""Learning curves as figures."""

from collections.abc import Sequence
import os
from pathlib import Path
from typing import TYPE_CHECKING

from common.figures import palette
from common.reporting.csv_rows import read_rows
from common.reporting.run_directory import RunDirectory

if TYPE_CHECKING:
    import pandas

_IDENTITY = ("paper", "setting", "environment", "seed")


def evaluator_rows(run_directories: Sequence[str | os.PathLike]) -> "pandas.DataFrame":
    """The rows of the evaluator.csv of each run, one after another.

    Raises:
      ValueError: one of them has no evaluation yet.
    """
    import pandas

    rows = []
    for directory in run_directories:
        path = RunDirectory(directory).evaluator_csv
        rows.append(read_rows(path) if path.exists() else pandas.DataFrame())
        if rows[-1].empty:
            raise ValueError(f"{path} has no evaluations yet: there is nothing to draw")
    return pandas.concat(rows, ignore_index=True)


def learning_curve(
    runs: "Sequence[str | os.PathLike] | pandas.DataFrame",
    output_png: str | os.PathLike,
    title: str,
) -> None:
    """Draws episode return against wall-clock minutes and against actor steps.

    A line is the mean over the episodes of an evaluation, its band their standard deviation; each
    paper, setting, environment and seed is a line of its own, labelled with what tells it apart.

    Args:
      runs: run directories, or rows with the columns of evaluator.csv.
      output_png: the figure; its directory is made if it does not exist.
      title: the figure's.

    Raises:
      ValueError: there is no evaluation to draw.
    """
    # Here, because drawing is no business of most processes that import this package.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    import pandas

    rows = runs if isinstance(runs, pandas.DataFrame) else evaluator_rows(runs)
    if rows.empty:
        raise ValueError(f"no evaluations to draw in {output_png}")
    varying = [name for name in _IDENTITY if rows[name].nunique() > 1]
    lines = list(rows.groupby(list(_IDENTITY), sort=True, dropna=False))

    figure = Figure(figsize=(8.0, 3.3), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    by_time, by_steps = figure.subplots(1, 2, sharey=True)
    for number, (_, line) in enumerate(lines):
        line = line.sort_values("wall_seconds")
        label = _label(line.iloc[0], varying)
        _draw(by_time, line["wall_seconds"] / 60, line, number, label)
        _draw(by_steps, line["actor_steps"], line, number, label)
    by_time.set_xlabel("wall-clock time (minutes)")
    by_time.set_ylabel("episode return (mean ± std)")
    by_steps.set_xlabel("actor steps")
    for axes in (by_time, by_steps):
        _style(axes)
    by_steps.xaxis.set_major_formatter(_steps_text)
    figure.suptitle(title, fontsize=11)
    if varying:
        if len(lines) <= 6:
            by_time.legend(loc="best", fontsize=8, frameon=False)
        else:
            handles, labels = by_time.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside right", fontsize=7, frameon=False)

    output_png = Path(output_png)
    output_png.parent.mkdir(parents=True, exist_ok=True)
    # Without the library's version in it, the same rows give the same file.
    figure.savefig(output_png, metadata={"Software": None})


def _label(row: "pandas.Series", varying: Sequence[str]) -> str:
    return ", ".join(f"seed {row[name]}" if name == "seed" else str(row[name]) for name in varying)


def _draw(axes, positions, line, number: int, label: str) -> None:
    color = palette.ORDER[number % len(palette.ORDER)]
    style = ("-", "--", ":", "-.")[number // len(palette.ORDER) % 4]
    mean, std = line["episode_return_mean"], line["episode_return_std"]
    axes.fill_between(positions, mean - std, mean + std, color=color, alpha=0.15, linewidth=0)
    marker = "o" if len(line) < 3 else None  # one or two points would make no visible line
    axes.plot(positions, mean, style, color=color, linewidth=1.4, label=label, marker=marker)


def _style(axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlim(left=0)
    axes.tick_params(labelsize=8)


def _steps_text(steps: float, _: int) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if steps >= unit:
            return f"{steps / unit:g}{name}"
    return f"{steps:g}"
