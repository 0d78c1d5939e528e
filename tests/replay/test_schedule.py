"""Tests of common.replay.schedule."""

import types

import numpy as np
import pytest
import tensorflow as tf

from common.replay.distributions import Fifo, Uniform
from common.replay.memory import Memory, Statistics
from common.agent import schedule_for
from common.replay.schedule import Schedule


def counters(inserted, sampled, items=None):
    zeros = dict.fromkeys(Statistics._fields, 0)
    items = inserted if items is None else items
    return Statistics(**zeros | {"items": items, "inserted": inserted, "sampled": sampled})


SCHEDULE = Schedule(min_size=100, samples_per_insert=4.0, tolerance=50.0)


@pytest.mark.parametrize("inserted, sampled, num_samples, may_sample", [
    (99, 0, 10, False),  # not filled yet
    (100, 0, 50, True),  # credit 0: down to -50 and no further
    (100, 0, 51, False),
    (100, 50, 1, False),
    (110, 40, 50, True),  # credit 40 - 40 = 0
    (110, 41, 50, False),
])
def test_the_learner_stops_at_the_lower_limit(inserted, sampled, num_samples, may_sample):
    assert SCHEDULE.may_sample(counters(inserted, sampled), num_samples) is may_sample


@pytest.mark.parametrize("inserted, sampled, may_insert", [
    (0, 0, True), (99, 0, True),  # filling costs no credit
    (112, 0, True), (113, 0, False),  # credit 48, 52
    (113, 2, True),  # credit 50
])
def test_the_actors_stop_at_the_upper_limit(inserted, sampled, may_insert):
    assert SCHEDULE.may_insert(counters(inserted, sampled)) is may_insert


def test_without_a_ratio_only_the_filling_counts():
    free = Schedule(min_size=100, samples_per_insert=None, tolerance=0.0)
    assert not free.may_sample(counters(99, 0), 1)
    assert free.may_sample(counters(100, 10**9), 10**6)
    assert free.may_insert(counters(10**9, 0))


def test_removed_items_were_paid_for():
    assert SCHEDULE.may_sample(counters(inserted=1000, sampled=3600, items=100), 50)
    assert not SCHEDULE.may_insert(counters(inserted=1000, sampled=3549, items=100))


def test_a_memory_that_starts_anew_is_filled_first():
    old = counters(inserted=5000, sampled=4 * 4900)
    assert SCHEDULE.may_sample(old, 50) and SCHEDULE.may_insert(old)
    for inserted in (0, 50, 99):
        new = counters(inserted, sampled=0)
        assert SCHEDULE.may_insert(new) and not SCHEDULE.may_sample(new, 1)
    assert SCHEDULE.may_sample(counters(100, 0), 50)


@pytest.mark.parametrize("ratio", [0.3, 1.0, 4.0, 37.0])
def test_two_sides_that_obey_keep_the_ratio_and_never_both_wait(ratio):
    """A real memory under actors and a learner whose turns are random."""
    call, insert = 64, 10
    schedule = Schedule(min_size=200, samples_per_insert=ratio, tolerance=2.0 * call)
    memory = Memory(tf.TensorSpec([], tf.float32), 500, {"sample": Uniform(), "old": Fifo()}, "old",
                    seed=1)
    rng = np.random.default_rng(0)
    step = 0
    for _ in range(2000):
        statistics = memory.statistics()
        can_insert = schedule.may_insert(statistics)
        can_sample = schedule.may_sample(statistics, call)
        assert can_insert or can_sample
        if can_insert and (rng.random() < 0.5 or not can_sample):
            memory.insert(np.arange(step, step + insert), np.zeros(insert, np.float32),
                          np.ones(insert, np.float32))
            step += insert
        elif can_sample:
            memory.sample(call)
        statistics = memory.statistics()
        if statistics.inserted >= 200:
            credit = ratio * (statistics.inserted - 200) - statistics.sampled
            assert -2 * call <= credit <= 2 * call + ratio * insert
    assert statistics.inserted > 1000 and statistics.sampled > 1000


def test_the_schedule_of_an_agent():
    agent = types.SimpleNamespace(batch_size=256, updates_per_call=16, min_replay_size=1000,
                                  samples_per_insert=8.0)
    assert schedule_for(agent) == Schedule(1000, 8.0, tolerance=2 * 256 * 16)
