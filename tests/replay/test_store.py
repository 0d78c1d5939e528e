"""Tests of common.replay.store, with the limits that data of items sets, and of local_replay."""

import dataclasses
import heapq
import types
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from common.data.data import ItemData
from common.replay import store
from common.replay.local_replay import LocalReplay
from common.replay.memory import Fifo, Memory, Uniform
from common.replay.store import UNLIMITED, Counters, RateLimiter

LIMITER = RateLimiter(min_size=100, samples_per_insert=4.0, tolerance=50.0)


def counters(inserted, sampled, items=None):
    return Counters(inserted if items is None else items, inserted, sampled)


def test_the_learner_stops_at_the_lower_limit():
    allowed = [(100, 0, 50), (110, 40, 50)]  # credit 0 may fall to -50
    refused = [(99, 0, 10), (100, 0, 51), (100, 50, 1), (110, 41, 50)]  # the first is not filled
    for cases, may_sample in ((allowed, True), (refused, False)):
        for inserted, sampled, num_samples in cases:
            assert LIMITER.may_sample(counters(inserted, sampled), num_samples) is may_sample


def test_the_actors_stop_at_the_upper_limit():
    for inserted, sampled in [(0, 0), (99, 0), (112, 0), (113, 2)]:  # filling costs no credit
        assert LIMITER.may_insert(counters(inserted, sampled))
    assert not LIMITER.may_insert(counters(113, 0))  # credit 52


def test_without_a_ratio_only_the_filling_counts():
    free = RateLimiter(min_size=100, samples_per_insert=None, tolerance=0.0)
    assert not free.may_sample(counters(99, 0), 1)
    assert free.may_sample(counters(100, 10**9), 10**6)
    assert free.may_insert(counters(10**9, 0))
    assert UNLIMITED.may_sample(Counters(), 10**6) and UNLIMITED.may_insert(counters(10**9, 0))


def test_actors_go_on_while_the_learner_has_too_little_to_draw_from():
    limiter = dataclasses.replace(LIMITER, min_items=8)
    assert limiter.may_insert(counters(1000, 0, items=7))
    assert not limiter.may_insert(counters(1000, 0, items=8))


def test_removed_items_were_paid_for_but_a_store_that_starts_anew_is_filled_first():
    assert LIMITER.may_sample(counters(inserted=1000, sampled=3600, items=100), 50)
    assert not LIMITER.may_insert(counters(inserted=1000, sampled=3549, items=100))

    old = counters(inserted=5000, sampled=4 * 4900)
    assert LIMITER.may_sample(old, 50) and LIMITER.may_insert(old)
    for inserted in (0, 50, 99):
        new = counters(inserted, sampled=0)
        assert LIMITER.may_insert(new) and not LIMITER.may_sample(new, 1)
    assert LIMITER.may_sample(counters(100, 0), 50)


@pytest.mark.parametrize("ratio", [0.3, 37.0])
def test_two_sides_that_obey_keep_the_ratio_and_never_both_wait(ratio):
    """Actors and a learner take random turns at a real memory."""
    call, insert, step = 64, 10, 0
    limiter = RateLimiter(min_size=200, samples_per_insert=ratio, tolerance=2.0 * call)
    distributions = {"sample": Uniform(), "old": Fifo()}
    memory = Memory(tf.TensorSpec([], tf.float32), 500, distributions, "old", seed=1)
    rng, rows = np.random.default_rng(0), (np.zeros(insert, "f"), np.ones(insert, "f"))
    for _ in range(800):
        seen = memory.counters()
        can_insert, can_sample = limiter.may_insert(seen), limiter.may_sample(seen, call)
        assert can_insert or can_sample
        if can_insert and (rng.random() < 0.5 or not can_sample):
            memory.insert(np.arange(step, step + insert), *rows)
            step += insert
        elif can_sample:
            memory.draw(call)
        seen = memory.counters()
        if seen.inserted >= 200:
            credit = ratio * (seen.inserted - 200) - seen.sampled
            assert -2 * call <= credit <= 2 * call + ratio * insert
    assert seen.inserted > 250 and seen.sampled > 1000


MIN_SIZE, SEND_BATCH = 1000, 50


class Driver:
    """A simulation of actors and a learner that obey the limit of items and are equally fast.

    Each takes a unit of time per sample. An actor process steps its environments together and sends
    at least `SEND_BATCH` transitions at a time. It learns the counters with each send, and asks
    again only while it has to wait. The learner draws `prefetch` calls ahead.
    """

    def __init__(self, batch, ratio, prefetch, processes, environments):
        data = types.SimpleNamespace(
            _config=types.SimpleNamespace(min_replay_size=MIN_SIZE, samples_per_insert=ratio),
            send_batch=SEND_BATCH,
            num_copies=1,
        )
        self.limiter = ItemData.rate_limiter(data, batch, prefetch)
        self._call, self._prefetch, self._environments = batch, prefetch, environments
        self._timestep = ratio * environments * processes
        self.inserted, self.sampled, self.now = MIN_SIZE, 0, 0.0
        self._ahead, self._collected = 0, [0] * processes
        self._waits_since = {name: 0.0 for name in ("learner", *range(processes))}
        self._waits = []  # (end, length)
        self._events = []

    def run(self, end):
        """Runs until `end` or until everybody waits; returns whether somebody can go on."""
        while self.now < end:
            for name in list(self._waits_since):
                if self._learn() if name == "learner" else self._act(name):
                    self._waits.append((self.now, self.now - self._waits_since.pop(name)))
            if not self._events:
                return False
            self.now, name = heapq.heappop(self._events)
            if name < 0:
                self._waits_since["learner"] = self.now
            else:
                self._end_timestep(name)
        return True

    def waited(self, begin):
        """Returns the total time of all waits that ended after `begin` or have not ended."""
        under_way = [(self.now, self.now - since) for since in self._waits_since.values()]
        return sum(length for end, length in self._waits + under_way if end > begin)

    def _learn(self):
        while self._ahead <= self._prefetch and self._may_draw():
            self.sampled += self._call
            self._ahead += 1
        if not self._ahead:
            return False
        self._ahead -= 1
        heapq.heappush(self._events, (self.now + self._call, -1))
        return True

    def _may_draw(self):
        return self.limiter.may_sample(counters(self.inserted, self.sampled), self._call)

    def _act(self, process):
        if not self.limiter.may_insert(counters(self.inserted, self.sampled)):
            return False
        heapq.heappush(self._events, (self.now + self._timestep, process))
        return True

    def _end_timestep(self, process):
        self._collected[process] += self._environments
        if self._collected[process] >= SEND_BATCH:
            self.inserted += self._collected[process]
            self._collected[process] = 0
            self._waits_since[process] = self.now
        else:  # without a send there is no news of the counters
            heapq.heappush(self._events, (self.now + self._timestep, process))


@pytest.mark.parametrize("prefetch", [1, 16])
@pytest.mark.parametrize("ratio", [0.5, 64.0])
@pytest.mark.parametrize("batch", [32, 512])
def test_equally_fast_sides_do_not_wait_for_each_other(batch, ratio, prefetch):
    """After the start neither side waits; in a band narrower than a send they would, in turns."""
    for processes, environments in ((1, 1), (1, 8), (2, 4)):
        driver = Driver(batch, ratio, prefetch, processes, environments)
        unit = max(batch, processes * SEND_BATCH * ratio)
        assert driver.run(60 * unit)
        assert driver.waited(20 * unit) < 0.01 * 40 * unit
        credit = ratio * (driver.inserted - MIN_SIZE) - driver.sampled
        sends = ratio * processes * (SEND_BATCH + environments)
        tolerance = driver.limiter.tolerance
        assert -tolerance <= credit <= tolerance + sends


@pytest.mark.parametrize("processes, environments", [(20, 1), (3, 200)])
@pytest.mark.parametrize("batch, ratio", [(32, 64.0), (64, 8.0), (512, 0.5)])
def test_many_actors_that_send_together_never_stop_the_run(batch, ratio, processes, environments):
    """Sends may exceed the band: then either side waits at times, but never both."""
    driver = Driver(batch, ratio, 4, processes, environments)
    unit = max(batch, processes * max(environments, SEND_BATCH) * ratio)
    assert driver.run(30 * unit)
    assert driver.sampled > 10 * unit


def test_derived_seeds_are_positive_int64_and_differ_by_each_part():
    derived = [store.derive_seed(seed, step) for seed in range(50) for step in range(0, 800, 16)]
    derived += [store.derive_seed(2**63 - 1, part) for part in range(3)]
    derived += [store.derive_seed(2**31, 2**40)]
    assert all(1 <= seed < 2**63 for seed in derived)
    assert len(set(derived)) == len(derived)
    assert store.derive_seed(3, 16) == store.derive_seed(3, 16) != store.derive_seed(16, 3)


T = 3


class Columns(NamedTuple):
    """The columns of an unroll."""

    mark: np.ndarray
    is_last: np.ndarray


SPECS = Columns(tf.TensorSpec([T, 2]), tf.TensorSpec([T], tf.bool))


def unrolls(*marks):
    marks = np.array(marks, np.float32)
    return Columns(
        np.tile(marks[:, None, None], (1, T, 2)), np.tile(marks[:, None] % 2 == 1, (1, T))
    )


def marks_of(columns):
    """The marks of unrolls, which agree in both columns."""
    marks = columns.mark[:, 0, 0].astype(int)
    tf.nest.map_structure(np.testing.assert_array_equal, columns, unrolls(*marks))
    return marks.tolist()


def test_each_unroll_is_followed_by_others_of_its_actor():
    replay = LocalReplay(SPECS, range(4, 6), capacity=100, length=T, seed=1)
    assert marks_of(replay.burst([4, 5], unrolls(40, 50), 2)) == [40, 40, 40, 50, 50, 50]
    seen = set()
    for step in range(1, 30):
        burst = marks_of(replay.burst([5, 4], unrolls(50 + 100 * step, 40 + 100 * step), 2))
        assert burst[0] == 50 + 100 * step and burst[3] == 40 + 100 * step
        for row, mark in enumerate(burst):
            assert mark % 100 == (50 if row < 3 else 40) and mark <= 50 + 100 * step
        seen |= {mark // 100 for mark in burst[1:3]}
    assert len(seen) > 10


def test_draws_are_uniform_over_what_is_left_of_an_actors_unrolls():
    replay = LocalReplay(SPECS, range(3, 4), capacity=4 * T + 2, length=T, seed=2)  # four unrolls
    for mark in range(9):
        replay.burst([3], unrolls(mark), 1)
    burst = marks_of(replay.burst([3], unrolls(9), 4000))
    counts = np.bincount(burst[1:], minlength=10)
    assert counts[:6].sum() == 0
    np.testing.assert_allclose(counts[6:], 1000, atol=4 * np.sqrt(4000 * 0.25 * 0.75))


def test_equal_seeds_give_equal_bursts_and_actors_differ():
    def draws(seed, actor):
        replay = LocalReplay(SPECS, range(2), 100, T, seed)
        return [marks_of(replay.burst([actor], unrolls(mark), 2)) for mark in range(20)]

    assert draws(1, 0) == draws(1, 0)
    assert draws(1, 0) != draws(2, 0) and draws(1, 0) != draws(1, 1)


def test_none_are_added_where_none_are_replayed():
    columns = unrolls(1, 2)
    assert LocalReplay(SPECS, range(2), 100, T, 1).burst([0, 1], columns, 0) is columns


def test_what_is_left_of_saved_replays_grows_on(tmp_path):
    """Files are saved one after another, and one may be damaged."""
    replay = LocalReplay(SPECS, range(2), 100, T, seed=3)
    for mark in range(8):
        replay.burst([0, 1], unrolls(mark, mark), 1)
    replay.save(tmp_path / "replay")
    (tmp_path / "replay_0").write_bytes(b"damaged")
    again = LocalReplay(SPECS, range(2), 100, T, seed=3)
    again.load(tmp_path / "replay")
    for mark in range(8, 12):
        again.burst([0, 1], unrolls(mark, mark), 1)
    counters = again.counters()
    assert (counters.items, counters.duplicates) == (12 + 4, 0)


def test_a_replay_smaller_than_an_unroll():
    with pytest.raises(ValueError, match="a replay of 2 timesteps cannot hold an unroll of 3"):
        LocalReplay(SPECS, range(2), 2, T, 1)


def test_a_wrong_column_is_named():
    wrong = unrolls(1)._replace(mark=np.zeros((1, T, 3), np.float32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="mark"):
        LocalReplay(SPECS, range(2), 100, T, 1).burst([0], wrong, 2)
