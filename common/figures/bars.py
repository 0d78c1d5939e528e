"""Final values as groups of bars."""

from collections.abc import Mapping, Sequence
import dataclasses
import pathlib

import numpy as np

from common.figures import figure_page
from common.figures.palette import Style


@dataclasses.dataclass(frozen=True)
class Bar:
    """A method in a group.

    Attributes:
      label: of the method.
      style: of the method.
      value: mean over seeds.
      low: lower end of the error bar; None with few seeds.
      high: upper end of the error bar; None with few seeds.
      seeds: the value of each; none if tasks are combined.
    """

    label: str
    style: Style
    value: float
    low: float | None = None
    high: float | None = None
    seeds: tuple[float, ...] = ()


def draw(
    groups: Mapping[str, Sequence[Bar]],
    y_label: str,
    lines: Sequence[tuple[float, str]],
    title: str,
    caption: str,
    path: pathlib.Path,
) -> list[pathlib.Path]:
    """Draws the groups side by side, and returns the files as `panels.draw` does.

    Args:
      groups: {name: bars}. A lone group has its name above, each bar's below it and no legend.
      y_label: of the vertical axis.
      lines: reported numbers as (value, label).
      title: text above.
      caption: text below.
      path: of the files, without suffix.
    """
    page = figure_page.Page([figure_page.Block(1, 1, share=True)], wide=len(groups) > 3)
    ((place,),) = page.blocks
    place.grid(False, axis="x")
    legend, ticks = {}, {}
    for number, (name, bars) in enumerate(groups.items()):
        width = 0.84 / max(1, len(bars))
        for index, bar in enumerate(bars):
            position = number + (index - (len(bars) - 1) / 2) * width
            drawn = place.bar(
                position,
                bar.value,
                0.9 * width,
                color=bar.style.color,
                hatch="////" if bar.style.line != "-" else None,
                edgecolor="white",
            )
            if bar.low is not None:
                place.errorbar(
                    position,
                    bar.value,
                    [[bar.value - bar.low], [bar.high - bar.value]],
                    color="0.2",
                    linewidth=0.9,
                    capsize=2,
                )
            spread = np.linspace(-0.2, 0.2, len(bar.seeds)) * width if len(bar.seeds) > 1 else [0]
            place.plot(
                position + np.array(spread[: len(bar.seeds)]),
                bar.seeds,
                "o",
                color="0.15",
                markersize=2.2,
                markeredgewidth=0,
            )
            legend[bar.label] = drawn
            ticks |= {position: bar.label} if len(groups) == 1 else {number: name}
    for style, (value, label) in zip(("--", ":", "-.") * len(lines), lines):
        legend[label] = place.axhline(value, color="0.35", linewidth=0.9, linestyle=style)
    long = max(map(len, ticks.values()), default=0) * len(ticks) > 70
    place.set_xticks(
        list(ticks), ticks.values(), rotation=30 if long else 0, ha="right" if long else "center"
    )
    place.set_ylabel(y_label, fontsize=figure_page.NORMAL)
    if len(groups) == 1:
        place.set_title(*groups, fontsize=figure_page.NORMAL)
        legend = {label: legend[label] for _, label in lines}
    return page.save(title, legend, caption, path)
