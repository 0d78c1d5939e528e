"""Tests of common.replay.schedule."""

import heapq
import types

import numpy as np
import pytest
import tensorflow as tf

from common.agents.item_agent import ItemAgent
from common.replay.distributions import Fifo, Uniform
from common.replay.memory import Memory, Statistics
from common.replay.schedule import Schedule


def counters(inserted, sampled, items=None):
    zeros = dict.fromkeys(Statistics._fields, 0)
    items = inserted if items is None else items
    return Statistics(**zeros | {"items": items, "inserted": inserted, "sampled": sampled})


SCHEDULE = Schedule(min_size=100, samples_per_insert=4.0, tolerance=50.0)


@pytest.mark.parametrize(
    "inserted, sampled, num_samples, may_sample",
    [
        (99, 0, 10, False),  # not filled yet
        (100, 0, 50, True),  # credit 0 may fall to -50
        (100, 0, 51, False),
        (100, 50, 1, False),
        (110, 40, 50, True),  # credit 40 - 40 = 0
        (110, 41, 50, False),
    ],
)
def test_the_learner_stops_at_the_lower_limit(inserted, sampled, num_samples, may_sample):
    assert SCHEDULE.may_sample(counters(inserted, sampled), num_samples) is may_sample


@pytest.mark.parametrize(
    "inserted, sampled, may_insert",
    [
        (0, 0, True),
        (99, 0, True),  # filling costs no credit
        (112, 0, True),
        (113, 0, False),  # credit 48, 52
        (113, 2, True),  # credit 50
    ],
)
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
    """Actors and a learner take random turns at a real memory."""
    call, insert = 64, 10
    schedule = Schedule(min_size=200, samples_per_insert=ratio, tolerance=2.0 * call)
    memory = Memory(
        tf.TensorSpec([], tf.float32), 500, {"sample": Uniform(), "old": Fifo()}, "old", seed=1
    )
    rng = np.random.default_rng(0)
    step = 0
    for _ in range(2000):
        statistics = memory.statistics()
        can_insert = schedule.may_insert(statistics)
        can_sample = schedule.may_sample(statistics, call)
        assert can_insert or can_sample
        if can_insert and (rng.random() < 0.5 or not can_sample):
            memory.insert(
                np.arange(step, step + insert),
                np.zeros(insert, np.float32),
                np.ones(insert, np.float32),
            )
            step += insert
        elif can_sample:
            memory.sample(call)
        statistics = memory.statistics()
        if statistics.inserted >= 200:
            credit = ratio * (statistics.inserted - 200) - statistics.sampled
            assert -2 * call <= credit <= 2 * call + ratio * insert
    assert statistics.inserted > 1000 and statistics.sampled > 1000


def make_agent(**values):
    defaults = dict(
        batch_size=64,
        updates_per_call=1,
        min_replay_size=1000,
        samples_per_insert=8.0,
        send_batch=50,
        num_copies=1,
        prefetch=1,
    )
    return types.SimpleNamespace(**{**defaults, **values})


class Driver:
    """A simulation of actors and a learner that obey an agent's schedule and are equally fast.

    Each takes a unit of time per sample. An actor process steps its environments together and sends
    at least `send_batch` transitions at a time. It learns the counters with each send, and asks
    again only while it has to wait. The learner draws `prefetch` calls ahead.
    """

    def __init__(self, agent, processes, environments):
        self._agent, self._environments = agent, environments
        self._schedule = ItemAgent.schedule(agent)
        self._call = agent.batch_size * agent.updates_per_call
        self._timestep = agent.samples_per_insert * environments * processes
        self.inserted, self.sampled = agent.min_replay_size, 0
        self._ahead, self._collected = 0, [0] * processes
        self._waits_since = {name: 0.0 for name in ("learner", *range(processes))}
        self._waits = []  # (end, length)
        self._events = []
        self.now = 0.0

    def run(self, end):
        """Runs until `end` or until everybody waits; returns whether somebody can go on."""
        while self.now < end:
            for name in list(self._waits_since):
                if self._learn() if name == "learner" else self._act(name):
                    begin = self._waits_since.pop(name)
                    self._waits.append((self.now, self.now - begin))
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
        if not self._ahead and not self._draw():
            return False
        self._ahead -= 1
        while self._ahead < self._agent.prefetch and self._draw():
            pass
        heapq.heappush(self._events, (self.now + self._call, -1))
        return True

    def _draw(self):
        if not self._schedule.may_sample(counters(self.inserted, self.sampled), self._call):
            return False
        self.sampled += self._call
        self._ahead += 1
        return True

    def _act(self, process):
        if not self._schedule.may_insert(counters(self.inserted, self.sampled)):
            return False
        heapq.heappush(self._events, (self.now + self._timestep, process))
        return True

    def _end_timestep(self, process):
        self._collected[process] += self._environments
        if self._collected[process] >= self._agent.send_batch:
            self.inserted += self._collected[process]
            self._collected[process] = 0
            self._waits_since[process] = self.now
        else:  # without a send there is no news of the counters
            heapq.heappush(self._events, (self.now + self._timestep, process))


@pytest.mark.parametrize("prefetch", [1, 4, 16])
@pytest.mark.parametrize("ratio", [0.5, 8.0, 64.0])
@pytest.mark.parametrize("batch", [32, 64, 512])
def test_equally_fast_sides_do_not_wait_for_each_other(batch, ratio, prefetch):
    """After the start neither side waits; in a band narrower than a send they would, in turns."""
    agent = make_agent(batch_size=batch, samples_per_insert=ratio, prefetch=prefetch)
    for processes, environments in ((1, 1), (1, 8), (2, 4)):
        driver = Driver(agent, processes, environments)
        unit = max(batch, processes * agent.send_batch * ratio)
        assert driver.run(60 * unit)
        assert driver.waited(20 * unit) < 0.01 * 40 * unit
        credit = ratio * (driver.inserted - agent.min_replay_size) - driver.sampled
        tolerance = ItemAgent.schedule(agent).tolerance
        sends = ratio * processes * (agent.send_batch + environments)
        assert -tolerance <= credit <= tolerance + sends


@pytest.mark.parametrize("processes, environments", [(1, 8), (20, 1), (3, 200)])
@pytest.mark.parametrize("batch, ratio", [(32, 64.0), (64, 8.0), (512, 0.5)])
def test_many_actors_that_send_together_never_stop_the_run(batch, ratio, processes, environments):
    """Sends may exceed the band: then either side waits at times, but never both."""
    agent = make_agent(batch_size=batch, samples_per_insert=ratio, prefetch=4)
    driver = Driver(agent, processes, environments)
    unit = max(batch, processes * max(environments, agent.send_batch) * ratio)
    assert driver.run(30 * unit)
    assert driver.sampled > 10 * unit
