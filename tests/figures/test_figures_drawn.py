"""Panels, bars and the palette: that what is to be seen is there, and always the same."""

from matplotlib.image import imread
import numpy as np
import pytest

from common.experiments import registry
from common.figures import bars, figure_page, palette, panels

X = np.linspace(0, 300, 50)


def curve(setting, level):
    style = palette.styles([setting])[setting]
    return panels.Curve(
        setting, style, X, level * X / 300, 0.9 * level * X / 300, 1.1 * level * X / 300
    )


def draw(path, *drawn, x_limit=300.0, y_limits=(0.0, 1000.0), caption="Some words."):
    axes = panels.Axes("wall_seconds", x_limit, "episode return", y_limits)
    return panels.draw([panels.Part(drawn, axes)], "a title", caption, path)


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
    assert pixels_near(files[0], palette.BLUE) > 200
    assert pixels_near(files[0], palette.VERMILLION) == 0


def test_the_end_of_our_runs_is_marked_where_the_axis_goes_on(tmp_path):
    panel = panels.Panel("cartpole", (curve("ddpg", 300),), 300)
    ends, goes_on = draw(tmp_path / "a", panel)[0], draw(tmp_path / "b", panel, x_limit=900)[0]
    grey = "#B3B3B3"
    assert pixels_near(goes_on, grey) > pixels_near(ends, grey) + 100


def test_nothing_is_cut_off_at_the_edges(tmp_path):
    panel = panels.Panel("cartpole", (curve("ddpg", 300),), 300)
    (file, _) = draw(tmp_path / "a", panel, caption="A long sentence about what was run. " * 12)
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


def part(setting, *titles, unit="wall_seconds"):
    drawn = tuple(panels.Panel(title, (curve(setting, 800),), 300) for title in titles)
    return panels.Part(drawn, panels.Axes(unit, 300.0, "episode return"))


def placed(monkeypatch, tmp_path, *parts):
    """The axes of each panel that was drawn, in order, and the page's legend."""
    pages = []

    def save(page, title, legend, caption, path):
        page._figure.draw_without_rendering()
        pages.append(([axes for block in page.blocks for axes in block], list(legend)))

    monkeypatch.setattr(figure_page.Page, "save", save)
    panels.draw(parts, "a title", "Words.", tmp_path / "a")
    return pages[0]


def test_halves_stand_beside_each_other_as_high_as_the_page(monkeypatch, tmp_path):
    (left, *right), legend = placed(
        monkeypatch, tmp_path, part("dqn", "57 games"), part("dqn", *"abcdef")
    )
    assert legend == ["dqn"] and [axes.get_title() for axes in right] == list("abcdef")
    whole = left.get_position()
    first, last = right[0].get_position(), right[-1].get_position()
    assert whole.x1 < first.x0 and whole.width > 1.5 * first.width
    assert whole.height > 1.8 * first.height and last.y1 < first.y0
    assert abs(whole.y0 - last.y0) < 0.01 and abs(whole.y1 - first.y1) < 0.01


def test_rows_have_legends_of_their_own_if_they_show_other_curves(monkeypatch, tmp_path):
    tasks = ("ant", "humanoid")
    axes, legend = placed(monkeypatch, tmp_path, part("one", *tasks), part("two", *tasks))
    assert legend == []
    labels = [
        [text.get_text() for text in one.get_legend().get_texts()] if one.get_legend() else None
        for one in axes
    ]
    assert labels == [None, ["one"], None, ["two"]]
    assert [one.get_title() for one in axes] == ["ant", "humanoid", "", ""]
    assert [one.get_xlabel() for one in axes] == ["", "", *2 * ["training time (minutes)"]]
    axes, legend = placed(
        monkeypatch, tmp_path, part("one", *tasks), part("one", *tasks, unit="actor_steps")
    )
    assert legend == ["one"] and axes[1].get_legend() is None
    assert [one.get_xlabel() for one in axes] == [
        *2 * ["training time (minutes)"],
        *2 * ["actor steps"],
    ]


@pytest.mark.parametrize(
    "count, columns", [(1, 1), (3, 3), (4, 4), (6, 3), (9, 3), (10, 5), (16, 4), (57, 6)]
)
def test_grids_leave_few_places_empty(count, columns):
    assert panels._columns(count) == columns


def test_bars_show_their_values(tmp_path):
    style = palette.styles(["aql", "d3pg"])
    group = [
        bars.Bar("AQL", style["aql"], 500.0, 480.0, 530.0),
        bars.Bar("D3PG", style["d3pg"], 400.0),
    ]
    for name, groups in (("one", {"": group}), ("more", {"hopper": group, "walker": group[:1]})):
        (file, _) = bars.draw(groups, "episode return", (), "a title", "Words.", tmp_path / name)
        assert pixels_near(file, palette.BLUE) > 5000 < 4 * pixels_near(file, palette.VERMILLION)


def test_curves_of_a_figure_look_different():
    for paper in map(registry.paper, registry.paper_names()):
        for experiment in paper.experiments:
            for part in experiment.divided():
                if experiment.name.startswith("figure") and len(part.settings) <= 12:
                    styles = palette.styles(part.settings)
                    assert len(set(styles.values())) == len(styles), experiment.name


def test_a_method_looks_the_same_in_all_figures():
    first = {}
    for setting in palette.STYLES:
        first[setting] = palette.styles([setting])[setting]
    for paper in map(registry.paper, registry.paper_names()):
        for experiment in (
            part
            for one in paper.experiments
            for scale in ("", *one.substitutes)
            for part in one.at(scale).divided()
        ):
            styles = palette.styles(experiment.settings)
            for setting in set(styles) & set(first):
                if experiment.name != "figure 6":  # ReF-ER's has three agents with one replay
                    assert styles[setting] == first[setting], (paper.name, experiment.name)


def test_what_has_no_look_of_its_own_gets_a_free_colour():
    styles = palette.styles(["d4pg_prioritized_n5", "d4pg_prioritized_n5_beta1", "unknown"])
    assert styles["d4pg_prioritized_n5"].color == palette.BLUE
    assert len({style.color for style in styles.values()}) == 3
    own_value = palette.styles(["vracer_refer_C2", "vracer_refer_C4", "vracer_refer_C8"])
    assert own_value["vracer_refer_C4"] == palette.STYLES["vracer_refer"]
    assert palette.STYLES["vracer_refer"].color not in {
        own_value["vracer_refer_C2"].color,
        own_value["vracer_refer_C8"].color,
    }
    beyond = palette.styles(["d4pg_uniform_n1_lr5e-05_batch512"])
    assert list(beyond.values()) == [palette.STYLES["d4pg_uniform_n1"]]


@pytest.mark.parametrize("begin", ["dqn", "dqn_uniform_lr0.00025"])
def test_more_actors_are_darker(begin):
    names = [f"{begin}_{actors}_actors_replay_1m" for actors in (8, 16, 32, 64, 128, 256)]
    lightness = [
        sum(int(style.color[i : i + 2], 16) for i in (1, 3, 5))
        for style in palette.styles(names).values()
    ]
    assert lightness == sorted(lightness, reverse=True) and len(set(lightness)) == 6
