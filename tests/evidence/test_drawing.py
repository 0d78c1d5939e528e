"""Tests of common.evidence.drawing, .panels: what is to be seen is there."""

import dataclasses
from types import SimpleNamespace

from matplotlib.image import imread
import numpy as np
import pytest

from common.evidence import drawing, figures, panels
from common.evidence.drawing import Bar, Moment
from common.evidence.paper import Look, Style
from common.reporting.curves import COLOR_NAMES

X = np.linspace(0, 300, 50)


def curve(setting, level):
    style = Style(
        {"ddpg": COLOR_NAMES["black"], "two": COLOR_NAMES["green"]}.get(
            setting, COLOR_NAMES["blue"]
        )
    )
    return panels.Curve(
        setting, style, X, level * X / 300, 0.9 * level * X / 300, 1.1 * level * X / 300
    )


def draw(path, *drawn, x_limit=300.0, caption="Some words."):
    drawn = tuple(dataclasses.replace(panel, y_limits=(0.0, 1000.0)) for panel in drawn)
    return saved(
        panels.draw([panels.PanelGroup(drawn, "wall_seconds", x_limit, "episode return")]),
        path,
        caption,
    )


def saved(page, path, caption="Some words."):
    """The files of a page."""
    return page.save("a title", caption, *(path.with_suffix(end) for end in (".png", ".pdf")))


def pixels_near(file, color):
    """How many pixels have a colour, of #rrggbb."""
    wanted = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.count_nonzero(np.abs(imread(file)[..., :3] - wanted).max(axis=-1) < 0.02)


def test_panels_show_their_curves_and_repeat_byte_for_byte(tmp_path):
    drawn = (
        panels.Panel("cartpole", (curve("d4pg_prioritized_n5", 800), curve("ddpg", 300)), 300),
        panels.Panel("finger", lines=((500.0, "reported"),)),
    )
    files = draw(tmp_path / "new" / "figure", *drawn)
    assert [file.name for file in files] == ["figure.png", "figure.pdf"]
    again = draw(tmp_path / "again", *drawn)
    for first, second in zip(files, again):
        assert first.read_bytes() == second.read_bytes()
        assert b"20" + b"26" not in first.read_bytes()[:2000]  # no date
    assert pixels_near(files[0], COLOR_NAMES["blue"]) > 200
    assert pixels_near(files[0], COLOR_NAMES["vermillion"]) == 0


def test_the_end_of_our_runs_is_marked_where_the_axis_goes_on(tmp_path):
    panel = panels.Panel("cartpole", (curve("ddpg", 300),), 300)
    ends, goes_on = draw(tmp_path / "a", panel)[0], draw(tmp_path / "b", panel, x_limit=900)[0]
    grey = "#B3B3B3"
    assert pixels_near(goes_on, grey) > pixels_near(ends, grey) + 100


@pytest.mark.parametrize("words", ["A long sentence about what was run. ", "WITH WIDE LETTERS "])
def test_nothing_is_cut_off_at_the_edges(tmp_path, words):
    panel = panels.Panel("cartpole", (curve("ddpg", 300),), 300)
    (file, _) = draw(tmp_path / "a", panel, caption=words * 12)
    image = imread(file)[..., :3]
    edges = np.concatenate(
        [
            image[:4].reshape(-1, 3),
            image[-4:].reshape(-1, 3),
            image[:, :4].reshape(-1, 3),
            image[:, -4:].reshape(-1, 3),
        ]
    )
    assert edges.min() == 1


@pytest.mark.parametrize("limit", [0, 1000])
def test_curves_at_the_ends_of_the_axis_can_be_seen(tmp_path, limit):
    at_the_limit, inside = (
        panels.Panel("a", (dataclasses.replace(curve("a", 0), middle=np.full(50, value)),), 300)
        for value in (limit, 500)
    )
    seen, expected = (
        pixels_near(draw(tmp_path / str(number), panel)[0], COLOR_NAMES["blue"])
        for number, panel in enumerate((at_the_limit, inside))
    )
    assert seen > 0.9 * expected > 200


def part(setting, *titles, unit="wall_seconds"):
    drawn = tuple(panels.Panel(title, (curve(setting, 800),), 300) for title in titles)
    return panels.PanelGroup(drawn, unit, 300.0, "episode return")


def placed(*parts):
    """The axes of each panel that was drawn, in order, and the page's legend."""
    page = panels.draw(parts)
    page._figure.draw_without_rendering()
    return [axes for block in page.blocks for axes in block], list(page.legend)


def placed_panel(curves, lines=(), label="episode return"):
    """The axes of a lone panel, and the page's legend."""
    panel = panels.Panel("a", curves, 300, lines)
    (axes,), legend = placed(panels.PanelGroup((panel,), "wall_seconds", 300.0, label))
    return axes, legend


def test_lines_far_from_the_curves_stand_below_the_title():
    lines = ((70_000.0, "the paper"), (2000.0, "a human"), (5.0, "random play"))
    axes, legend = placed_panel((curve("ddpg", 800),), lines)
    assert legend == ["ddpg", "a human", "random play"]
    assert 2000 < axes.get_ylim()[1] < 3000
    assert axes.get_title() == "a\nthe paper: 70,000"


def test_a_reported_number_has_the_dashes_of_the_legend_in_each_panel():
    """Also where another panel has more of them, as of settings that it lacks."""
    all_lines = ((300.0, "random play"), (500.0, "ND, reported"), (700.0, "reported"))
    drawn = [panels.Panel(name, (curve("one", 500),), 300.0) for name in ("a", "b")]
    both = [dataclasses.replace(drawn[0], lines=all_lines)]
    both.append(dataclasses.replace(drawn[1], lines=(all_lines[0], all_lines[2])))
    page = panels.draw([panels.PanelGroup(tuple(both), "wall_seconds", 300.0, "return")])
    legend = {page.legend[label].get_linestyle() for _, label in all_lines}
    assert len(legend) == 3
    for place, panel in zip(page.blocks[0], both):
        styles = {line.get_ydata()[0]: line.get_linestyle() for line in place.lines[1:]}
        assert styles == {y: page.legend[label].get_linestyle() for y, label in panel.lines}


def test_a_curve_that_diverges_leaves_the_height_to_the_others():
    curves = (curve("ddpg", 800), curve("fallen", -20_000), curve("two", -300))
    axes, legend = placed_panel(curves)
    assert legend == ["ddpg", "fallen", "two"]
    low, high = axes.get_ylim()
    assert -600 < low < -330 and 880 < high < 1100
    assert axes.get_title() == "a\nfallen: down to -20,000"


def test_a_curve_above_the_others_may_fall():
    falling = dataclasses.replace(curve("two", -30), middle=30 - 25 * X / 300, low=None, high=None)
    axes, _ = placed_panel((curve("ddpg", 0.3), falling), label="KL divergence")
    assert axes.get_ylim()[1] > 30 and axes.get_title() == "a"


def test_halves_stand_beside_each_other_as_high_as_the_page():
    (left, *right), legend = placed(part("dqn", "57 games"), part("dqn", *"abcdef"))
    assert legend == ["dqn"] and [axes.get_title() for axes in right] == list("abcdef")
    whole = left.get_position()
    first, last = right[0].get_position(), right[-1].get_position()
    assert whole.x1 < first.x0 and whole.width > 1.5 * first.width
    assert whole.height > 1.8 * first.height and last.y1 < first.y0
    assert abs(whole.y0 - last.y0) < 0.01 and abs(whole.y1 - first.y1) < 0.01


def test_rows_name_their_tasks_and_their_axis_once():
    tasks = ("ant", "humanoid")
    axes, legend = placed(part("one", *tasks), part("two", *tasks))
    assert legend == ["one", "two"]
    assert [place.get_title() for place in axes] == ["ant", "humanoid", "", ""]
    named = [dataclasses.replace(part("one", *tasks), name=name) for name in ("C", "D")]
    titles = [place.get_title() for place in placed(*named)[0]]
    assert titles == ["ant, C", "humanoid, C", "ant, D", "humanoid, D"]
    assert [place.get_xlabel() for place in axes] == ["", "", *2 * ["training time (minutes)"]]
    axes, legend = placed(part("one", *tasks), part("one", *tasks, unit="actor_steps"))
    assert legend == ["one"]
    assert [place.get_xlabel() for place in axes] == [
        *2 * ["training time (minutes)"],
        *2 * ["actor steps"],
    ]


@pytest.mark.parametrize("count, columns", [(2, 2), (4, 4), (6, 3), (7, 4)])
def test_parts_of_one_panel_form_a_grid(count, columns):
    parts = [dataclasses.replace(part("one", "ant"), name=str(number)) for number in range(count)]
    axes, _ = placed(*parts)
    assert [place.get_title() for place in axes[:count]] == [f"ant, {n}" for n in range(count)]
    assert len({round(place.get_position().x0, 3) for place in axes}) == columns
    assert len({round(place.get_position().y0, 3) for place in axes}) == -(-count // columns)
    assert [place.axison for place in axes] == [number < count for number in range(len(axes))]


def test_rows_may_have_the_seven_games_of_reactor():
    axes, _ = placed(part("one", *"abcdefg"), part("two", *"abcdefg"))
    assert [place.get_title() for place in axes] == [*"abcdefg", *7 * [""]]


@pytest.mark.parametrize(
    "count, columns", [(1, 1), (3, 3), (4, 4), (6, 3), (9, 3), (10, 5), (16, 4), (57, 6)]
)
def test_grids_leave_few_places_empty(count, columns):
    assert panels._columns(count) == columns


def test_bars_show_their_values(tmp_path):
    group = [
        Bar("AQL", Style(COLOR_NAMES["blue"]), 500.0, 480.0, 530.0),
        Bar("D3PG", Style(COLOR_NAMES["vermillion"]), 400.0),
    ]
    for name, groups in (("one", {"": group}), ("more", {"hopper": group, "walker": group[:1]})):
        (file, _) = saved(drawing.bars(groups, "episode return", ()), tmp_path / name)
        assert (
            pixels_near(file, COLOR_NAMES["blue"])
            > 5000
            < 4 * pixels_near(file, COLOR_NAMES["vermillion"])
        )


def test_an_error_bar_is_drawn_where_the_mean_is_outside_of_it():
    """As with one slow run of five: the 25th percentile is above the mean."""
    bar = Bar("ours", Style(COLOR_NAMES["blue"]), 91.2, 100.0, 102.0)
    for page in (
        drawing.bars({"pong": [bar]}, "actor steps/s", ()),
        drawing.proportion([2, 4], [bar, bar], "actors", "actor steps/s"),
    ):
        (error, *_) = (each for each in page.blocks[0][0].collections)
        ((low, high),) = error.get_segments()
        assert [low[1], high[1]] == [100.0, 102.0]


def test_a_setting_without_a_style_gets_a_free_colour():
    blue, red = Style(COLOR_NAMES["blue"]), Style(COLOR_NAMES["vermillion"])
    looks = {"a": Look("A", blue), "b": Look("B", red), "c": Look("C")}
    assert figures.styles(["c", "a"], looks) == {"c": red, "a": blue}
    styles = figures.styles(["a", "c", "unknown", "b"], looks)
    assert styles["a"] == blue and styles["b"] == red
    assert len({style.color for style in styles.values()}) == 4
    many = figures.styles([str(number) for number in range(12)], {})
    assert len(set(many.values())) == 12


def test_settings_of_the_same_style_differ_by_their_dashes():
    dashed, blue = Style(COLOR_NAMES["blue"], "--"), Style(COLOR_NAMES["blue"], width=2.0)
    looks = {name: Look(name, blue) for name in "abcd"} | {"dashed": Look("dashed", dashed)}
    styles = figures.styles(["a", "b", "c", "d", "dashed"], looks)
    assert styles["a"] == blue and styles["dashed"] == dashed
    assert [styles[name].line for name in "bc"] == [":", "-."] and styles["b"].width == 2
    assert {styles[name].color for name in "abc"} == {COLOR_NAMES["blue"]} != {styles["d"].color}


def test_settings_of_one_label_are_one_curve_of_the_legend():
    looks = dict.fromkeys(["suite", "parkour"], Look("D4PG", Style(COLOR_NAMES["blue"])))
    looks |= {"hand": Look("D4PG"), "other": Look("DDPG")}
    styles = figures.styles(["suite", "other", "parkour", "hand"], looks)
    assert styles["suite"] == styles["parkour"] == styles["hand"] != styles["other"]


def test_rows_of_a_task_have_the_same_height_and_logarithmic_axes_stay():
    rows = [part("one", "ant", "humanoid"), part("two", "ant", "humanoid")]
    low = dataclasses.replace(rows[0].panels[0], curves=(curve("one", 8),))
    rows[0] = dataclasses.replace(rows[0], panels=(low, rows[0].panels[1]))
    axes, _ = placed(*rows)
    assert axes[0].get_ylim() == axes[2].get_ylim() and axes[0].get_ylim()[1] > 800
    (place, _), _ = placed(dataclasses.replace(rows[0], is_log=True))[:2]
    assert place.get_yscale() == "log"


def effect(estimate, low, high, outcome):
    return SimpleNamespace(estimate=estimate, low=low, high=high, outcome=outcome)


AHEAD, UNCLEAR = effect(0.2, 0.15, 0.25, "ahead"), effect(-0.05, -0.12, 0.02, "unclear")
BOTH = [drawing.ForestRow("n_step", AHEAD, True), drawing.ForestRow("noise", UNCLEAR, False)]


def test_outcomes_are_told_by_colours_over_the_margin(tmp_path):
    both, alone = (
        saved(drawing.forest(rows, 0.05), tmp_path / name)[0]
        for name, rows in (("both", BOTH), ("alone", [drawing.ForestRow("noise", UNCLEAR, True)]))
    )
    assert (
        pixels_near(both, COLOR_NAMES["blue"]) > 50 and pixels_near(alone, COLOR_NAMES["blue"]) == 0
    )
    assert pixels_near(alone, "#E6E6E6") > 500
    assert len(imread(both)) > len(imread(alone))


def test_an_effect_beyond_the_axis_has_an_arrow_and_its_number():
    far = effect(-2e8, -3e8, -1e8, "behind")
    page = drawing.forest([*BOTH, drawing.ForestRow("diverges", far, True)], 0.05)
    ((place,),) = page.blocks
    assert max(map(abs, place.get_xlim())) < 200
    labels = [label.get_text() for label in place.get_yticklabels()]
    assert labels == ["n_step", "noise", "diverges (-2.0e+10 %)"]
    assert [line.get_marker() for line in place.lines if line.get_marker() in "o<>"] == [
        "o",
        "o",
        "<",
    ]


def moment(step, chosen, size=5):
    generator = np.random.default_rng(step)
    probabilities = [generator.dirichlet(np.ones(size)) for _ in chosen]
    picture = np.full((24, 32, 3), step % 255, np.uint8)
    return Moment(step, picture, generator.normal(step, 1, 100), probabilities, np.array(chosen))


def test_a_row_has_a_picture_the_values_and_a_bar_for_each_probability():
    given = [moment(10, [0, 3]), moment(500, [4, 1])]
    (axes,) = drawing.moments(given).blocks
    for row, drawn in enumerate(given):
        picture, values, probabilities = axes[3 * row : 3 * row + 3]
        assert picture.get_title() == f"step {drawn.step}"
        np.testing.assert_array_equal(picture.images[0].get_array(), drawn.picture)
        assert sum(bar.get_height() for bar in values.patches) == 100
        heights = [bar.get_height() for bar in probabilities.patches]
        assert heights == pytest.approx(np.concatenate(drawn.probabilities).tolist())
        green = [i for i, bar in enumerate(probabilities.patches) if is_green(bar)]
        assert green == [drawn.chosen[0], 5 + drawn.chosen[1]]


def is_green(bar):
    red, green, blue, _ = bar.get_facecolor()
    return "#" + "".join(f"{round(255 * part):02x}" for part in (red, green, blue)) == (
        COLOR_NAMES["green"].lower()
    )


def test_the_axis_of_values_is_that_of_the_possible_ones():
    for step, limits in ((40, (0, 100)), (120, (0, 125))):
        values = moment(step, [0])._replace(values=np.array([step + 1.0, step + 5.0]))
        (axes,) = drawing.moments([values], (0, 100)).blocks
        assert axes[1].get_xlim() == pytest.approx(limits)
        assert sum(bar.get_height() for bar in axes[1].patches) == 2
