"""Figures of bars, effects, values by size or moments of an episode; panels.py draws panels."""

from collections.abc import Mapping, Sequence
import dataclasses
import math
import pathlib
from typing import Any, NamedTuple

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, NullLocator
import numpy as np

from common.evidence.effects import Effect, signed
from common.evidence.paper import Style
from common.reporting.curves import COLOR_NAMES

SMALL, NORMAL, LARGE = 6.5, 7.5, 9.0
"""Font sizes in points."""
GREY = "0.45"
_CAPTION = "0.15"

_WIDTH = {1: 4.6, 2: 6.0}
_FULL_WIDTH = 7.2
_PANEL_HEIGHT = {1: 2.7, 2: 2.2, 3: 1.8, 4: 1.45, 5: 1.3, 6: 1.2, 7: 1.1}
_DPI = 150
_NO_METADATA = {
    ".png": {"Software": None},
    ".pdf": {"Creator": None, "Producer": None, "CreationDate": None},
}
_MARGIN = 0.012  # on the left and on the right, as a fraction of the width
_TITLE_LINE, _LEGEND_LINE, _CAPTION_LINE = 0.16, 0.16, 0.125
_REFERENCE = {"color": "0.35", "linewidth": 0.9}
_DASHES = ("--", ":", "-.", (0, (6, 1, 1, 1, 1, 1)))

Line = tuple[float, str]
"""A reported number with its label, drawn as a line."""


class Page:
    """Blocks of axes side by side, each as high as the page.

    Args:
      blocks: for each block, its rows, its columns, and whether its panels share their axes. The
        page may have 1 to 7 columns. Panels of a block with fewer rows are larger.
      wide: whether the page has its full width however many columns it has.
      panel_height: height of a panel in inches; None: it depends on the number of columns.

    Attributes:
      blocks: the axes of each block, row by row.
      legend: {label: artist}, in order.
    """

    def __init__(
        self,
        blocks: Sequence[tuple[int, int, bool]] = ((1, 1, True),),
        *,
        wide: bool = False,
        panel_height: float | None = None,
    ):
        self.legend: dict[str, Artist] = {}
        height = math.lcm(*(rows for rows, _, _ in blocks))
        widths = [columns * height // rows for rows, columns, _ in blocks]
        columns = sum(widths)
        self._width = _FULL_WIDTH if wide else _WIDTH.get(columns, _FULL_WIDTH)
        self._grid_height = height * (panel_height or _PANEL_HEIGHT[columns]) + 0.3
        self._figure = Figure(dpi=_DPI, layout="constrained")
        self._canvas = FigureCanvasAgg(self._figure)
        page = self._figure.add_gridspec(1, len(blocks), width_ratios=widths)
        self.blocks: list[list[Axes]] = []
        for place, (rows, columns, share) in zip(page, blocks):
            grid = place.subgridspec(rows, columns)
            axes = grid.subplots(squeeze=False, sharex=share, sharey=share)
            self.blocks.append(list(axes.ravel()))
        for axes in self._figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_color(GREY)
            axes.grid(True, color="0.92", linewidth=0.6)
            axes.set_axisbelow(True)
            axes.tick_params(labelsize=SMALL, color=GREY, length=2.5)

    def save(self, title: str, caption: str, *files: pathlib.Path) -> tuple[pathlib.Path, ...]:
        """Writes files, each in the format of its suffix, .png or .pdf, and returns them.

        The same contents give the same bytes, because the files contain no dates or versions.

        Args:
          title: title of the page, which is wrapped here.
          caption: sentences below the figure, which are wrapped here.
          *files: the files to write. Missing directories are created.
        """
        legend = self.legend
        longest = max(map(len, legend), default=1)
        columns = max(1, int(self._width * 72 / (longest * NORMAL * 0.52 + 40)))
        legend_height = _LEGEND_LINE * -(-len(legend) // columns)
        lines = self._wrapped(caption, SMALL)
        caption_height = _CAPTION_LINE * len(lines) + 0.08
        below = legend_height + caption_height + 0.05
        titles = self._wrapped(title, LARGE)
        height = self._grid_height + below + _TITLE_LINE * len(titles) + 0.06
        self._figure.set_size_inches(self._width, height)
        self._figure.get_layout_engine().set(
            rect=(0, below / height, 1, self._grid_height / height), w_pad=0.04, h_pad=0.03
        )
        self._figure.text(
            0.5, 1 - 0.05 / height, "\n".join(titles), ha="center", va="top", fontsize=LARGE
        )
        if legend:
            self._figure.legend(
                legend.values(),
                legend.keys(),
                loc="lower center",
                bbox_to_anchor=(0.5, caption_height / height),
                fontsize=NORMAL,
                ncols=columns,
                borderpad=0,
                handlelength=2.4,
                columnspacing=1.5,
                borderaxespad=0,
                frameon=False,
                labelspacing=0.35,
            )
        words = "\n".join(lines)
        below = {"va": "bottom", "fontsize": SMALL, "linespacing": 1.25}
        self._figure.text(_MARGIN, 0.06 / height, words, color=_CAPTION, **below)
        self._fix_positions()
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._figure.savefig(file, metadata=_NO_METADATA[file.suffix])
        return files

    def _wrapped(self, text: str, size: float) -> list[str]:
        """Returns lines of `text` that are no wider than the page less its margins."""
        renderer, font = self._canvas.get_renderer(), FontProperties(size=size)
        widest = (1 - 2 * _MARGIN) * self._width * _DPI
        lines: list[str] = []
        for word in text.split():
            longer = f"{lines[-1]} {word}" if lines else ""
            if longer and renderer.get_text_width_height_descent(longer, font, False)[0] <= widest:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines

    def _fix_positions(self) -> None:
        """Rounds the layout, whose solver's last digits differ between starts of Python."""
        self._figure.get_layout_engine().execute(self._figure)
        self._figure.set_layout_engine(None)  # "none" would draw again, for a layout
        for axes in self._figure.axes:
            axes.set_position([round(float(end), 6) for end in axes.get_position().bounds])


def reference_lines(place: Axes, lines: Sequence[Line], labels: Sequence[str]) -> dict[str, Artist]:
    """Draws reported numbers, and returns {label: line}.

    Args:
      place: the axes.
      lines: the numbers.
      labels: all labels of the page in order, so that a label has the same dashes in all axes.
    """
    dashes = dict(zip(labels, _DASHES * len(labels)))
    return {
        label: place.axhline(value, linestyle=dashes[label], **_REFERENCE) for value, label in lines
    }


@dataclasses.dataclass(frozen=True)
class Bar:
    """The bar of a method in a group.

    Attributes:
      label: name of the method.
      style: style of the method.
      value: mean over seeds.
      low: lower end of the error bar; None with few seeds. Percentiles may be above the mean.
      high: upper end of the error bar; None with few seeds. Percentiles may be below the mean.
      seeds: the value of each seed; empty if tasks are combined.
    """

    label: str
    style: Style
    value: float
    low: float | None = None
    high: float | None = None
    seeds: tuple[float, ...] = ()

    def draw_error(self, place: Axes, position: float, **look: Any) -> None:
        """Draws the error bar, if there is one."""
        if self.low is not None and self.high is not None:
            middle = (self.low + self.high) / 2
            place.errorbar(position, middle, self.high - middle, fmt="none", capsize=2, **look)


def bars(groups: Mapping[str, Sequence[Bar]], y_label: str, lines: Sequence[Line]) -> Page:
    """Returns a page with groups of bars side by side.

    Args:
      groups: {name: bars}. A single group has its name as title, and its bars are labelled below
        the axis instead of in the legend.
      y_label: label of the vertical axis.
      lines: reported numbers as (value, label).
    """
    page = Page(wide=len(groups) > 3)
    ((place,),) = page.blocks
    place.grid(False, axis="x")
    legend, ticks = {}, {}
    for number, (name, group) in enumerate(groups.items()):
        width = 0.84 / max(1, len(group))
        for index, bar in enumerate(group):
            position = number + (index - (len(group) - 1) / 2) * width
            hatch = "////" if bar.style.line != "-" else None
            look = {"color": bar.style.color, "hatch": hatch, "edgecolor": "white"}
            legend[bar.label] = place.bar(position, bar.value, 0.9 * width, **look)
            bar.draw_error(place, position, color="0.2", linewidth=0.9)
            spread = np.linspace(-0.2, 0.2, len(bar.seeds)) * width if len(bar.seeds) > 1 else 0
            dots = {"color": "0.15", "markersize": 2.2, "markeredgewidth": 0}
            if bar.seeds:
                place.plot(position + spread * np.ones(len(bar.seeds)), bar.seeds, "o", **dots)
            ticks |= {position: bar.label} if len(groups) == 1 else {number: name}
    legend |= reference_lines(place, lines, [label for _, label in lines])
    long = max(map(len, ticks.values()), default=0) * len(ticks) > 70
    place.set_xticks(
        list(ticks), ticks.values(), rotation=30 if long else 0, ha="right" if long else "center"
    )
    place.set_ylabel(y_label, fontsize=NORMAL)
    if len(groups) == 1:
        place.set_title(*groups, fontsize=NORMAL)
        legend = {label: legend[label] for _, label in lines}
    page.legend = legend
    return page


_OUTCOME_COLOURS = {
    "ahead": COLOR_NAMES["blue"],
    "behind": COLOR_NAMES["vermillion"],
    "level": COLOR_NAMES["black"],
    "unclear": COLOR_NAMES["grey"],
}
_EFFECT_HEIGHT = 0.2
_EFFECT_LIMIT = 150.0
"""Percent at which larger effects are cut off, with an arrow. Their labels state the number."""


class ForestRow(NamedTuple):
    """A row of `forest`: an effect, and whether it is a mean, which has a bold label.

    A label may have several lines.
    """

    label: str
    effect: Effect
    is_mean: bool


def forest(effects: Sequence[ForestRow], margin: float) -> Page:
    """Returns a page with effects in percent and their intervals, the first on top.

    Args:
      effects: the rows, at least one. Their outcomes determine the colours.
      margin: half the width of the grey band of level effects, as a fraction of the scale.
    """
    lines = np.array([1 + row.label.count("\n") for row in effects])
    bottoms = -np.cumsum(lines)
    positions = bottoms + lines / 2
    page = Page(wide=True, panel_height=_EFFECT_HEIGHT * (lines.sum() + 2))
    ((place,),) = page.blocks
    place.grid(False, axis="y")
    place.axvspan(-100 * margin, 100 * margin, color="0.9", linewidth=0)
    place.axvline(0, **_REFERENCE)
    labels = []
    for position, (label, effect, is_mean) in zip(positions, effects):
        ends = [100 * end for end in (effect.low, effect.estimate, effect.high)]
        low, middle, high = np.clip(ends, -_EFFECT_LIMIT, _EFFECT_LIMIT)
        is_far = abs(ends[1]) > _EFFECT_LIMIT
        labels.append(label + f" ({signed(ends[1])} %)" * is_far)
        page.legend[str(effect.outcome)] = place.errorbar(
            middle,
            position,
            xerr=[[middle - low], [high - middle]],
            color=_OUTCOME_COLOURS[effect.outcome],
            fmt=(">" if middle > 0 else "<") if is_far else "o",
            markersize=3 + 2 * is_mean,
            linewidth=0.8 + 0.8 * is_mean,
            capsize=2,
        )
    place.set_yticks(positions, labels)
    for label, row in zip(place.get_yticklabels(), effects):
        label.set_fontweight("bold" if row.is_mean else "normal")
    place.set_ylim(bottoms[-1] - 0.1, 0.1)
    place.set_xlabel("effect, percent of the scale", fontsize=NORMAL)
    return page


def proportion(sizes: Sequence[float], values: Sequence[Bar], x_label: str, y_label: str) -> Page:
    """Returns a page with values by size on logarithmic axes, and a line proportional to size.

    Args:
      sizes: the size of each value, which is its horizontal position.
      values: a value for each size.
      x_label: label of the horizontal axis.
      y_label: label of the vertical axis.
    """
    page = Page()
    ((place,),) = page.blocks
    for size, bar in zip(sizes, values, strict=True):
        color = values[-1].style.color
        drawn = place.errorbar(size, bar.value, color=color, marker="o")
        bar.draw_error(place, size, color=color)
    ends = np.array([min(sizes), max(sizes)])
    first = values[int(np.argmin(sizes))].value
    (line,) = place.plot(ends, first * ends / ends[0], linestyle="--", **_REFERENCE)
    place.set_xscale("log", base=2)
    place.set_yscale("log")
    place.set_xticks(sizes, [f"{size:g}" for size in sizes])
    place.xaxis.set_minor_locator(NullLocator())
    place.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    place.yaxis.set_minor_formatter(
        lambda value, _: f"{value:,.0f}" if f"{value:g}"[0] in "25" else ""
    )
    place.tick_params(which="minor", labelsize=SMALL)
    place.set_xlabel(x_label, fontsize=NORMAL)
    place.set_ylabel(y_label, fontsize=NORMAL)
    page.legend = {"ours": drawn, "in proportion to the first": line}
    return page


_BINS = 40
_GAP = 1.5
"""Gap between two sub-actions, in widths of a bar."""


class Moment(NamedTuple):
    """A moment of an episode.

    Attributes:
      step: timestep, from 0.
      picture: uint8 [height, width, 3].
      values: Q values of the sampled actions, float [N].
      probabilities: for each sub-action, the probabilities of its values, float [K].
      chosen: int [D], the chosen value of each sub-action.
    """

    step: int
    picture: np.ndarray
    values: np.ndarray
    probabilities: Sequence[np.ndarray]
    chosen: np.ndarray


def moments(shown: Sequence[Moment], possible: tuple[float, float] | None = None) -> Page:
    """Returns a page with a row for each moment.

    Args:
      shown: the moments, in order of time.
      possible: minimum and maximum possible value, which the axis of values then includes.
    """
    page = Page([(len(shown), 3, False)], wide=True)
    (places,) = page.blocks
    low = min(float(moment.values.min()) for moment in shown)
    high = max(float(moment.values.max()) for moment in shown)
    margin = 0.05 * (high - low) or 1.0
    low, high = low - margin, high + margin
    if possible:  # a network's values may be outside this range
        low, high = min(possible[0], low + margin), max(possible[1], high - margin)
    edges = np.linspace(low, high, _BINS + 1)
    for row, moment in enumerate(shown):
        picture, values, probabilities = places[3 * row : 3 * row + 3]
        picture.imshow(moment.picture)
        picture.set_axis_off()
        picture.set_title(f"step {moment.step}", fontsize=NORMAL)
        values.hist(moment.values, edges, color=COLOR_NAMES["blue"])
        values.set_xlim(low, high)
        values.xaxis.set_major_locator(MaxNLocator(4))
        _draw_probabilities(probabilities, moment)
    for place, name in zip(places[-2:], ("Q of the sampled actions", "values of each sub-action")):
        place.set_xlabel(name, fontsize=NORMAL)
    for place, name in zip(places[1:3], ("actions", "probability")):
        place.set_title(name, fontsize=NORMAL)
    page.legend = {
        "proposal": Patch(color=COLOR_NAMES["blue"]),
        "chosen": Patch(color=COLOR_NAMES["green"]),
    }
    return page


def _draw_probabilities(place: Axes, moment: Moment) -> None:
    left, blue, green = 0.0, COLOR_NAMES["blue"], COLOR_NAMES["green"]
    for probabilities, chosen in zip(moment.probabilities, moment.chosen, strict=True):
        at = left + np.arange(len(probabilities))
        colors = [green if k == chosen else blue for k in range(len(probabilities))]
        place.bar(at, probabilities, color=colors)
        left += len(probabilities) + _GAP
    place.set_ylim(0, 1)
    place.set_xticks([])
