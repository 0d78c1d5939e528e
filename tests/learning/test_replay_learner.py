"""Tests of common.learning.replay_learner, on a real memory of this process."""

import numpy as np
import pytest
import tensorflow as tf

from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.learning.metrics import DivergedError
from common.learning.replay_learner import ReplayLearner, UndecodableReplayError
from common.learning.update_loop import UpdateLoop
from common.replay import distributions
from common.replay.memory import Memory
from common.replay.schedule import Schedule

BATCH, UPDATES = 4, 3
CALL = BATCH * UPDATES


class Learner(tf.Module):
    """Its new priorities are value + learner steps, so that they tell when they were made."""

    def __init__(self):
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.seen = tf.Variable(0.0)

    def update(self, batch):
        """Depends on all batches so far and on their order."""
        self.seen.assign(0.9 * self.seen + tf.reduce_sum(batch.steps))
        step = self.steps.assign_add(1, read_value=True)
        return batch.steps + tf.cast(step, tf.float32), {"seen": self.seen.read_value()}


class LoggedMemory(Memory):
    """A memory that keeps a log of what is asked of it, and that can be away."""

    def __init__(self, seed=1, capacity=100, hard_capacity=None):
        super().__init__(
            tf.TensorSpec([], tf.float32),
            capacity,
            {"sample": distributions.Proportional(1.0), "remove": distributions.Fifo()},
            "remove",
            seed=seed,
            hard_capacity=hard_capacity,
        )
        self.log = []
        self.keys = []
        self.away = False

    def _note(self, what):
        self.log.append(what)
        if self.away:
            raise ServiceUnavailableError("away")

    def fill(self, begin, end):
        """Inserts items with key, value and priority in [begin, end), counted from 1."""
        keys = np.arange(begin, end)
        self.insert(keys, (keys + 1).astype(np.float32), (keys + 1).astype(np.float32))

    def sample(self, batch_size, distribution="sample", max_length=0, seed=None):
        self._note("sample")
        sample = super().sample(batch_size, distribution, max_length, seed)
        self.keys.append(sample.keys.numpy())
        return sample

    def update_priorities(self, keys, priorities):
        self._note("update")
        return super().update_priorities(keys, priorities)

    def remove_to_fit(self):
        self._note("remove")
        return super().remove_to_fit()

    def statistics(self):
        self._note("statistics")
        return super().statistics()


def make(memory, prefetch, min_size=10, samples_per_insert=None, seed=0, **options):
    """A replay learner and its learner."""
    learner = Learner()
    loop = UpdateLoop(learner.update, UPDATES, BATCH, jit_compile=False)
    schedule = Schedule(min_size, samples_per_insert, float(CALL))
    return ReplayLearner(memory, loop, learner.steps, schedule, prefetch, seed, **options), learner


def masses(memory):
    """Raw priority of each key that a large sample shows (the exponent is 1)."""
    sample = Memory.sample(memory, 20_000)
    return dict(zip(sample.keys.numpy().tolist(), sample.masses.numpy().tolist()))


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_waits_for_the_minimum_and_then_counts(prefetch):
    memory = LoggedMemory()
    replay_learner, learner = make(memory, prefetch)
    assert replay_learner.statistics is None
    memory.fill(0, 9)
    assert replay_learner.step() is None
    assert replay_learner.statistics.items == 9
    assert "sample" not in memory.log and int(learner.steps) == 0

    memory.fill(9, 10)
    for call in range(1, 4):
        metrics = replay_learner.step()
        assert metrics.keys() == {"seen"}
        assert int(learner.steps) == call * UPDATES
    replay_learner.close()
    statistics = Memory.statistics(memory)
    assert statistics.sampled == (3 + prefetch) * CALL
    assert statistics.updated + statistics.missing == 3 * CALL
    assert statistics.items == 10


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_priorities_are_written_back_to_the_keys_they_belong_to(prefetch):
    memory = LoggedMemory()
    memory.fill(0, 20)
    replay_learner, _ = make(memory, prefetch)
    replay_learner.step()
    replay_learner.close()
    expected = {key: key + 1.0 for key in range(20)}
    for position, key in enumerate(memory.keys[0].tolist()):
        # Of equal keys the last one counts; update `position // BATCH` was step one more than that.
        expected[key] = key + 1.0 + position // BATCH + 1
    actual = masses(memory)
    assert actual == {key: expected[key] for key in actual}
    assert len(actual) > 15


@pytest.mark.parametrize(
    "prefetch, lags", [(0, [3, 3, 3, 3, 3]), (1, [3, 6, 6, 6, 6]), (3, [3, 6, 9, 12, 12])]
)
def test_priority_lag(prefetch, lags):
    memory = LoggedMemory()
    memory.fill(0, 20)
    replay_learner, _ = make(memory, prefetch)
    seen = []
    for _ in lags:
        replay_learner.step()
        seen.append(replay_learner.priority_lag)
    replay_learner.close()
    assert seen == lags


def test_order_without_prefetch():
    memory = LoggedMemory()
    memory.fill(0, 20)
    replay_learner, _ = make(memory, prefetch=0)
    for _ in range(3):
        replay_learner.step()
    assert memory.log == ["statistics", "sample", "update"] * 3


@pytest.mark.parametrize("prefetch", [1, 3])
def test_order_with_prefetch_is_always_the_same(prefetch):
    logs, keys, seen = [], [], []
    for _ in range(3):
        memory = LoggedMemory(seed=7)
        memory.fill(0, 50)
        replay_learner, _ = make(memory, prefetch)
        seen.append([float(replay_learner.step()["seen"]) for _ in range(8)])
        replay_learner.close()
        logs.append(memory.log)
        keys.append(np.concatenate(memory.keys).tolist())
    draw = ["statistics", "sample"]
    assert logs[0] == prefetch * draw + (draw + ["update"]) * 8
    assert logs[0] == logs[1] == logs[2]
    assert keys[0] == keys[1] == keys[2]
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_removals_come_in_their_time_after_the_priorities(prefetch):
    memory = LoggedMemory(capacity=20, hard_capacity=40)
    memory.fill(0, 30)
    replay_learner, learner = make(memory, prefetch, removal_period=7)
    due = []
    for _ in range(6):
        replay_learner.step()
        due.append(int(learner.steps) // 7 > (int(learner.steps) - UPDATES) // 7)
    replay_learner.close()
    writes = [what for what in memory.log if what in ("update", "remove")]
    assert due == [False, False, True, False, True, False]
    assert writes == [what for is_due in due for what in ["update"] + ["remove"] * is_due]
    assert Memory.statistics(memory).items == 20


class PaidMemory(LoggedMemory):
    """Its contents stay as they are, but each look at its counters finds two items more."""

    paid = 0

    def statistics(self):
        self.paid += 2
        return super().statistics()._replace(inserted=self.paid)

    def update_priorities(self, keys, priorities):
        self.log.append(keys.numpy())


@pytest.mark.parametrize("prefetch", [1, 4])
def test_draws_that_wait_for_credit_keep_their_order(prefetch):
    """A draw that finds no credit is not overtaken by one behind it, which would find some."""

    def learned(prefetch):
        memory = PaidMemory()
        memory.fill(0, 50)
        replay_learner, _ = make(memory, prefetch, min_size=0, samples_per_insert=4.0, seed=3)
        done = [replay_learner.step() for _ in range(40)]
        replay_learner.close()
        assert 5 < sum(metrics is None for metrics in done) < 30
        return [entry for entry in memory.log if isinstance(entry, np.ndarray)]

    np.testing.assert_array_equal(learned(prefetch)[:10], learned(0)[:10])


def test_what_is_drawn_follows_from_the_seed_and_the_step():
    def keys(memory_seed, seed, first_step=0, prefetch=0, calls=3):
        memory = LoggedMemory(memory_seed)
        memory.fill(0, 50)
        replay_learner, learner = make(memory, prefetch, seed=seed)
        learner.steps.assign(first_step)
        for _ in range(calls):
            replay_learner.step()
        replay_learner.close()
        return memory.keys

    expected = keys(memory_seed=1, seed=5)
    np.testing.assert_array_equal(keys(memory_seed=2, seed=5), expected)
    assert np.mean(np.array(expected[0]) == expected[1]) < 0.5  # each step draws for itself
    assert np.any(keys(memory_seed=1, seed=6, calls=1)[0] != expected[0])
    assert np.any(keys(memory_seed=1, seed=5, first_step=3, calls=1)[0] != expected[0])
    # The first call of both sees the same memory.
    np.testing.assert_array_equal(keys(1, 5, prefetch=1, calls=1)[0], expected[0])


@pytest.mark.parametrize("prefetch", [0, 2])
def test_sampled_steps_are_decoded(prefetch):
    def seen(**options):
        memory = LoggedMemory()
        memory.fill(0, 20)
        replay_learner, _ = make(memory, prefetch, **options)
        found = float(replay_learner.step()["seen"])
        replay_learner.close()
        return found

    assert seen(decode=lambda steps: steps / 2) == pytest.approx(seen() / 2)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_what_cannot_be_decoded_is_one_line(prefetch):
    memory, fails = LoggedMemory(), []

    def decode(steps):
        return tf.io.decode_png(tf.constant(b"no PNG")) if fails else steps

    memory.fill(0, 20)
    replay_learner, learner = make(memory, prefetch, decode=decode)
    assert replay_learner.step() is not None
    replay_learner.close()
    fails.append(True)
    replay_learner, other = make(memory, prefetch, decode=decode)
    with pytest.raises(UndecodableReplayError, match="cannot be decoded.*same version") as caught:
        replay_learner.step()
    assert isinstance(caught.value, ClusterError) and "\n" not in str(caught.value)
    assert (int(learner.steps), int(other.steps)) == (UPDATES, 0)
    replay_learner.flush()  # so that what was learned can be saved
    replay_learner.close()


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_schedule_is_respected(prefetch):
    memory = LoggedMemory()
    replay_learner, learner = make(memory, prefetch, min_size=10, samples_per_insert=6.0)
    inserted = 0
    for _ in range(12):
        memory.fill(inserted, inserted + 3)
        inserted += 3
        while replay_learner.step() is not None:
            limit = 6.0 * (inserted - 10) + CALL
            assert Memory.statistics(memory).sampled <= limit
    replay_learner.close()
    # Nothing is held back either: one call more would have been too many.
    sampled = Memory.statistics(memory).sampled
    assert sampled + CALL > 6.0 * (inserted - 10) + CALL
    assert int(learner.steps) * BATCH == sampled


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_memory_that_is_away_is_waited_for(prefetch):
    memory = LoggedMemory()
    memory.fill(0, 20)
    replay_learner, learner = make(memory, prefetch)
    assert replay_learner.step() is not None
    assert replay_learner.statistics.items == 20
    memory.away = True
    done = sum(replay_learner.step() is not None for _ in range(6))
    assert done <= prefetch  # what was drawn before
    assert replay_learner.step() is None and replay_learner.statistics is None
    assert int(learner.steps) == (1 + done) * UPDATES
    memory.away = False
    assert replay_learner.step() is not None
    assert replay_learner.statistics.items == 20
    assert int(learner.steps) == (2 + done) * UPDATES
    replay_learner.close()


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_an_empty_memory_is_waited_for(prefetch):
    """Min size 0: the draw itself fails, as on a replay that restarted in between."""
    memory = LoggedMemory()
    replay_learner, _ = make(memory, prefetch, min_size=0)
    assert replay_learner.step() is None
    memory.fill(0, 5)
    assert replay_learner.step() is not None
    replay_learner.close()


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_bad_priorities_are_not_lost_in_the_background(prefetch):
    memory = LoggedMemory()
    memory.fill(0, 20)
    loop = UpdateLoop(
        lambda batch: (batch.steps * float("nan"), {}), UPDATES, BATCH, jit_compile=False
    )
    steps, schedule = tf.Variable(0, dtype=tf.int64), Schedule(10, None, 0.0)
    replay_learner = ReplayLearner(memory, loop, steps, schedule, prefetch)
    with pytest.raises(tf.errors.InvalidArgumentError, match="priorit"):
        replay_learner.step()
        replay_learner.flush()
    replay_learner.close()
    memory.check()
    assert Memory.statistics(memory).updated == 0


@pytest.mark.parametrize("prefetch", [0, 3])
def test_what_an_update_that_is_not_finite_gives_is_not_written(prefetch):
    memory = LoggedMemory()
    memory.fill(0, 20)
    steps, schedule = tf.Variable(0, dtype=tf.int64), Schedule(10, None, 0.0)
    loop = UpdateLoop(
        lambda batch: (batch.steps, {"norm": tf.reduce_sum(batch.steps) * np.inf}),
        *(UPDATES, BATCH, False),
    )
    replay_learner = ReplayLearner(memory, loop, steps, schedule, prefetch)
    with pytest.raises(DivergedError, match="norm is inf"):
        replay_learner.step()
    replay_learner.close()
    assert "update" not in memory.log
