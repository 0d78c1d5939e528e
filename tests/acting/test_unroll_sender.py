"""Tests of common.acting.unroll_sender with real services of a learner's queue."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from common.acting.unroll_sender import UnrollSender
from common.cluster import rpc
from common.cluster.errors import ServiceUnavailableError
from common.cluster.processes import Patience, PatienceError, StopRequest
from common.cluster.topology import free_ports
from common.replay.unroll_queue import UnrollQueue
from common.replay.unroll_service import RemoteUnrollQueue, UnrollService
from common.types import Unrolls

TOKEN = "a token of the tests"
T = 2
SPECS = {"mark": tf.TensorSpec([T]), "image": tf.TensorSpec([T, 3], tf.uint8)}


class Learner:
    """A learner's queue at an address."""

    def __init__(self, capacity, address=None, specs=SPECS):
        self.queue = UnrollQueue(specs, capacity)
        self.address = address or f"127.0.0.1:{free_ports(1)[0]}"
        self.server = rpc.Server(self.address, TOKEN)
        self.service = UnrollService(self.server, self.queue)
        self.server.start()

    def take(self, count):
        """The marks of so many unrolls."""
        taken = self.queue.take(count)
        return None if taken is None else taken["mark"][:, 0].astype(int).tolist()


@pytest.fixture
def learner():
    learner = Learner(capacity=4)
    yield learner
    learner.server.close()


def remote(learner, specs=SPECS):
    return RemoteUnrollQueue(rpc.Client(learner.address, TOKEN, timeout_seconds=2.0), specs)


def unrolls(*marks):
    """Unrolls of which every second timestep counts as a step."""
    marks, shape = np.array(marks), (len(marks), T)
    zeros = np.zeros(shape, np.float32)
    mark = np.tile(marks[:, None].astype(np.float32), (1, T))
    return Unrolls(np.zeros(len(marks), np.int32), marks, mark, zeros, zeros, zeros == 0, {})


def twice(added):
    """The burst of unrolls: each, and once more with a mark 100 higher."""
    mark = np.repeat(added.observation, 2, axis=0)
    mark[1::2] += 100
    return {"mark": mark, "image": np.zeros((len(mark), T, 3), np.uint8)}


def make_sender(queue, max_rows=3, stop=None):
    sender = UnrollSender(
        queue, twice, lambda added: len(added.number), max_rows, stop or StopRequest()
    )
    sender.start()
    return sender


def test_acts_no_further_until_the_queue_has_taken_the_whole_burst(learner):
    sender = make_sender(remote(learner))
    assert sender.incarnation > 0 and sender.has_credit()
    sender.add(unrolls(1, 2, 3))  # six unrolls, in two offers
    assert sender.num_accepted == 0
    assert not sender.has_credit() and not sender.has_credit()
    assert learner.queue.size() == 3 and learner.service.accepted() == {sender.incarnation: 0}
    assert learner.take(2) == [1, 101]
    assert sender.has_credit() and sender.num_accepted == 3
    assert learner.service.accepted() == {sender.incarnation: 3}
    assert learner.take(4) == [2, 102, 3, 103]
    sender.add(unrolls(4))
    assert sender.has_credit() and sender.num_accepted == 4
    assert learner.take(2) == [4, 104]


class LosesAnswers:
    """A queue whose every second answer is lost, after the offer has arrived."""

    def __init__(self, queue):
        self._queue = queue
        self._calls = 0
        self.max_rows = queue.max_rows

    def offer(self, *arguments):
        self._calls += 1
        answer = self._queue.offer(*arguments)
        if self._calls % 2:
            raise ServiceUnavailableError("the answer is lost")
        return answer


def test_an_offer_whose_answer_is_lost_counts_once(learner, monkeypatch):
    monkeypatch.setattr("common.acting.unroll_sender._GONE_SECONDS", 0.0)
    sender, taken = make_sender(LosesAnswers(remote(learner)), max_rows=1), []
    for mark in range(10):
        sender.add(unrolls(mark))
        while not sender.has_credit():
            taken += learner.take(1) or []
    while (rest := learner.take(1)) is not None:
        taken += rest
    assert taken == [mark + more for mark in range(10) for more in (0, 100)]
    assert learner.service.accepted() == {sender.incarnation: 10} and sender.num_accepted == 10


def test_a_burst_waits_for_a_learner_that_restarts(learner):
    sender = make_sender(remote(learner))
    sender.add(unrolls(1))
    assert sender.has_credit()
    incarnation = sender.incarnation
    learner.server.close()
    sender.add(unrolls(2))
    assert not sender.has_credit()
    second = Learner(4, learner.address)
    while not sender.has_credit():
        pass
    assert second.take(2) == [2, 102] and second.queue.size() == 0
    assert second.service.accepted() == {incarnation: 2}
    second.server.close()


def test_many_actors_share_a_queue_that_is_smaller_than_their_bursts(learner):
    num_actors, num_bursts, batch = 3, 10, 2
    max_rows = learner.queue.capacity - batch + 1  # as `UnrollAgent.max_offer`
    senders = [make_sender(remote(learner), max_rows) for _ in range(num_actors)]

    def act(sender, first):
        for burst in range(num_bursts):
            sender.add(unrolls(first + burst, first + burst, first + burst, first + burst))
            while not sender.has_credit():
                pass

    threads = [
        threading.Thread(target=act, args=[sender, 1000 * index])
        for index, sender in enumerate(senders)
    ]
    for thread in threads:
        thread.start()
    taken = []
    while len(taken) < num_actors * num_bursts * 8:
        taken += learner.take(batch) or []
    for thread in threads:
        thread.join()
    for index in range(num_actors):
        own = [mark for mark in taken if mark // 1000 == index]
        expected = [1000 * index + burst for burst in range(num_bursts) for _ in range(4)]
        assert [mark for mark in own if mark % 1000 < 100] == expected
        assert [mark - 100 for mark in own if mark % 1000 >= 100] == expected
    assert sorted(learner.service.accepted().values()) == [4 * num_bursts] * num_actors


def test_a_stop_ends_the_waits_and_drops_the_burst(learner):
    stop = StopRequest()
    sender = make_sender(remote(learner), stop=stop)
    sender.add(unrolls(1, 2, 3))
    assert not sender.has_credit()  # half of it
    learner.server.close()
    stop.request()
    assert not sender.has_credit()
    sender.close()
    assert sender.has_credit() and sender.num_accepted == 0


def test_patience_with_a_learner_that_is_gone_ends(learner, monkeypatch):
    sender = make_sender(remote(learner))
    learner.server.close()
    monkeypatch.setattr(Patience, "default_seconds", 0.0)
    sender = UnrollSender(remote(learner), twice, len, 3, StopRequest())
    sender.add(unrolls(1))
    with pytest.raises(PatienceError, match="no answer from the learner"):
        sender.has_credit()


def test_the_queue_refuses_wrong_columns_with_their_name(learner):
    queue = remote(learner)
    columns = {"mark": np.zeros((1, T), np.float32), "image": np.zeros((1, T, 4), np.uint8)}
    with pytest.raises(tf.errors.InvalidArgumentError, match="column image must have shape"):
        queue.offer(1, 1, 1, columns)
    columns = {"mark": np.full((1, T), np.nan, np.float32), "image": columns["image"][..., :3]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="column mark must be finite"):
        queue.offer(1, 1, 1, columns)
    assert learner.queue.size() == 0 and learner.service.accepted() == {}


def test_counts_that_cannot_be_right_are_refused(learner):
    queue = remote(learner)
    columns = {"mark": np.zeros((1, T), np.float32), "image": np.zeros((1, T, 3), np.uint8)}

    def refused(incarnation, number, accepted, words):
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            queue.offer(incarnation, number, accepted, columns)

    refused(-3, 1, 1, "incarnation must be from 0")
    refused(5, -1, 1, "number must be from 0")
    refused(5, 1, -1, "accepted must be from 0")
    refused(5, 1, 2**60, "accepted must be from 0")
    assert learner.queue.size() == 0 and learner.service.accepted() == {}
    # A learner that restarted believes the first count of an actor, not a leap after it.
    assert queue.offer(5, 41, 10**9, columns)
    refused(5, 42, 10**9 + 2**30, "accepted must be from 0 to 1016777216, is 2073741824")
    assert queue.offer(5, 42, 10**9 + 3, columns)
    assert learner.queue.size() == 2 and learner.service.accepted() == {5: 10**9 + 3}


def test_large_unrolls_go_in_several_messages():
    specs = {"mark": tf.TensorSpec([T]), "image": tf.TensorSpec([T, 84, 84, 10], tf.uint8)}
    learner = Learner(100, specs=specs)
    queue = remote(learner, specs)
    assert 1 <= queue.max_rows < 20

    def burst(added):
        image = np.full((len(added.number), T, 84, 84, 10), 255, np.uint8)  # the longest varints
        return {"mark": added.observation, "image": image}

    sender = UnrollSender(queue, burst, lambda added: 1, 100, StopRequest())
    sender.start()
    sender.add(unrolls(*range(20)))
    assert sender.has_credit() and learner.take(20) == [*range(20)]
    learner.server.close()


def test_an_unroll_that_exceeds_a_message_is_refused_in_one_line(learner):
    specs = {"image": tf.TensorSpec([100, 84, 84, 3])}
    with pytest.raises(ValueError, match="an unroll of 8467200 bytes exceeds a message.*shorter"):
        remote(learner, specs)
