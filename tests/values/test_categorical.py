"""Tests of common.values.categorical."""

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.values import categorical

GOLDEN = Path(__file__).parents[1] / "golden"
PROJECTIONS = json.loads((GOLDEN / "projection.json").read_text())
either_twin = pytest.mark.parametrize("project", [categorical.project, categorical.project_np])


def equation_15(positions, probabilities, support):
    """The projection as printed, one hat at a time."""
    last = len(support) - 1

    def hat(i, z):
        if (z <= support[0] and i == 0) or (z >= support[-1] and i == last):
            return 1.0
        if i > 0 and support[i - 1] <= z <= support[i]:
            return (z - support[i - 1]) / (support[i] - support[i - 1])
        if i < last and support[i] <= z <= support[i + 1]:
            return (support[i + 1] - z) / (support[i + 1] - support[i])
        return 0.0

    return np.array(
        [
            [sum(hat(i, z) * p for z, p in zip(*row)) for i in range(len(support))]
            for row in zip(positions, probabilities)
        ]
    )


def random_case(seed, num_rows=4, num_positions=7, num_atoms=9, even=False):
    rng = np.random.default_rng(seed)
    gaps = np.ones(num_atoms) if even else rng.uniform(0.2, 3.0, num_atoms)
    support = np.cumsum(gaps) - 8.0
    positions = rng.uniform(support[0] - 3, support[-1] + 3, (num_rows, num_positions))
    probabilities = rng.dirichlet(np.ones(num_positions), num_rows)
    return positions, probabilities, support


def test_support_is_even_and_includes_both_ends():
    atoms = categorical.support(-150.0, 150.0, 51)
    assert atoms.dtype == tf.float32
    np.testing.assert_allclose(atoms, -150.0 + 6.0 * np.arange(51), rtol=1e-6)
    np.testing.assert_array_equal(categorical.support(0, 100, 2), [0.0, 100.0])


@either_twin
@pytest.mark.parametrize("case", PROJECTIONS, ids=lambda case: case["source"])
def test_project_equals_published_vectors(case, project):
    positions, probabilities, support = (
        np.array(case[name], np.float32) for name in ("positions", "probabilities", "support")
    )
    projected = project(positions, probabilities, support)
    np.testing.assert_allclose(projected, case["expected"], atol=1e-6)


@either_twin
@pytest.mark.parametrize("even", [True, False])
def test_project_equals_equation_15(even, project):
    for seed in range(5):
        case = random_case(seed, even=even)
        projected = project(*case)
        assert projected.dtype == np.float64
        np.testing.assert_allclose(projected, equation_15(*case), atol=1e-12)


@either_twin
def test_project_handles_positions_on_atoms_and_far_outside(project):
    support = np.array([-1.0, 0.5, 4.0])
    positions = np.array([[-1.0, 0.5, 4.0], [-1e30, 1e30, 0.5], [-np.inf, np.inf, np.inf]])
    probabilities = np.tile([[0.2, 0.3, 0.5]], (3, 1))
    np.testing.assert_allclose(
        project(positions, probabilities, support),
        [[0.2, 0.3, 0.5], [0.2, 0.5, 0.3], [0.2, 0.0, 0.8]],
        atol=1e-12,
    )


@either_twin
def test_project_keeps_the_dtype_and_takes_the_support_of_another_one(project):
    """And leaves its arguments as they are."""
    sizes = {"num_positions": 51, "num_atoms": 51}
    positions, probabilities, support = case = random_case(0, **sizes)
    single = project(positions.astype(np.float32), probabilities.astype(np.float32), support)
    assert single.dtype == np.float32
    expected = project(positions, probabilities, support.astype(np.float32))
    assert expected.dtype == np.float64
    np.testing.assert_allclose(single, expected, atol=1e-5)
    for after, before in zip(case, random_case(0, **sizes)):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    "shapes, named",
    [
        (((2, 3), (2, 4), (5,)), "positions"),
        (((3,), (3,), (5,)), "positions"),
        (((2, 3), (2, 3), (1,)), "support"),
        (((2, 3), (2, 3), (2, 5)), "support"),
    ],
)
def test_project_refuses_other_shapes(shapes, named):
    with pytest.raises(ValueError, match=named):
        categorical.project(*(np.zeros(shape) for shape in shapes))


def test_td_targets_and_losses_equal_published_ones():
    case = json.loads((GOLDEN / "categorical_td.json").read_text())
    atoms = tf.constant(case["support"], tf.float32)
    positions = categorical.target_positions(case["rewards"], case["discounts"], atoms)
    probabilities_t = tf.nn.softmax(tf.constant(case["logits_t"], tf.float32))
    targets = categorical.project(positions, probabilities_t, atoms)
    np.testing.assert_allclose(targets, case["targets"], atol=1e-3)
    losses = categorical.cross_entropy(targets, tf.constant(case["logits_tm1"], tf.float32))
    np.testing.assert_allclose(losses, case["losses"], rtol=1e-5)


def test_no_gradient_flows_through_the_target():
    atoms = tf.constant([-1.0, 0.0, 1.0])
    target_logits = tf.Variable([[1.0, 2.0, 3.0]])
    rewards = tf.Variable([0.3])
    logits = tf.Variable([[0.0, 1.0, 0.0]])
    with tf.GradientTape() as tape:
        positions = categorical.target_positions(rewards, [0.9], atoms)
        target = categorical.project(positions, tf.nn.softmax(target_logits), atoms)
        loss = categorical.cross_entropy(target, logits)
    gradients = tape.gradient(loss, [target_logits, rewards, logits])
    assert gradients[0] is None and gradients[1] is None
    assert np.abs(gradients[2]).max() > 0.01


def test_mean():
    logits = tf.math.log(tf.constant([[0.25, 0.5, 0.25], [0.1, 0.1, 0.8]]))
    atoms = tf.constant([-2.0, 0.0, 4.0])
    np.testing.assert_allclose(categorical.mean(logits, atoms), [0.5, 3.0], rtol=1e-6)
    assert categorical.mean(tf.cast(logits, tf.float64), atoms).dtype == tf.float64


def test_total_variation_is_the_sum_of_absolute_differences():
    p = np.array([[[0.5, 0.25, 0.25], [0, 0, 1.0]], [[-0.5, 0.5, 1.0], [0.2, 0.3, 0.5]]])
    q = np.array([[[0.25, 0.25, 0.5], [1.0, 0, 0]], [[1.0, 0, 0], [0.2, 0.3, 0.5]]])
    actual = categorical.total_variation(tf.constant(p), tf.constant(q))
    np.testing.assert_allclose(actual, [[0.5, 2.0], [3.0, 0.0]])


def test_project_shows_a_position_that_is_not_a_number():
    projected = categorical.project_np(
        np.array([[np.nan, 0.0], [0.0, 1.0]]), np.full((2, 2), 0.5), np.array([0.0, 1.0])
    )
    assert np.isnan(projected[0]).any() and np.isfinite(projected[1]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cross_entropy_and_softmax_equal_their_twins(dtype):
    rng = np.random.default_rng(1)
    logits = (rng.normal(size=(64, 51)) * 3).astype(dtype)
    logits[0] += 1000.0  # overflows an unshifted exponential
    targets = rng.dirichlet(np.ones(51), 64).astype(dtype)
    entropies = categorical.cross_entropy_np(targets, logits)
    probabilities = categorical.softmax_np(logits)
    assert entropies.dtype == probabilities.dtype == dtype
    np.testing.assert_allclose(entropies, categorical.cross_entropy(targets, logits), rtol=1e-5)
    np.testing.assert_allclose(probabilities, tf.nn.softmax(logits), atol=1e-6)
