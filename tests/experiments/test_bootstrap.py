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


def test_the_p_value_is_the_larger_of_both():
    # Two seeds apart by chance: the bootstrap is sure, Student is not.
    interval = difference([[2.0, 3.0]], [[0.0, 1.0]])
    assert interval.low > 0 > interval.t_low
    student = stats.ttest_ind([2.0, 3.0], [0.0, 1.0]).pvalue
    assert interval.p_above(0) == pytest.approx(student)
    assert interval.p_below(0) == 1
    # The tasks differ, the seeds do not: Student is sure, the bootstrap is not.
    interval = difference([[1.0, 1.1], [-0.4, -0.3]], [[0.0, 0.1], [0.0, 0.1]])
    assert interval.t_low > 0 > interval.low
    assert interval.p_above(0) > 0.3 and interval.p_above(-1) < 0.05


def test_p_values_say_what_the_intervals_say():
    random = np.random.default_rng(2)
    for ours, theirs in (random.normal(size=(20, 2, 2, 3)) + [[[[1]], [[0]]]]).tolist():
        interval = difference(ours, theirs)
        above = min(interval.low, interval.t_low) > 0.2
        assert (interval.p_above(0.2) < 0.05) == above
        below = max(interval.high, interval.t_high) < 1.5
        assert (interval.p_below(1.5) < 0.05) == below


def test_no_spread_at_all_is_sure():
    interval = difference([[2.0, 2.0]], [[1.0, 1.0]])
    assert interval.p_above(0.5) < 0.001 and interval.p_above(1) == interval.p_above(2) == 1
    assert interval.p_below(float("inf")) == 0 and interval.p_above(float("inf")) == 1


def test_equal_methods_are_seldom_called_different():
    random = np.random.default_rng(1)
    wrong = 0
    for ours, theirs in random.normal(size=(200, 2, 1, 2)).tolist():
        interval = difference(ours, theirs)
        wrong += min(interval.p_above(0), interval.p_below(0)) < 0.05
    assert wrong <= 0.08 * 200  # one time in three by the bootstrap alone


@pytest.mark.parametrize("ours, theirs", [([], []), ([[1.0]], [[1.0, 2.0]]), ([[1.0, 2.0]], [])])
def test_too_few_seeds_are_refused(ours, theirs):
    with pytest.raises(ValueError, match="two or more seeds"):
        difference(ours, theirs)
