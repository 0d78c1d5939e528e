"""Tests of common.experiments.bootstrap."""

import numpy as np
import pytest
from scipy import stats

from common.experiments.bootstrap import contrast


def difference(ours, theirs, over_tasks=np.mean):
    """The contrast of two settings, [task][seed] each."""
    return contrast(list(zip(ours, theirs)), (1, -1), over_tasks)


def test_student_is_welchs_interval():
    ours, theirs = [846.0, 833.0, 872.0], [402.0, 467.0]
    interval = difference([ours], [theirs])
    expected = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert interval.value == np.mean(ours) - np.mean(theirs)
    p = stats.ttest_ind(ours, theirs, equal_var=False).pvalue
    assert interval.p_above(0) == pytest.approx(p) and interval.p_below(0) == 1


def test_each_task_has_a_variance_of_its_own():
    # Seeds agree on a task: Satterthwaite gives the degrees of freedom of the other alone.
    ours, theirs = [[100.0, 140.0, 90.0], [5.0, 5.0, 5.0]], [[0.0, 10.0, 20.0], [4.0, 4.0, 4.0]]
    interval, alone = difference(ours, theirs), difference(ours[:1], theirs[:1])
    assert interval.freedom == alone.freedom and interval.error == alone.error / 2


def test_tasks_are_not_drawn():
    # Seeds agree on each task, and only seeds are drawn.
    interval = difference([[10.0, 10.0], [40.0, 40.0]], [[0.0, 0.0], [0.0, 0.0]])
    assert (interval.low, interval.value, interval.high) == (25, 25, 25)
    assert interval.p_above(20) < 0.001 and interval.p_above(25) == interval.p_above(30) == 1
    assert interval.p_below(float("inf")) == 0 and interval.p_above(float("inf")) == 1


def test_the_same_runs_give_the_same_interval():
    ours, theirs = np.random.default_rng(0).normal(size=(2, 4, 5)).tolist()
    assert difference(ours, theirs) == difference(ours, theirs)


def test_both_ways_are_mirror_images():
    ours, theirs = (np.random.default_rng(0).normal(size=(2, 4, 5)) + [[[1]], [[0]]]).tolist()
    forth, back = difference(ours, theirs), difference(theirs, ours)
    assert back.value == -forth.value and back.low == pytest.approx(-forth.high, rel=0.1)
    assert back.p_below(0) == pytest.approx(forth.p_above(0), abs=0.01)


def test_p_values_say_what_the_intervals_say():
    random = np.random.default_rng(2)
    for ours, theirs in (random.normal(size=(20, 2, 2, 3)) + [[[[1]], [[0]]]]).tolist():
        interval = difference(ours, theirs)
        assert (interval.p_above(0.2) < 0.05) == (interval.low > 0.2)
        assert (interval.p_below(1.5) < 0.05) == (interval.high < 1.5)


def test_weights_make_trends_and_interactions():
    samples = [[[1.0, 1.1], [2.0, 2.1], [3.0, 3.1]]]
    assert contrast(samples, (-1, 0, 1)).value == pytest.approx(2)
    assert contrast(samples, (1, -2, 1)).value == pytest.approx(0)


def test_a_median_is_not_moved_by_a_task():
    ours = [[1.0, 1.2, 1.1], [2.0, 2.2, 2.1], [900.0, 100.0, 500.0]]
    theirs = [[0.0, 0.2, 0.1], [1.0, 1.2, 1.1], [90.0, 10.0, 50.0]]
    interval = difference(ours, theirs, np.median)
    assert interval.value == pytest.approx(1) and interval.low > 0.5
    assert difference(ours, theirs).low < 0


@pytest.mark.parametrize("over_tasks, num_tasks", [(np.mean, 1), (np.mean, 4), (np.median, 5)])
@pytest.mark.parametrize("seeds", [2, 5])
def test_equal_methods_are_seldom_called_different(seeds, over_tasks, num_tasks):
    random, wrong = np.random.default_rng(1), 0
    for ours, theirs in random.normal(size=(200, 2, num_tasks, seeds)).tolist():
        interval = difference(ours, theirs, over_tasks)
        wrong += min(interval.p_above(0), interval.p_below(0)) < 0.05
    assert wrong <= 0.08 * 200  # with two seeds one time in three by the bootstrap alone


@pytest.mark.parametrize(
    "ours, theirs", [([], []), ([[1.0]], [[1.0, 2.0]]), ([[1.0, 2.0]], [[1.0]])]
)
def test_too_few_seeds_are_refused(ours, theirs):
    with pytest.raises(ValueError, match="two or more seeds|there must be a task"):
        difference(ours, theirs)
