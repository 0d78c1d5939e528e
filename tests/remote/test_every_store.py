"""What every store does, here and behind a service: one suite for all kinds of data."""

import threading
from typing import NamedTuple

import numpy as np
import pytest
from stores import BY_NAME, KINDS, TOKEN, Served, Transitions, marks_of
import tensorflow as tf

from common.cluster import rpc
from common.cluster.errors import MessageTooLargeError, ServiceUnavailableError, WrongTokenError
from common.remote import inbox
from common.remote.outbox import RemoteStore
from common.replay.columns import Bytes
from common.replay.memory import Items, ItemWire, Memory, Uniform
from common.replay.store import Counters, Store

REFUSED = (ValueError, tf.errors.InvalidArgumentError)
WIDE = 150_000
"""Width of steps of which a message holds six."""


class Placed(NamedTuple):
    """A store in this process, or the client of one, and the store itself."""

    store: Store
    behind: Store
    accepted: dict


def put(store, kind, marks, width=4):
    """Puts rows of these marks into the store; returns whether all were taken."""
    for rows, steps in kind.deliveries(marks, width):
        remote = isinstance(store, RemoteStore)
        if not (store.put(rows, steps) if remote else store.put(rows)):
            return False
    return True


def changed(wire, rows, name, change):
    """Returns rows one of whose columns is changed."""
    columns = wire.columns(rows)
    index = [spec.name for spec in wire.put_specs].index(name)
    columns[index] = change(np.asarray(columns[index]))
    return wire.rows(columns)


def fill(kind, placed):
    """Fills an empty store: it refuses a put whole, or removes the oldest."""
    store, most = placed.store, kind.most
    assert put(store, kind, range(most - 2))
    mass, count = store.mass()
    assert mass.dtype == tf.float64 and count.dtype == tf.int64
    assert (mass, count) == placed.behind.mass() and float(mass) >= int(count) > 0
    assert count == store.counters().items == (most - 2) * kind.items
    accepted = placed.accepted()
    if not kind.refuses:
        assert put(store, kind, range(1000, 1005))
        held, removed = (most, 3) if kind.samples else (most + 3, 0)  # gradients have no bound
        for surplus in (100 if kind.trims else 0, 0):
            counters = store.counters()
            assert counters.items == held * kind.items
            assert counters.removed == removed * kind.items
            assert store.trim() == surplus  # above the soft capacity
            held, removed = held - surplus, removed + surplus
        return
    assert not put(store, kind, [1000, 1001, 1002]) and store.trim() == 0
    assert store.counters().inserted == most - 2 and placed.accepted() == accepted
    assert put(store, kind, [1003, 1004])
    kind.draw(placed.behind, most)
    assert put(store, kind, [1000, 1001, 1002])
    assert kind.draw(placed.behind, 3) == [1000, 1001, 1002]
    with pytest.raises(REFUSED, match="exceed the"):
        put(store, kind, range(most + 1))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name, scope="class")
class TestEveryStore:
    """The suite for the kinds of data of the papers."""

    @pytest.fixture(params=["here", "served"], scope="class")
    def placed(self, request, kind):
        """A store, which is empty in the first test of these."""
        behind = kind.make()
        if request.param == "here":
            yield Placed(behind, behind, dict)
        else:
            served = Served(behind)
            yield Placed(served.remote(), behind, served.accepted)
            served.close()

    def test_what_is_put_is_drawn_by_seed(self, kind, placed):
        store, other = placed.store, kind.make()
        assert put(store, kind, []) and store.counters() == Counters() and store.mass() == (0, 0)
        drawn_from = store if placed.behind.keyed else placed.behind
        if kind.samples:
            with pytest.raises(tf.errors.FailedPreconditionError):
                drawn_from.draw(2)
        else:
            assert drawn_from.draw(1) is None
        for marks in (range(5), range(5, 8)):
            assert put(store, kind, marks) and put(other, kind, marks)
        items = held = 8 * kind.items
        assert store.counters() == Counters(held, items)
        if kind.samples:
            drawn = [kind.draw(drawn_from, 40, seed) for seed in (3, 2**63 - 1, None, None)]
            assert set(sum(drawn, [])) == set(range(8)) and len(set(map(tuple, drawn))) == 4
            assert drawn[:2] == [kind.draw(other, 40, seed) for seed in (3, 2**63 - 1)]
        else:
            assert kind.draw(drawn_from, 8, 5) == list(range(8))
            assert kind.draw(drawn_from, 1) is None
            held = 0
        counters = Counters(held, items, 160 if kind.samples else 8)
        assert store.counters() == placed.behind.counters() == counters
        assert Counters.of(store.counters_tensor()) == counters

    def test_outputs_of_updates_reach_the_store(self, kind, placed):
        put(placed.store, kind, range(8))
        store = placed.store if placed.behind.keyed else placed.behind
        kind.write_back(store, placed.behind)

    def test_wrong_rows_are_refused_by_name(self, kind, placed):
        store = placed.store
        put(store, kind, [1])
        before, accepted = placed.behind.counters(), placed.accepted()
        (rows, steps), *_ = kind.deliveries([12, 13])
        for name, change, words in kind.wrong:
            with pytest.raises(REFUSED, match=words):
                store.put(changed(store.wire, rows, name, change))
            assert placed.behind.counters() == before, words
        assert placed.accepted() == accepted
        assert put(store, kind, [12, 13])
        assert placed.behind.counters().inserted == before.inserted + 2 * kind.items

    def test_a_full_store_refuses_a_put_whole_or_removes_the_oldest(self, kind):
        store = kind.make()
        fill(kind, Placed(store, store, dict))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.trims], ids=lambda kind: kind.name)
def test_a_draw_that_exceeds_a_message_is_split(kind):
    width = WIDE // kind.length
    served = Served(kind.make(width, 12))
    remote = served.remote()
    assert put(remote, kind, range(12), width)
    first, *others = (kind.draw(remote, 14, seed) for seed in (5, 5, 6))
    assert first == others[0] != others[1] and len(first) == 14
    assert all(first[:4] != first[i : i + 4] for i in range(4, 10))  # the calls differ
    assert remote.counters().sampled == 42
    served.close()


@pytest.mark.parametrize("name", ["transitions", "unrolls"])
class TestDeliveries:
    """What a service does alike with rows that have keys and with those that have none."""

    @pytest.fixture
    def kind(self, name):
        return BY_NAME[name]

    @pytest.fixture
    def served(self, kind):
        served = Served(kind.make())
        yield served
        served.close()

    def test_a_full_store_answers_so(self, kind, served):
        fill(kind, Placed(served.remote(), served.store, served.accepted))

    def test_deliveries_count_once_however_often_they_arrive(self, kind, served):
        remotes = [served.remote() for _ in range(3)]
        assert served.accepted() == {}

        def act(remote, marks):
            sent = []
            for mark in marks:
                ((rows, steps),) = kind.deliveries([mark])
                sent.append((remote.number, remote.num_accepted, rows, steps))
                assert remote.put(rows, steps)
                last = remote.number, remote.num_accepted
                for number, num_accepted, *again in (sent[-1], sent[0]):  # an answer was lost, or a
                    remote.number, remote.num_accepted = number, num_accepted  # call is late
                    assert remote.put(*again)
                remote.number, remote.num_accepted = last

        threads = [
            threading.Thread(target=act, args=[remote, range(1000 * i, 1000 * i + 10)])
            for i, remote in enumerate(remotes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = {remote.incarnation: 10 * kind.items for remote in remotes}
        assert len(expected) == 3 and remotes[0].accepted() == served.accepted() == expected
        assert [remote.num_accepted for remote in remotes] == list(expected.values())
        counters = served.store.counters()
        assert counters[:2] == (30 * kind.items, 30 * kind.items)
        assert (counters.duplicates > 0) == served.store.keyed
        assert put(remotes[0], kind, [5000]) and remotes[0].last_counters == served.store.counters()

    def test_a_service_that_restarts_learns_the_count_again(self, kind, served):
        def refuses(store, steps, words):
            ((rows, _),) = kind.deliveries([50])
            before = store.counters()
            with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                store.put(rows, steps)
            assert store.counters() == before

        remote, idle = served.remote(), served.remote()
        for steps in (2**61, -1):
            refuses(remote, steps, f"accepted must be from 0 to {2**44}, is {steps}")
        assert served.accepted() == {}
        # Of a former service.
        remote.num_accepted = idle.num_accepted = 2**24
        remote.incarnation += 2**20
        idle.incarnation += 2**20
        assert put(remote, kind, range(5)) and put(idle, kind, range(100, 104))
        served.close()
        remote._client.timeout_seconds = 0.2
        for call in (remote.counters, remote.mass, lambda: put(remote, kind, [5, 6])):
            with pytest.raises(ServiceUnavailableError):
                call()
        remote._client.timeout_seconds = 20.0
        again = served.restart(kind.make())
        assert remote.counters() == Counters() and remote.accepted() == {}
        assert put(remote, kind, [5, 6])
        assert remote.accepted() == {remote.incarnation: 2**24 + 7 * kind.items}
        idle.report()  # which has nothing to put
        assert again.accepted()[idle.incarnation] == 2**24 + 4 * kind.items
        assert set(kind.draw(again.store, 2)) <= {5, 6}
        stranger = again.remote()
        assert stranger.incarnation not in (remote.incarnation, idle.incarnation)
        stranger.number = -2
        refuses(stranger, 0, "number must be from 0 to")
        stranger.incarnation = -3
        refuses(stranger, 0, "incarnation must be from 0 to")
        again.close()

    def test_rows_that_exceed_a_message_travel_in_parts(self, kind):
        width = 1_200_000 // kind.length  # 4.8 MB a mark
        served = Served(kind.make(width, 10))
        remote = served.remote()
        ((rows, steps),) = kind.deliveries([2], width)
        packed = inbox.pack(served.store.wire.columns(rows))
        head = [np.int64(n) for n in (remote.incarnation, 1, steps, len(packed))]
        for begin in range(inbox.PART_BYTES, len(packed), inbox.PART_BYTES):  # all but the first
            argument = [np.int64(begin), packed[begin : begin + inbox.PART_BYTES]]
            assert served.client().call("store_put_part", [*head, *argument])[0] == 0
        assert served.store.counters() == Counters() and served.accepted() == {}
        for _ in range(2):
            remote.number = remote.num_accepted = 0
            assert remote.put(rows, steps)
            assert served.store.counters().inserted == kind.items
        assert served.accepted() == {remote.incarnation: steps}
        assert remote.last_counters == served.store.counters()
        assert put(remote, kind, [4], width)
        assert set(kind.draw(served.store, 4 if kind.samples else 2)) <= {2, 4}
        name, change, words = kind.wrong[2 - kind.one_by_one]
        with pytest.raises(REFUSED, match=words.replace("has 4", "has 1200000")):
            remote.put(changed(remote.wire, rows, name, change), 1)
        assert served.store.counters().inserted == 2 * kind.items
        served.close()


# Transitions.


TRANSITIONS = Transitions("transitions")


@pytest.fixture
def wide():
    served = Served(TRANSITIONS.make(WIDE, 50))
    yield served
    served.close()


def test_a_put_that_exceeds_a_message_is_taken_whole_or_not_at_all(wide):
    remote, rows = wide.remote(), TRANSITIONS.rows(range(15), WIDE)
    priorities = rows.priorities.copy()
    priorities[10] = -2
    with pytest.raises(tf.errors.InvalidArgumentError):
        remote.put(rows._replace(priorities=priorities), 15)
    assert wide.store.counters() == Counters() and wide.accepted() == {}
    assert remote.num_accepted == 0
    assert remote.put(rows, 15)
    assert wide.accepted() == {remote.incarnation: 15} and remote.num_accepted == 15
    sample = remote.draw(20)  # in four calls
    np.testing.assert_array_equal(sample.masses, rows.priorities[sample.keys.numpy()])
    assert sample.total_mass == rows.priorities.sum() and sample.count == 15


def test_the_probabilities_of_a_split_draw_are_right_while_masses_change(wide):
    remote, stop = wide.remote(), threading.Event()
    put(remote, TRANSITIONS, [0, 3], WIDE)

    def change():
        while not stop.is_set():
            for scale in (1.0, 1000.0):  # masses change together: the probability stays 1/2
                wide.store.update_priorities([0, 3], np.float32([scale, scale]))

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(5):
        sample = remote.draw(24)
        np.testing.assert_allclose(sample.masses / sample.total_mass, 0.5, rtol=1e-12)
    stop.set()
    thread.join()


def serve_column(spec, column):
    """Puts and draws rows of one column, with the keys that take most room in a message."""
    count, distributions = len(column), {"sample": Uniform(), "old": Uniform()}
    served = Served(Memory({"n": spec}, count, distributions, "old", 1))
    remote, keys = served.remote(), 2**63 - 1 - np.arange(count)
    assert remote.put(Items(keys, {"n": column}, np.full(count, 1e-3, np.float32)), count)
    sample = remote.draw(count, seed=3)
    assert served.store.counters() == Counters(count, count, count)
    served.close()
    return 2**63 - 1 - sample.keys.numpy(), sample.steps["n"].numpy()


@pytest.mark.parametrize(
    "dtype, shape, value",
    [
        (tf.int8, [], -1),  # ten bytes in a message each
        (tf.half, [], -1.5),
        (tf.float32, [0], 0),
        (tf.float32, [13], 1e30),  # cartpole's transition
    ],
)
def test_small_and_integer_steps_are_cut_in_time(dtype, shape, value):
    spec = tf.TensorSpec(shape, dtype)
    count = 5 * 2**20 // ItemWire({"n": spec}).draw_bytes  # drawn in two messages
    column = np.full([count, *shape], value, dtype.as_numpy_dtype)
    _, drawn = serve_column(spec, column)
    np.testing.assert_array_equal(drawn, column)


@pytest.mark.parametrize("shortest, convert", [(30_000, np.asarray), (0, tf.constant)])
def test_strings_are_cut_in_time(shortest, convert):
    images = np.empty(200, object)  # a message holds 137 of the longest
    images[:] = [bytes([i]) * max(shortest, 7919 * i % 30_001) for i in range(200)]
    drawn, strings = serve_column(Bytes(30_000), convert(images))
    assert strings.tolist() == images[drawn].tolist()


# Bad input.


def put_call(accepted=4, **changes):
    """Returns a put of four transitions, some of whose columns are others."""
    rows = TRANSITIONS.rows(range(500_000, 500_004))
    columns = TRANSITIONS.make().wire.columns(rows)
    names = ["keys", "priorities", "item_keys", "item_lengths", "image", "n", "x"]
    columns = dict(zip(names, columns)) | changes
    numbers = [np.int64(7), np.int64(1), np.asarray(accepted)]
    return "store_put", [*numbers, *(column for column in columns.values() if column is not None)]


def report_call(sender=0, incarnation=7, accepted=4, counters=(0,) * 6):
    return "store_report", [np.array(n) for n in (sender, incarnation, accepted, counters)]


def part_call(size, offset, part):
    return "store_put_part", [*np.int64([7, 1, 4, size, offset]), part]


NAN = np.float32([1, np.nan, 1, 1])
LARGE = put_call(x=np.zeros([300_000, 4], np.float32))
BAD = [
    (put_call(keys=np.int64([[1, 2, 3, 4]])), None),
    (put_call(x=np.ones([4, 4])), None),
    (put_call(x=None), None),
    (put_call(accepted=np.float32(4)), None),
    (put_call(accepted=-1), "accepted must be from 0 to"),
    (put_call(accepted=2**61), "accepted must be from 0 to"),
    (part_call(-1, 0, b"x"), "size must be from 0"),
    (part_call(1, -7, b"x"), "offset must be from 0"),
    (part_call(1, 0, b"x"), "a delivery is cut short"),
    (part_call(72, 0, b"\1" * 72), None),
    (report_call(sender=-1), "sender must be from 0"),
    (report_call(incarnation=-(2**62)), "incarnation must be from 0"),
    (report_call(accepted=-4), "accepted must be from 0"),
    (report_call(accepted=2**62), "accepted must be from 0"),
    (report_call(counters=[0] * 5 + [-1]), "counters must be from 0"),
    (report_call(counters=[0, 2**50, 0, 0, 0, 0]), "counters must be from 0"),
    (("store_write_back", [np.arange(4), NAN]), r"priorities\[1\]"),
    (("store_write_back", [np.arange(4), NAN[:1]]), "priorities"),
    (("store_write_back", [np.int64([-1]), NAN[:1]]), r"keys\[0\]"),
    (("store_counters", [np.int64(1)]), None),
    *[
        (("store_draw", [num_items, seed]), message)
        for num_items, seed, message in [
            (np.int32(0), np.int64(0), "num_items must be from 1 to"),
            (np.int32(-5), np.int64(0), "num_items must be from 1 to"),
            (np.int32(100_000), np.int64(0), "num_items must be from 1 to"),
            (np.int32(2**31 - 1), np.int64(0), "num_items must be from 1 to"),
            (np.int32([4]), np.int64(0), None),
            (np.int32(4), np.int64([1]), None),
            (np.int32(4), np.int32(1), None),
        ]
    ],
]


def test_bad_input_under_load_is_a_typed_error_and_does_no_harm():
    """Two threads put and draw at full rate during the calls."""
    served = Served(TRANSITIONS.make(capacity=1000))
    client, memory, sender = served.client(), served.store, served.remote()
    stop, errors, counts = threading.Event(), [], {"put": 0, "drawn": 0}

    def put_more(remote):
        begin = counts["put"]
        rows = TRANSITIONS.rows(range(begin, begin + 50))
        assert remote.put(rows._replace(priorities=np.ones(50, np.float32)), 50)
        assert remote.last_counters.inserted == begin + 50
        counts["put"] += 50

    def draw_more(remote):
        sample = remote.draw(128)
        assert TRANSITIONS.marks(sample)
        # Every priority is still 1: the bad calls changed nothing.
        assert np.all(sample.masses == 1) and sample.total_mass == float(sample.count)
        counts["drawn"] += 128

    def repeat(function):
        try:
            remote = served.remote()
            while not stop.is_set():
                function(remote)
        except BaseException as error:
            errors.append(error)

    put_more(sender)
    threads = [threading.Thread(target=repeat, args=[f]) for f in (put_more, draw_more)]
    for thread in threads:
        thread.start()
    rows, unknown = TRANSITIONS.rows([500_000]), np.arange(10**6, 10**6 + 64)
    stranger = rpc.Client(served.address, "another token", 20.0)
    # TensorFlow's own client checks nothing: the server does, too.
    raw = tf.distribute.experimental.rpc.Client.create(
        "grpc", served.address, "raw", timeout_in_ms=5000
    )
    rounds = 0
    while rounds < 2 or not (errors or (counts["put"] > 200 and counts["drawn"] > 1000)):
        rounds += 1
        for call, message in BAD:
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                client.call(*call)
                pytest.fail(f"not refused: {call}")
        for *change, message in TRANSITIONS.wrong:
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                sender.put(changed(sender.wire, rows, *change), 1)
        with pytest.raises(WrongTokenError):
            stranger.call(*put_call())
        with pytest.raises(MessageTooLargeError):
            client.call(*LARGE)
        tensors = [tf.constant(TOKEN), *map(tf.convert_to_tensor, LARGE[1])]
        with pytest.raises(tf.errors.OpError):
            raw.call(LARGE[0], tensors, tf.TensorSpec([7], tf.int64)).get_value()
        assert sender.write_back(unknown, np.full(64, 9, np.float32)) == 64
    stop.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    if errors:
        raise errors[0]
    memory.check()
    added, held = counts["put"], min(counts["put"], 2000)
    assert served.service.inbox.reported() == []
    assert memory.counters() == (held, added, counts["drawn"], 0, added - held, 64 * rounds)
    newest = np.arange(added - held, added)
    found, steps = memory.read(newest)
    assert np.all(found) and not np.any(memory.read(np.arange(500_000, 500_004))[0])
    np.testing.assert_array_equal(marks_of(steps), newest)
    served.close()
