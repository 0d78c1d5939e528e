"""Compares the contextual priority tree with a brute-force twin in exact fractions.

The twin is written from the paper (Gruslys et al. 2018, section 6.3 and the caption of figure 5):
trees are nested tuples, and heights, counts and means are computed anew wherever they are needed.
"""

from fractions import Fraction

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from common.replay.memory import (
    UNKNOWN_PRIORITY,
    ContextualPriorityTree,
    Fifo,
    Memory,
    Proportional,
)

NUM_KEYS = 40


# The twin. A tree is None or (key, left, right).


def height(tree):
    return 0 if tree is None else 1 + max(height(tree[1]), height(tree[2]))


def count(tree):
    return 0 if tree is None else 1 + count(tree[1]) + count(tree[2])


def balanced(key, left, right):
    """Returns the AVL tree of a key between two trees whose heights differ by at most 2."""
    if height(left) > height(right) + 1:
        k, a, b = left
        if height(b) > height(a):
            m, b1, b2 = b
            return m, (k, a, b1), (key, b2, right)
        return k, a, (key, b, right)
    if height(right) > height(left) + 1:
        k, a, b = right
        if height(a) > height(b):
            m, a1, a2 = a
            return m, (key, left, a1), (k, a2, b)
        return k, (key, left, a), b
    return key, left, right


def added(tree, key):
    if tree is None:
        return key, None, None
    k, left, right = tree
    if key < k:
        return balanced(k, added(left, key), right)
    return balanced(k, left, added(right, key))


def removed(tree, key):
    """Returns the tree without a key; one with two children gives way to its successor."""
    k, left, right = tree
    if key < k:
        return balanced(k, removed(left, key), right)
    if key > k:
        return balanced(k, left, removed(right, key))
    if left is None or right is None:
        return left or right
    successor = right
    while successor[1] is not None:
        successor = successor[1]
    return balanced(successor[0], left, removed(right, successor[0]))


def mean(tree, known):
    """Returns the mean priority of a tree, or None if nothing in it is known: rules a to f."""
    if tree is None:
        return None
    parts = [part for part in weighted(tree, known) if part[1] is not None]
    if not parts:
        return None
    return sum(weight * value for weight, value in parts) / sum(weight for weight, _ in parts)


def weighted(tree, known):
    """Returns (weight, value or None) of the left subtree, the key and the right subtree."""
    key, left, right = tree
    return [
        (count(left), mean(left, known)),
        (1, known.get(key)),
        (count(right), mean(right, known)),
    ]


def probabilities(tree, known, value=None):
    """Returns the probability of each key of a tree as a product of those of its branches.

    `value` is the mean of the closest tree above of which anything is known.
    """
    if tree is None:
        return {}
    key, left, right = tree
    own = mean(tree, known)
    value = own if own is not None else value
    masses = [
        w * ((value if value is not None else 1) if v is None else v)
        for w, v in weighted(tree, known)
    ]
    if sum(masses) == 0:
        return dict.fromkeys(keys_of(tree), Fraction(0))
    share = [Fraction(mass) / sum(masses) for mass in masses]
    found = {key: share[1]}
    for branch, part in ((left, share[0]), (right, share[2])):
        found |= {k: part * p for k, p in probabilities(branch, known, value).items()}
    return found


def keys_of(tree):
    return [] if tree is None else keys_of(tree[1]) + [tree[0]] + keys_of(tree[2])


class Twin:
    """A tree of `NUM_KEYS` keys at most, and a memory of single steps that removes the oldest."""

    def __init__(self, capacity, uniform_mix):
        self.capacity = capacity
        self.uniform_mix = Fraction(uniform_mix)
        self.tree = None
        self.known = {}
        self.keys = []  # in order of arrival

    def insert(self, keys, priorities):
        fresh = [key for key in dict.fromkeys(keys) if key not in self.keys]
        # While rows are written, a key that occurs twice takes two slots.
        for _ in range(len(self.keys) + sum(key in fresh for key in keys) - self.capacity):
            if self.keys:
                oldest = self.keys.pop(0)
                self.tree = removed(self.tree, oldest)
                self.known.pop(oldest, None)
        for key, priority in zip(keys, priorities):
            if key in fresh and key not in self.keys:
                self.keys.append(key)
                self.set(key, priority)
                self.tree = added(self.tree, key)

    def update(self, keys, priorities):
        for key, priority in dict(zip(keys, priorities)).items():
            if key in self.keys:
                self.set(key, priority)
                self.tree = added(removed(self.tree, key), key)

    def set(self, key, priority):
        self.known.pop(key, None)
        if priority != UNKNOWN_PRIORITY:
            self.known[key] = Fraction(float(np.float32(priority)))

    def total(self):
        return (mean(self.tree, self.known) or 1) * len(self.keys)

    def probabilities(self):
        known = self.known if mean(self.tree, self.known) else {}
        mix, n = self.uniform_mix, len(self.keys)
        return {key: (1 - mix) * p + mix / n for key, p in probabilities(self.tree, known).items()}


class Pair:
    """A memory and its twin, which get the same calls and are compared."""

    def __init__(self, capacity=NUM_KEYS, uniform_mix=0.0, seed=3):
        distributions = {"sample": ContextualPriorityTree(uniform_mix=uniform_mix), "old": Fifo()}
        spec = tf.TensorSpec([], tf.int64)
        self.memory = Memory(spec, capacity, distributions, "old", seed)
        self.twin = Twin(capacity, uniform_mix)

    def insert(self, keys, priorities):
        keys = np.array(keys, np.int64)
        self.memory.insert(keys, keys, np.array(priorities, np.float32))
        self.twin.insert(keys.tolist(), priorities)

    def update(self, keys, priorities):
        self.memory.update_priorities(np.array(keys, np.int64), np.array(priorities, np.float32))
        self.twin.update(keys, priorities)

    def masses(self):
        """Returns the masses of all keys, by key, after a check of those that are missing."""
        keys = np.arange(NUM_KEYS + 3)
        found, masses = self.memory.masses(keys)
        assert found.numpy().tolist() == [key in self.twin.keys for key in keys.tolist()]
        assert np.all(masses.numpy()[~found.numpy()] == 0)
        return dict(zip(keys[found.numpy()].tolist(), masses.numpy()[found.numpy()].tolist()))

    def compare(self):
        self.memory.check()
        masses, twin = self.masses(), self.twin
        total, number = self.memory.mass()
        assert number == len(twin.keys)
        assert float(total) == pytest.approx(float(twin.total()) if twin.keys else 0, rel=1e-13)
        for key, probability in twin.probabilities().items():
            assert masses[key] / float(total) == pytest.approx(float(probability), rel=1e-12, abs=0)
        if not twin.keys:
            with pytest.raises(tf.errors.FailedPreconditionError):
                self.memory.sample(1)
            return
        sample = self.memory.sample(8)
        assert sample.total_mass == total and sample.count == number
        assert sample.masses.numpy().tolist() == [masses[key] for key in sample.keys.numpy()]
        assert np.all(sample.masses.numpy() > 0)


a_key = st.integers(0, NUM_KEYS - 1)
a_priority = st.sampled_from([*[UNKNOWN_PRIORITY] * 4, 0.0, 0.3, 1.0, 2.5, 40.0])
calls = st.tuples(
    st.sampled_from(["insert", "insert", "update"]),
    st.lists(st.tuples(a_key, a_priority), min_size=1, max_size=8),
)


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
)
@given(
    st.integers(8, NUM_KEYS),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.lists(calls, min_size=5, max_size=20),
)
def test_random_operations_agree_with_the_twin(capacity, uniform_mix, operations):
    pair = Pair(capacity, uniform_mix)
    for name, arguments in operations:
        getattr(pair, name)(*map(list, zip(*arguments)))
        pair.compare()


@pytest.mark.parametrize("capacity", [1, 7, 30])
def test_long_runs_in_order_of_time_agree_with_the_twin(capacity):
    """New keys come at the right end and the oldest go at the left, as in an agent's memory."""
    rng = np.random.default_rng(capacity)
    pair = Pair(capacity, 0.1)
    for begin in range(NUM_KEYS):
        pair.insert([begin], [UNKNOWN_PRIORITY])
        keys = rng.integers(max(0, begin - capacity), begin + 2, 3).tolist()
        pair.update(keys, rng.choice([-1.0, 0.0, 0.7, 2.0, 9.0], 3).tolist())
        pair.compare()


# The paper's figures.

UNKNOWN = UNKNOWN_PRIORITY
LEFT, RIGHT = {4: 3.0, 2: 5.0}, {14: 4.0, 13: 5.0, 15: 6.0}  # of means 4 and 5


@pytest.mark.parametrize(
    "left, key, right, masses",
    [
        pytest.param(True, 1.0, True, [8, 1, 15], id="a"),
        pytest.param(True, UNKNOWN, True, [8, Fraction(23, 5), 15], id="b"),
        pytest.param(False, 1.0, False, [2, 1, 3], id="c"),
        pytest.param(False, 1.0, True, [8, 1, 15], id="d"),
        pytest.param(True, 1.0, False, [8, 1, 9], id="d, mirrored"),
        pytest.param(False, UNKNOWN, True, [10, 5, 15], id="e"),
        pytest.param(True, UNKNOWN, False, [8, 4, 12], id="e, mirrored"),
        pytest.param(False, UNKNOWN, False, [2, 1, 3], id="f"),
    ],
)
def test_rules_of_figure_5(left, key, right, masses):
    """Subtrees of 2 and 3 nodes, of mean 4 and 5 where they are known; the key's priority is 1."""
    pair = Pair()
    priorities = {10: key}
    priorities |= {k: p if left else UNKNOWN for k, p in LEFT.items()}
    priorities |= {k: p if right else UNKNOWN for k, p in RIGHT.items()}
    order = [10, 4, 14, 2, 13, 15]
    pair.insert(order, [priorities[k] for k in order])
    pair.compare()
    found = pair.masses()
    sums = [sum(found[k] for k in keys) for keys in (LEFT, [10], RIGHT)]
    assert sums == pytest.approx([float(mass) for mass in masses], rel=1e-15)
    exact, total = pair.twin.probabilities(), pair.twin.total()
    assert [sum(exact[k] for k in keys) * total for keys in (LEFT, [10], RIGHT)] == masses


@pytest.mark.parametrize("seven, total", [(UNKNOWN, 77), (9.0, 79)])
def test_figure_6(seven, total):
    pair = Pair()
    priorities = {4: 3.0, 6: 6.0, 10: 10.0, 7: seven}
    order = [7, 4, 10, 2, 5, 8, 11, 1, 3, 6, 9]
    pair.insert(order, [priorities.get(key, UNKNOWN) for key in order])
    pair.compare()
    expected = [5, 5, 5, 3, 6, 6, 7 if seven == UNKNOWN else 9, 10, 10, 10, 10]
    assert [pair.masses()[key] for key in range(1, 12)] == pytest.approx(expected, rel=1e-15)
    assert pair.twin.probabilities() == {
        key: Fraction(mass, total) for key, mass in zip(range(1, 12), expected)
    }
    assert float(pair.memory.mass()[0]) == pytest.approx(total, rel=1e-15)


# What users rely on.


def make_memory(distribution, capacity=50):
    distributions = {"sample": distribution, "old": Fifo()}
    return Memory(tf.TensorSpec([], tf.int64), capacity, distributions, "old", seed=1)


@pytest.mark.parametrize("exponent, expected", [(1.0, [1, 2.5, 4]), (0.5, [1, 1.5, 2])])
def test_means_are_of_masses(exponent, expected):
    memory = make_memory(ContextualPriorityTree(exponent, 0.0))
    keys = np.array([2, 1, 3])  # in this order 2 stays the root
    memory.insert(keys, keys, np.float32([UNKNOWN, 1, 4]))
    assert memory.masses(np.array([1, 2, 3]))[1].numpy() == pytest.approx(expected)


@pytest.mark.parametrize("known", [{}, {3: 0.0, 5: 0.0}, dict.fromkeys(range(7), 0.0)])
@pytest.mark.parametrize("uniform_mix", [0.0, 0.1])
def test_without_any_mass_all_items_are_alike(known, uniform_mix):
    pair = Pair(uniform_mix=uniform_mix)
    pair.insert(range(7), [known.get(key, UNKNOWN) for key in range(7)])
    pair.compare()
    assert pair.masses() == dict.fromkeys(range(7), 1.0)
    assert set(pair.memory.sample(500).keys.numpy()) == set(range(7))


@pytest.mark.parametrize(
    "distribution",
    [
        ContextualPriorityTree(uniform_mix=0.0),
        ContextualPriorityTree(),
        ContextualPriorityTree(0.5, 0.3),
        Proportional(1.0, uniform_mix=0.1),
    ],
)
def test_items_are_drawn_in_proportion_to_their_masses(distribution):
    rng = np.random.default_rng(0)
    num_items, draws = 2000, 200_000
    priorities = rng.exponential(size=num_items).astype(np.float32)
    priorities[rng.random(num_items) < 0.7] = UNKNOWN
    priorities[rng.random(num_items) < 0.1] = 0
    keys = rng.permutation(num_items)
    memory = make_memory(distribution, num_items)
    memory.insert(keys, keys, priorities)
    memory.check()
    keys = np.arange(num_items)
    expected = memory.masses(keys)[1].numpy() / float(memory.mass()[0])
    assert expected.sum() == pytest.approx(1, rel=1e-12)
    assert np.all(expected >= distribution.uniform_mix / num_items * (1 - 1e-12))
    measured = np.bincount(memory.sample(draws).keys.numpy(), minlength=num_items) / draws
    assert np.all(measured[expected == 0] == 0)
    some = expected > 0
    chi_squared = np.sum((measured - expected)[some] ** 2 / expected[some]) * draws
    degrees = some.sum() - 1
    assert abs(chi_squared - degrees) < 6 * np.sqrt(2 * degrees)


def test_known_priorities_make_it_proportional():
    """Also the mix: dqn_zoo/replay_test.py, priorities [1, 4, 3], exponent 0.8, mix 0.1."""
    for distribution in (Proportional(0.8, 0.1), ContextualPriorityTree(0.8, 0.1)):
        memory = make_memory(distribution, 3)
        memory.insert(np.arange(3), np.arange(3), np.float32([1, 4, 3]))
        masses = memory.masses(np.arange(3))[1].numpy()
        np.testing.assert_allclose(
            masses / memory.mass()[0], [0.17309, 0.45700, 0.36990], atol=1e-5
        )


def test_masses_of_distributions_that_know_no_priority():
    memory = make_memory(Proportional(1.0), 3)
    memory.insert(np.arange(3), np.arange(3), np.float32([3, 1, 2]))
    found, masses = memory.masses(np.array([2, 5, 0]), "old")
    assert found.numpy().tolist() == [True, False, True] and masses.numpy().tolist() == [0, 0, 1]

    @tf.function(autograph=False)
    def in_a_graph(keys):
        return memory.masses(keys)

    found, masses = in_a_graph(tf.constant([2, 5, 0], tf.int64))
    assert found.shape == masses.shape == [3] and masses.numpy().tolist() == [2, 0, 3]
