"""The looks of settings in figures, in colours that colour-blind readers tell apart."""

from collections.abc import Mapping, Sequence
import dataclasses

from common.reporting.curves import COLORS

BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY = COLORS

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
            lines = {one.line for one in all_styles if one.color == style.color}
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
