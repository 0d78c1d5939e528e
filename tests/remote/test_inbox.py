"""Tests of common.remote.inbox without a server."""

import random

import numpy as np
import pytest
from stores import BY_NAME, Served, Transitions
import tensorflow as tf

from common.remote import inbox as inbox_lib
from common.remote.inbox import PART_BYTES, Inbox, pack
from common.replay import footprint
from common.replay.store import Counters

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
        return self.inbox.put(incarnation, number, self.columns(marks))

    def put_parts(self, incarnation, number, marks, *parts, size=None):
        """Puts some parts of a delivery; returns which of them made it whole or came late."""
        packed = pack(self.columns(marks))
        return [
            self.inbox.put_part(
                incarnation,
                number,
                size or len(packed),
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
    futures = [client.call_async("store_join") for _ in range(400)]
    given = [int(future.result()) for future in futures]
    assert len({one % COUNT for one in given}) == 400
    assert len({one // COUNT for one in given}) == 1  # they share the service's identity
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


def test_what_is_no_part_is_refused_and_leaves_the_delivery_as_it_was(wide):
    assert wide.put_parts(7, 1, [1], 0, 1) == [False] * 2
    size = len(pack(wide.columns([1])))
    last = size - 3 * PART_BYTES
    for offset, length in [
        *((0, length) for length in (0, 10, last, PART_BYTES + 1)),
        (7, PART_BYTES),
        *((3 * PART_BYTES, length) for length in (last - 1, PART_BYTES)),
        (4 * PART_BYTES, 0),
        (2**40, 1),
    ]:
        with pytest.raises(ValueError, match="no part of a delivery: "):
            wide.inbox.put_part(7, 1, size, offset, b"x" * length)
    assert wide.put_parts(7, 1, [1], 2, 3) == [False, True] and wide.drawn(1) == [1]


def test_deliveries_that_are_abandoned_half_way_leave_nothing(wide, monkeypatch):
    wide.put_parts(7, 1, [1], 0, 1)
    wide.put_parts(7, 1, [1, 2], 5, 6)  # another one, in the place of the first
    assert wide.put_parts(7, 1, [3], *range(4)) == [False] * 3 + [True]
    wide.put_parts(7, 2, [4], 0)
    monkeypatch.setattr(inbox_lib, "_ABANDONED_SECONDS", 0.0)
    wide.put_parts(8, 1, [5], 0, 1, 2)  # by then 7 has died
    assert list(wide.inbox._parts) == [8]
    assert wide.put_parts(8, 1, [5], 3) == [True] and not wide.inbox._parts
    assert wide.drawn(2) == [3, 5]


def test_rows_with_keys_that_come_in_parts_are_known_by_their_keys():
    wide = Received(Transitions("transitions"), 1_800_000)
    for number in (1, 1, 5):  # whole messages pass by the inbox, under other numbers
        assert wide.put_parts(7, number, [3], *range(3)) == [False, False, True]
    assert wide.store.counters() == (1, 1, 0, 2, 0, 0)
