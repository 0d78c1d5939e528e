"""Effects with their intervals, one below the other."""

from collections.abc import Sequence
import dataclasses
import pathlib

from common.figures import figure_page
from common.figures.palette import BLACK, BLUE, GREY, VERMILLION

_COLOURS = {"ahead": BLUE, "behind": VERMILLION, "level": BLACK, "unclear": GREY}
_ROW_HEIGHT = 0.2


@dataclasses.dataclass(frozen=True)
class EffectRow:
    """An effect, in percent.

    Attributes:
      label: left of it.
      estimate: the effect.
      low: lower end of the interval.
      high: upper end of the interval.
      outcome: "ahead", "level", "behind" or "unclear", which gives the colour.
    """

    label: str
    estimate: float
    low: float
    high: float
    outcome: str


def draw(
    rows: Sequence[EffectRow], margin: float, title: str, caption: str, path: pathlib.Path
) -> list[pathlib.Path]:
    """Draws the effects, the first on top, and returns the files as `Page.save` does.

    Args:
      rows: one or more.
      margin: effects within plus and minus this are level; a grey band, in percent.
      title: text above.
      caption: text below.
      path: of the files, without suffix.
    """
    block = figure_page.Block(1, 1, share=True)
    page = figure_page.Page([block], wide=True, panel_height=_ROW_HEIGHT * (len(rows) + 2))
    ((place,),) = page.blocks
    place.grid(False, axis="y")
    place.axvspan(-margin, margin, color="0.9", linewidth=0)
    place.axvline(0, color="0.35", linewidth=0.9)
    legend = {}
    for number, row in enumerate(rows):
        legend[row.outcome] = place.errorbar(
            row.estimate,
            -number,
            xerr=[[row.estimate - row.low], [row.high - row.estimate]],
            fmt="o",
            markersize=4,
            color=_COLOURS[row.outcome],
            linewidth=1.4,
            capsize=2,
        )
    place.set_yticks([-number for number in range(len(rows))], [row.label for row in rows])
    place.set_ylim(-len(rows) + 0.4, 0.6)
    place.set_xlabel("effect, percent of the scale", fontsize=figure_page.NORMAL)
    return page.save(title, legend, caption, path)
