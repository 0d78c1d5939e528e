"""The figure of many tasks: that each run is in it, and that the same rows give the same file."""

import numpy as np
import pytest
from matplotlib.image import imread

from common.reporting import columns
from common.reporting.csv_rows import CsvRows
from common.reporting.panels import by_task


def write_run(directory, setting, environment, seed, level):
    directory.mkdir(parents=True)
    rows = CsvRows(directory / "evaluator.csv", columns.EVALUATOR)
    for minute in range(6):
        rows.append({
            "paper": "d4pg", "setting": setting, "environment": environment, "seed": seed,
            "wall_seconds": 60.0 * minute + seed, "actor_steps": 1_000 * minute,
            "environment_frames": 1_000 * minute, "learner_steps": 100 * minute,
            "episode_return_mean": level * minute, "episode_return_std": 1.0, "episodes": 10,
        })
    return directory


def pixels_near(image, color):
    """How many pixels have a colour, of #rrggbb."""
    wanted = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.count_nonzero(np.abs(image[..., :3] - wanted).max(axis=-1) < 0.02)


def test_a_panel_a_task_and_a_colour_a_setting(tmp_path):
    runs = [
        write_run(tmp_path / f"{setting}{task}{seed}", setting, f"control:{task}", seed, level)
        for setting, level in (("ddpg", 50), ("d4pg_prioritized_n5", 150))
        for task in ("cartpole:swingup", "finger:turn_hard")
        for seed in (0, 1)
    ]
    by_task(runs, tmp_path / "figures" / "both.png", "two tasks", maximum=1000)
    by_task(runs[:4], tmp_path / "one.png", "one setting", maximum=1000)
    both, one = imread(tmp_path / "figures" / "both.png"), imread(tmp_path / "one.png")
    for color in ("#0072B2", "#D55E00"):
        assert pixels_near(both, color) > 300
    assert pixels_near(one, "#D55E00") == 0 < pixels_near(one, "#0072B2")


def test_the_same_rows_give_the_same_file(tmp_path):
    run = write_run(tmp_path / "run", "ddpg", "control:cartpole:swingup", 0, 50)
    for name in ("first.png", "second.png"):
        by_task([run], tmp_path / name, "one run")
    assert (tmp_path / "first.png").read_bytes() == (tmp_path / "second.png").read_bytes()


def test_a_run_without_evaluation_is_named(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(ValueError, match="run/evaluator.csv has no evaluations"):
        by_task([tmp_path / "run"], tmp_path / "figure.png", "none")
