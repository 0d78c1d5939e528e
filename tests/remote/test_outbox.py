"""Tests of common.remote.outbox and inbox."""

import random
import threading
import time
import types

from launched import wait_for
import numpy as np
import pytest
from stores import BY_NAME, TOKEN, Served, Transitions
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError, WrongTokenError
from common.cluster.processes import Patience, PatienceError, StopRequest
from common.data.data import Delivery
from common.data.transitions import StoredTransition
from common.remote import inbox as inbox_lib
from common.remote import outbox as outbox_lib
from common.remote.inbox import PART_BYTES, Inbox, pack
from common.remote.outbox import Outbox, RemoteStore
from common.replay import columns, footprint
from common.replay.memory import Fifo, Items, Memory, Uniform
from common.replay.store import UNLIMITED, Counters, RateLimiter

# The inbox, without a server.

TRANSITIONS, UNROLLS = (BY_NAME[name] for name in ("transitions", "unrolls"))
COUNT = footprint.MAX_INCARNATIONS


class Received:
    """An inbox for a queue of at most four unrolls."""

    def __init__(self, kind=UNROLLS, width=4):
        self.kind, self.width = kind, width
        self.store = kind.make(width, 4)
        self.inbox = Inbox(self.store)

    def columns(self, marks):
        return self.store.wire.columns(self.kind.rows(marks, self.width))

    def put(self, incarnation, number, *marks):
        return self.inbox.put(incarnation, number, *self.columns(marks))

    def put_parts(self, incarnation, number, marks, *parts):
        """Puts some parts of a delivery; returns which of them made it whole or came late."""
        packed = pack(self.columns(marks))
        return [
            self.inbox.put_part(
                incarnation,
                number,
                len(packed),
                part * PART_BYTES,
                packed[part * PART_BYTES : (part + 1) * PART_BYTES],
            )
            for part in parts
        ]

    def drawn(self, count):
        return self.kind.draw(self.store, count)


@pytest.fixture
def received():
    return Received()


# Incarnations.


def test_services_differ_whatever_an_environment_seeds():
    incarnations = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)
        incarnations.append(int(Received().inbox.next_incarnation()))
    assert incarnations[0] != incarnations[1]


def test_incarnations_differ_also_when_many_calls_ask_at_once():
    served = Served(TRANSITIONS.make())
    client = served.client()
    futures = [client.call_async("store_join") for _ in range(100)]
    given = [int(future.result()) for future in futures]
    assert len({key % COUNT for key in given}) == 100
    assert len({key // COUNT for key in given}) == 1  # they share the service's identity
    served.close()


def test_no_number_is_given_to_two_incarnations_that_a_service_knows(received):
    """It knows its own and those of a former service, whose actors go on."""
    following = int(received.inbox.next_incarnation()) % COUNT
    for i in (1, 2, 4):
        former = 12345 * COUNT + (following + i) % COUNT
        received.inbox.raise_to(tf.constant(former, tf.int64), tf.constant(4, tf.int64))
    given = [int(received.inbox.next_incarnation()) % COUNT for _ in range(3)]
    assert given == [(following + i) % COUNT for i in (3, 5, 6)]


# Deliveries.


def test_a_repeated_delivery_changes_nothing_also_while_there_is_no_room(received):
    for _ in range(3):
        assert received.put(7, 1, 1, 2)
    assert received.drawn(2) == [1, 2]
    assert received.put(7, 2, 3, 4, 5, 6)
    assert received.put(7, 1, 1, 2) and received.put(7, 2, 3, 4, 5, 6)
    assert not received.put(7, 3, 7) and not received.put(9, 1, 8)
    assert received.drawn(4) == [3, 4, 5, 6] and received.drawn(1) is None
    assert received.put(7, 3, 7) and received.drawn(1) == [7]


def test_a_new_inbox_takes_up_the_numbers_of_a_former_one(received):
    assert received.put(7, 57, 1) and received.put(7, 57, 1)
    assert received.put(7, 58, 2) and received.drawn(2) == [1, 2]
    # A sender skips no number: whoever does is not the same one.
    for number in (60, 2**44):
        for call in (received.put, lambda *numbers: received.put_parts(*numbers, [3], 0)):
            with pytest.raises(ValueError, match=f"number must be at most 59, is {number}"):
                call(7, number)
    assert received.put(7, 59, 4) and received.drawn(1) == [4]


def test_what_a_checkpoint_has_is_not_taken_again_and_reports_say_so(received):
    assert received.inbox.report(2, 7, range(6)) == (0, 0)
    received.inbox.acknowledge({7: 5})
    assert received.put(7, 5, 1) and received.drawn(1) is None
    assert received.put(7, 9, 1)  # the checkpoint is older than the sender's last delivery
    assert received.inbox.report(2, 7, range(6)) == (9, 5)
    received.inbox.acknowledge({7: 9})
    assert received.inbox.report(2, 7, range(6)) == (9, 9)
    assert received.put(7, 10, 2) and received.inbox.report(2, 7, range(6)) == (10, 9)
    received.inbox.close()
    assert received.inbox.report(2, 7, range(6)) == (10, 10)  # nobody waits for ever


def test_counters_are_those_of_the_senders_that_reported_lately(received, monkeypatch):
    assert received.inbox.reported() == []
    for sender in (0, 1, 1):
        received.inbox.report(sender, 7, [sender + 1] * 6)
    assert received.inbox.reported() == [Counters(*[1] * 6), Counters(*[2] * 6)]
    monkeypatch.setattr(inbox_lib, "_PRESENT_SECONDS", 0.0)
    assert received.inbox.reported() == []


# Parts of deliveries.


@pytest.fixture
def wide():
    return Received(width=900_000)  # 10.8 MB an unroll: four parts


def test_parts_that_arrive_again_and_out_of_order_count_once(wide):
    assert wide.put_parts(7, 1, [1], 3, 1, 1, 0) == [False] * 4
    assert wide.store.counters().items == 0
    assert wide.put_parts(7, 1, [1], 2, 2, 0) == [True] * 3
    assert wide.put_parts(7, 2, [2], 1) == [False]
    assert wide.put_parts(7, 1, [1], 0, 1, 2, 3) == [True] * 4  # late ones
    assert wide.put_parts(8, 1, [3], 1, 3) == [False] * 2  # of another sender
    assert wide.put_parts(7, 2, [2], 2, 3, 0) == [False, False, True]
    assert wide.drawn(2) == [1, 2] and wide.drawn(1) is None


def test_a_delivery_for_which_there_is_no_room_is_sent_again_as_a_whole(wide):
    assert wide.put(8, 1, 1, 2, 3, 4)
    for _ in range(2):
        assert wide.put_parts(7, 1, [5], *range(4)) == [False] * 4
    assert wide.drawn(4) == [1, 2, 3, 4]
    assert wide.put_parts(7, 1, [5], *range(4)) == [False] * 3 + [True]
    assert wide.drawn(1) == [5]


def test_deliveries_that_are_abandoned_half_way_leave_nothing(wide, monkeypatch):
    wide.put_parts(7, 1, [1], 0, 1)
    assert wide.put_parts(7, 2, [3], *range(4)) == [False] * 3 + [True]
    monkeypatch.setattr(inbox_lib, "_HELD_SECONDS", 0.0)
    wide.put_parts(8, 1, [5], 0, 1, 2)  # by then 7 has died
    assert list(wide.inbox._parts) == [(8, 1)]
    assert wide.put_parts(8, 1, [5], 3) == [True] and not wide.inbox._parts
    assert wide.drawn(2) == [3, 5]


def test_rows_with_keys_that_come_in_parts_are_known_by_their_keys():
    wide = Received(Transitions("transitions"), 1_800_000)
    for number in (1, 1, 5):  # whole messages pass by the inbox, under other numbers
        assert wide.put_parts(7, number, [3], *range(3)) == [False, False, True]
    assert wide.store.counters() == (1, 1, 0, 2, 0, 0)


# The outbox, with real services.

SEND_BATCH = 10
SPECS = StoredTransition(tf.TensorSpec([3]), *[tf.TensorSpec([])] * 3, tf.TensorSpec([3]))


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


def steps(outbox, first, count, reward=1.0):
    """Returns a delivery of `count` transitions of actor 4."""
    ones = np.ones([count, 3], np.float32)
    rows = Items(
        columns.transition_keys(2, 4, outbox.incarnation, np.arange(first, first + count)),
        StoredTransition(ones, ones[:, 0], reward * ones[:, 0], ones[:, 0], ones),
        ones[:, 0],
    )
    return [Delivery(rows, count)]


# In the background.


def test_what_is_left_is_sent_at_the_end_also_when_asked_to_stop(replay):
    stop = StopRequest()
    outbox = start(replay, stop=stop)
    outbox.add([])
    outbox.add([*steps(outbox, 0, 4), *steps(outbox, 4, 28)])
    for begin in range(32, 82, SEND_BATCH):
        outbox.add(steps(outbox, begin, SEND_BATCH))
    stop.request()
    outbox.close(steps(outbox, 82, SEND_BATCH - 3))  # what is collected
    assert replay.store.counters() == Counters(89, 89) and outbox.num_accepted == 89
    assert replay.accepted() == {outbox.incarnation: 89}


def test_a_new_replay_learns_of_all_that_the_former_one_accepted(replay):
    """Also from actors that have nothing more to send."""
    outbox = start(replay)
    outbox.add(steps(outbox, 0, 25))
    wait_for(lambda: outbox.num_accepted == 25)
    incarnation = outbox.incarnation
    again = replay.restart(memory())
    outbox.close()
    assert outbox.incarnation == incarnation
    assert again.accepted() == {incarnation: 25} and again.store.counters().inserted == 0
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
            wait_for(lambda: not call())
    with pytest.raises(WrongTokenError):
        start(replay, token="another token")


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
    wait_for(lambda: not outbox.has_credit())
    replay.store.draw(20)
    other.sampled = 19  # 120 - 39 > 80 >= 120 - 40
    assert not outbox.has_credit()
    other.sampled = 20
    assert outbox.has_credit()
    other.inserted = 1
    outbox.add(steps(outbox, 40, 10))
    wait_for(lambda: not outbox.has_credit())
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
    wait_for(lambda: learner.store.counters().items == 3)
    time.sleep(0.1)
    assert not outbox.has_credit() and not outbox.has_credit()
    assert learner.store.counters().items == 3 and learner.accepted() == {outbox.incarnation: 0}
    assert taken(learner, 2) == [1, 101]
    wait_for(outbox.has_credit)
    assert outbox.num_accepted == 3
    assert learner.accepted() == {outbox.incarnation: 3}
    assert taken(learner, 4) == [2, 102, 3, 103]
    outbox.add(twice(4))
    wait_for(outbox.has_credit)
    assert outbox.num_accepted == 4
    assert taken(learner, 2) == [4, 104]


def test_actors_with_a_large_burst_wait_for_credit_where_they_learn_of_the_end(learner):
    outbox = in_lockstep(learner)
    adding = threading.Thread(target=outbox.add, args=[twice(*range(12))], daemon=True)
    adding.start()
    adding.join(10.0)
    assert not adding.is_alive() and not outbox.has_credit()
    outbox.close()


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


def test_a_delivery_whose_answer_is_lost_counts_once(learner):
    outbox = in_lockstep(learner, store=LosesAnswers(learner.client(), learner.store.wire))
    found = []
    for mark in range(3):
        outbox.add(twice(mark, max_rows=1))
        while not outbox.has_credit():
            found += taken(learner, 1) or []
    while (rest := taken(learner, 1)) is not None:
        found += rest
    assert found == [mark + more for mark in range(3) for more in (0, 100)]
    assert learner.accepted() == {outbox.incarnation: 3} and outbox.num_accepted == 3


def test_a_burst_waits_for_a_learner_that_restarts(learner):
    outbox = in_lockstep(learner)
    outbox.add(twice(1))
    wait_for(outbox.has_credit)
    learner.close()
    outbox.add(twice(2))
    assert not outbox.has_credit()
    again = learner.restart(UNROLLS.make(capacity=4))
    wait_for(outbox.has_credit)
    assert taken(again, 2) == [2, 102] and again.store.counters().items == 0
    assert again.accepted() == {outbox.incarnation: 2}
    again.close()


def test_many_actors_share_a_queue_that_is_smaller_than_their_bursts(learner):
    num_actors, num_bursts, batch = 3, 5, 2
    outboxes = [in_lockstep(learner) for _ in range(num_actors)]

    def act(index):
        for burst in range(num_bursts):
            marks = [1000 * index + burst] * 4
            outboxes[index].add(twice(*marks, max_rows=3))  # capacity - batch + 1
            wait_for(outboxes[index].has_credit)

    threads = [threading.Thread(target=act, args=[index]) for index in range(num_actors)]
    for thread in threads:
        thread.start()
    found = []
    while len(found) < num_actors * num_bursts * 8:
        found += taken(learner, batch) or []
        time.sleep(0.001)
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
    wait_for(lambda: learner.store.counters().items == 3)  # half of it
    assert not outbox.has_credit()
    learner.close()
    stop.request()
    assert not outbox.has_credit()
    begin = time.monotonic()
    outbox.close()
    assert time.monotonic() - begin < 3.0 and outbox.num_accepted == 0


def test_patience_with_a_learner_that_is_gone_ends(learner, monkeypatch):
    monkeypatch.setattr(Patience, "default_seconds", 0.0)
    outbox = in_lockstep(learner)
    learner.close()
    outbox.add(twice(1))
    with pytest.raises(PatienceError, match="no answer from the learner"):
        wait_for(outbox.has_credit)
