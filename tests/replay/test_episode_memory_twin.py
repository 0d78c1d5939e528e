"""Compares the memory of episodes with a brute-force twin in NumPy."""

import types

import numpy as np
import pytest
import tensorflow as tf

from common.replay.columns import Bytes
from common.replay.episode_memory import EpisodeMemory, WindowMemory
from common.replay.memory import RankBased, Uniform
from common.replay.store import Counters

SPECS = {"observation": tf.TensorSpec([2], tf.float32), "text": Bytes(20)}
DISCOUNT = 0.9
CALLS = 400


class RankTwin:
    """Rank-based probabilities, of ranks in a list."""

    def __init__(self, exponent, period):
        self.exponent, self.period = float(np.float32(exponent)), period
        self.errors = {}  # of all items; None: unknown
        self.ranking = []  # items, and None for those that have left
        self.changed = {}  # a set, also of items that have left
        self.updates = 0

    def insert(self, keys):
        self.errors |= dict.fromkeys(keys)
        self.rank(len(self.changed) > 2 * (len(self.unranked()) + len(self.ranking)))

    def update(self, keys, errors):
        for key, error in zip(keys, errors):
            self.errors[key] = error
            self.changed[key] = True
        self.updates += 1
        self.rank(self.updates >= self.period)

    def erase(self, keys):
        for key in keys:
            del self.errors[key]
        self.ranking = [None if key in keys else key for key in self.ranking]
        masses = (np.arange(len(self.ranking)) + 1.0) ** -self.exponent
        left = np.array([key is None for key in self.ranking], bool)
        self.rank(2 * masses[left].sum() > masses.sum())

    def rank(self, is_time):
        if is_time:
            known = [key for key, error in self.errors.items() if error is not None]
            self.ranking = sorted(known, key=lambda key: -self.errors[key])
            self.changed, self.updates = {}, 0

    def unranked(self):
        return set(self.errors) - set(self.ranking)

    def probabilities(self):
        masses = dict.fromkeys(self.unranked(), 1.0)
        for j, key in enumerate(self.ranking):
            if key is not None:
                masses[key] = (j + 1.0) ** -self.exponent
        total = sum(masses.values())
        return {key: mass / total for key, mass in masses.items()}


class UniformTwin:
    def __init__(self):
        self.keys = set()

    def insert(self, keys):
        self.keys |= set(keys)

    def update(self, keys, errors):
        pass

    def erase(self, keys):
        self.keys -= set(keys)

    def probabilities(self):
        return dict.fromkeys(self.keys, 1 / len(self.keys))


class Twin:
    """Episodes of arrays in a list; every sweep is a full one over all earlier steps."""

    def __init__(self, capacity, removal, sampling):
        self.capacity, self.removal, self.sampling = capacity, removal, sampling
        self.episodes = []
        self.episode_of = {}  # by the key of the step
        self.next_key = self.removed = 0
        self.scale, self.c_max = None, np.inf

    def add(self, rows, rewards, values, terminated, advantages):
        n = len(rewards)
        while self.num_steps() + n > self.capacity:
            self.remove()
        episode = types.SimpleNamespace(
            key=self.next_key,
            size=n,
            rows=rows,
            rewards=rewards,
            values=np.append(values[:-1], 0.0 if terminated else values[-1]),
            terminated=terminated,
            advantages=np.zeros(n) if advantages is None else advantages.copy(),
            rhos=np.ones(n),
            divergences=np.zeros(n),
            errors=np.full(n, -1.0),
            q_ret=np.zeros(n),
        )
        self.next_key += n
        self.sweep(episode, n - 1)
        self.episodes.append(episode)
        self.episode_of |= dict.fromkeys(range(episode.key, episode.key + n), episode)
        self.sampling.insert(range(episode.key, episode.key + n))
        return episode.key

    def remove(self):
        scores = {
            "oldest": lambda episode: 0,
            "far_policy": lambda episode: np.mean(self.is_far(episode.rhos, self.c_max)),
            "divergence": lambda episode: np.mean(episode.divergences),
        }
        episode = self.episodes.pop(int(np.argmax([*map(scores[self.removal], self.episodes)])))
        keys = range(episode.key, episode.key + episode.size)
        for key in keys:
            del self.episode_of[key]
        self.sampling.erase(keys)
        self.removed += episode.size

    def sweep(self, episode, latest):
        for t in range(latest, -1, -1):
            following = episode.values[t + 1]
            if t + 1 < episode.size:
                weight = min(1.0, episode.rhos[t + 1])
                error = episode.q_ret[t + 1] - following - episode.advantages[t + 1]
                following += weight * error
            episode.q_ret[t] = self.scaled(episode.rewards[t]) + DISCOUNT * following

    def refresh(self, batches, c_max):
        self.c_max = c_max
        latest, missing = {}, 0
        for batch in batches:
            keys = []
            for key, value, rho, divergence, _, next_value, advantage in zip(*batch):
                episode = self.find(key)
                if episode is None:
                    missing += 1
                    continue
                t = key - episode.key
                episode.values[t], episode.rhos[t] = value, rho
                episode.divergences[t], episode.advantages[t] = divergence, advantage
                if t == episode.size - 1 and not episode.terminated:
                    episode.values[t + 1] = next_value
                latest[episode.key] = max(t, latest.get(episode.key, 0))
                keys.append(key)
            errors = [error for key, error in zip(batch[0], batch[4]) if self.find(key)]
            for key, error in zip(keys, errors):
                episode = self.find(key)
                episode.errors[key - episode.key] = error
            self.sampling.update(keys, errors)
        for key, t in latest.items():
            self.sweep(self.find(key), t)
        return missing

    def set_scale(self, scale, recompute):
        self.scale = scale
        for episode in self.episodes if recompute else ():
            self.sweep(episode, episode.size - 1)

    def scaled(self, reward):
        return reward / (self.scale + 1e-7) if self.scale else reward

    @staticmethod
    def is_far(rhos, c_max):
        return (rhos <= 1 / c_max) | (rhos >= c_max)

    def find(self, key):
        return self.episode_of.get(int(key))

    def num_steps(self):
        return sum(episode.size for episode in self.episodes)

    def all(self, name):
        return np.concatenate([getattr(episode, name) for episode in self.episodes])


class Pair:
    """A memory and its twin, which get the same calls and are compared."""

    def __init__(self, capacity, removal, sampling, seed, memory=None):
        is_uniform = isinstance(sampling, Uniform)
        twin = UniformTwin() if is_uniform else RankTwin(sampling.exponent, sampling.period)
        if memory is None:
            memory = EpisodeMemory(SPECS, capacity, DISCOUNT, sampling, removal, seed)
        self.memory = memory
        self.twin = Twin(capacity, removal, twin)
        self.rng = np.random.default_rng(seed)
        self.executed = self.sampled = self.updated = self.missing = 0

    def floats(self, n, scale=1.0):
        return (scale * self.rng.normal(size=n)).astype(np.float32)

    def add(self, n=None):
        n = n or int(self.rng.choice([1, 2, 5, 40, 40, 70, self.twin.capacity]))
        text = np.empty(n + 1, object)
        text[:] = [bytes([65 + t % 26]) * (t % 21) for t in range(n + 1)]
        rows = {"observation": self.floats([n + 1, 2]), "text": text}
        arguments = rows, self.floats(n), self.floats(n + 1), bool(self.rng.integers(2))
        arguments += (self.floats(n) if self.rng.integers(2) else None,)
        assert int(self.memory.add(*arguments)) == self.twin.add(*arguments)
        self.memory.count_steps(n + 3)
        self.executed += n + 3

    def sample(self):
        count = self.twin.num_steps()
        size = int(self.rng.choice([1, min(3, count), min(40, count), count]))
        num_batches = int(self.rng.integers(1, 4))
        sample = self.memory.sample(size, num_batches=num_batches)
        self.sampled += size * num_batches
        keys = sample.keys.numpy()
        for batch in keys.reshape(num_batches, size):
            assert len(set(batch.tolist())) == size
        probabilities = self.twin.sampling.probabilities()
        np.testing.assert_allclose(
            sample.probabilities, [probabilities[key] for key in keys.tolist()], rtol=1e-9
        )
        assert sample.count == count == len(probabilities)
        episodes = [self.twin.find(key) for key in keys]
        steps = [(e, key - e.key) for e, key in zip(episodes, keys)]
        ends = np.array([t == e.size - 1 for e, t in steps])
        terminated = np.array([e.terminated for e in episodes])
        np.testing.assert_allclose(
            sample.steps.rewards, [self.twin.scaled(e.rewards[t]) for e, t in steps], rtol=1e-5
        )
        np.testing.assert_array_equal(
            sample.steps.discounts, np.where(ends & terminated, 0, np.float32(DISCOUNT))
        )
        np.testing.assert_array_equal(sample.steps.bootstraps, ends & ~terminated)
        self.assert_close(sample.steps.q_ret, [e.q_ret[t] for e, t in steps])
        v_tbc = [
            e.values[t] + min(1, e.rhos[t]) * (e.q_ret[t] - e.values[t] - e.advantages[t])
            for e, t in steps
        ]
        self.assert_close(sample.steps.v_tbc, v_tbc)
        for nest, offset in ((sample.steps.states, 0), (sample.steps.next_states, 1)):
            for name, column in nest.items():
                expected = [e.rows[name][t + offset] for e, t in steps]
                assert column.numpy().tolist() == np.array(expected).tolist()

    def sample_windows(self):
        count, num_batches = len(self.twin.episodes), int(self.rng.integers(1, 3))
        size, max_steps = int(self.rng.choice([1, count])), int(self.rng.choice([1, 7, 2**31 - 1]))
        windows = self.memory.sample_episodes(size, max_steps, num_batches=num_batches)
        self.sampled += size * num_batches
        self.check_windows(windows, size, max_steps, num_batches)

    def check_windows(self, windows, size, max_steps, num_batches=1):
        """Compares every element of windows with the episodes."""
        keys, drawn = windows.keys.numpy(), tf.nest.map_structure(np.asarray, windows.steps)
        episodes, longest = [self.twin.find(key) for key in keys], drawn.lengths.max()
        for batch in np.reshape([e.key for e in episodes], [num_batches, size]):
            assert len(set(batch.tolist())) == size
        assert drawn.rewards.shape == (size * num_batches, longest)
        for i, (e, length) in enumerate(zip(episodes, drawn.lengths)):
            begin = keys[i] - e.key
            assert length == min(max_steps, e.size) and begin + length <= e.size
            steps = begin + np.maximum(0, np.arange(longest + 1) - (longest - length))
            for name, column in drawn.states.items():
                np.testing.assert_array_equal(column[i], e.rows[name][steps])
            rewards = self.twin.scaled(e.rewards[steps[:-1]])
            np.testing.assert_allclose(drawn.rewards[i], rewards, rtol=1e-5)
            np.testing.assert_array_equal(windows.step_keys[i], e.key + steps[:-1])
            assert drawn.bootstraps[i] != (e.terminated and begin + length == e.size)
        assert windows.count == len(self.twin.episodes)

    def refresh(self):
        """Refreshes steps that are stored, repeated, gone and not there yet."""
        twin = self.twin
        size, num_batches = int(self.rng.integers(1, 30)), int(self.rng.integers(1, 4))
        n = size * num_batches
        oldest = min(episode.key for episode in twin.episodes)
        keys = self.rng.integers(max(0, oldest - 5), twin.next_key + 3, n)
        keys[self.rng.random(n) < 0.2] = keys[0]
        rhos = np.exp(self.floats(n)).astype(np.float32)
        rhos[self.rng.random(n) < 0.1] = self.rng.choice([0.0, 0.25, 4.0])
        errors = self.rng.random(n).astype(np.float32)
        arguments = keys, self.floats(n), rhos, np.abs(self.floats(n)), errors, self.floats(n)
        c_max = np.float32(self.rng.choice([4.0, 4.0, 2.0, 1.5]))
        advantages = self.floats(n) if self.rng.integers(2) else None
        missing = self.memory.refresh(*arguments, c_max, num_batches, advantages)
        arguments += (np.zeros(n) if advantages is None else advantages,)
        batches = list(zip(*(np.split(argument, num_batches) for argument in arguments)))
        assert missing == twin.refresh(
            [[array.tolist() for array in batch] for batch in batches], float(c_max)
        )
        self.updated += n - int(missing)
        self.missing += int(missing)

    def rescale(self):
        scale = self.rng.choice([float(self.memory.reward_scale()), 0.5, 1.0, 3.0])
        recompute = bool(self.rng.integers(2))
        self.memory.set_reward_scale(scale, recompute)
        self.twin.set_scale(scale, recompute)

    def compare(self):
        self.memory.check()
        twin = self.twin
        keys = np.arange(max(0, twin.next_key - 3 * twin.capacity), twin.next_key + 4)
        there = [twin.find(key) is not None for key in keys]
        assert self.memory.contains(keys).numpy().tolist() == there
        stored = self.memory.stored(keys)
        for name in stored._fields:
            column = getattr(stored, name).numpy()
            assert np.isnan(column[~np.array(there)]).all()
            expected = [getattr(e, name)[: e.size] for e in twin.episodes if e.key >= keys[0]]
            self.assert_close(column[there], np.concatenate(expected))
        scale = np.sqrt(np.mean(twin.all("rewards").astype(float) ** 2))
        np.testing.assert_allclose(self.memory.reward_scale(), scale, rtol=1e-12)
        observations = np.concatenate([e.rows["observation"] for e in twin.episodes]).astype(float)
        mean, deviation = self.memory.observation_moments()
        np.testing.assert_allclose(mean, observations.mean(0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(deviation, observations.std(0), rtol=1e-9)
        statistics = self.memory.statistics()
        assert statistics._replace(mean_divergence=0, held_bytes=0) == (
            *(twin.num_steps(), len(twin.episodes), 0, self.executed, twin.removed),
            *(self.sampled, self.updated, self.missing),
            *(twin.is_far(twin.all("rhos"), twin.c_max).sum(), 0),
        )
        assert self.memory.counters() == Counters(
            items=twin.num_steps(),
            inserted=self.executed,
            sampled=self.sampled,
            removed=twin.removed,
            missing=self.missing,
        )
        divergence = np.mean(twin.all("divergences"))
        np.testing.assert_allclose(statistics.mean_divergence, divergence, rtol=1e-9)

    @staticmethod
    def assert_close(stored, expected):
        np.testing.assert_allclose(stored, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "removal, sampling",
    [("oldest", Uniform()), ("divergence", RankBased(0.7, 1)), ("far_policy", RankBased(2.0, 40))],
)
def test_random_calls_agree_with_the_twin(removal, sampling):
    pair = Pair(100, removal, sampling, seed=3)
    calls = [pair.add, pair.sample_windows, pair.rescale]
    calls += 3 * [pair.sample] + 4 * [pair.refresh]
    pair.add()
    for turn in range(CALLS):
        pair.rng.choice(calls)()
        if turn % 8 == 0:
            pair.compare()
    pair.compare()
    assert pair.twin.removed > 5 * pair.twin.capacity and pair.missing > 100  # else it is weak


# Windows of whole episodes.

SIZES = (5, 1, 8, 3, 12, 4)


def window_pair(sizes=SIZES, memory=None):
    pair = Pair(100, "oldest", Uniform(), seed=1, memory=memory)
    for size in sizes:
        pair.add(size)
    return pair


def make_window_memory(seed):
    return WindowMemory(SPECS, 100, DISCOUNT, 4, seed=seed, num_batches=2)


def chi_square(counts, probabilities):
    expected = counts.sum() * np.asarray(probabilities)
    return np.sum((counts - expected) ** 2 / expected)


def test_episodes_are_uniform_whatever_their_lengths_in_each_place_of_a_batch():
    """Chi-square; with 5 degrees of freedom a seed exceeds 35 with a chance of 1.5e-6."""
    pair, draws = window_pair(), 6000
    windows = pair.memory.sample_episodes(4, 3, seed=5, num_batches=draws)
    firsts = [episode.key for episode in pair.twin.episodes]
    episode = np.searchsorted(firsts, windows.keys, side="right") - 1
    for column in episode.reshape([draws, 4]).T:
        assert chi_square(np.bincount(column, minlength=6), np.full(6, 1 / 6)) < 35
    pairs = episode.reshape([draws, 4])[:, 0] * 6 + episode.reshape([draws, 4])[:, 1]
    ordered = [a * 6 + b for a in range(6) for b in range(6) if a != b]
    counts = np.bincount(pairs, minlength=36)[ordered]
    assert counts.sum() == draws  # never the same twice
    assert chi_square(counts, np.full(30, 1 / 30)) < 90  # 29 degrees: 4e-8


def test_a_window_begins_at_a_uniform_step_or_the_latest_that_fits():
    draws = 5000
    windows = window_pair((10,)).memory.sample_episodes(1, 7, seed=3, num_batches=draws)
    counts = np.bincount(windows.keys)
    assert len(counts) == 4
    assert chi_square(counts, [0.1, 0.1, 0.1, 0.7]) < 30  # 3 degrees: 1.4e-6


def test_a_seed_repeats_a_draw():
    def draw(seed):
        return memory.sample_episodes(5, 3, seed).keys.numpy().tolist()

    memory = window_pair().memory
    first = draw(7)
    assert draw(7) == first != draw(8)
    draw(None)
    assert draw(7) == first


def test_in_a_graph_the_shapes_are_known_but_the_length():
    pair = window_pair()

    @tf.function(autograph=False)
    def call(seed):
        windows = pair.memory.sample_episodes(3, 4, seed, num_batches=2)
        assert windows.steps.states["observation"].shape.as_list() == [6, None, 2]
        assert windows.steps.rewards.shape.as_list() == [6, None]
        assert windows.keys.shape == windows.steps.bootstraps.shape == [6]
        return windows

    pair.check_windows(call(tf.constant(4, tf.int64)), 3, 4, 2)


def test_a_refresh_by_the_token_reaches_each_step_once_more():
    """Rows in front of a short window repeat its first step, of which the last one counts."""
    memory = window_pair().memory
    windows = memory.sample_episodes(6, 200)
    number = tf.range(windows.token.shape[0], dtype=tf.float32)
    zeros = tf.zeros_like(number)
    memory.refresh(windows.token, number, 1 + number, zeros, zeros, zeros, 4.0)
    keys = windows.step_keys.numpy()
    last = {key: i for i, key in enumerate(keys.ravel().tolist())}
    assert len(last) == sum(SIZES)
    stored = memory.stored(np.array(list(last)))
    np.testing.assert_array_equal(stored.values, list(last.values()))
    np.testing.assert_array_equal(stored.rhos, 1 + np.array(list(last.values())))
    memory.check()


def test_a_memory_of_windows_draws_them():
    pair = window_pair(memory=make_window_memory(1))
    windows = pair.memory.draw(6, seed=3)
    pair.check_windows(windows, 3, 4, 2)
    counters = pair.memory.counters()
    assert counters == (sum(SIZES), pair.executed, 6, 0, 0, 0)
    assert pair.memory.num_drawable(counters) == len(SIZES)
    batch = windows.batch()
    assert batch.size == len(SIZES)
    np.testing.assert_allclose(batch.probabilities, np.full(6, 1 / len(SIZES)))
    assert batch.steps is windows.steps


def test_a_loaded_memory_draws_what_the_saved_one_would(tmp_path):
    memory, other = make_window_memory(1), make_window_memory(2)
    window_pair(memory=memory).memory.draw(4)
    memory.save(tmp_path / "memory")
    other.load(tmp_path / "memory")
    first, second = memory.draw(6), other.draw(6)
    tf.nest.map_structure(np.testing.assert_array_equal, first, second)


def test_a_batch_above_the_number_of_episodes():
    for sizes in ((), SIZES):
        memory = window_pair(sizes).memory
        for size in (len(sizes) + 1, 2**31 - 1):
            message = f"^the memory holds {len(sizes)} episodes, fewer than a batch of {size}$"
            with pytest.raises(tf.errors.FailedPreconditionError, match=message):
                memory.sample_episodes(size, 4)
        assert memory.statistics().sampled == 0
