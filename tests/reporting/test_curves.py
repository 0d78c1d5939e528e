from matplotlib.image import imread
import numpy as np
import pytest

from common.reporting import csv_rows
from common.reporting.csv_rows import CsvRows
from common.reporting.curves import learning_curve
from common.reporting.run_directory import RunDirectory
from common.reporting.user_error import UserError


def _write_run(directory, evaluations: int) -> RunDirectory:
    rows = CsvRows(directory / "evaluator.csv", csv_rows.EVALUATOR)
    random = np.random.default_rng(0)
    for minute in range(evaluations):
        mean = 850 * (1 - np.exp(-minute / 8)) + random.normal(0, 25)
        rows.append(
            {
                "paper": "d4pg",
                "setting": "d4pg_prioritized_n5",
                "environment": "control:cartpole:swingup",
                "seed": 0,
                "wall_seconds": 60.0 * minute,
                "actor_steps": 240_000 * minute,
                "environment_frames": 240_000 * minute,
                "learner_steps": 18_000 * minute,
                "episode_return_mean": mean,
                "episode_return_std": 40.0,
                "episodes": 10,
            }
        )
    return RunDirectory(directory)


@pytest.mark.parametrize("evaluations", [1, 40])
def test_the_same_rows_give_the_same_picture(tmp_path, evaluations):
    run = _write_run(tmp_path, evaluations)
    picture, again = tmp_path / "curve.png", tmp_path / "again.png"
    learning_curve(run, picture, "D4PG, cartpole swingup")
    assert 5_000 < picture.stat().st_size < 150_000
    pixels = imread(picture)[..., :3]
    assert pixels.shape[1] > pixels.shape[0] > 400
    blue = np.abs(pixels - np.array([0, 114, 178]) / 255).max(axis=-1) < 0.02
    assert blue.sum() > (20 if evaluations == 1 else 200)
    learning_curve(run, again, "D4PG, cartpole swingup")
    assert again.read_bytes() == picture.read_bytes()


def test_nothing_to_draw_is_an_error(tmp_path):
    run = RunDirectory(tmp_path)
    for _ in range(2):
        with pytest.raises(UserError, match="evaluator.csv has no evaluations yet"):
            learning_curve(run, tmp_path / "curve.png", "empty")
        _write_run(tmp_path, 0)
    assert not (tmp_path / "curve.png").exists()
