"""A page of panels with title, legend and caption, written as PNG and PDF."""

from collections.abc import Mapping, Sequence
import dataclasses
import math
import pathlib

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

SMALL, NORMAL, LARGE = 6.5, 7.5, 9.0
"""Sizes of type in points."""
GREY = "0.45"
_CAPTION = "0.15"

_WIDTH = {1: 4.6, 2: 6.0}
_FULL_WIDTH = 7.2
_PANEL_HEIGHT = {1: 2.7, 2: 2.2, 3: 1.8, 4: 1.45, 5: 1.3, 6: 1.2}
_DPI = 150
_MARGIN = 0.012  # at the left and the right, of the width
_TITLE_LINE, _LEGEND_LINE, _CAPTION_LINE = 0.16, 0.16, 0.125


@dataclasses.dataclass(frozen=True)
class Block:
    """A grid of panels.

    Attributes:
      rows: of the grid.
      columns: of the grid.
      share: whether all panels have the same axes.
    """

    rows: int
    columns: int
    share: bool


class Page:
    """Blocks of axes side by side, each as high as the page.

    Args:
      blocks: with 1 to 6 columns together. Panels of a block with fewer rows are larger.
      wide: whether the page has its full width whatever its columns.
      panel_height: in inches; None: by the number of columns.

    Attributes:
      blocks: the axes of each block, row by row.
    """

    def __init__(
        self, blocks: Sequence[Block], *, wide: bool = False, panel_height: float | None = None
    ):
        rows = math.lcm(*(block.rows for block in blocks))
        widths = [block.columns * rows // block.rows for block in blocks]
        columns = sum(widths)
        self._width = _FULL_WIDTH if wide else _WIDTH.get(columns, _FULL_WIDTH)
        self._grid_height = rows * (panel_height or _PANEL_HEIGHT[columns]) + 0.3
        self._figure = Figure(dpi=_DPI, layout="constrained")
        self._canvas = FigureCanvasAgg(self._figure)
        page = self._figure.add_gridspec(1, len(blocks), width_ratios=widths)
        self.blocks: list[list[Axes]] = [
            list(
                page[0, number]
                .subgridspec(block.rows, block.columns)
                .subplots(squeeze=False, sharex=block.share, sharey=block.share)
                .ravel()
            )
            for number, block in enumerate(blocks)
        ]
        for axes in self._figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_color(GREY)
            axes.grid(True, color="0.92", linewidth=0.6)
            axes.set_axisbelow(True)
            axes.tick_params(labelsize=SMALL, color=GREY, length=2.5)

    def save(
        self, title: str, legend: Mapping[str, Artist], caption: str, path: pathlib.Path
    ) -> list[pathlib.Path]:
        """Writes `path` with the suffixes .png and .pdf, and returns both files.

        The same contents give the same bytes, because the files have no dates and versions.

        Args:
          title: of the page.
          legend: {label: artist}, in order.
          caption: sentences, which are wrapped here.
          path: without suffix; its directory is made if it does not exist.
        """
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
                ncols=columns,
                bbox_to_anchor=(0.5, caption_height / height),
                borderaxespad=0,
                borderpad=0,
                fontsize=NORMAL,
                frameon=False,
                handlelength=2.4,
                columnspacing=1.5,
                labelspacing=0.35,
            )
        self._figure.text(
            _MARGIN,
            0.06 / height,
            "\n".join(lines),
            ha="left",
            va="bottom",
            fontsize=SMALL,
            color=_CAPTION,
            linespacing=1.25,
        )
        self._fix_positions()
        path.parent.mkdir(parents=True, exist_ok=True)
        files = [path.with_name(f"{path.name}.{suffix}") for suffix in ("png", "pdf")]
        nothing = ({"Software": None}, {"Creator": None, "Producer": None, "CreationDate": None})
        for file, metadata in zip(files, nothing):
            self._figure.savefig(file, metadata=metadata)
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
        self._figure.draw_without_rendering()
        self._figure.set_layout_engine("none")
        for axes in self._figure.axes:
            axes.set_position([round(float(one), 6) for one in axes.get_position().bounds])
