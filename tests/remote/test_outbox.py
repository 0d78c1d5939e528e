"""Tests of common.remote.outbox with real services."""

import threading
import time
import types

import numpy as np
import pytest
from stores import BY_NAME, TOKEN, Served
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError, WrongTokenError
from common.cluster.processes import Patience, PatienceError, StopRequest
from common.data.data import Delivery
from common.data.transitions import StoredTransition
from common.remote import outbox as outbox_lib
from common.remote.outbox import Outbox, RemoteStore
from common.replay import columns, footprint
from common.replay.memory import Fifo, Items, Memory, Uniform
from common.replay.store import UNLIMITED, Counters, RateLimiter

SEND_BATCH = 10
SPECS = StoredTransition(tf.TensorSpec([3]), *[tf.TensorSpec([])] * 3, tf.TensorSpec([3]))
UNROLLS = BY_NAME["unrolls"]


def memory():
    return Memory(SPECS, 1000, {"sample": Uniform(), "remove": Fifo()}, "remove")


@pytest.fixture
def replay():
    served = Served(memory())
    yield served
    served.close()


def start(replay, limiter=UNLIMITED, stop=None, others=(), token=TOKEN):
    """Starts an outbox."""
    store = RemoteStore(rpc.Client(replay.address, token, 0.5), replay.store.wire)
    outbox = Outbox(store, limiter, stop or StopRequest(), others)
    outbox.start()
    return outbox


def steps(outbox, first, count, copies=1, reward=1.0):
    """Returns a delivery of `count` transitions of actor 4."""
    numbers = np.arange(copies * first, copies * (first + count))
    ones = np.ones([len(numbers), 3], np.float32)
    rows = Items(
        columns.transition_keys(2, 4, outbox.incarnation, numbers),
        StoredTransition(ones, ones[:, 0], reward * ones[:, 0], ones[:, 0], ones),
        ones[:, 0],
    )
    return [Delivery(rows, count)]


def until(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# In the background.


def test_everything_arrives_and_is_counted(replay):
    outbox = start(replay)
    outbox.add([])
    outbox.add([*steps(outbox, 0, 4), *steps(outbox, 4, 28)])
    outbox.close(steps(outbox, 32, 3))
    assert replay.store.counters() == Counters(35, 35) and outbox.num_accepted == 35
    assert replay.accepted() == {outbox.incarnation: 35}


def test_what_is_left_is_sent_at_the_end_also_when_asked_to_stop(replay):
    stop = StopRequest()
    outbox = start(replay, stop=stop)
    for batch in range(12):
        outbox.add(steps(outbox, batch * SEND_BATCH, SEND_BATCH))
    stop.request()
    outbox.close(steps(outbox, 12 * SEND_BATCH, SEND_BATCH - 3))  # what is collected
    assert replay.store.counters().inserted == outbox.num_accepted == 13 * SEND_BATCH - 3


@pytest.mark.parametrize("more", [0, SEND_BATCH])
def test_a_new_replay_learns_of_all_that_the_former_one_accepted(replay, more):
    """Also from actors that have nothing more to send."""
    outbox = start(replay)
    outbox.add(steps(outbox, 0, 25))
    until(lambda: outbox.num_accepted == 25)
    incarnation = outbox.incarnation
    replay.close()
    if more:
        outbox.add(steps(outbox, 25, more))
    again = replay.restart(memory())
    outbox.close()
    assert outbox.incarnation == incarnation
    assert again.accepted() == {incarnation: 25 + more}
    assert again.store.counters().inserted == more
    again.close()


def test_close_gives_up_on_a_replay_that_is_gone(replay, monkeypatch):
    monkeypatch.setattr(outbox_lib, "_CLOSE_SECONDS", 0.5)
    outbox = start(replay)
    replay.close()
    for batch in range(5):  # one in the thread's hands, four in its queue: full
        outbox.add(steps(outbox, batch * SEND_BATCH, SEND_BATCH))
    begin = time.monotonic()
    outbox.close()
    assert 0.5 <= time.monotonic() - begin < 3.0


def test_actors_wait_for_a_replay_that_starts_later_but_not_for_ever(replay, monkeypatch):
    replay.close()
    stop = StopRequest()
    threading.Timer(0.5, stop.request).start()
    assert start(replay, stop=stop).incarnation == 0
    monkeypatch.setattr(Patience, "default_seconds", 0.0)
    with pytest.raises(PatienceError, match="no answer from the replay"):
        start(replay)


def test_an_error_of_the_thread_reaches_the_actors(replay):
    outbox = start(replay)
    outbox.add(steps(outbox, 0, SEND_BATCH, reward=np.nan))
    for call in (outbox.has_credit, lambda: outbox.add(steps(outbox, 0, SEND_BATCH)), outbox.close):
        with pytest.raises(tf.errors.InvalidArgumentError, match="column n_step_reward"):
            until(lambda: not call())
    with pytest.raises(WrongTokenError):
        start(replay, token="another token")


def test_a_step_with_several_items_counts_once(replay):
    outbox = start(replay)
    outbox.add(steps(outbox, 0, 14, copies=3))
    outbox.close()
    number = outbox.incarnation % footprint.MAX_INCARNATIONS
    expected = columns.make_keys(2, 4, number, np.arange(3 * 14))
    np.testing.assert_array_equal(np.unique(replay.store.draw(5000, 1).keys), expected)
    assert outbox.num_accepted == 14 and replay.accepted() == {outbox.incarnation: 14}


def test_the_ratio_is_kept_over_all_shards(replay):
    other = types.SimpleNamespace(inserted=0, sampled=0, asked=0)

    def counters():
        other.asked += 1
        return Counters(inserted=other.inserted, sampled=other.sampled)

    other.counters = counters
    outbox = start(replay, RateLimiter(10, 4.0, 80.0), others=[other])
    assert outbox.has_credit()  # nothing is known yet
    outbox.add(steps(outbox, 0, 40))
    # 4 * (40 - 10) - 0 samples are to be paid, more than two sends of 10 transitions.
    until(lambda: not outbox.has_credit())
    replay.store.draw(20)
    other.sampled = 19  # 120 - 39 > 80 >= 120 - 40
    assert not outbox.has_credit()
    other.sampled = 20
    assert outbox.has_credit()
    other.inserted = 1
    outbox.add(steps(outbox, 40, 10))
    until(lambda: not outbox.has_credit())
    assert outbox.num_accepted == 50 and other.asked > 3
    outbox.close()


# In lockstep.


def twice(*marks, max_rows=3):
    """Returns deliveries of each unroll, and of another one with a mark 100 higher."""
    marks = [mark + more for mark in marks for more in (0, 100)]
    parts = [marks[i : i + max_rows] for i in range(0, len(marks), max_rows)]
    steps = [0] * (len(parts) - 1) + [len(marks) // 2]
    return [Delivery(UNROLLS.rows(part), count) for part, count in zip(parts, steps)]


@pytest.fixture
def learner():
    served = Served(UNROLLS.make(capacity=4))
    yield served
    served.close()


def in_lockstep(learner, stop=None, store=None):
    store = store or RemoteStore(learner.client(1.0), learner.store.wire)
    stop = stop or StopRequest()
    outbox = Outbox(store, UNLIMITED, stop, in_lockstep=True, job="learner")
    outbox.start()
    return outbox


def taken(learner, count):
    return UNROLLS.draw(learner.store, count)


def test_acts_no_further_until_the_queue_has_taken_the_whole_burst(learner):
    outbox = in_lockstep(learner)
    assert outbox.incarnation > 0 and outbox.has_credit()
    outbox.add(twice(1, 2, 3))  # six unrolls, in two deliveries
    assert learner.store.counters().inserted == outbox.num_accepted == 0
    assert not outbox.has_credit() and not outbox.has_credit()
    assert learner.store.counters().items == 3 and learner.accepted() == {outbox.incarnation: 0}
    assert taken(learner, 2) == [1, 101]
    assert outbox.has_credit() and outbox.num_accepted == 3
    assert learner.accepted() == {outbox.incarnation: 3}
    assert taken(learner, 4) == [2, 102, 3, 103]
    outbox.add(twice(4))
    assert outbox.has_credit() and outbox.num_accepted == 4
    assert taken(learner, 2) == [4, 104]


class LosesAnswers(RemoteStore):
    """A store whose every second answer is lost, after the delivery has arrived."""

    calls = 0

    def put(self, rows, steps=0):
        self.calls += 1
        before = self.number, self.num_accepted
        answer = super().put(rows, steps)
        if self.calls % 2:
            self.number, self.num_accepted = before
            raise ServiceUnavailableError("the answer is lost")
        return answer


def test_a_delivery_whose_answer_is_lost_counts_once(learner, monkeypatch):
    monkeypatch.setattr(outbox_lib, "_GONE_SECONDS", 0.0)
    outbox = in_lockstep(learner, store=LosesAnswers(learner.client(), learner.store.wire))
    found = []
    for mark in range(10):
        outbox.add(twice(mark, max_rows=1))
        while not outbox.has_credit():
            found += taken(learner, 1) or []
    while (rest := taken(learner, 1)) is not None:
        found += rest
    assert found == [mark + more for mark in range(10) for more in (0, 100)]
    assert learner.accepted() == {outbox.incarnation: 10} and outbox.num_accepted == 10


def test_a_burst_waits_for_a_learner_that_restarts(learner):
    outbox = in_lockstep(learner)
    outbox.add(twice(1))
    assert outbox.has_credit()
    learner.close()
    outbox.add(twice(2))
    assert not outbox.has_credit()
    again = learner.restart(UNROLLS.make(capacity=4))
    until(outbox.has_credit)
    assert taken(again, 2) == [2, 102] and again.store.counters().items == 0
    assert again.accepted() == {outbox.incarnation: 2}
    again.close()


def test_many_actors_share_a_queue_that_is_smaller_than_their_bursts(learner):
    num_actors, num_bursts, batch = 3, 10, 2
    outboxes = [in_lockstep(learner) for _ in range(num_actors)]

    def act(index):
        for burst in range(num_bursts):
            marks = [1000 * index + burst] * 4
            outboxes[index].add(twice(*marks, max_rows=3))  # capacity - batch + 1
            until(outboxes[index].has_credit)

    threads = [threading.Thread(target=act, args=[index]) for index in range(num_actors)]
    for thread in threads:
        thread.start()
    found = []
    while len(found) < num_actors * num_bursts * 8:
        found += taken(learner, batch) or []
    for thread in threads:
        thread.join()
    for index in range(num_actors):
        own = [mark - 1000 * index for mark in found if mark // 1000 == index]
        expected = [burst for burst in range(num_bursts) for _ in range(4)]
        assert own[::2] == expected and own[1::2] == [mark + 100 for mark in expected]
    assert sorted(learner.accepted().values()) == [4 * num_bursts] * num_actors


def test_a_stop_ends_the_waits_and_drops_the_burst(learner):
    stop = StopRequest()
    outbox = in_lockstep(learner, stop=stop)
    outbox.add(twice(1, 2, 3))
    assert not outbox.has_credit()  # half of it
    learner.close()
    stop.request()
    assert not outbox.has_credit()
    outbox.close()
    assert outbox.has_credit() and outbox.num_accepted == 0


def test_patience_with_a_learner_that_is_gone_ends(learner, monkeypatch):
    monkeypatch.setattr(Patience, "default_seconds", 0.0)
    outbox = in_lockstep(learner)
    learner.close()
    outbox.add(twice(1))
    with pytest.raises(PatienceError, match="no answer from the learner"):
        outbox.has_credit()
