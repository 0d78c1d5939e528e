"""Moments of an episode: a picture, the values of the sampled actions, their probabilities."""

from collections.abc import Sequence
import pathlib
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.patches import Patch
import numpy as np

from common.figures import figure_page
from common.figures.palette import BLUE, GREEN

_BINS = 40
_GAP = 1.5
"""Bars' widths between two sub-actions."""


class Moment(NamedTuple):
    """A moment of an episode.

    Attributes:
      step: timestep, 0 at the beginning.
      picture: uint8 [height, width, 3].
      values: float [N], of the sampled actions.
      probabilities: of each sub-action, float [K].
      chosen: int [D], the chosen value of each sub-action.
    """

    step: int
    picture: np.ndarray
    values: np.ndarray
    probabilities: Sequence[np.ndarray]
    chosen: np.ndarray


def draw(
    moments: Sequence[Moment], title: str, caption: str, path: pathlib.Path
) -> list[pathlib.Path]:
    """Draws a row for each moment, and returns the files as `panels.draw` does.

    Args:
      moments: in the order of time.
      title: text above.
      caption: text below.
      path: of the files, without suffix.
    """
    page = figure_page.Page([figure_page.Block(len(moments), 3, share=False)], wide=True)
    (places,) = page.blocks
    low = min(float(one.values.min()) for one in moments)
    high = max(float(one.values.max()) for one in moments)
    margin = 0.05 * (high - low) or 1.0
    edges = np.linspace(low - margin, high + margin, _BINS + 1)
    for row, moment in enumerate(moments):
        picture, values, probabilities = places[3 * row : 3 * row + 3]
        picture.imshow(moment.picture)
        picture.set_axis_off()
        picture.set_title(f"step {moment.step}", fontsize=figure_page.NORMAL)
        values.hist(moment.values, edges, color=BLUE)
        _draw_probabilities(probabilities, moment)
    for place, name in zip(places[-2:], ("Q of the sampled actions", "values of each sub-action")):
        place.set_xlabel(name, fontsize=figure_page.NORMAL)
    for place, name in zip(places[1:3], ("actions", "probability")):
        place.set_title(name, fontsize=figure_page.NORMAL)
    legend = {"proposal": Patch(color=BLUE), "chosen": Patch(color=GREEN)}
    return page.save(title, legend, caption, path)


def _draw_probabilities(place: Axes, moment: Moment) -> None:
    left = 0.0
    for probabilities, chosen in zip(moment.probabilities, moment.chosen, strict=True):
        at = left + np.arange(len(probabilities))
        colors = [GREEN if k == chosen else BLUE for k in range(len(probabilities))]
        place.bar(at, probabilities, color=colors)
        left += len(probabilities) + _GAP
    place.set_ylim(0, 1)
    place.set_xticks([])
