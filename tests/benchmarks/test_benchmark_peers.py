import numpy as np
import pytest

from common.benchmarks import peers

PRIORITIES = np.array([1.0, 2.0, 0.0, 3.0, 4.0], np.float32)
COLUMNS = [np.arange(10, dtype=np.float32).reshape(5, 2), np.arange(5, dtype=np.float32)]


def make(kind, capacity=5):
    if kind == "cpprb":
        pytest.importorskip("cpprb")
        return peers.Cpprb(capacity, COLUMNS, exponent=1.0)
    return peers.NumpySumTree(capacity, COLUMNS, exponent=1.0, seed=1)


def frequencies(peer):
    indices = np.concatenate([peer.sample(1000)[0] for _ in range(20)])
    return np.bincount(indices, minlength=5) / len(indices)


def test_the_sum_tree_draws_in_proportion_also_after_updates():
    tree = make("numpy")
    tree.insert(COLUMNS, PRIORITIES)
    np.testing.assert_allclose(frequencies(tree), PRIORITIES / 10, atol=0.02)
    assert frequencies(tree)[2] == 0
    tree.update_priorities(np.array([4, 0]), np.array([0.0, 9.0], np.float32))
    np.testing.assert_allclose(frequencies(tree), np.array([9, 2, 0, 3, 0]) / 14, atol=0.02)


@pytest.mark.parametrize("kind", ["numpy", "cpprb"])
def test_rows_come_with_their_index_and_the_oldest_go(kind):
    peer = make(kind)
    peer.insert(COLUMNS, PRIORITIES)
    peer.insert([-column[:2] - 1 for column in COLUMNS], np.ones(2, np.float32))
    indices, _, (pairs, singles) = peer.sample(200)
    expected = np.array([-1, -2, 2, 3, 4], np.float32)
    np.testing.assert_array_equal(np.ravel(singles), expected[np.asarray(indices)])
    expected = np.array([[-1, -2], [-3, -4], [4, 5], [6, 7], [8, 9]], np.float32)
    np.testing.assert_array_equal(pairs, expected[np.asarray(indices)])
    assert {0, 1, 4} <= set(np.asarray(indices).tolist())


def test_the_sum_tree_is_exact_after_many_updates():
    rng = np.random.default_rng(2)
    tree = peers.NumpySumTree(100, [np.zeros([100], np.float32)], exponent=0.6, seed=1)
    expected = np.ones(100)
    tree.insert([np.zeros([100], np.float32)], np.ones(100, np.float32))
    for _ in range(200):
        indices = rng.choice(100, 30, replace=False)
        priorities = rng.random(30, np.float32)
        tree.update_priorities(indices, priorities)
        expected[indices] = priorities.astype(np.float64) ** 0.6
    assert tree._sums[1] == pytest.approx(expected.sum(), rel=1e-12)
