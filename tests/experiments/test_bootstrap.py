"""Tests of common.experiments.bootstrap."""

import numpy as np
import pytest
from scipy import stats

from common.experiments.bootstrap import difference


def test_one_task_with_two_seeds_each_spans_all_that_was_seen():
    interval = difference([[10.0, 12.0]], [[1.0, 5.0]])
    assert interval.difference == 8.0
    assert (interval.low, interval.high) == (5.0, 11.0)


def test_student_is_scipys_two_sample_interval():
    ours, theirs = [846.0, 833.0, 872.0], [402.0, 467.0]
    interval = difference([ours], [theirs])
    expected = stats.ttest_ind(ours, theirs).confidence_interval(0.95)
    assert (interval.t_low, interval.t_high) == pytest.approx((expected.low, expected.high))


def test_it_is_the_mean_over_tasks_and_draws_them_too():
    # Seeds agree on each task, so only the tasks that are drawn make a difference.
    interval = difference([[10.0, 10.0], [40.0, 40.0]], [[0.0, 0.0], [0.0, 0.0]])
    assert interval.difference == 25.0
    assert (interval.low, interval.high) == (10.0, 40.0)


def test_the_same_runs_give_the_same_interval():
    random = np.random.default_rng(0)
    ours, theirs = random.normal(size=(2, 4, 5)).tolist()
    assert difference(ours, theirs) == difference(ours, theirs)


def test_above_and_below_ask_both_intervals():
    # Two seeds apart by chance: the bootstrap is sure, Student is not.
    interval = difference([[2.0, 3.0]], [[0.0, 1.0]])
    assert interval.low > 0 > interval.t_low
    assert not interval.is_above(0) and not interval.is_below(0)
    assert difference([[20.0, 21.0]], [[0.0, 1.0]]).is_above(0)
    assert difference([[0.0, 1.0]], [[20.0, 21.0]]).is_below(0)


def test_equal_methods_are_seldom_called_different():
    random = np.random.default_rng(1)
    wrong = 0
    for ours, theirs in random.normal(size=(200, 2, 1, 2)).tolist():
        interval = difference(ours, theirs)
        wrong += interval.is_above(0) or interval.is_below(0)
    assert wrong <= 0.08 * 200  # one time in three by the bootstrap alone


@pytest.mark.parametrize("ours, theirs", [([], []), ([[1.0]], [[1.0, 2.0]]), ([[1.0, 2.0]], [])])
def test_too_few_seeds_are_refused(ours, theirs):
    with pytest.raises(ValueError, match="two or more seeds"):
        difference(ours, theirs)
