"""The looks of settings in figures, in colours that colour-blind readers tell apart."""

from collections.abc import Mapping, Sequence
import dataclasses

import numpy as np

from common.reporting.curves import COLORS

BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY = COLORS
_NAMES = dict(
    zip(("blue", "vermillion", "green", "purple", "orange", "sky", "black", "grey"), COLORS)
)

_LINES = ("-", "--", ":", "-.")


@dataclasses.dataclass(frozen=True)
class Style:
    """The style of a line.

    Attributes:
      color: "#RRGGBB".
      line: matplotlib's name of the dashes.
      width: points.
    """

    color: str
    line: str = "-"
    width: float = 1.3


@dataclasses.dataclass(frozen=True)
class Look:
    """The look of a setting in figures.

    Attributes:
      label: text in legends.
      style: the same in all figures, but with other dashes where a setting before it has the same;
        None: in each figure the next free colour.
    """

    label: str
    style: Style | None = None


def styles(settings: Sequence[str], looks: Mapping[str, Look]) -> dict[str, Style]:
    """Returns the style of each setting of a figure.

    A setting with the style of a setting before it gets that colour with dashes that the figure
    does not have in it. One without a style, or without such dashes, gets the first colour that
    the figure does not have yet.

    Args:
      settings: in the order of the legend.
      looks: of settings, by name.
    """
    known = {name: looks[name].style for name in settings if name in looks and looks[name].style}
    used = {style.color for style in known.values()}
    chosen: dict[str, Style] = {}
    for name in settings:
        style = known.get(name)
        if style is not None and style in chosen.values():
            all_styles = (*known.values(), *chosen.values())
            lines = {other.line for other in all_styles if other.color == style.color}
            free = [line for line in _LINES if line not in lines]
            style = dataclasses.replace(style, line=free[0]) if free else None
        if style is None:
            number = len(chosen)
            free = [color for color in COLORS if color not in used]
            style = (
                Style(free[0])
                if free
                else Style(COLORS[number % len(COLORS)], _LINES[1 + number // len(COLORS) % 3])
            )
            used.add(style.color)
        chosen[name] = style
    return chosen


def named_color(name: str) -> str:
    """Returns "#RRGGBB" of a colour of this module, such as "blue"; another text as it is."""
    return _NAMES.get(name, name)


def shades(first: str, last: str, count: int) -> list[str]:
    """Returns "#RRGGBB" of so many colours from the first to the last, at equal distances."""
    ends = [np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) for color in (first, last)]
    mixed = np.linspace(*ends, count)
    return ["#" + "".join(f"{round(part):02X}" for part in color) for color in mixed]
