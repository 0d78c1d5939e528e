"""Tests of common.experiments.robust."""

import pytest

from common.experiments.robust import interquartile_mean, probability_of_improvement

# rliable 1.2.0: aggregate_iqm and probability_of_improvement of these arrays [run, task].
OURS = [
    [1.13, 0.87, 1.64, 1.1],
    [0.46, 1.36, 2.3, 1.95],
    [0.3, -0.27, 0.38, 1.04],
    [-1.33, 0.78, -0.25, 0.27],
    [0.46, 0.68, 1.41, 2.04],
]
THEIRS = [[0.37, 1.87, -0.17, 0.85], [1.4, 0.59, -0.24, -0.42], [0.04, 0.72, -0.51, 0.29]]


def by_task(runs):
    return list(zip(*runs))


def test_they_are_rliables():
    assert interquartile_mean(by_task(OURS)) == pytest.approx(0.826)
    assert interquartile_mean(by_task(THEIRS)) == pytest.approx(0.30666666)
    assert probability_of_improvement(by_task(OURS), by_task(THEIRS)) == pytest.approx(2 / 3)


def test_outliers_do_not_move_the_interquartile_mean():
    assert interquartile_mean([[1, 2, 3, 4, 5, 6, 7, 8]]) == 4.5
    assert interquartile_mean([[-900, 2, 3, 4, 5, 6, 7, 900]]) == 4.5


def test_equal_runs_count_half_and_both_ways_sum_to_one():
    assert probability_of_improvement([[1, 2]], [[1, 2]]) == 0.5
    assert probability_of_improvement([[2, 3], [0, 0]], [[1, 1], [0, 1]]) == 0.625
    assert probability_of_improvement([[1, 1], [0, 1]], [[2, 3], [0, 0]]) == 0.375
