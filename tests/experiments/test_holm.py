"""Tests of common.experiments.holm."""

import numpy as np
import pytest

from common.experiments.holm import corrected


@pytest.mark.parametrize(
    "p_values, expected",
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),  # R: p.adjust(p, "holm")
        ([0.01, 0.02, 0.03, 0.04, 0.05], [0.05, 0.08, 0.09, 0.09, 0.09]),
        ([0.6, 0.7], [1.0, 1.0]),
        ([0.04], [0.04]),
        ([], []),
    ],
)
def test_known_values(p_values, expected):
    assert corrected(p_values) == pytest.approx(expected)


def test_true_null_hypotheses_are_seldom_rejected():
    random = np.random.default_rng(0)
    families = [min(corrected(p)) < 0.05 for p in random.uniform(size=(2000, 8)).tolist()]
    assert 0.03 < np.mean(families) < 0.065  # a third of them without the correction
