"""Tests of the behaviour that users of `common.replay.episode_memory.EpisodeMemory` rely on."""

import numpy as np
import pytest
import tensorflow as tf

from common.replay.columns import Bytes
from common.replay.episode_memory import EpisodeMemory
from common.replay.memory import Proportional, RankBased, Uniform

FLOAT = tf.TensorSpec([], tf.float32)
DRAWS = 100_000


def make_memory(capacity=1000, discount=0.5, sampling=Uniform(), removal="oldest", specs=FLOAT):
    return EpisodeMemory(specs, capacity, discount, sampling, removal, seed=1)


def add(memory, size, rewards=None, values=None, terminated=False, advantages=None):
    """Adds an episode whose states are key, key + 1, ... if no key was skipped; returns its key."""
    begin = add.next_state.get(id(memory), 0)
    add.next_state[id(memory)] = begin + size
    states = np.arange(begin, begin + size + 1, dtype=np.float32)
    rewards = np.ones(size, np.float32) if rewards is None else np.float32(rewards)
    values = np.zeros(size + 1, np.float32) if values is None else np.float32(values)
    advantages = None if advantages is None else np.float32(advantages)
    return int(memory.add(states, rewards, values, terminated, advantages))


add.next_state = {}


@pytest.fixture(autouse=True)
def no_states_of_other_tests():
    add.next_state.clear()


def refresh(memory, keys, values=0.0, rhos=1.0, divergences=0.0, errors=0.0, next_values=0.0, **c):
    columns = [
        np.broadcast_to(np.float32(column), [len(keys)])
        for column in (values, rhos, divergences, errors, next_values)
    ]
    num_batches = c.get("num_batches", 1)
    return memory.refresh(np.int64(keys), *columns, c.get("c_max", 4.0), num_batches)


def q_ret(memory, keys):
    return memory.stored(np.int64(keys)).q_ret.numpy().tolist()


def assert_frequencies(measured, probabilities, draws):
    """Checks frequencies to six standard deviations: a seed is bad with a chance of 1e-9."""
    bound = 6 * np.sqrt(probabilities * (1 - probabilities) / draws)
    assert np.all(np.abs(measured - probabilities) <= bound), (measured, probabilities)


# Returns.


def test_a_time_limit_bootstraps_and_a_true_end_does_not():
    memory = make_memory()
    cut = add(memory, 2, [1, 2], [10, 20, 40])
    ended = add(memory, 2, [1, 2], [10, 20, 40], terminated=True)
    assert q_ret(memory, [cut, cut + 1]) == [1 + 0.5 * 22, 2 + 0.5 * 40]
    assert q_ret(memory, [ended, ended + 1]) == [1 + 0.5 * 2, 2]
    keys, _, steps, _ = memory.sample(4)
    rows = dict(zip(keys.numpy().tolist(), zip(steps.discounts.numpy(), steps.bootstraps)))
    assert rows == {0: (0.5, False), 1: (0.5, True), 2: (0.5, False), 3: (0.0, False)}
    # The refreshed value of the last state counts where the time was up, only.
    refresh(memory, [cut + 1, ended + 1], values=20, next_values=80)
    assert q_ret(memory, [cut, cut + 1]) == [1 + 0.5 * 42, 2 + 0.5 * 80]
    assert q_ret(memory, [ended, ended + 1]) == [1 + 0.5 * 2, 2]


def test_a_refresh_reaches_earlier_steps_only():
    memory = make_memory(discount=1.0)
    add(memory, 4, [0, 0, 0, 8], terminated=True)
    assert q_ret(memory, range(4)) == [8, 8, 8, 8]
    refresh(memory, [2], values=4, rhos=0.5)
    # V_tbc of step 2 is 4 + 0.5 (8 - 4).
    assert q_ret(memory, range(4)) == [6, 6, 8, 8]
    refresh(memory, [2], values=4, rhos=100)
    assert q_ret(memory, range(4)) == [8, 8, 8, 8]


def test_an_advantage_is_no_part_of_the_error_that_reaches_earlier_steps():
    memory = make_memory(discount=1.0)
    add(memory, 3, [0, 0, 8], [1, 2, 3, 9], terminated=True, advantages=[7, 5, 4])
    # On policy V_tbc of a step is Q_ret - A; the first step's A reaches none.
    assert q_ret(memory, range(3)) == [-1, 4, 8]
    memory.refresh(
        np.int64([2]), *np.float32([[3], [0.5], [0], [0], [0]]), 4.0, advantages=np.float32([1])
    )
    # V_tbc of step 2 is 3 + 0.5 (8 - 3 - 1), that of step 1 is 2 + (5 - 2 - 5).
    assert q_ret(memory, range(3)) == [0, 5, 8]
    refresh(memory, [1, 2], values=[2, 3])  # without advantages they are 0
    assert q_ret(memory, range(3)) == [8, 8, 8]
    assert memory.stored(np.arange(3)).advantages.numpy().tolist() == [7, 0, 0]
    memory.check()


def test_doubles_are_rounded_also_where_advantages_are_left_out():
    memory = make_memory()
    states = np.zeros(2, np.float32)
    for arguments in ([], [np.zeros(1)]):
        key = memory.add(states, np.full(1, 0.1), np.zeros(2), True, *arguments)
        assert q_ret(memory, [key]) == [np.float32(0.1)]
    for advantages in (None, np.zeros(1)):
        memory.refresh([0], *np.full([5, 1], 0.1), 4.0, advantages=advantages)
    assert memory.stored([0]).values.numpy() == np.float32(0.1)


@pytest.mark.parametrize("num_updated", [1, 2, 40])
def test_an_early_stop_gives_the_bits_of_full_sweeps(num_updated):
    """Sweeps stop early, and `check` compares with full ones; so does computing all anew."""
    rng = np.random.default_rng(num_updated)
    memory = make_memory(capacity=4000, discount=0.995)
    for terminated in (False, True, False):
        add(memory, 1000, rng.normal(size=1000), rng.normal(size=1001), terminated)
    memory.set_reward_scale(0.7, recompute=True)
    everything = np.arange(3000)
    for turn in range(30):
        keys = rng.integers(3000, size=num_updated)
        rhos = np.exp(rng.normal(size=num_updated))
        stored = memory.stored(keys)
        if turn % 2:  # nothing changes
            refresh(memory, keys, stored.values, stored.rhos)
        else:
            refresh(memory, keys, rng.normal(size=num_updated), rhos, next_values=turn)
        memory.check()
    after = memory.stored(everything).q_ret.numpy()
    memory.set_reward_scale(0.7, recompute=True)
    assert memory.stored(everything).q_ret.numpy().tobytes() == after.tobytes()


def test_a_new_reward_scale_passes_steps_that_early_stops_would_leave():
    memory = make_memory(discount=1.0)
    add(memory, 100, terminated=True)
    refresh(memory, [90], values=3, rhos=0)  # cuts the episode: Q of step 89 is 1 + 3
    memory.set_reward_scale(2.0, recompute=False)
    assert q_ret(memory, [0]) == [93]
    np.testing.assert_allclose(memory.sample(1).steps.rewards, 0.5)
    refresh(memory, [50])
    np.testing.assert_allclose(q_ret(memory, [0, 50, 51]), [0.5 * 51 + 42, 0.5 + 42, 42])
    memory.check()
    refresh(memory, [95])
    np.testing.assert_allclose(q_ret(memory, [0, 95, 96]), [0.5 * 90 + 3, 0.5 + 4, 4])
    memory.check()


# Draws.


@pytest.mark.parametrize("size", [1, 3, 6])
def test_uniform_draws(size):
    memory = make_memory()
    add(memory, 2)
    add(memory, 4)
    sample = memory.sample(size, num_batches=DRAWS // size)
    batches = sample.keys.numpy().reshape([-1, size])
    assert np.all(np.diff(np.sort(batches, -1)) > 0)
    # The first of a batch, and the others, too, have equal chances.
    for column in batches.T:
        frequencies = np.bincount(column, minlength=6) / len(column)
        assert_frequencies(frequencies, np.full(6, 1 / 6), len(column))
    assert np.all(sample.probabilities == 1 / 6)
    np.testing.assert_array_equal(sample.steps.states, sample.keys)
    np.testing.assert_array_equal(sample.steps.next_states, sample.keys + 1)


def rank_memory(exponent=1.0, period=1):
    """Returns a memory whose steps 0 to 3 have the ranks 4, 2, 1, 3, while step 4 was not drawn."""
    memory = make_memory(sampling=RankBased(exponent, period))
    add(memory, 5)
    refresh(memory, range(4), errors=[0, 2, 3, 1])
    return memory, np.array([4, 2, 1, 3, 1.0]) ** -exponent


def test_rank_based_draws():
    memory, masses = rank_memory()
    probabilities = masses / masses.sum()
    sample = memory.sample(1, num_batches=DRAWS)
    keys = sample.keys.numpy()
    np.testing.assert_allclose(sample.probabilities, probabilities[keys], rtol=1e-12)
    assert_frequencies(np.bincount(keys) / DRAWS, probabilities, DRAWS)


@pytest.mark.parametrize("size", [2, 5])
def test_rank_based_draws_without_repeats(size):
    """The second of a batch is drawn among the rest, by the same masses."""
    memory, masses = rank_memory()
    batches = memory.sample(size, num_batches=DRAWS // 4).keys.numpy().reshape([-1, size])
    exact = np.zeros(5)
    for first in range(5):
        rest = np.where(np.arange(5) == first, 0, masses)
        exact += masses[first] / masses.sum() * rest / rest.sum()
    assert_frequencies(np.bincount(batches[:, 1]) / len(batches), exact, len(batches))


def test_masses_too_small_to_be_drawn_fill_a_batch_in_their_order():
    memory = make_memory(sampling=RankBased(7.0, 1))
    add(memory, 300)
    refresh(memory, range(300), errors=np.arange(300, 0, -1))
    batches = memory.sample(300, num_batches=50).keys.numpy().reshape([50, 300])
    np.testing.assert_array_equal(np.sort(batches, -1), np.tile(np.arange(300), [50, 1]))
    assert np.median(batches[:, 0]) == 0 and np.all(batches.argmin(-1) < 3)


def test_proportional_draws():
    """A new step has the largest error so far, 1 at first; without errors all are equal."""
    memory = make_memory(sampling=Proportional(0.5, uniform_mix=0.1))
    add(memory, 5)
    refresh(memory, range(4), errors=[0, 4, 1, 9])
    add(memory, 1)
    masses = np.array([0, 2, 1, 3, 1, 3.0])
    probabilities = 0.9 * masses / masses.sum() + 0.1 / 6
    sample = memory.sample(1, num_batches=DRAWS)
    keys = sample.keys.numpy()
    np.testing.assert_allclose(sample.probabilities, probabilities[keys], rtol=1e-6)
    assert_frequencies(np.bincount(keys) / DRAWS, probabilities, DRAWS)
    assert sorted(memory.sample(6).keys.numpy()) == [0, 1, 2, 3, 4, 5]
    refresh(memory, range(6), errors=np.zeros(6))
    np.testing.assert_allclose(memory.sample(6).probabilities, np.full(6, 1 / 6))


def test_ranks_are_as_old_as_the_period():
    memory, masses = rank_memory(period=3)

    def probabilities():
        sample = memory.sample(5)
        return sample.probabilities.numpy()[np.argsort(sample.keys)]

    assert np.all(probabilities() == 0.2)  # none is ranked yet
    refresh(memory, [0, 1], errors=0, num_batches=2)  # two updates
    ranked = probabilities()
    assert ranked[2] == ranked[4] > ranked[3] > max(ranked[:2]) > min(ranked[:2])
    refresh(memory, [0], errors=9)
    refresh(memory, [0], errors=9)
    np.testing.assert_array_equal(probabilities(), ranked)
    refresh(memory, [99])  # an update of a step that is gone is one, too
    assert probabilities()[0] == probabilities()[4]


def test_a_seed_repeats_a_draw():
    memory, _ = rank_memory()
    first = memory.sample(3, seed=7, num_batches=20)
    memory.sample(2)
    again = memory.sample(3, seed=7, num_batches=20)
    other = memory.sample(3, seed=8, num_batches=20)
    assert first.keys.numpy().tolist() == again.keys.numpy().tolist()
    assert first.keys.numpy().tolist() != other.keys.numpy().tolist()
    memories = [rank_memory()[0] for _ in range(2)]  # of equal seeds
    keys = [memory.sample(3, num_batches=20).keys.numpy().tolist() for memory in memories]
    assert keys[0] == keys[1]


# Histories.


def windows_of(sample):
    """By the key of each step, its window of states."""
    steps = sample.steps
    windows = zip(steps.lengths.numpy().tolist(), steps.states.numpy().tolist())
    return dict(zip(sample.keys.numpy().tolist(), windows))


def test_a_history_is_of_the_steps_own_episode_and_aligned_at_the_end():
    memory = make_memory()
    add(memory, 3)  # states 0 to 3
    add.next_state[id(memory)] = 100
    key = add(memory, 5)  # states 100 to 105
    found = windows_of(memory.sample(8, history=2))
    assert found == {
        0: (0, [0, 0, 0, 1]),
        1: (1, [0, 0, 1, 2]),
        2: (2, [0, 1, 2, 3]),
        key: (0, [100, 100, 100, 101]),
        key + 1: (1, [100, 100, 101, 102]),
        key + 2: (2, [100, 101, 102, 103]),
        key + 3: (2, [101, 102, 103, 104]),
        key + 4: (2, [102, 103, 104, 105]),
    }


@pytest.mark.parametrize("history", [0, 1, 16])
def test_a_draw_with_a_history_is_the_draw_without_it(history):
    memory, _ = rank_memory()
    without = memory.sample(3, seed=7, num_batches=2)
    sample = memory.sample(3, seed=7, num_batches=2, history=history)
    steps = sample.steps
    assert steps.states.shape == [6, history + 2] and steps.lengths.shape == [6]
    np.testing.assert_array_equal(steps.states[:, -2], without.steps.states)
    np.testing.assert_array_equal(steps.states[:, -1], without.steps.next_states)
    for name in ("rewards", "discounts", "bootstraps", "q_ret", "v_tbc"):
        np.testing.assert_array_equal(getattr(steps, name), getattr(without.steps, name))
    for name in ("keys", "probabilities", "count"):
        np.testing.assert_array_equal(getattr(sample, name), getattr(without, name))
    batch = sample.batch()
    assert batch.steps is steps and float(batch.size) == int(sample.count)
    np.testing.assert_allclose(batch.probabilities, sample.probabilities, rtol=1e-6)


def test_histories_of_strings():
    memory = make_memory(specs={"text": Bytes(3)})
    memory.add({"text": np.array([b"a", b"", b"ccc"], object)}, np.ones(2, np.float32),
               np.zeros(3, np.float32), True)  # fmt: skip
    sample = memory.sample(2, history=1)
    texts = dict(zip(sample.keys.numpy().tolist(), sample.steps.states["text"].numpy().tolist()))
    assert texts == {0: [b"a", b"a", b""], 1: [b"a", b"", b"ccc"]}


# Removal.


def test_the_far_policy_bounds_are_exact():
    memory = make_memory()
    add(memory, 5)
    for c_max in np.float32([3.0, 1.0, 1.1, 1.7, 4.0]):
        inverse = 1 / float(c_max)
        rhos = np.float32([inverse, c_max, 1.0, inverse, c_max])
        rhos[3] = np.nextafter(rhos[3], np.float32(0))
        rhos[4] = np.nextafter(rhos[4], np.float32(9))
        refresh(memory, range(5), rhos=rhos, c_max=c_max)
        exact = sum(float(rho) <= inverse or rho >= c_max for rho in rhos)
        assert memory.statistics().far_policy == exact


def test_more_than_65535_episodes():
    memory = make_memory(capacity=70_000, sampling=RankBased(0.5, 10))

    @tf.function(autograph=False)
    def add_many(n):
        def add_one(i):
            memory.add(tf.zeros([2]), tf.ones([1]), tf.zeros([2]), False)
            return i + 1

        tf.while_loop(lambda i: i < n, add_one, [0])

    add_many(tf.constant(70_010))
    statistics = memory.statistics()
    assert statistics.episodes == 70_000
    assert statistics.far_policy == statistics.mean_divergence == 0
    refresh(memory, memory.sample(256).keys.numpy())
    memory.sample(256, num_batches=10)
    memory.check()


# Calls in graphs and threads.


def test_in_a_graph():
    memory = make_memory(specs={"observation": tf.TensorSpec([2, 3], tf.float32), "n": FLOAT})
    steps = {"observation": tf.random.normal([4, 2, 3]), "n": tf.range(4.0)}

    @tf.function(autograph=False)
    def call(seed):
        key = memory.add(steps, tf.ones([3]), tf.zeros([4]), True)
        sample = memory.sample(2, seed, num_batches=2)
        q_ret = sample.steps.q_ret
        assert sample.steps.next_states["observation"].shape == [4, 2, 3]
        assert q_ret.shape == sample.keys.shape == [4]
        drawn = memory.sample(2, seed, num_batches=2, history=5).steps
        assert drawn.states["observation"].shape == [4, 7, 2, 3] and drawn.lengths.shape == [4]
        missing = memory.refresh(sample.keys, *[q_ret] * 5, tf.constant(4.0), num_batches=2)
        memory.count_steps(3)
        memory.set_reward_scale(memory.reward_scale(), recompute=True)
        return key, missing, memory.observation_moments()

    key, missing, (mean, deviation) = call(tf.constant(3, tf.int64))
    assert (key, missing) == (0, 0)
    np.testing.assert_allclose(mean, steps["observation"].numpy().mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deviation, steps["observation"].numpy().std(0), rtol=1e-5)
    assert memory.statistics().inserted == 3
