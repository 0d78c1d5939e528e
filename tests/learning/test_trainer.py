"""Tests of common.learning.trainer, on real stores: in this process, and behind a service."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from common.cluster.errors import ClusterError, ServiceUnavailableError
from common.cluster.processes import Patience, PatienceError
from common.data.unrolls import UnrollQueue
from common.learning.learner import DivergedError
from common.learning.trainer import Trainer, UndecodableReplayError
from common.learning.updates import UpdateLoop
from common.replay import memory as memory_lib
from common.replay.memory import Items, Memory
from common.replay.store import UNLIMITED, Counters, RateLimiter
from common.user_error import UserError

pytestmark = pytest.mark.usefixtures("eager")
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


def items(begin, end):
    """Items with key, value and priority in [begin, end), the latter two counted from 1."""
    keys = np.arange(begin, end)
    return Items(keys, (keys + 1).astype(np.float32), (keys + 1).astype(np.float32))


class PlainMemory(Memory):
    """A memory of numbers, drawn in proportion to their priorities."""

    def __init__(self, seed=1, capacity=100, hard_capacity=None):
        super().__init__(
            tf.TensorSpec([], tf.float32),
            capacity,
            {"sample": memory_lib.Proportional(1.0), "remove": memory_lib.Fifo()},
            "remove",
            seed=seed,
            hard_capacity=hard_capacity,
        )

    def fill(self, begin, end):
        self.put(items(begin, end))


class LoggedMemory(PlainMemory):
    """A memory that keeps a log of what is asked of it, and that can be away."""

    def __init__(self, **options):
        super().__init__(**options)
        self.log = []
        self.keys = []
        self.away = False

    def _note(self, what):
        self.log.append(what)
        if self.away:
            raise ServiceUnavailableError("away")

    def draw(self, num_items, seed=None):
        self._note("draw")
        drawn = super().draw(num_items, seed)
        self.keys.append(drawn.keys.numpy())
        return drawn

    def write_back(self, token, outputs):
        self._note("write")
        return super().write_back(token, outputs)

    def trim(self):
        self._note("trim")
        return super().trim()

    def counters(self):
        self._note("counters")
        return super().counters()


def filled(count=20, **options):
    memory = LoggedMemory(**options)
    memory.fill(0, count)
    return memory


def make(store, prefetch, min_size=10, samples_per_insert=None, **options):
    """A trainer and its learner."""
    learner = Learner()
    updates = UpdateLoop(learner.update, UPDATES, BATCH, jit_compile=False)
    limiter = RateLimiter(min_size, samples_per_insert, float(CALL))
    return Trainer(store, updates, learner.steps, limiter, prefetch=prefetch, **options), learner


def masses(memory):
    """Raw priority of each key that a large sample shows (the exponent is 1)."""
    sample = memory.sample(20_000)
    return dict(zip(sample.keys.numpy().tolist(), sample.masses.numpy().tolist()))


@pytest.mark.parametrize("prefetch", [0, 3])
def test_waits_for_the_minimum_and_then_counts(prefetch):
    memory = LoggedMemory()
    trainer, learner = make(memory, prefetch)
    assert trainer.counters is None and trainer.num_samples == CALL
    memory.fill(0, 9)
    assert trainer.step() is None
    assert trainer.counters.items == 9
    assert "draw" not in memory.log and int(learner.steps) == 0

    memory.fill(9, 10)
    for call in range(1, 4):
        metrics = trainer.step()
        assert metrics.keys() == {"seen"}
        assert int(learner.steps) == call * UPDATES
    trainer.close()
    statistics = memory.statistics()
    assert statistics.sampled == (3 + prefetch) * CALL
    assert statistics.updated + statistics.missing == 3 * CALL
    assert statistics.items == 10


@pytest.mark.parametrize("prefetch", [0, 3])
def test_outputs_are_written_back_to_the_keys_they_belong_to(prefetch):
    memory = filled()
    trainer, _ = make(memory, prefetch)
    trainer.step()
    trainer.close()
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
    memory = filled()
    trainer, _ = make(memory, prefetch)
    seen = []
    for _ in lags:
        trainer.step()
        seen.append(trainer.priority_lag)
    trainer.close()
    assert seen == lags


@pytest.mark.parametrize("prefetch", [0, 3])
def test_the_order_is_always_the_same(prefetch):
    logs, keys, seen = [], [], []
    for _ in range(2):
        memory = filled(50, seed=7)
        trainer, _ = make(memory, prefetch)
        seen.append([float(trainer.step()["seen"]) for _ in range(8)])
        trainer.close()
        logs.append(memory.log)
        keys.append(np.concatenate(memory.keys).tolist())
    draw = ["counters", "draw"]
    assert logs[0] == prefetch * draw + (draw + ["write"]) * 8
    assert logs[0] == logs[1] and keys[0] == keys[1] and seen[0] == seen[1]


@pytest.mark.parametrize("prefetch", [0, 3])
def test_removals_come_in_their_time_after_the_priorities(prefetch):
    memory = filled(30, capacity=20, hard_capacity=40)
    trainer, learner = make(memory, prefetch, trim_period=7)
    due = []
    for _ in range(6):
        trainer.step()
        due.append(int(learner.steps) // 7 > (int(learner.steps) - UPDATES) // 7)
    trainer.close()
    writes = [what for what in memory.log if what in ("write", "trim")]
    assert due == [False, False, True, False, True, False]
    assert writes == [what for is_due in due for what in ["write"] + ["trim"] * is_due]
    assert memory.statistics().items == 20


class PaidMemory(LoggedMemory):
    """Its contents stay as they are, but each look at its counters finds two items more."""

    paid = 0

    def counters(self):
        self.paid += 2
        return super().counters()._replace(inserted=self.paid)

    def write_back(self, token, outputs):
        self.log.append(token.numpy())


def test_draws_that_wait_for_credit_keep_their_order():
    """A draw that finds no credit is not overtaken by one behind it, which would find some."""

    def learned(prefetch):
        memory = PaidMemory()
        memory.fill(0, 50)
        trainer, _ = make(memory, prefetch, min_size=0, samples_per_insert=4.0, seed=3)
        done = [trainer.step() for _ in range(40)]
        trainer.close()
        assert 5 < sum(metrics is None for metrics in done) < 30
        return [entry for entry in memory.log if isinstance(entry, np.ndarray)]

    np.testing.assert_array_equal(learned(4)[:10], learned(0)[:10])


def test_what_is_drawn_follows_from_the_seed_and_the_step():
    def keys(memory_seed, seed, first_step=0, prefetch=0, calls=3):
        memory = filled(50, seed=memory_seed)
        trainer, learner = make(memory, prefetch, seed=seed)
        learner.steps.assign(first_step)
        for _ in range(calls):
            trainer.step()
        trainer.close()
        return memory.keys

    expected = keys(memory_seed=1, seed=5)
    np.testing.assert_array_equal(keys(memory_seed=2, seed=5), expected)
    assert np.mean(np.array(expected[0]) == expected[1]) < 0.5  # each step draws for itself
    assert np.any(keys(memory_seed=1, seed=6, calls=1)[0] != expected[0])
    assert np.any(keys(memory_seed=1, seed=5, first_step=3, calls=1)[0] != expected[0])
    # The first call of both sees the same memory.
    np.testing.assert_array_equal(keys(1, 5, prefetch=1, calls=1)[0], expected[0])


@pytest.mark.parametrize("prefetch", [0, 2])
def test_what_cannot_be_decoded_is_one_line(prefetch):
    def decode(steps):
        return tf.io.decode_png(tf.constant(b"no PNG"))

    trainer, learner = make(filled(), prefetch, decode=decode)
    assert trainer.step() is None and trainer.step() is None
    with pytest.raises(UndecodableReplayError, match="cannot be decoded.*same version") as caught:
        trainer.step()
    assert isinstance(caught.value, ClusterError) and "\n" not in str(caught.value)
    trainer.flush()  # so that what was learned can be saved
    trainer.close()
    assert int(learner.steps) == 0


@pytest.mark.parametrize("prefetch", [0, 3])
def test_the_limiter_is_respected(prefetch):
    memory = LoggedMemory()
    trainer, learner = make(memory, prefetch, min_size=10, samples_per_insert=6.0)
    inserted = 0
    for _ in range(12):
        memory.fill(inserted, inserted + 3)
        inserted += 3
        while trainer.step() is not None:
            limit = 6.0 * (inserted - 10) + CALL
            assert memory.statistics().sampled <= limit
    trainer.close()
    # Nothing is held back either: one call more would have been too many.
    sampled = memory.statistics().sampled
    assert sampled + CALL > 6.0 * (inserted - 10) + CALL
    assert int(learner.steps) * BATCH == sampled


@pytest.mark.parametrize("prefetch", [0, 3])
def test_memory_that_is_away_is_waited_for(prefetch):
    memory = filled()
    trainer, learner = make(memory, prefetch)
    assert trainer.step() is not None
    assert trainer.counters.items == 20
    memory.away = True
    done = sum(trainer.step() is not None for _ in range(6))
    assert done <= prefetch  # what was drawn before
    assert trainer.step() is None and trainer.counters is None
    assert int(learner.steps) == (1 + done) * UPDATES
    memory.away = False
    assert trainer.step() is not None
    assert trainer.counters.items == 20
    assert int(learner.steps) == (2 + done) * UPDATES
    trainer.close()


@pytest.mark.parametrize("prefetch", [0, 3])
def test_patience_with_a_memory_that_is_away_ends(prefetch, monkeypatch):
    monkeypatch.setattr(Patience, "default_seconds", 0.0)
    memory = filled()
    trainer, _ = make(memory, prefetch)
    assert trainer.step() is not None
    memory.away = True
    with pytest.raises(PatienceError, match="no answer from the replay"):
        for _ in range(prefetch + 1):
            trainer.step()
    trainer.close()


@pytest.mark.parametrize("prefetch", [0, 3])
def test_an_empty_memory_is_waited_for(prefetch):
    """Min size 0: the draw itself fails, as on a replay that restarted in between."""
    memory = LoggedMemory()
    trainer, _ = make(memory, prefetch, min_size=0)
    assert trainer.step() is None
    memory.fill(0, 5)
    assert trainer.step() is not None
    trainer.close()


def trainer_of(update, memory, prefetch, count=1):
    """A trainer that counts `count` steps for each update."""
    steps = tf.Variable(0, dtype=tf.int64)

    def counted(batch):
        steps.assign_add(count)
        return update(batch)

    updates = UpdateLoop(counted, UPDATES, BATCH, jit_compile=False)
    return Trainer(memory, updates, steps, RateLimiter(10), prefetch=prefetch)


@pytest.mark.parametrize("count", [0, 2])
def test_a_learner_that_miscounts_its_updates_is_named(count):
    memory = filled()
    trainer = trainer_of(lambda batch: (batch.steps, {}), memory, 0, count)
    words = f"from 0 to {count * UPDATES} in a call of {UPDATES} updates: .*assign_add"
    with pytest.raises(UserError, match=words):
        trainer.step()
    assert "write" not in memory.log


@pytest.mark.parametrize("prefetch", [0, 3])
def test_bad_priorities_are_not_lost_in_the_background(prefetch):
    memory = filled()
    trainer = trainer_of(lambda batch: (batch.steps * float("nan"), {}), memory, prefetch)
    with pytest.raises(tf.errors.InvalidArgumentError, match="priorit"):
        trainer.step()
        trainer.flush()
    trainer.close()
    memory.check()
    assert memory.statistics().updated == 0


@pytest.mark.parametrize("prefetch, value", [(0, np.nan), (3, np.inf)])
def test_what_an_update_that_is_not_finite_gives_is_not_written(prefetch, value):
    memory = filled()

    def update(batch):
        return batch.steps, {"fine": tf.reduce_mean(batch.steps), "norm": tf.constant(value)}

    trainer = trainer_of(update, memory, prefetch)
    with pytest.raises(DivergedError, match=rf"^learning has diverged: norm is {value};.*$"):
        trainer.step()
    trainer.close()
    assert "write" not in memory.log


@pytest.mark.parametrize("prefetch", [0, 2])
def test_what_is_around_a_call_has_its_counters_and_ends_before_the_outputs_are_written(prefetch):
    memory, seen = filled(), []
    trainer, learner = make(memory, prefetch)

    @contextlib.contextmanager
    def around(counters):
        seen.append(counters)
        before = int(learner.steps)
        yield
        assert int(learner.steps) == before + UPDATES
        memory.log.append("around")

    trainer.around = around
    assert trainer.step() is not None and trainer.step() is not None
    trainer.close()
    assert [counters.items for counters in seen] == [20, 20]
    if not prefetch:
        assert seen == [Counters(20, 20), Counters(20, 20, CALL)]
        assert memory.log == ["counters", "draw", "around", "write"] * 2
    assert memory.log.index("around") < memory.log.index("write")


# Queues of unrolls.


T = 3
SPECS = {"mark": tf.TensorSpec([T])}


class Marks(tf.Module):
    """A learner that notes the unrolls it gets."""

    def __init__(self):
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.seen = tf.Variable(tf.zeros([0, BATCH]), shape=[None, BATCH])

    def update(self, batch):
        assert batch.steps["mark"].shape[1:] == (T,)
        marks = tf.ensure_shape(batch.steps["mark"], [BATCH, T])[None, :, 0]
        self.seen.assign(tf.concat([self.seen, marks], 0))
        self.steps.assign_add(1)
        mean = tf.reduce_mean(batch.probabilities * tf.cast(batch.size, tf.float32))
        return (), {"mean": mean}


def unrolls(*marks):
    return {"mark": np.tile(np.array(marks, np.float32)[:, None], (1, T))}


def make_of_queue(store, prefetch=0, decode=None):
    learner = Marks()
    updates = UpdateLoop(learner.update, UPDATES, BATCH, jit_compile=False)
    trainer = Trainer(store, updates, learner.steps, UNLIMITED, prefetch=prefetch, decode=decode)
    return trainer, learner


@pytest.mark.parametrize("prefetch", [0, 2])
def test_learns_from_each_unroll_once_in_the_order_of_the_queue(prefetch):
    queue = UnrollQueue(SPECS, 2 * CALL)
    trainer, learner = make_of_queue(queue, prefetch)
    assert trainer.counters is None and trainer.step() is None
    assert trainer.counters == Counters()
    assert queue.put(unrolls(*range(CALL - 1)))
    assert trainer.step() is None and trainer.counters.items == CALL - 1
    assert queue.put(unrolls(CALL - 1, CALL))
    metrics = trainer.step()
    assert float(metrics["mean"]) == pytest.approx(1)  # equal probabilities
    np.testing.assert_array_equal(learner.seen, np.arange(CALL).reshape(UPDATES, BATCH))
    assert queue.counters() == Counters(1, CALL + 1, CALL)
    assert trainer.step() is None and trainer.counters == queue.counters()
    assert queue.put(unrolls(*range(CALL + 1, 2 * CALL)))
    assert trainer.step() is not None
    np.testing.assert_array_equal(learner.seen, np.arange(2 * CALL).reshape(2 * UPDATES, BATCH))
    assert trainer.priority_lag == 0  # there are no priorities
    trainer.flush()
    trainer.close()


def test_others_of_the_draw_stand_in_for_unrolls_that_cannot_be_decoded():
    def decode(steps):
        tf.debugging.assert_non_negative(steps["mark"])
        return {"mark": steps["mark"] + 100}

    queue = UnrollQueue(SPECS, CALL)
    trainer, learner = make_of_queue(queue, decode=decode)
    whole = list(range(CALL))
    marks = [0, 1, -1, 3, 4, -1, *whole[6:]]
    replaced = [0, 1, 3, 4, *whole[6:], 0, 1]
    for draw, learnt in ((marks, replaced), (whole, whole), (marks, replaced)):
        assert queue.put(unrolls(*draw))
        assert trainer.step() is not None
        np.testing.assert_array_equal(learner.seen[-UPDATES:].numpy().ravel() - 100, learnt)
    for _ in range(2):
        assert queue.put(unrolls(*[-1] * CALL))
        assert trainer.step() is None  # nothing is left
    assert queue.put(unrolls(*marks)) and trainer.step() is not None
    for _ in range(2):
        assert queue.put(unrolls(*[-1] * CALL))
        assert trainer.step() is None
    assert queue.put(unrolls(*[-1] * CALL))  # the third draw in a row
    with pytest.raises(UndecodableReplayError, match="cannot be decoded.*same version"):
        trainer.step()
    trainer.close()
