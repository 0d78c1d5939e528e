"""Tests of common.learning.replay_learner, on a real memory of this process."""

import tempfile

from absl import logging
from common.learning.draw import SavedDraws
import numpy as np
import pytest
import tensorflow as tf

from common.cluster.errors import ClusterError
from common.learning.checkpoint import Checkpoints
from common.learning.replay_learner import ReplayLearner, UndecodableReplayError
from common.learning.update_loop import UpdateLoop
from common.replay import distributions, png
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

    def __init__(
        self, seed=1, capacity=100, hard_capacity=None, distribution=distributions.Proportional(1.0)
    ):
        spec = tf.TensorSpec([], tf.float32)
        super().__init__(
            spec,
            capacity,
            {"sample": distribution, "remove": distributions.Fifo()},
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
            raise tf.errors.UnavailableError(None, None, "away")

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


def make(
    memory,
    prefetch,
    min_size=10,
    samples_per_insert=None,
    tolerance=CALL,
    retry_on=(),
    seed=0,
    **options,
):
    """A replay learner and its learner."""
    learner = Learner()
    loop = UpdateLoop(learner.update, UPDATES, BATCH, jit_compile=False)
    schedule = Schedule(min_size, samples_per_insert, float(tolerance))
    return ReplayLearner(
        memory, loop, learner.steps, schedule, prefetch, retry_on, seed, **options
    ), learner


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


def test_a_draw_that_went_wrong_ends_those_that_are_saved():
    memory, wrong = LoggedMemory(), []

    def decode(steps):
        wrong.append(len(wrong) == 2)
        if wrong[-1]:
            raise UndecodableReplayError("nothing can be decoded")
        return steps

    memory.fill(0, 20)
    learner, _ = make(memory, 3, decode=decode)
    learner.step()
    learner.store()  # of three that are ahead the second is wrong
    assert len(learner.saved_draws.keys.numpy()) == CALL
    assert learner.step() is not None
    learner.store()
    assert not len(learner.saved_draws.keys.numpy())
    with pytest.raises(UndecodableReplayError):
        learner.step()
    learner.store()
    learner.close()


@pytest.mark.parametrize("prefetch", [1, 3])
def test_saved_draws_are_read_again_without_using_credit(prefetch):
    memory = LoggedMemory()
    memory.fill(0, 20)
    first, learner = make(memory, prefetch, samples_per_insert=100.0)
    first.step()
    first.store()
    first.close()
    ahead = memory.keys[1:]
    assert len(ahead) == prefetch
    np.testing.assert_array_equal(first.saved_draws.keys, np.concatenate(ahead))
    sampled = Memory.statistics(memory).sampled

    second, other = make(memory, 0, samples_per_insert=100.0)
    other.steps.assign(learner.steps)
    second.saved_draws.store(first.saved_draws.read(memory))
    second.store()  # a save before the first call keeps them
    memory.log.clear()
    for call in range(prefetch):
        np.testing.assert_array_equal(second.saved_draws.keys, np.concatenate(ahead[call:]))
        assert second.step() is not None
        assert second.priority_lag == (call + 2) * UPDATES  # drawn before the call before it
        second.store()
    assert memory.log == ["statistics", "update"] * prefetch
    assert Memory.statistics(memory).sampled == sampled
    assert not second.saved_draws.read(memory)  # used up
    assert second.step() is not None and Memory.statistics(memory).sampled == sampled + CALL


def test_saved_draws_wait_for_a_memory_that_is_away_and_end_where_rows_are_gone():
    memory = LoggedMemory(capacity=20)
    memory.fill(0, 20)
    first, _ = make(memory, 1)
    first.step()
    first.store()
    first.close()
    (draw,) = first.saved_draws.read(memory)

    gone = draw._replace(sample=draw.sample._replace(keys=99 + 0 * draw.sample.keys))
    second, _ = make(memory, 0, retry_on=(tf.errors.UnavailableError,))
    second.saved_draws.store([draw, gone, draw])
    assert len(second.saved_draws.read(memory)) == 1
    memory.away = True
    assert second.step() is None
    second.store()
    assert len(second.saved_draws.keys.numpy()) == 3 * CALL
    memory.away = False
    memory.log.clear()
    for _ in range(2):
        assert second.step() is not None
    assert memory.log == ["statistics", "update"] + ["statistics", "sample", "update"]


def test_a_save_of_one_draw_by_an_earlier_version_is_read():
    """Its numbers are scalars."""

    class Former(tf.Module):
        def __init__(self):
            super().__init__()
            numbers = {
                "keys": np.arange(CALL),
                "masses": np.ones(CALL),
                "lengths": np.ones(CALL, np.int32),
                "total_mass": np.float64(7),
                "count": np.int64(20),
                "step": np.int64(9),
            }
            for name, value in numbers.items():
                setattr(self, name, tf.Variable(value))

    memory = LoggedMemory()
    memory.fill(0, 20)
    with tempfile.TemporaryDirectory() as folder:
        Checkpoints(folder, {"draw": Former()}).save()
        saved = SavedDraws()
        assert Checkpoints(folder, {"draw": saved}).restore()
    (draw,) = saved.read(memory)
    assert draw.step == 9 and float(draw.sample.total_mass) == 7 and int(draw.sample.count) == 20
    np.testing.assert_array_equal(draw.sample.steps, np.arange(CALL) + 1)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_sampled_steps_are_decoded_also_of_saved_draws(prefetch):
    def run(**options):
        """What two calls saw: the second one, if it is drawn ahead, from a saved draw."""
        memory = LoggedMemory()
        memory.fill(0, 20)
        first, learner = make(memory, prefetch, **options)
        seen = [float(first.step()["seen"])]
        first.store()
        first.close()
        for draw in first.saved_draws.read(memory):
            np.testing.assert_array_equal(draw.sample.steps, draw.sample.keys + 1)  # as stored
        second, other = make(memory, prefetch, **options)
        other.steps.assign(learner.steps)
        second.saved_draws.store(first.saved_draws.read(memory))
        seen.append(float(second.step()["seen"]))
        second.close()
        return seen

    halves, wholes = run(decode=lambda steps: steps / 2), run()
    assert halves[0] == pytest.approx(wholes[0] / 2)
    if prefetch:
        assert halves[1] == pytest.approx(wholes[1] / 2)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_what_cannot_be_decoded_is_one_line(prefetch):
    memory = LoggedMemory()
    memory.fill(0, 20)
    replay_learner, learner = make(
        memory,
        prefetch,
        decode=lambda steps: tf.io.decode_png(tf.constant(b"no PNG")),
        retry_on=(tf.errors.UnavailableError,),
    )
    with pytest.raises(ClusterError, match="cannot be decoded.*same version") as caught:
        replay_learner.step()
    assert "\n" not in str(caught.value) and int(learner.steps) == 0
    replay_learner.close()


class Decoder:
    """Decodes all but the values of some keys; keeps the keys of each draw that it decoded."""

    def __init__(self, *bad):
        self.bad = bad
        self.tries = 0
        self.decoded = []

    def __call__(self, steps):
        self.tries += 1
        keys = (steps.numpy() - 1).astype(int)
        reasons = {row: "is no image" for row in np.flatnonzero(np.isin(keys, self.bad)).tolist()}
        if reasons:
            raise png.UndecodableImageError("frame", reasons)
        self.decoded.append(keys)
        return steps


@pytest.fixture
def warnings(monkeypatch):
    """What was said, in this order."""
    said = []
    monkeypatch.setattr(logging, "warning", lambda text, *values: said.append(text % values))
    return said


@pytest.mark.parametrize("prefetch", [0, 2])
def test_items_that_cannot_be_decoded_are_replaced_and_never_drawn_again(prefetch, warnings):
    memory, decoder = LoggedMemory(), Decoder(17, 19)
    memory.fill(0, 20)
    replay_learner, learner = make(memory, prefetch, decode=decoder, seed=4)
    calls = 8
    for _ in range(calls):
        assert replay_learner.step() is not None
    replay_learner.close()
    assert int(learner.steps) == calls * UPDATES
    assert len(decoder.decoded) == calls + prefetch
    assert decoder.tries < len(decoder.decoded) + 4  # in the first draws only
    first = memory.keys[0].tolist()
    assert {17, 19} & set(first) and all(len(keys) == CALL for keys in decoder.decoded)
    for drawn, learned in zip(first, decoder.decoded[0].tolist()):  # the rest is as it was
        assert learned == drawn if drawn not in (17, 19) else learned not in (17, 19)
    assert not {17, 19} & set(masses(memory))
    assert sorted(warnings) == [
        f"never learned from: frame of key {key} is no image" for key in (17, 19)
    ]


def test_uniform_replay_draws_them_again_and_each_is_said_once(warnings):
    memory, decoder = LoggedMemory(distribution=distributions.Uniform()), Decoder(3)
    memory.fill(0, 20)
    replay_learner, _ = make(memory, 0, decode=decoder)
    for _ in range(12):
        assert replay_learner.step() is not None
    assert sum(3 in keys for keys in memory.keys) > 2
    assert len(decoder.decoded) == 12 and not np.any(np.isin(decoder.decoded, 3))
    assert len(warnings) == 1


def test_saved_draws_are_decoded_without_them_also_if_the_memory_is_gone_meanwhile():
    class Leaving(LoggedMemory):
        """Gone when it is asked to forget."""

        leaves = True

        def update_priorities(self, keys, priorities):
            if self.leaves and not np.any(priorities):
                self.leaves = False
                raise tf.errors.UnavailableError(None, None, "away")
            return super().update_priorities(keys, priorities)

    memory = Leaving()
    memory.fill(0, 20)
    first, _ = make(memory, 1)
    first.step()
    first.store()
    first.close()
    (ahead,) = memory.keys[1:]
    decoder = Decoder(ahead[5])
    second, _ = make(memory, 0, retry_on=(tf.errors.UnavailableError,), decode=decoder)
    second.saved_draws.store(first.saved_draws.read(memory))
    assert second.step() is None
    assert second.step() is not None
    (learned,) = decoder.decoded
    kept = ahead != ahead[5]
    np.testing.assert_array_equal(learned[kept], ahead[kept])
    assert not np.any(learned[~kept] == ahead[5]) and len(learned) == CALL


@pytest.mark.parametrize("prefetch", [0, 3])
def test_when_nothing_can_be_decoded_what_was_learned_can_be_saved(prefetch, warnings):
    memory, decoder = LoggedMemory(capacity=900), Decoder()
    memory.fill(0, 900)
    replay_learner, learner = make(memory, prefetch, decode=decoder)
    for _ in range(2):
        replay_learner.step()
    replay_learner.store()  # waits for the draws ahead
    decoder.bad, decoder.tries = range(900), 0
    with pytest.raises(
        UndecodableReplayError, match=r"\(frame of row 0 is no image, key \d+\): start all roles"
    ) as caught:
        for _ in range(prefetch + 1):
            replay_learner.step()
    assert "\n" not in str(caught.value)
    assert decoder.tries == 10  # the draws behind it have not begun
    assert len(warnings) == len(set(warnings))
    replay_learner.store()
    assert not replay_learner.saved_draws.keys.numpy().size
    assert int(learner.steps) == (2 + prefetch) * UPDATES
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


def test_memory_that_is_away_is_waited_for_and_others_errors_are_not():
    memory = LoggedMemory()
    memory.fill(0, 20)
    replay_learner, learner = make(memory, 0, retry_on=(tf.errors.UnavailableError,))
    assert replay_learner.step() is not None
    memory.away = True
    for _ in range(2):
        assert replay_learner.step() is None
        assert replay_learner.statistics is None
    assert int(learner.steps) == UPDATES
    memory.away = False
    assert replay_learner.step() is not None
    assert replay_learner.statistics.items == 20

    strict, _ = make(memory, 0, retry_on=(tf.errors.DeadlineExceededError,))
    memory.away = True
    with pytest.raises(tf.errors.UnavailableError, match="away"):
        strict.step()


def test_memory_that_goes_away_while_drawing_ahead():
    memory = LoggedMemory()
    memory.fill(0, 20)
    replay_learner, learner = make(memory, 1, retry_on=(tf.errors.UnavailableError,))
    assert replay_learner.step() is not None
    memory.away = True
    done = sum(replay_learner.step() is not None for _ in range(5))
    assert done <= 1  # what was drawn before
    assert replay_learner.step() is None
    memory.away = False
    steps = int(learner.steps)
    assert replay_learner.step() is not None
    assert int(learner.steps) == steps + UPDATES
    replay_learner.close()


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_empty_memory_is_an_error_unless_it_means_not_now(prefetch):
    """Min size 0: the draw itself fails, as on a replay that restarted in between."""
    tolerant, _ = make(
        LoggedMemory(), prefetch, min_size=0, retry_on=(tf.errors.FailedPreconditionError,)
    )
    assert tolerant.step() is None
    tolerant.close()
    strict, _ = make(LoggedMemory(), prefetch, min_size=0)
    with pytest.raises(tf.errors.FailedPreconditionError):
        strict.step()
    strict.close()


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_bad_priorities_are_not_lost_in_the_background(prefetch):
    memory = LoggedMemory()
    memory.fill(0, 20)
    nan = UpdateLoop(
        lambda batch: (batch.steps * float("nan"), {}), UPDATES, BATCH, jit_compile=False
    )
    replay_learner = ReplayLearner(
        memory,
        nan,
        tf.Variable(0, dtype=tf.int64),
        Schedule(10, None, 0.0),
        prefetch,
        retry_on=(tf.errors.UnavailableError,),
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="priorit"):
        for _ in range(2):
            replay_learner.step()
    replay_learner.close()
    memory.check()
    assert Memory.statistics(memory).updated == 0
