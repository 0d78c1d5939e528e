"""Windows of whole episodes: draws, their plain twin, bad calls."""

import numpy as np
import pytest
import tensorflow as tf

from common.replay.columns import Bytes
from common.replay.episode_memory import EpisodeMemory, WindowMemory
from common.replay.memory import RankBased, Uniform

SPECS = {"observation": tf.TensorSpec([2], tf.float32), "text": Bytes(9)}
SIZES = (5, 1, 8, 3, 12, 4)


class Twin:
    """The episodes of a memory as arrays, and what a window of them must be."""

    def __init__(self, sizes=SIZES, memory=None, seed=0):
        if memory is None:
            memory = EpisodeMemory(SPECS, 1000, 0.9, Uniform(), seed=1)
        self.memory = memory
        self.rng = np.random.default_rng(seed)
        self.episodes = {}
        self.scale = 1.0
        for size in sizes:
            self.add(size)

    def add(self, size):
        text = np.empty(size + 1, object)
        text[:] = [b"x" * (t % 10) for t in range(size + 1)]
        observation = self.rng.normal(size=(size + 1, 2)).astype(np.float32)
        rewards = self.rng.normal(size=size).astype(np.float32)
        terminated = bool(self.rng.integers(2))
        steps = {"observation": observation, "text": text}
        values = np.zeros(size + 1, np.float32)
        key = int(self.memory.add(steps, rewards, values, terminated))
        self.episodes[key] = observation, text, rewards, terminated

    def episode_of(self, key):
        return max(first for first in self.episodes if first <= key)

    def check(self, windows, size, max_steps, num_batches=1):
        """Compares every element with the arrays."""
        keys, drawn = windows.keys.numpy(), windows.steps
        lengths = drawn.lengths.numpy()
        firsts = [self.episode_of(key) for key in keys.tolist()]
        for batch in np.reshape(firsts, [num_batches, size]):
            assert len(set(batch.tolist())) == size
        longest = lengths.max()
        assert drawn.rewards.shape == (size * num_batches, longest)
        for i, first in enumerate(firsts):
            observation, text, rewards, terminated = self.episodes[first]
            begin, length = keys[i] - first, lengths[i]
            assert length == min(max_steps, len(rewards)) and begin + length <= len(rewards)
            for row in range(longest + 1):
                step = begin + max(0, row - (longest - length))
                assert drawn.states["observation"][i, row].numpy().tolist() == (
                    observation[step].tolist()
                )
                assert drawn.states["text"][i, row].numpy() == text[step]
                if row < longest:
                    np.testing.assert_allclose(
                        drawn.rewards[i, row], rewards[step] / self.scale, rtol=1e-5
                    )
                    assert windows.step_keys[i, row] == first + step
            is_true_end = terminated and begin + length == len(rewards)
            assert bool(drawn.bootstraps[i]) != is_true_end
        assert windows.count == len(self.episodes)


def chi_square(counts, probabilities):
    expected = counts.sum() * np.asarray(probabilities)
    return np.sum((counts - expected) ** 2 / expected)


@pytest.mark.parametrize("max_steps", [1, 4, 200])
@pytest.mark.parametrize("size", [1, 4, 6])
def test_windows_are_those_of_the_twin(size, max_steps):
    twin = Twin()
    twin.memory.set_reward_scale(3.0, recompute=True)
    twin.scale = 3.0
    for num_batches in (1, 2):
        windows = twin.memory.sample_episodes(size, max_steps, num_batches=num_batches)
        twin.check(windows, size, max_steps, num_batches)
    assert twin.memory.counters().sampled == 3 * size
    twin.memory.check()


def test_episodes_are_uniform_whatever_their_lengths_in_each_place_of_a_batch():
    """Chi-square; with 5 degrees of freedom a seed exceeds 35 with a chance of 1.5e-6."""
    twin, draws = Twin(), 6000
    windows = twin.memory.sample_episodes(4, 3, seed=5, num_batches=draws)
    firsts = np.sort(list(twin.episodes))
    episode = np.searchsorted(firsts, windows.keys, side="right") - 1
    for column in episode.reshape([draws, 4]).T:
        assert chi_square(np.bincount(column, minlength=6), np.full(6, 1 / 6)) < 35
    pairs = episode.reshape([draws, 4])[:, 0] * 6 + episode.reshape([draws, 4])[:, 1]
    ordered = [a * 6 + b for a in range(6) for b in range(6) if a != b]
    counts = np.bincount(pairs, minlength=36)[ordered]
    assert counts.sum() == draws  # never the same twice
    assert chi_square(counts, np.full(30, 1 / 30)) < 90  # 29 degrees: 4e-8


def test_a_window_begins_at_a_uniform_step_or_the_latest_that_fits():
    twin, draws = Twin(sizes=(10,)), 5000
    windows = twin.memory.sample_episodes(1, 7, seed=3, num_batches=draws)
    counts = np.bincount(windows.keys)
    assert len(counts) == 4
    assert chi_square(counts, [0.1, 0.1, 0.1, 0.7]) < 30  # 3 degrees: 1.4e-6


def test_a_seed_repeats_a_draw():
    twin = Twin()
    first, again, other = (twin.memory.sample_episodes(5, 3, seed=s) for s in (7, 7, 8))
    assert first.keys.numpy().tolist() == again.keys.numpy().tolist()
    assert first.keys.numpy().tolist() != other.keys.numpy().tolist()
    twin.memory.sample_episodes(5, 3)
    assert twin.memory.sample_episodes(5, 3, 7).keys.numpy().tolist() == first.keys.numpy().tolist()


def test_episodes_that_were_removed_are_not_drawn():
    memory = EpisodeMemory(SPECS, 20, 0.9, RankBased(0.5, 1), "far_policy", seed=2)
    twin = Twin(sizes=(), memory=memory)
    for size in (8, 6, 4, 9, 1, 2, 7):
        twin.add(size)
        gone = [key for key in twin.episodes if not memory.contains(np.int64([key]))[0]]
        for key in gone:
            del twin.episodes[key]
        twin.check(memory.sample_episodes(len(twin.episodes), 5), len(twin.episodes), 5)
    memory.check()


def test_in_a_graph_the_shapes_are_known_but_the_length():
    twin = Twin()

    @tf.function
    def call(seed):
        windows = twin.memory.sample_episodes(3, 4, seed, num_batches=2)
        assert windows.steps.states["observation"].shape.as_list() == [6, None, 2]
        assert windows.steps.rewards.shape.as_list() == [6, None]
        assert windows.keys.shape == windows.steps.bootstraps.shape == [6]
        return windows

    twin.check(call(tf.constant(4, tf.int64)), 3, 4, 2)


def test_a_refresh_by_the_token_reaches_each_step_once_more():
    """Rows in front of a short window repeat its first step, of which the last one counts."""
    twin = Twin()
    windows = twin.memory.sample_episodes(6, 200)
    number = tf.range(windows.token.shape[0], dtype=tf.float32)
    zeros = tf.zeros_like(number)
    twin.memory.refresh(windows.token, number, 1 + number, zeros, zeros, zeros, 4.0)
    keys = windows.step_keys.numpy()
    last = {key: i for i, key in enumerate(keys.ravel().tolist())}
    assert len(last) == sum(SIZES)
    stored = twin.memory.stored(np.array(list(last)))
    np.testing.assert_array_equal(stored.values, list(last.values()))
    np.testing.assert_array_equal(stored.rhos, 1 + np.array(list(last.values())))
    twin.memory.check()


def test_a_memory_of_windows_draws_them():
    twin = Twin(memory=WindowMemory(SPECS, 100, 0.9, 4, seed=1, num_batches=2))
    twin.memory.count_steps(40)
    windows = twin.memory.draw(6, seed=3)
    twin.check(windows, 3, 4, 2)
    counters = twin.memory.counters()
    assert counters == (sum(SIZES), 40, 6, 0, 0, 0)
    assert twin.memory.num_drawable(counters) == len(SIZES)
    batch = windows.batch()
    assert batch.size == len(SIZES)
    np.testing.assert_allclose(batch.probabilities, np.full(6, 1 / len(SIZES)))
    assert batch.steps is windows.steps


def test_a_loaded_memory_draws_what_the_saved_one_would(tmp_path):
    twin = Twin(memory=WindowMemory(SPECS, 100, 0.9, 4, seed=1, num_batches=2))
    twin.memory.draw(4)
    twin.memory.save(tmp_path / "memory")
    other = WindowMemory(SPECS, 100, 0.9, 4, seed=2, num_batches=2)
    other.load(tmp_path / "memory")
    first, second = (memory.draw(6) for memory in (twin.memory, other))
    tf.nest.map_structure(np.testing.assert_array_equal, first, second)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0, 4), "batch_size must be at least 1, is 0"),
        ((-3, 4), "batch_size must be at least 1, is -3"),
        ((2, 0), "max_steps must be at least 1, is 0"),
        ((2, -(2**31)), "max_steps must be at least 1, is -2147483648"),
        (([2], 4), "batch_size must be a scalar"),
        ((2, [4]), "max_steps must be a scalar"),
        ((2, 4, [1, 2]), "seed must be a scalar"),
        ((2, 4, 1, 2**31), "num_batches must be at most 2.30, is 2147483648"),
    ],
)
def test_an_invalid_argument_is_named_and_changes_nothing(arguments, message):
    twin = Twin()
    before = twin.memory.statistics()
    with pytest.raises(tf.errors.InvalidArgumentError, match=message) as caught:
        twin.memory.sample_episodes(*arguments)
    assert "\n" not in caught.value.message
    assert twin.memory.statistics() == before
    twin.memory.check()


def test_the_largest_window_is_the_longest_episode():
    twin = Twin()
    twin.check(twin.memory.sample_episodes(6, 2**31 - 1), 6, 2**31 - 1)


def test_a_batch_above_the_number_of_episodes():
    memory = EpisodeMemory(SPECS, 1000, 0.9, Uniform())
    for sizes in ((), SIZES):
        twin = Twin(sizes, memory)
        for size in (len(sizes) + 1, 2**31 - 1):
            message = f"^the memory holds {len(sizes)} episodes, fewer than a batch of {size}$"
            with pytest.raises(tf.errors.FailedPreconditionError, match=message):
                twin.memory.sample_episodes(size, 4)
    assert memory.statistics().sampled == 0
