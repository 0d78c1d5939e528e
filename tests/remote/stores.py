"""Small stores of every kind of data, whose rows tell their marks in all columns."""

import itertools

import numpy as np
import tensorflow as tf

from common.cluster import rpc, rpc_server
from common.cluster.topology import free_ports
from common.data.rollouts import Rollout, RolloutStore
from common.data.unrolls import UnrollQueue
from common.remote.gradients import FlatGradients, GradientQueue
from common.remote.inbox import StoreService
from common.remote.outbox import RemoteStore
from common.replay.columns import Bytes
from common.replay.episode_memory import EpisodeMemory
from common.replay.episode_wire import Episode, Episodes
from common.replay.memory import Fifo, Items, Memory, Proportional, Uniform

TOKEN = "a token of the tests"
T = 3
"""Steps of a sequence, of an episode and of an unroll. Step t of mark m has the mark 10 m + t."""
MAX_BYTES = 50


class Served:
    """A service of a store at an address, and its clients."""

    def __init__(self, store, address=None):
        self.store = store
        self.address = address or f"127.0.0.1:{free_ports(1)[0]}"
        self.server = rpc_server.Server(self.address, TOKEN)
        self.service = StoreService(self.server, store)
        self.server.start()

    def client(self, timeout_seconds=20.0):
        return rpc.Client(self.address, TOKEN, timeout_seconds)

    def remote(self, timeout_seconds=20.0):
        """Returns the store of an actor that has joined."""
        remote = RemoteStore(self.client(timeout_seconds), self.store.wire)
        remote.join()
        return remote

    def accepted(self):
        return self.service.accepted()

    def close(self):
        self.server.close()

    def restart(self, store):
        """Ends this service; returns that of another store at its address."""
        self.close()
        again = Served(store, self.address)
        self.client().wait_until_available(30.0)
        return again


def specs_of(width, *leading, strings=False):
    specs = {"x": tf.TensorSpec([*leading, width]), "n": tf.TensorSpec([*leading, 2], tf.uint8)}
    return specs | ({"image": Bytes(MAX_BYTES)} if strings else {})


def columns_of(marks, width, strings=False):
    """Returns columns [*marks.shape, ...] that are functions of the marks, below 2^24."""
    marks = np.asarray(marks)[..., None]
    x, n = np.repeat(marks.astype(np.float32), width, -1), (marks + [0, 100]).astype(np.uint8)
    if not strings:
        return {"x": x, "n": n}
    image = np.empty(marks.size, object)
    image[:] = [b"%d" % mark * (mark % 5) + b"\0" for mark in marks.flat]
    return {"x": x, "n": n, "image": image.reshape(marks.shape[:-1])}


def marks_of(steps):
    """Returns the marks of steps, which agree in all columns."""
    x = np.asarray(steps["x"])
    marks = x[..., 0].astype(int)
    expected = columns_of(marks, x.shape[-1], "image" in steps)
    assert steps.keys() == expected.keys()
    for name, column in expected.items():
        found = np.asarray(steps[name])
        assert found.dtype == column.dtype
        np.testing.assert_array_equal(found, column)
    return marks


class Kind:
    """A kind of data.

    Attributes:
      samples: whether an item can be drawn again.
      refuses: whether a full store refuses rows.
      trims: whether the capacity is soft.
      most: marks that a store of 100 items holds.
      items: items that the store counts for a mark.
      length: steps of a mark.
      one_by_one: whether a put has one mark.
      wrong: a column's name, a change of it, and what the refusal says.
    """

    samples = refuses = trims = one_by_one = False
    most, items, length = 100, 1, T
    wrong = [
        ("column x", lambda x: x.astype(np.float64), "column x must be float"),
        ("column x", lambda x: x[..., :-1], r"column x must .*shape"),
        ("column x", lambda x: x * np.float32(np.nan), "column x must be finite"),
        ("column x", lambda x: x - np.float32(np.inf), "column x must be finite"),
        ("column n", lambda n: n.astype(np.int32), "column n must be uint8"),
    ]

    def __init__(self, name):
        self.name = name

    def make(self, width=4, capacity=100):
        """Returns an empty store of so many items."""
        raise NotImplementedError

    def rows(self, marks, width=4):
        """Returns an argument of `put`."""
        raise NotImplementedError

    def deliveries(self, marks, width=4):
        """Yields rows with the actor steps of each."""
        marks = list(marks)
        for part in [[mark] for mark in marks] if self.one_by_one else [marks]:
            yield self.rows(part, width), self.items * len(part)

    def draw(self, store, num_items, seed=None):
        """Returns the marks of items drawn; None if there are too few."""
        drawn = store.draw(num_items, seed)
        return None if drawn is None else self.marks(drawn)

    def marks(self, drawn):
        """Returns the marks of what was drawn, as a list."""
        steps = marks_of(drawn.steps)
        np.testing.assert_array_equal(steps, steps[:, :1] + np.arange(T))
        return (steps[:, 0] // 10).tolist()

    def write_back(self, store, behind):
        """Writes outputs for drawn items; asserts that the store behind has them."""
        assert store.write_back(tf.zeros([0], tf.int64), ()) == 0

    def keys(self, marks):
        return np.asarray(marks)


class _Items(Kind):
    samples = trims = True
    most = 200
    wrong = [
        *Kind.wrong,
        ("keys", lambda keys: -1 - keys, r"keys\[0\]"),
        ("keys", lambda keys: keys.astype(np.float32), "keys must be int64"),
        ("priorities", lambda p: p * np.float32(np.nan), r"priorities\[0\]"),
        ("priorities", lambda p: p[1:], "priorities"),
        ("column image", lambda image: image * (MAX_BYTES + 1), r"image\[0\] must have at most 50"),
    ]
    sequence_length = 0

    def make(self, width=4, capacity=100):
        distributions = {"sample": Proportional(1.0), "old": Fifo()}
        return Memory(
            specs_of(width, strings=True),
            self.length * capacity,
            distributions,
            "old",
            1,
            2 * self.length * capacity,
            self.sequence_length,
        )

    def priority(self, marks):
        return (1 + np.asarray(marks) % 3).astype(np.float32)

    def write_back(self, store, behind):
        """Gives mark 0 the mass of all others, and mark 1 none."""
        token = self.keys([0, 1, 5000])
        assert store.write_back(token, np.float32([1e30, 0, 1])) == 1
        masses = behind.masses(self.keys([0, 1]))[1]
        np.testing.assert_allclose(masses, [1e30, 0], rtol=1e-6)
        assert self.draw(store, 20, 1) == [0] * 20 and store.counters().missing == 1


class Transitions(_Items):
    """Steps that are items, with the marks as keys."""

    length = 1

    def rows(self, marks, width=4):
        keys = np.array(marks, np.int64)
        return Items(keys, columns_of(keys, width, True), self.priority(marks))

    def marks(self, drawn):
        marks = marks_of(drawn.steps)
        np.testing.assert_array_equal(drawn.keys, marks)
        np.testing.assert_array_equal(drawn.lengths, np.ones(len(marks)))
        assert drawn.masses.dtype == tf.float64
        return marks.tolist()


class Sequences(_Items):
    """Items of T steps."""

    sequence_length = T

    def rows(self, marks, width=4):
        keys = 10 * np.array(marks, np.int64)
        steps = (keys[:, None] + np.arange(T)).reshape(-1)
        lengths = np.full(len(keys), T, np.int32)
        return Items(steps, columns_of(steps, width, True), self.priority(marks), keys, lengths)

    def keys(self, marks):
        return 10 * np.asarray(marks)


class WholeEpisodes(Kind):
    """Episodes of T steps, of which single steps are drawn in two batches."""

    samples = True
    items = T
    wrong = [
        *Kind.wrong,
        _Items.wrong[-1],
        ("rewards", lambda r: r * np.float32(np.inf), r"rewards\[0\]"),
        ("values", lambda v: v * np.float32(np.nan), r"values\[0\]"),
        ("advantages", lambda a: a * np.float32(np.nan), r"advantages\[0\]"),
    ]

    def make(self, width=4, capacity=100):
        specs = specs_of(width, strings=True)
        return EpisodeMemory(specs, T * capacity, 0.9, Uniform(), num_batches=2, seed=1)

    def rows(self, marks, width=4):
        def episode(mark):
            states = columns_of(10 * mark + np.arange(T + 1), width, True)
            rewards = np.full(T, mark, np.float32)
            values = np.zeros(T + 1, np.float32)
            return Episode(states, rewards, values, mark % 2 == 1, 1 + rewards)

        return Episodes(T * len(marks), tuple(map(episode, marks)))

    def marks(self, drawn):
        steps = drawn.steps
        marks = marks_of(steps.states)
        np.testing.assert_array_equal(marks_of(steps.next_states), marks + 1)
        np.testing.assert_array_equal(steps.rewards, marks // 10)
        is_last, is_end = marks % 10 == T - 1, marks // 10 % 2 == 1
        np.testing.assert_array_equal(steps.bootstraps, is_last & ~is_end)
        np.testing.assert_array_equal(np.asarray(steps.discounts) == 0, is_last & is_end)
        np.testing.assert_allclose(drawn.probabilities, 1 / int(drawn.count))
        return (marks // 10).tolist()

    def write_back(self, store, behind):
        """Writes for the last steps of three episodes that timed out, and for one that is gone."""
        drawn = behind.draw(40, 1)
        keys, first = np.unique(drawn.keys, return_index=True)
        chosen = first[drawn.steps.bootstraps.numpy()[first]][:3]
        keys = np.array([*drawn.keys.numpy()[chosen], 2**40])
        rewards = drawn.steps.rewards.numpy()[chosen]
        np.testing.assert_array_equal(behind.stored(keys[:3]).advantages, 1 + rewards)
        outputs = [np.arange(1, 5, dtype=np.float32) * scale for scale in (1, 2, 3, 4, 5, 6)]
        assert store.write_back(keys, (*outputs, np.float32(4))) == 1
        *stored, q_ret, advantages = behind.stored(keys[:3])
        np.testing.assert_array_equal(stored, [output[:3] for output in outputs[:4]])
        np.testing.assert_array_equal(advantages, outputs[5][:3])
        np.testing.assert_allclose(q_ret, rewards + 0.9 * outputs[4][:3])
        assert store.counters().missing == 1 and behind.statistics().far_policy == 2


class EpisodeHistories(WholeEpisodes):
    """The same, drawn with a history of two states."""

    def make(self, width=4, capacity=100):
        specs = specs_of(width, strings=True)
        arguments = dict(num_batches=2, seed=1, history=2)
        return EpisodeMemory(specs, T * capacity, 0.9, Uniform(), **arguments)

    def marks(self, drawn):
        windows, lengths = marks_of(drawn.steps.states), np.asarray(drawn.steps.lengths)
        marks = windows[:, -2]
        np.testing.assert_array_equal(lengths, np.minimum(marks % 10, 2))
        np.testing.assert_array_equal(windows[:, -1], marks + 1)
        for back in (1, 2):
            np.testing.assert_array_equal(windows[:, -2 - back], marks - np.minimum(back, lengths))
        return (marks // 10).tolist()


class Unrolls(Kind):
    """Unrolls of T timesteps in a queue."""

    refuses = True

    def make(self, width=4, capacity=100):
        return UnrollQueue(specs_of(width, T), capacity)

    def rows(self, marks, width=4):
        return columns_of(10 * np.array(marks)[:, None] + np.arange(T), width)


class Rollouts(Kind):
    """Steps of a rollout, the same mark in all of one put. Each draw ends a version."""

    refuses, length, version = True, 1, 0
    wrong = [
        *(
            (name.replace(" ", " steps/"), change, words.replace(" ", " steps/", 1))
            for name, change, words in Kind.wrong
        ),
        ("column version", lambda version: version[:, None], "column version must have shape"),
        ("column version", lambda version: version.astype(np.int32), "column version must be int"),
        (
            "column version",
            lambda version: version + np.arange(2),
            "version must be the same in all rows, is",
        ),
    ]

    def make(self, width=4, capacity=100):
        return RolloutStore(specs_of(width), capacity)

    def rows(self, marks, width=4):
        version = np.full(len(marks), self.version)
        return Rollout(version, columns_of(np.array(marks, np.int64), width))

    def draw(self, store, num_items, seed=None):
        drawn = super().draw(store, num_items, seed)
        self.version += drawn is not None
        return drawn

    def marks(self, drawn):
        return marks_of(drawn.steps).tolist()


class Gradients(Kind):
    """Gradients of learner steps."""

    one_by_one, length = True, 1
    wrong = [
        (
            "steps",
            lambda steps: steps[1:],
            "has 4 parameters and .* worker 7 sent 3 parameters and",
        ),
        ("names", lambda names: names[::-1], "the metrics 'loss,norm' .* size 2, 'norm,loss'"),
        (
            "metrics",
            lambda metrics: metrics[1:],
            "worker 7 sent 4 parameters and metrics of size 1, 'loss,norm'",
        ),
    ]

    def make(self, width=4, capacity=100):
        return GradientQueue(width)

    def rows(self, marks, width=4):
        (mark,) = marks
        names = np.array([b"loss", b"norm"], object)
        metrics, steps = np.float32([mark, -mark]), np.full(width, mark, np.float32)
        return FlatGradients(np.array([7, 1, 1, mark]), names, metrics, steps)

    def draw(self, store, num_items, seed=None):
        drawn = [store.draw(1) for _ in range(num_items)]
        return None if None in drawn else list(itertools.chain(*map(self.marks, drawn)))

    def marks(self, drawn):
        mark = drawn.head[3]
        for found, expected in zip(drawn, self.rows([mark], len(drawn.steps))):
            assert np.asarray(found).dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
        return [int(mark)]


KINDS = [
    Transitions("transitions"),
    Sequences("sequences"),
    WholeEpisodes("episodes"),
    EpisodeHistories("episodes with histories"),
    Unrolls("unrolls"),
    Rollouts("rollouts"),
    Gradients("gradients"),
]
BY_NAME = {kind.name: kind for kind in KINDS}
