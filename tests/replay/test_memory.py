"""Tests of the behaviour that users of `common.replay.memory.Memory` rely on."""

import numpy as np
import pytest
import tensorflow as tf

from common.replay.columns import Bytes
from common.replay.memory import (
    UNKNOWN_PRIORITY,
    ContextualPriorityTree,
    Fifo,
    Memory,
    Proportional,
    Uniform,
)

FLOAT = tf.TensorSpec([], tf.float32)


def make_memory(capacity=16, seed=1, specs=FLOAT, exponent=0.6, **distributions):
    distributions = {"sample": Proportional(exponent), "old": Fifo()} | distributions
    return Memory(specs, capacity, distributions, "old", seed=seed)


def insert(memory, keys, priorities=None, item_keys=None, item_lengths=None):
    """Inserts steps of one float each, equal to the key."""
    keys = np.array(keys, np.int64)
    count = len(keys) if item_keys is None else len(item_keys)
    if priorities is None:
        priorities = np.ones(count)
    memory.insert(
        keys,
        keys.astype(np.float32),
        np.array(priorities, np.float32),
        None if item_keys is None else np.array(item_keys, np.int64),
        None if item_lengths is None else np.array(item_lengths, np.int32),
    )


def frequencies(memory, num_items, distribution="sample", draws=200_000):
    sample = memory.sample(draws, distribution)
    return np.bincount(sample.keys.numpy(), minlength=num_items) / draws


def assert_frequencies(measured, probabilities, draws=200_000):
    """Checks frequencies to six standard deviations: a seed is bad with a chance of 1e-9."""
    probabilities = np.asarray(probabilities)
    bound = 6 * np.sqrt(probabilities * (1 - probabilities) / draws)
    assert np.all(np.abs(measured - probabilities) <= bound), (measured, probabilities)


# Sampling.


def test_proportional_draws_by_its_masses():
    priorities = np.array([1.0, 2.0, 4.0, 0.5])
    memory = make_memory()
    insert(memory, range(4), priorities)
    sample = memory.sample(1000)
    masses = sample.masses.numpy()
    np.testing.assert_allclose(masses, priorities[sample.keys.numpy()] ** 0.6, rtol=1e-7)
    # papers/apex.md, section 6, item 15.
    expected = [0.182720, 0.276951, 0.419779, 0.120550]
    probability = dict(zip(sample.keys.numpy().tolist(), masses / float(sample.total_mass)))
    np.testing.assert_allclose([probability[k] for k in range(4)], expected, atol=1e-6)
    assert_frequencies(frequencies(memory, 4), expected)
    weights = (int(sample.count) * np.array([probability[k] for k in range(4)])) ** -0.4
    np.testing.assert_allclose(
        weights / weights.max(), [0.846745, 0.716978, 0.607097, 1], atol=1e-6
    )


def test_a_negative_exponent_prefers_small_priorities():
    memory = make_memory(small=Proportional(-0.4))
    insert(memory, range(4), [1.0, 2.0, 4.0, 0.5])
    # papers/apex.md, section 6, item 15.
    assert_frequencies(frequencies(memory, 4, "small"), [0.273844, 0.207535, 0.157282, 0.361339])


def test_uniform_ignores_priorities():
    memory = make_memory(uniform=Uniform())
    insert(memory, range(5), [0.0, 1.0, 100.0, -1.0, 1e-9])
    assert_frequencies(frequencies(memory, 5, "uniform"), np.full(5, 0.2))
    assert float(memory.sample(1, "uniform").total_mass) == 5.0


def test_zero_is_never_drawn():
    memory = make_memory()
    insert(memory, range(9), [0, 0, 1e-30, 0, 0, 5.0, 0, 0, 0])
    assert set(memory.sample(100_000).keys.numpy()) <= {2, 5}
    memory.update_priorities([2, 5], np.float32([0, 0]))
    with pytest.raises(tf.errors.FailedPreconditionError, match="no item of positive priority"):
        memory.sample(1)
    memory.check()


def masses_of(memory, distribution="sample"):
    sample = memory.sample(5000, distribution)
    return dict(zip(sample.keys.numpy().tolist(), sample.masses.numpy().tolist()))


def test_unknown_counts_as_the_largest_seen():
    memory = make_memory(exponent=1.0)
    insert(memory, [0], [UNKNOWN_PRIORITY])
    assert masses_of(memory) == {0: 1.0}  # before any priority is known
    insert(memory, [1, 2], [UNKNOWN_PRIORITY, 4.0])  # the 4 of the same call counts
    assert masses_of(memory) == {0: 1.0, 1: 4.0, 2: 4.0}
    memory.update_priorities(
        [2, 99], np.float32([2.0, 50.0])
    )  # 50 does not count: the item is gone
    memory.update_priorities([1], np.float32([UNKNOWN_PRIORITY]))
    assert masses_of(memory) == {0: 1.0, 1: 4.0, 2: 2.0}
    memory.update_priorities([0], np.float32([7.0]))
    insert(memory, [3], [UNKNOWN_PRIORITY])
    assert masses_of(memory) == {0: 7.0, 1: 4.0, 2: 2.0, 3: 7.0}


def test_a_seed_repeats_sampling():
    def run(seed):
        memory = make_memory(seed=seed, uniform=Uniform(), small=Proportional(-0.4))
        insert(memory, range(16), np.arange(16))
        return [
            memory.sample(50, name).keys.numpy().tolist()
            for name in ("sample", "uniform", "small", "sample")
        ]

    assert run(5) == run(5)
    assert run(5) != run(6)
    assert run(0) != run(0)  # seed 0 is one from the system


@pytest.mark.parametrize("name", ["sample", "uniform", "small"])
def test_a_seeded_draw_follows_from_seed_and_contents(name):
    def make(seed):
        memory = make_memory(seed=seed, uniform=Uniform(), small=Proportional(-0.4))
        insert(memory, range(16), np.arange(1, 17))
        return memory

    def draw(memory, seed):
        return memory.sample(50, name, seed=seed).keys.numpy().tolist()

    first, second, undisturbed = make(5), make(6), make(5)
    for seed in (1, -7, 2**63 - 1):
        assert draw(first, seed) == draw(second, seed) == draw(first, seed)
    assert draw(first, 1) != draw(first, 2)
    # The memory's own generator was not used.
    assert draw(first, None) == draw(undisturbed, 0)
    in_graph = tf.function(lambda seed: first.sample(50, name, seed=seed).keys, autograph=False)
    assert in_graph(tf.constant(1, tf.int64)).numpy().tolist() == draw(second, 1)


@pytest.mark.parametrize("distribution", [Proportional(1.0), ContextualPriorityTree(1.0, 0.0)])
def test_sums_do_not_drift(distribution):
    rng, keys = np.random.default_rng(0), np.arange(1000)
    memory = make_memory(capacity=1000, sample=distribution)
    insert(memory, keys, np.full(1000, UNKNOWN_PRIORITY))
    for _ in range(200):
        changed = rng.integers(1000, size=1000)
        memory.update_priorities(changed, np.float32(10 ** rng.uniform(-20, 20, 1000)))
    final = np.float32(rng.uniform(0.5, 1, 1000))
    memory.update_priorities(keys, final)
    memory.check()
    masses = memory.masses(keys)[1].numpy()
    np.testing.assert_array_equal(masses, final)
    np.testing.assert_allclose(memory.mass()[0], masses.sum(), rtol=1e-14)


@pytest.mark.parametrize(
    "distribution",
    [
        *map(Proportional, (-7.0, 0.0, 7.0)),
        ContextualPriorityTree(-7.0, 0.0),
        ContextualPriorityTree(0.0, 0.1),
        ContextualPriorityTree(7.0, 0.1),
    ],
)
def test_extreme_priorities_stay_finite(distribution):
    largest, smallest = np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal
    memory, keys = make_memory(capacity=50, sample=distribution), np.arange(50)
    insert(memory, keys)
    unknown = UNKNOWN_PRIORITY
    for priorities in ([largest, unknown], [smallest, unknown], [largest, smallest], [0, unknown]):
        memory.update_priorities(keys, np.tile(np.float32(priorities), 25))
        memory.check()
        sample = memory.sample(200)
        assert np.isfinite(sample.total_mass) and np.all(sample.masses.numpy() > 0)
        masses = memory.masses(keys)[1].numpy()
        assert masses.sum() == pytest.approx(float(memory.mass()[0]), rel=1e-6)
    memory.update_priorities(keys, np.full(50, largest))
    assert len(set(memory.sample(2000).keys.numpy())) == 50


def test_a_removal_that_could_get_stuck_is_refused():
    with pytest.raises(ValueError, match='removal "sample" needs an exponent of at most 0'):
        Memory(FLOAT, 4, {"sample": Proportional(0.6)}, "sample")


def test_the_edge_of_the_key_range():
    memory = make_memory()
    last = 2**63 - 1
    insert(memory, [last - 1, last, 0], None, [last - 1, last, 0], [2, 1, 1])
    assert memory.read([last, last - 1, 0, 1])[0].numpy().tolist() == [True, True, True, False]
    assert memory.update_priorities([last], np.float32([2.0])) == 0


# The interface.


def test_observations_are_copied():
    memory = make_memory(specs={"x": tf.TensorSpec([64], tf.float32)})
    keys, priorities = np.arange(4), np.ones(4, np.float32)
    x = np.arange(256, dtype=np.float32).reshape(4, 64)
    expected = x.copy()
    memory.insert(keys, {"x": x}, priorities)
    keys[:], priorities[:], x[:] = 9, 0, -1
    found, steps = memory.read(np.arange(4))
    assert np.all(found)
    np.testing.assert_array_equal(steps["x"], expected)
    assert memory.sample(10).total_mass == 4
    memory.check()


def test_nests_keep_their_structure_and_dtypes():
    specs = {
        "a": (tf.TensorSpec([2], tf.float64), tf.TensorSpec([], tf.bool)),
        "b": tf.TensorSpec([2, 3], tf.uint8),
        "empty": tf.TensorSpec([0], tf.float32),
    }
    memory = make_memory(specs=specs)
    steps = {
        "a": (np.array([[0.1, 0.2]]), np.array([True])),
        "b": np.arange(6, dtype=np.uint8).reshape(1, 2, 3),
        "empty": np.zeros([1, 0]),
    }
    steps["empty"] = steps["empty"].astype(np.float32)
    memory.insert([3], steps, [1.0])
    for read in (memory.read([3])[1], memory.sample(1).steps):
        tf.nest.assert_same_structure(specs, read)
        tf.nest.map_structure(np.testing.assert_array_equal, read, steps)
        tf.nest.map_structure(lambda value, spec: value.dtype == spec.dtype, read, specs)
    assert memory.signature.bytes_per_step == 16 + 1 + 6


def test_columns_without_values():
    """Neither their rows nor their tensors need any memory."""
    for specs in ({"x": tf.TensorSpec([0], tf.float32)}, {"x": tf.TensorSpec([2, 0], tf.int32)}):
        memory = make_memory(specs=specs)
        spec = specs["x"]
        steps = {"x": np.zeros([3, *spec.shape], spec.dtype.as_numpy_dtype)}
        memory.insert(np.arange(3), steps, np.ones(3, np.float32))
        found, read = memory.read([0, 1, 2, 3])
        assert found.numpy().tolist() == [True] * 3 + [False]
        assert read["x"].shape == [4, *spec.shape]
        assert memory.sample(2, max_length=4).steps["x"].shape == [2, 4, *spec.shape]
        memory.check()


def test_in_a_graph_static_shapes_are_known():
    memory = make_memory(specs={"x": tf.TensorSpec([2], tf.float32)})

    @tf.function(autograph=False)
    def loop(keys, batch_size):
        memory.insert(
            keys,
            {"x": tf.stack([tf.cast(keys, tf.float32)] * 2, 1)},
            tf.ones_like(keys, tf.float32),
        )
        sample = memory.sample(3)
        assert sample.keys.shape == sample.masses.shape == sample.lengths.shape == [3]
        assert sample.total_mass.shape == sample.count.shape == []
        assert sample.steps["x"].shape == [3, 2]
        sequences = memory.sample(3, max_length=5)
        assert sequences.steps["x"].shape == [3, 5, 2]
        free = memory.sample(batch_size)
        assert free.steps["x"].shape.as_list() == [None, 2]
        missing = memory.update_priorities(sample.keys, tf.fill([3], 2.0))
        assert missing.shape == []
        found, steps = memory.read(sample.keys)
        assert found.shape.rank == 1 and steps["x"].shape.as_list() == [None, 2]
        return sample, sequences, free, missing, found, steps

    for begin in (0, 10):
        keys = tf.range(begin, begin + 4, dtype=tf.int64)
        sample, sequences, free, missing, found, steps = loop(keys, tf.constant(7))
        assert np.all(found) and missing == 0 and free.keys.shape == [7]
        np.testing.assert_array_equal(steps["x"], sample.steps["x"])
        np.testing.assert_array_equal(sequences.steps["x"][:, 0, 0], sequences.keys)
    statistics = memory.statistics()
    assert (statistics.items, statistics.sampled, statistics.updated) == (8, 26, 6)
    memory.check()


# Soft capacities: `insert` removes nothing, `trim` removes many at once.

DISTRIBUTIONS = {
    "sample": Proportional(0.6),
    "small": Proportional(-0.4),
    "uniform": Uniform(),
    "old": Fifo(),
}


def make_soft(capacity, hard_capacity, removal="old", seed=1):
    return Memory(Bytes(20), capacity, DISTRIBUTIONS, removal, seed, hard_capacity)


def insert_range(memory, begin, end, priorities=None):
    keys = np.arange(begin, end)
    priorities = np.ones(len(keys)) if priorities is None else priorities
    values = np.array([b"%d" % key for key in keys], object)
    memory.insert(keys, values, np.asarray(priorities, np.float32))


def stored_before(memory, end):
    return np.flatnonzero(memory.read(np.arange(end))[0].numpy())


@pytest.mark.parametrize("removal", ["sample", "small", "uniform", "old"])
def test_any_distribution_removes_all_that_is_too_much(removal):
    distributions = DISTRIBUTIONS | {"sample": Proportional(0.0)}
    memory = Memory(Bytes(20), 300, distributions, removal, 1, 900)
    insert_range(memory, 0, 800, np.arange(800) % 7)
    assert memory.trim() == 500
    memory.check()
    assert memory.statistics().steps == memory.statistics().items == 300
    keys = stored_before(memory, 800)
    assert memory.read(keys)[1].numpy().tolist() == [b"%d" % key for key in keys]
    for name in distributions:
        total_mass, count = memory.mass(name)
        sample = memory.sample(10, name)
        assert count == sample.count == 300 and total_mass == sample.total_mass
        assert set(sample.keys.numpy()) <= set(keys)


def test_small_priorities_go_first():
    """Whether room is made or the memory is trimmed; the masses have a ratio of 1600 to 1."""
    memory = make_soft(500, 1000, "small")
    insert_range(memory, 0, 1000, np.where(np.arange(1000) % 2, 1e4, 1e-4))
    insert_range(memory, 1000, 1250, np.full(250, 1e4))  # the place of half of the small ones
    assert np.mean(stored_before(memory, 1250) % 2) > 0.6
    memory.trim()
    assert np.mean(stored_before(memory, 1000) % 2) > 0.95


def test_what_variable_values_take_is_counted_and_freed_with_their_slots():
    memory = make_soft(10, 20)
    insert_range(memory, 0, 10)
    assert memory.statistics().held_bytes == 10
    insert_range(memory, 100, 110)
    assert memory.statistics().held_bytes == 10 + 30
    memory.trim()
    assert memory.statistics().held_bytes == 30
    insert_range(memory, 1000, 1010)
    assert memory.statistics().held_bytes == 30 + 40
    insert_range(memory, 10_000, 10_010)
    assert memory.statistics().held_bytes == 40 + 50
    memory.check()
