"""The page of an episode's moments."""

import numpy as np
from PIL import Image
import pytest

from common.figures import figure_page, moments, palette


def moment(step, chosen, size=5):
    generator = np.random.default_rng(step)
    probabilities = [generator.dirichlet(np.ones(size)) for _ in chosen]
    picture = np.full((24, 32, 3), step % 255, np.uint8)
    return moments.Moment(
        step, picture, generator.normal(step, 1, 100), probabilities, np.array(chosen)
    )


@pytest.fixture
def axes(monkeypatch):
    """The axes of the page that was saved last."""
    saved = []
    save = figure_page.Page.save
    monkeypatch.setattr(
        figure_page.Page, "save", lambda page, *given: saved.append(page) or save(page, *given)
    )
    return lambda: saved[-1].blocks[0]


def test_a_row_has_a_picture_the_values_and_a_bar_for_each_probability(tmp_path, axes):
    given = [moment(10, [0, 3]), moment(500, [4, 1])]
    files = moments.draw(given, "a title", "Words.", tmp_path / "page")
    assert [file.name for file in files] == ["page.png", "page.pdf"]
    for row, one in enumerate(given):
        picture, values, probabilities = axes()[3 * row : 3 * row + 3]
        assert picture.get_title() == f"step {one.step}"
        np.testing.assert_array_equal(picture.images[0].get_array(), one.picture)
        assert sum(bar.get_height() for bar in values.patches) == 100
        heights = [bar.get_height() for bar in probabilities.patches]
        assert heights == pytest.approx(np.concatenate(one.probabilities).tolist())
        green = [i for i, bar in enumerate(probabilities.patches) if is_green(bar)]
        assert green == [one.chosen[0], 5 + one.chosen[1]]


def is_green(bar):
    red, green, blue, _ = bar.get_facecolor()
    return "#" + "".join(f"{round(255 * one):02x}" for one in (red, green, blue)) == (
        palette.GREEN.lower()
    )


def test_all_rows_have_the_same_axis_of_values(tmp_path, axes):
    moments.draw([moment(10, [0]), moment(40, [1])], "a title", "Words.", tmp_path / "page")
    edges = {tuple(bar.get_x() for bar in place.patches) for place in axes()[1::3]}
    assert len(edges) == 1


def test_equal_values_can_be_drawn(tmp_path):
    one = moment(3, [2])._replace(values=np.zeros(100))
    (file, _) = moments.draw([one], "a title", "Words.", tmp_path / "page")
    assert Image.open(file).size[0] > 500
