"""Learning curves in panels, one for each task, arranged as in the papers."""

from collections.abc import Sequence
import dataclasses

from matplotlib.artist import Artist
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
import numpy as np

from common.evidence import drawing
from common.evidence.paper import Style
from common.reporting.curves import count_text


@dataclasses.dataclass(frozen=True)
class Curve:
    """The learning curve of a method on a task.

    Attributes:
      label: name of the method, the same in all panels.
      style: style of the line, the same in all panels.
      x: positions [P].
      middle: values [P].
      low: lower end of the shaded band [P]; None: nothing is shaded.
      high: upper end of the shaded band [P].
    """

    label: str
    style: Style
    x: np.ndarray
    middle: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Panel:
    """The panel of a task. Without curves it shows only the title and "no runs".

    Attributes:
      title: the task in words.
      curves: the curves on the task.
      end: position at which our runs end, marked if the axis continues; None without curves.
      lines: horizontal lines of reported numbers, as (value, label). Numbers that would leave
        little room to the curves are written below the title instead.
      y_limits: limits of the vertical axis; None: they depend on the curves.
    """

    title: str
    curves: tuple[Curve, ...] = ()
    end: float | None = None
    lines: tuple[drawing.Line, ...] = ()
    y_limits: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class PanelGroup:
    """Panels with the same axes: a whole figure, a half of it, or a row.

    Attributes:
      panels: the panels, in order.
      x_column: "wall_seconds", "actor_steps", "learner_steps" or "environment_frames".
      x_limit: end of the horizontal axis in all panels; None: each panel ends with its runs.
      y_label: label of the vertical axis.
      is_log: whether the vertical axis is logarithmic.
      name: addition to the titles that distinguishes the group from others; "" for none.
    """

    panels: tuple[Panel, ...]
    x_column: str
    x_limit: float | None
    y_label: str
    is_log: bool = False
    name: str = ""

    @property
    def titles(self) -> list[str]:
        """The panels' titles, with the group's name."""
        return [", ".join(filter(None, (panel.title, self.name))) for panel in self.panels]

    @property
    def shares(self) -> bool:
        """True if all panels have the same axes."""
        limits = {panel.y_limits for panel in self.panels}
        return self.x_limit is not None and len(limits) == 1 and None not in limits


END_LABEL = "end of our runs"

_FARTHEST = 4.0
"""The largest distance of a line from the panel's other contents, in multiples of their height.
Also the deepest fall of a curve below the others that is shown whole."""
_TIMES = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))
_MARGIN = 1.02
_FEW_CURVES = 5
_WIDE_TITLE = 18
"""Maximum characters of a title in normal size above one of four panels."""
_ONE_SEED_WIDTH = 0.8
"""Points: curves without a band, of few seeds, are drawn thin."""


def draw(parts: Sequence[PanelGroup]) -> drawing.Page:
    """Returns a page with the panels.

    Parts of one panel each form a grid. Parts with the same larger number of panels are rows, and
    others are side by side.
    """
    sizes = [_size(part) for part in parts]
    length, curves = max(count for count, _ in sizes), max(curves for _, curves in sizes)
    is_grid = len(parts) > 1 and all(count == length for count, _ in sizes)
    are_rows = is_grid and length > 1
    if is_grid:
        columns = length if are_rows else _columns(len(parts), curves)
        widths = [length] * len(parts)
        page = drawing.Page([(-(-len(parts) * length // columns), columns, False)])
        (places,) = page.blocks
        grids = [places[length * number :][:length] for number in range(len(parts))]
        for place in places[len(parts) * length :]:
            place.set_axis_off()
    else:
        widths = [_columns(*size) for size in sizes]
        columns = sum(widths)
        heights = [-(-count // wide) for (count, _), wide in zip(sizes, widths)]
        page = drawing.Page(list(zip(heights, widths, [part.shares for part in parts])))
        grids = page.blocks
    legends, marks = [], {}
    lines = [line for part in parts for panel in part.panels for line in panel.lines]
    labels = list(dict.fromkeys(label for _, label in lines))
    for number, (part, places, width) in enumerate(zip(parts, grids, widths)):
        above, below = parts[max(0, number - 1)], parts[min(number + 1, len(parts) - 1)]
        has_titles = not (are_rows and number and part.titles == above.titles)
        has_unit = part is below or not (are_rows and _unit(below) == _unit(part))
        shown = (labels, marks, has_titles, has_unit)
        legends.append(_draw_part(places, part, width, columns, *shown))
    _share_heights(parts, grids)
    page.legend = {label: line for legend in legends for label, line in legend.items()} | marks
    return page


def _share_heights(parts: Sequence[PanelGroup], grids: Sequence[Sequence]) -> None:
    """Gives panels of the same task and quantity the same limits of the vertical axis."""
    of_task: dict[tuple[str, str], list] = {}
    for part, places in zip(parts, grids):
        for panel, place in zip(part.panels, places):
            if panel.curves and panel.title:
                of_task.setdefault((panel.title, part.y_label), []).append(place)
    for places in of_task.values():
        limits = [place.get_ylim() for place in places]
        for place in places:
            place.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def _draw_part(
    places,
    part: PanelGroup,
    width: int,
    columns: int,
    labels: Sequence[str],
    marks: dict,
    has_titles: bool,
    has_unit: bool,
) -> dict:
    """Draws a part in a grid of `width` columns, adds to `marks`, and returns {label: line}.

    The page has `columns` columns of panels: the more columns, the smaller the text. `labels` are
    the labels of all horizontal lines of the page.
    """
    legend: dict[str, Artist] = {}
    for number, (place, panel, title) in enumerate(zip(places, part.panels, part.titles)):
        drawn, words, mark = _draw_panel(place, part, panel, labels, columns)
        marks |= mark
        for label, line in drawn.items():
            if label not in legend or line.get_linewidth() > legend[label].get_linewidth():
                legend[label] = line  # a thin line only if all panels have a thin one
        longest = max(map(len, [title, *words]))
        is_wide = columns <= 4 and longest <= _WIDE_TITLE * 4 / columns
        place.set_title(
            "\n".join([title] * has_titles + words),
            pad=3,
            fontsize=drawing.NORMAL if is_wide else drawing.SMALL,
            color="black" if panel.curves else drawing.GREY,
        )
        if number % width == 0:
            place.set_ylabel(part.y_label, fontsize=drawing.NORMAL)
        if has_unit and number + width >= len(part.panels):
            place.set_xlabel(_unit(part)[0], fontsize=drawing.NORMAL)
            place.tick_params(labelbottom=True)
    for place in places[len(part.panels) :]:
        place.set_axis_off()
    return legend


def _draw_panel(
    place, part: PanelGroup, panel: Panel, labels: Sequence[str], columns: int
) -> tuple[dict[str, Artist], list[str], dict[str, Artist]]:
    """Draws what is inside a panel.

    Returns:
      {label: line}, words on what is outside the panel's height, and {label: line} of its marks.
    """
    _, size = _unit(part)
    near, fallen = (panel.curves, ()) if part.is_log else _divide(panel.curves)
    far = _far_lines(near, panel.lines)
    words = [f"{label}: {value:,.6g}" for value, label in far]
    lows = [(curve.label, curve.middle.min()) for curve in fallen]
    words += [f"{name}: down to {low:{',.0f' if low > -1e6 else '.1e'}}" for name, low in lows]
    near_lines = [line for line in panel.lines if line not in far]
    drawn = _draw_curves(place, panel.curves, size)
    drawn |= drawing.reference_lines(place, near_lines, labels)
    limit, marks = part.x_limit or panel.end or size, {}
    if panel.end is not None and panel.end * _MARGIN < limit:
        marks[END_LABEL] = place.axvline(panel.end / size, color="0.7", linewidth=0.9)
    if not panel.curves:
        middle = {"transform": place.transAxes, "ha": "center", "va": "center"}
        place.text(0.5, 0.5, "no runs", fontsize=drawing.SMALL, color="0.7", **middle)
        place.grid(False)
        if not part.shares:
            place.set_yticks([])
    elif part.is_log:
        place.set_yscale("log")
        place.yaxis.set_major_locator(LogLocator(numticks=5))
        place.yaxis.set_minor_formatter(NullFormatter())
    if panel.y_limits is not None:
        _set_height(place, panel.y_limits, _MARGIN - 1)
    elif fallen:
        _set_height(place, [*_extent(near), *(y for y, _ in near_lines)], 0.1)
    place.set_xlim(0, _MARGIN * limit / size)
    place.xaxis.set_major_locator(MaxNLocator(max(2, 8 - columns), steps=[1, 2, 3, 5, 10]))
    if size == 1:
        place.xaxis.set_major_formatter(lambda value, _: count_text(value))
    return drawn, words, marks


def _set_height(place, shown: Sequence[float], margin: float) -> None:
    """Sets the vertical axis to the range of `shown` and a margin, a fraction of that range."""
    low, high = min(shown), max(shown)
    place.set_ylim(low - margin * (high - low), high + margin * (high - low))


def _size(part: PanelGroup) -> tuple[int, int]:
    """Returns the number of panels, and the maximum number of curves in a panel."""
    return len(part.panels), max(len(panel.curves) for panel in part.panels)


def _columns(count: int, num_curves: int = 1) -> int:
    """Returns the columns of a grid with few empty places; fewer for panels with many curves."""
    if count <= 3:
        return count
    if num_curves > _FEW_CURVES:
        return 2 if count == 4 else 3
    return min((4, 3, 5) if count <= 16 else (6, 5), key=lambda columns: -count % columns)


def _draw_curves(place, curves: Sequence[Curve], size: float) -> dict[str, Artist]:
    """Draws the curves of a panel, and returns {label: line}."""
    drawn = {}
    for curve in curves:
        x = curve.x / size
        if curve.low is not None:
            band = {"color": curve.style.color, "alpha": 0.16 if len(curves) <= 5 else 0.09}
            place.fill_between(x, curve.low, curve.high, linewidth=0, **band)
        width = curve.style.width if curve.low is not None else _ONE_SEED_WIDTH
        look = {"color": curve.style.color, "linestyle": curve.style.line, "linewidth": width}
        marker = "o" if len(x) < 3 else None
        (drawn[curve.label],) = place.plot(x, curve.middle, marker=marker, markersize=3, **look)
    return drawn


def _extent(curves: Sequence[Curve]) -> tuple[float, float]:
    """Returns the lowest and the highest value of curves and their bands."""
    drawn = [[curve.middle, curve.low, curve.high] for curve in curves]
    values = np.concatenate([line for lines in drawn for line in lines if line is not None])
    return values.min(), values.max()


def _divide(curves: Sequence[Curve]) -> tuple[Sequence[Curve], Sequence[Curve]]:
    """Returns the curves that do not diverge, then the diverging ones.

    A diverging curve falls far below the others and its own start, and would leave them no height.
    """
    order = sorted(curves, key=lambda curve: -curve.middle.min())
    for number in range(1, len(order)):
        low, high = _extent(order[:number])
        middle = order[number].middle
        depth = min(low, middle[0]) - middle.min()
        if depth > _FARTHEST * (max(high, 0.0) - min(low, 0.0)):
            return order[:number], order[number:]
    return curves, ()


def _far_lines(curves: Sequence[Curve], lines: Sequence[drawing.Line]) -> list[drawing.Line]:
    """Returns the lines that are too far from the curves and from the lines nearer to these."""
    far: list[drawing.Line] = []
    if not curves:
        return far
    low, high = _extent(curves)

    def distance(line: tuple[float, str]) -> float:
        return max(low - line[0], line[0] - high)

    for line in sorted(lines, key=distance):
        if high > low and distance(line) > _FARTHEST * (high - low):
            far.append(line)
        else:
            low, high = min(low, line[0]), max(high, line[0])
    return far


def _unit(part: PanelGroup) -> tuple[str, float]:
    """Returns the label of the horizontal axis and the size of its unit."""
    if part.x_column != "wall_seconds":
        return part.x_column.replace("_", " "), 1
    limit = part.x_limit or max(panel.end or 0 for panel in part.panels)
    name, size = next((name, size) for name, size in _TIMES if limit >= 2 * size or size == 1)
    return f"training time ({name})", size
