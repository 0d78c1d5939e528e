"""Tests of common.experiments.shares."""

import pytest

from common.experiments.shares import EACH, MANY, MOST, SOME


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
