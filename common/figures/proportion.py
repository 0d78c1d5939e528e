"""Final values against a number, beside what would be proportional to it."""

from collections.abc import Sequence
import pathlib

from matplotlib.ticker import NullLocator
import numpy as np

from common.figures import figure_page
from common.figures.bars import Bar


def draw(
    sizes: Sequence[float],
    values: Sequence[Bar],
    x_label: str,
    y_label: str,
    title: str,
    caption: str,
    path: pathlib.Path,
) -> list[pathlib.Path]:
    """Draws points on logarithmic axes, and returns the files as `panels.draw` does.

    Args:
      sizes: the number of each value.
      values: as for `bars.draw`.
      x_label: of the horizontal axis.
      y_label: of the vertical axis.
      title: text above.
      caption: text below.
      path: of the files, without suffix.
    """
    page = figure_page.Page([figure_page.Block(1, 1, share=True)])
    ((place,),) = page.blocks
    for size, one in zip(sizes, values, strict=True):
        reach = None if one.low is None else [[one.value - one.low], [one.high - one.value]]
        color = values[-1].style.color
        drawn = place.errorbar(size, one.value, reach, color=color, marker="o", capsize=2)
    ends = np.array([min(sizes), max(sizes)])
    first = values[int(np.argmin(sizes))].value
    (line,) = place.plot(ends, first * ends / ends[0], color="0.35", linewidth=0.9, linestyle="--")
    place.set_xscale("log", base=2)
    place.set_yscale("log")
    place.set_xticks(sizes, [f"{size:g}" for size in sizes])
    place.xaxis.set_minor_locator(NullLocator())
    place.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    place.yaxis.set_minor_formatter(
        lambda value, _: f"{value:,.0f}" if f"{value:g}"[0] in "25" else ""
    )
    place.tick_params(which="minor", labelsize=figure_page.SMALL)
    place.set_xlabel(x_label, fontsize=figure_page.NORMAL)
    place.set_ylabel(y_label, fontsize=figure_page.NORMAL)
    legend = {"ours": drawn, "in proportion to the first": line}
    return page.save(title, legend, caption, path)
