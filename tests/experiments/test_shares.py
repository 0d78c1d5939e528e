"""Tests of common.experiments.shares."""

import numpy as np
import pytest

from common.experiments.shares import EACH, MANY, MOST, SOME, partial_conjunction


@pytest.mark.parametrize(
    "share, least",
    [
        (EACH, {1: 1, 10: 10}),
        (MOST, {1: 1, 2: 2, 9: 5, 10: 6}),
        (MANY, {1: 1, 9: 3, 10: 4}),
        (SOME, {1: 1, 10: 1}),
    ],
)
def test_fewest_tasks_that_are_enough(share, least):
    assert {number: share.least(number) for number in least} == least


def test_partial_conjunction_goes_from_bonferroni_to_an_intersection_of_tests():
    p_values = [0.04, 0.01, 0.03, 0.9]
    found = [partial_conjunction(p_values, least) for least in (1, 2, 3, 4)]
    assert found == pytest.approx([4 * 0.01, 3 * 0.03, 2 * 0.04, 0.9])
    assert partial_conjunction([0.5, 0.6], 1) == 1


@pytest.mark.parametrize("least", [1, 2, 4])
def test_true_null_hypotheses_are_seldom_rejected(least):
    # One alternative fewer than claimed is true beyond doubt: the worst case.
    random = np.random.default_rng(0)
    p_values = random.uniform(size=(2000, 8))
    p_values[:, : least - 1] = 0
    rejected = np.mean([partial_conjunction(row, least) < 0.05 for row in p_values])
    assert 0.03 < rejected < 0.065
