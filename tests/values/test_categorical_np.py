"""Tests of common.values.categorical against its TensorFlow twin."""

import json
from pathlib import Path

import numpy as np
import pytest

from common.values import categorical

PROJECTIONS = json.loads((Path(__file__).parents[1] / "golden" / "projection.json").read_text())


@pytest.mark.parametrize("case", PROJECTIONS, ids=lambda case: case["source"])
def test_project_equals_published_vectors(case):
    positions, probabilities, support = (
        np.array(case[name], np.float32) for name in ("positions", "probabilities", "support")
    )
    projected = categorical.project_np(positions, probabilities, support)
    np.testing.assert_allclose(projected, case["expected"], atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("even", [True, False])
def test_project_equals_its_twin(even, dtype):
    rng = np.random.default_rng(0)
    gaps = np.ones(51) if even else rng.uniform(0.5, 10.0, 51)
    support = (np.cumsum(gaps) - 60).astype(dtype)
    positions = (rng.normal(size=(64, 1)) * 20 + support * 0.95).astype(dtype)
    positions[0, :3] = support[0], support[-1], support[7]
    probabilities = rng.dirichlet(np.ones(51), 64).astype(dtype)
    arguments = (positions.copy(), probabilities.copy(), support.copy())
    projected = categorical.project_np(*arguments)
    assert projected.dtype == dtype
    np.testing.assert_allclose(projected, categorical.project(*arguments), atol=1e-5)
    for before, after in zip((positions, probabilities, support), arguments):
        np.testing.assert_array_equal(before, after)


def test_project_onto_two_atoms():
    projected = categorical.project_np(
        np.array([[-9.0, 0.25, 9.0]]), np.array([[0.5, 0.4, 0.1]]), np.array([0.0, 1.0])
    )
    np.testing.assert_allclose(projected, [[0.8, 0.2]])


def test_project_shows_a_position_that_is_not_a_number():
    projected = categorical.project_np(
        np.array([[np.nan, 0.0], [0.0, 1.0]]), np.full((2, 2), 0.5), np.array([0.0, 1.0])
    )
    assert np.isnan(projected[0]).any() and np.isfinite(projected[1]).all()


def test_project_refuses_other_shapes():
    with pytest.raises(ValueError, match="positions"):
        categorical.project_np(np.zeros((2, 3)), np.zeros((2, 4)), np.arange(3.0))
    with pytest.raises(ValueError, match="support"):
        categorical.project_np(np.zeros((2, 3)), np.zeros((2, 3)), np.arange(1.0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cross_entropy_mean_and_softmax_equal_their_twins(dtype):
    rng = np.random.default_rng(1)
    logits = (rng.normal(size=(64, 51)) * 3).astype(dtype)
    logits[0] += 1000.0  # overflows an unshifted exponential
    targets = rng.dirichlet(np.ones(51), 64).astype(dtype)
    support = np.linspace(-1.0, 1.0, 51).astype(dtype)
    entropies = categorical.cross_entropy_np(targets, logits)
    means = categorical.mean_np(logits, support)
    assert entropies.dtype == means.dtype == dtype
    np.testing.assert_allclose(entropies, categorical.cross_entropy(targets, logits), rtol=1e-5)
    np.testing.assert_allclose(means, categorical.mean(logits, support), atol=1e-5)
    probabilities = categorical.softmax_np(logits)
    np.testing.assert_allclose(probabilities.sum(1), np.ones(64), rtol=1e-5)
    np.testing.assert_allclose(probabilities @ support, means)
