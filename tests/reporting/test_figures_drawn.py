"""Panels, bars and the palette: that what is to be seen is there, and always the same."""

import numpy as np
import pytest
from matplotlib.image import imread

from common.experiments import registry
from common.reporting import bars, palette, panels

X = np.linspace(0, 300, 50)


def curve(setting, level):
    style = palette.styles([setting])[setting]
    return panels.Curve(setting, style, X, level * X / 300, 0.9 * level * X / 300,
                        1.1 * level * X / 300)


def draw(path, *drawn, x_limit=300.0, y_limits=(0.0, 1000.0), caption="Some words."):
    axes = panels.Axes("wall_seconds", x_limit, "episode return", y_limits)
    return panels.draw(drawn, axes, "a title", caption, path)


def pixels_near(file, color):
    """How many pixels have a colour, of #rrggbb."""
    wanted = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.count_nonzero(np.abs(imread(file)[..., :3] - wanted).max(axis=-1) < 0.02)


def test_panels_show_their_curves_and_repeat_byte_for_byte(tmp_path):
    drawn = (panels.Panel("cartpole", (curve("d4pg_prioritized_n5", 800), curve("ddpg", 300)), 300),
             panels.Panel("finger", lines=((500.0, "reported"),)))
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
    edges = np.concatenate([image[:4].reshape(-1, 3), image[-4:].reshape(-1, 3),
                            image[:, :4].reshape(-1, 3), image[:, -4:].reshape(-1, 3)])
    assert edges.min() == 1


@pytest.mark.parametrize("count, columns", [(1, 1), (3, 3), (4, 4), (6, 3), (9, 3), (10, 5),
                                            (16, 4), (57, 6)])
def test_grids_leave_few_places_empty(count, columns):
    assert panels._columns(count) == columns


def test_bars_show_their_values(tmp_path):
    style = palette.styles(["aql", "d3pg"])
    group = [bars.Bar("AQL", style["aql"], 500.0, 480.0, 530.0),
             bars.Bar("D3PG", style["d3pg"], 400.0)]
    for name, groups in (("one", {"": group}), ("more", {"hopper": group, "walker": group[:1]})):
        (file, _) = bars.draw(groups, "episode return", (), "a title", "Words.", tmp_path / name)
        assert pixels_near(file, palette.BLUE) > 5000 < 4 * pixels_near(file, palette.VERMILLION)


def test_curves_of_a_figure_look_different():
    for paper in map(registry.paper, registry.paper_names()):
        for experiment in paper.experiments:
            if experiment.name.startswith("figure") and len(experiment.settings) <= 12:
                styles = palette.styles(experiment.settings)
                assert len(set(styles.values())) == len(styles), experiment.name


def test_a_method_looks_the_same_in_all_figures():
    first = {}
    for setting in palette.STYLES:
        first[setting] = palette.styles([setting])[setting]
    for paper in map(registry.paper, registry.paper_names()):
        for experiment in paper.experiments:
            styles = palette.styles(experiment.settings)
            for setting in set(styles) & set(first):
                if experiment.name != "figure 6":  # ReF-ER's has three agents with one replay
                    assert styles[setting] == first[setting], (paper.name, experiment.name)


def test_what_has_no_look_of_its_own_gets_a_free_colour():
    styles = palette.styles(["d4pg_prioritized_n5", "d4pg_prioritized_n5_beta0", "unknown"])
    assert styles["d4pg_prioritized_n5"].color == palette.BLUE
    assert len({style.color for style in styles.values()}) == 3
    beyond = palette.styles(["d4pg_uniform_n1_lr5e-05_batch512"])
    assert list(beyond.values()) == [palette.STYLES["d4pg_uniform_n1"]]


def test_more_actors_are_darker():
    names = [f"dqn_{actors}_actors_replay_1m" for actors in (8, 16, 32, 64, 128, 256)]
    lightness = [sum(int(style.color[i : i + 2], 16) for i in (1, 3, 5))
                 for style in palette.styles(names).values()]
    assert lightness == sorted(lightness, reverse=True) and len(set(lightness)) == 6
