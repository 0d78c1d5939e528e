"""Tests of common.environments.lab_actions."""

import math

import numpy as np
import pytest

from common.environments import lab_actions
from common.environments.lab_actions import CURATED, STRUCTURED


def test_the_structured_set_is_a_product_of_3528_rising_values_around_0():
    assert [len(values) for values in STRUCTURED] == [7, 7, 3, 3, 2, 2, 2]
    assert math.prod(map(len, STRUCTURED)) == 3528
    for values in STRUCTURED:
        assert list(values) == sorted(set(values)) and 0 in values


def test_every_action_of_both_sets_is_in_the_ranges():
    spec = lab_actions.action_spec()
    for action in (*CURATED, tuple(map(min, STRUCTURED)), tuple(map(max, STRUCTURED))):
        spec.validate(np.array(action, np.int32))
    assert len(CURATED) == len(set(CURATED)) == 11 and (0,) * 7 in CURATED


@pytest.mark.parametrize("action", [(513, *(0,) * 6), (*(0,) * 6, -1), (0,) * 6])
def test_an_action_out_of_range_is_refused(action):
    with pytest.raises(ValueError, match="seven integers"):
        lab_actions.require_valid(np.array(action))
