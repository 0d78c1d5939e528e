"""Tests of common.figures.forest."""

import matplotlib.image
import numpy as np
import pytest

from common.figures import forest
from common.figures.forest import EffectRow

BLUE, GREY = (0.0, 0.447, 0.698), (0.9, 0.9, 0.9)
AHEAD = EffectRow("n_step", 20.0, 15.0, 25.0, "ahead")
UNCLEAR = EffectRow("noise", -5.0, -12.0, 2.0, "unclear")


def pixels(path, rows):
    (png, _) = forest.draw(rows, 5.0, "Effects", "A caption.", path)
    return matplotlib.image.imread(png)[..., :3]


def num_of(image, colour):
    return int((np.abs(image - np.array(colour)).max(axis=-1) < 0.02).sum())


def test_outcomes_are_told_by_colours_over_the_margin(tmp_path):
    both = pixels(tmp_path / "both", [AHEAD, UNCLEAR])
    alone = pixels(tmp_path / "alone", [UNCLEAR])
    assert num_of(both, BLUE) > 50 and num_of(alone, BLUE) == 0
    assert num_of(alone, GREY) > 500
    assert len(both) > len(alone)


def test_the_same_effects_give_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        forest.draw([AHEAD, UNCLEAR], 5.0, "Effects", "A caption.", tmp_path / name)
    for suffix in ("png", "pdf"):
        first, second = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in ("a", "b"))
        assert first == second


def test_an_unknown_outcome_is_no_colour(tmp_path):
    with pytest.raises(KeyError):
        forest.draw([EffectRow("a", 1.0, 0.5, 2.0, "better")], 5.0, "", "", tmp_path / "a")
