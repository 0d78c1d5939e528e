"""A figure with a panel a task, as papers arrange them: a colour a setting, a thin line a run."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from common.reporting.curves import evaluator_rows

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's: told apart also by the colour-blind."""
_PANEL_INCHES = (2.9, 2.2)


def by_task(
    runs: Sequence[str | os.PathLike],
    output_png: str | os.PathLike,
    title: str,
    maximum: float | None = None,
) -> None:
    """Draws evaluated return against wall-clock minutes, a panel for each environment.

    A thin line is a run, a thick one the mean of a setting's runs as long as all of them last. The
    same setting has the same colour in all panels.

    Args:
      runs: run directories.
      output_png: the figure; its directory is made if it does not exist.
      title: the figure's.
      maximum: the largest return that there can be, for all panels; by default each has its own.

    Raises:
      ValueError: a run has no evaluation.
    """
    # Here, because drawing is no business of most processes that import this package.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = evaluator_rows(runs)
    environments = list(dict.fromkeys(rows["environment"]))
    colors = dict(zip(sorted(set(rows["setting"])), _COLORS * 2))
    num_columns = min(3, len(environments))
    num_rows = -(-len(environments) // num_columns)
    width, height = _PANEL_INCHES
    figure = Figure((width * num_columns, height * num_rows + 0.6), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(num_rows, num_columns, squeeze=False).ravel()
    handles = {}
    for axes, environment in zip(panels, environments):
        of_task = rows[rows["environment"] == environment]
        for setting, of_setting in of_task.groupby("setting", sort=True):
            runs_of = [run.sort_values("wall_seconds") for _, run in of_setting.groupby("seed")]
            handles[setting] = _draw(axes, runs_of, colors[setting], setting)
        axes.set_title(environment.partition(":")[2].replace(":", " ").replace("_", " "), size=9)
        axes.set_xlim(left=0)
        axes.set_ylim(0, None if maximum is None else 1.02 * maximum)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, color="0.92", linewidth=0.6)
        axes.tick_params(labelsize=7)
    for axes in panels[len(environments):]:
        axes.set_axis_off()
    for axes in panels[max(0, len(environments) - num_columns) : len(environments)]:
        axes.set_xlabel("wall-clock time (minutes)", fontsize=8)
    for axes in panels[::num_columns]:
        axes.set_ylabel("episode return", fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles),
        fontsize=8, frameon=False,
    )
    Path(output_png).parent.mkdir(parents=True, exist_ok=True)
    # Without the library's version in it, the same rows give the same file.
    figure.savefig(output_png, metadata={"Software": None})


def _draw(axes, runs, color: str, setting: str):
    """Draws the runs of one setting and returns the thick line."""
    times = [run["wall_seconds"].to_numpy() / 60 for run in runs]
    returns = [run["episode_return_mean"].to_numpy() for run in runs]
    if len(runs) > 1:
        for time, values in zip(times, returns):
            axes.plot(time, values, color=color, linewidth=0.6, alpha=0.6)
    grid = np.linspace(max(t[0] for t in times), min(t[-1] for t in times), 200)
    mean = np.mean([np.interp(grid, *one) for one in zip(times, returns)], axis=0)
    return axes.plot(grid, mean, color=color, linewidth=1.6, label=setting)[0]
