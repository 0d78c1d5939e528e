from matplotlib.image import imread
import numpy as np
import pandas
import pytest

from common.reporting import columns
from common.reporting.csv_rows import CsvRows
from common.reporting.curves import evaluator_rows, learning_curve


def _write_run(directory, seed: int, setting: str = "d4pg", evaluations: int = 40) -> None:
    directory.mkdir()
    rows = CsvRows(directory / "evaluator.csv", columns.EVALUATOR)
    random = np.random.default_rng(seed)
    for minute in range(evaluations):
        mean = 850 * (1 - np.exp(-minute / 8)) + random.normal(0, 25)
        rows.append(
            {
                "paper": "d4pg",
                "setting": setting,
                "environment": "control:cartpole:swingup",
                "seed": seed,
                "wall_seconds": 60.0 * minute,
                "actor_steps": 240_000 * minute,
                "environment_frames": 240_000 * minute,
                "learner_steps": 18_000 * minute,
                "episode_return_mean": mean,
                "episode_return_std": 40.0,
                "episodes": 10,
            }
        )


def test_figure_shows_each_run(tmp_path):
    runs = [tmp_path / f"seed_{seed}" for seed in range(3)]
    for seed, run in enumerate(runs):
        _write_run(run, seed)
    figure = tmp_path / "figures" / "curve.png"
    learning_curve(runs, figure, "D4PG, cartpole swingup")
    assert 10_000 < figure.stat().st_size < 150_000
    pixels = imread(figure)[..., :3]
    assert pixels.shape[1] > pixels.shape[0] > 400
    colors = np.unique((pixels.reshape(-1, 3) * 255).astype(np.uint8), axis=0).astype(int)
    for color in ((0, 114, 178), (213, 94, 0), (0, 158, 115)):
        assert (np.abs(colors - color).max(axis=1) <= 3).any()

    again = tmp_path / "again.png"
    learning_curve(evaluator_rows(runs), again, "D4PG, cartpole swingup")
    assert again.read_bytes() == figure.read_bytes()


def test_many_lines_and_single_points_fit(tmp_path):
    runs = []
    for number in range(12):
        runs.append(tmp_path / f"run_{number}")
        setting = f"n_{number % 6}_prioritized"
        _write_run(runs[-1], number // 6, setting, 1 if number == 11 else 40)
    learning_curve(runs, tmp_path / "curve.png", "twelve lines")
    assert (tmp_path / "curve.png").stat().st_size < 150_000


def test_nothing_to_draw_is_an_error(tmp_path):
    _write_run(tmp_path / "run", 0, evaluations=0)
    for path in (tmp_path / "run", tmp_path / "missing"):
        with pytest.raises(ValueError, match="evaluator.csv has no evaluations yet"):
            learning_curve([path], tmp_path / "curve.png", "empty")
    with pytest.raises(ValueError, match="no evaluations"):
        learning_curve(pandas.DataFrame(), tmp_path / "curve.png", "empty")
    assert not (tmp_path / "curve.png").exists()
