"""Speed and size of replay memories.

A loop is a memory's work for fifty actor steps and one learner step: insert 50 transitions, sample
256, set 256 priorities. Every call comes from Python. A memory is filled to its capacity and
removes the oldest transitions.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
import contextlib
import ctypes
import functools
import itertools
import math
import operator
import resource
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tree

from common.agents.agent import Agent
from common.benchmarks.report import Bench, Row, rate, say
from common.benchmarks.roles import played, replay_role
from common.cluster import rpc
from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.remote.outbox import RemoteStore
from common.replay.columns import Bytes, Signature
from common.replay.memory import (
    UNKNOWN_PRIORITY,
    ContextualPriorityTree,
    Distribution,
    Fifo,
    Items,
    ItemWire,
    Memory,
    Proportional,
)
from common.types import Nest

HUMANOID = EnvironmentSpec(67, 21)
_CARTPOLE = EnvironmentSpec(5, 1)
_PONG = "atari:pong"
_INSERTED, _SAMPLED = 50, 256
_IN_FLIGHT = 8
"""The number of loops in parallel through a memory in another process."""
_FILL, _FILL_IMAGES = 4000, 500
"""Transitions added at once to fill a memory; they fit into one message."""
_INSERTS_A_CALL = 4000
_CPPRB = "cpprb 11"


class AddedBatch(NamedTuple):
    """Transitions to be added, a nest of [n, ...], and raw priorities [n] float32."""

    steps: Any
    priorities: Any

    def first(self, count: int, convert: Callable = lambda column: column) -> "AddedBatch":
        """Returns the first `count` rows, with each column converted."""
        return tree.map_structure(lambda column: convert(column[:count]), self)


class FilledMemory:
    """A full memory that has already removed items.

    Args:
      memory: an empty memory.
      capacity: its capacity.
      batches: batches of equal size, which are added in turn.
    """

    def __init__(self, memory: Any, capacity: int, batches: Sequence[AddedBatch]):
        self.memory = memory
        size = len(batches[0].priorities)
        # A call of `keys` may take more keys than a batch has.
        self._begins = itertools.count(0, max(size, _IN_FLIGHT * _INSERTED))
        for batch in itertools.islice(itertools.cycle(batches), capacity // size + 1):
            memory.put(Items(self.keys(size), *batch))

    def keys(self, count: int) -> np.ndarray:
        """Returns keys that have not been returned before."""
        return next(self._begins) + np.arange(count)

    def loop(self, batch: AddedBatch, priorities: Any) -> Callable[[], None]:
        """Returns a loop, given the transitions that it inserts and its priorities [256]."""

        def loop() -> None:
            self.memory.insert(self.keys(_INSERTED), *batch)
            sample = self.memory.sample(_SAMPLED)
            self.memory.update_priorities(sample.keys, priorities)

        return loop


def filled_memory(
    make: Callable[[], Memory], capacity: int, batches: Sequence[AddedBatch]
) -> tuple[FilledMemory, int]:
    """Returns a full memory and the resident bytes that it takes."""
    make().insert(np.arange(len(batches[0].priorities)), *batches[0])  # loads code before counting
    before = resident_bytes()
    filled = FilledMemory(make(), capacity, batches)
    return filled, resident_bytes() - before


def resident_bytes() -> int:
    """Returns the resident memory of this process, without memory that it has freed."""
    # Otherwise later allocations would reuse freed memory and seem to take nothing.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def random_steps(specs: Any, count: int) -> AddedBatch:
    """Returns random transitions of float32 columns, and raw priorities."""
    rng = np.random.default_rng(0)
    steps = tree.map_structure(lambda column: rng.random((count, *column.shape), np.float32), specs)
    return AddedBatch(steps, _priorities(count))


def replay(
    bench: Bench, capacity: int = 1_000_000, loops: int = 1000, samples: int = 2000
) -> Iterator[Row]:
    """Yields the speeds and sizes of the replay of transitions.

    Transitions are those of the humanoid, float32: observation 67, action 21, reward, discount,
    next observation 67, together 628 bytes.

    replay/bytes_per_raw_byte: resident memory that filling adds, divided by the bytes of the
      transitions; "_52" is the same for cartpole's transitions of 52 bytes. The rest is keys, the
      index and two distributions (proportional, and first in, first out).

    replay/in_process_loop: loops in one thread, from tensors as the service and the learner have
      them, and new keys as a NumPy array. "_from_arrays" has NumPy arrays throughout, as cpprb
      does, and converts seven of them into tensors in each loop.

    replay/service_loop: see `through_service`.

    Args:
      bench: the request.
      capacity: transitions in the memory; all rates depend on it.
      loops: loops in each measurement.
      samples: draws in each measurement of latency.
    """
    name = "replay/in_process_loop"
    agent = bench.make_agent(replay_capacity=capacity, min_replay_size=1)
    for spec, suffix in ((_CARTPOLE, "_52"), (HUMANOID, "")):
        specs = agent.step_specs(spec)
        row_bytes = Signature(specs).bytes_per_step
        batch = random_steps(specs, _FILL)
        make = functools.partial(agent.data.make_store, specs, seed=0)
        filled, taken = filled_memory(make, capacity, [batch])
        say(f"filled a memory with {capacity} transitions of {row_bytes} B")
        yield Row(f"replay/bytes_per_raw_byte{suffix}", taken / (capacity * row_bytes), "B/B")

    candidates = both_loops(filled, batch)
    if bench.peers:
        candidates[_CPPRB] = cpprb_loop(agent, capacity, [batch])
    speeds = bench.rates(name, candidates, loops)
    yield speeds.row(name, "loops/s", "ours", _CPPRB)
    yield speeds.row(f"{name}_from_arrays", "loops/s", "ours from arrays", _CPPRB)
    yield from _under_adds(bench, filled, batch.first(_INSERTED), samples)
    filled.memory.check()
    del filled, candidates
    name = "replay/service_loop"
    yield through_service(bench, name, "control:humanoid:run", specs, capacity, [batch], loops)


def image_replay(
    bench: Bench,
    capacity: int = 20_000,
    loops: int = 50,
    service_loops: int = 200,
    transitions: int = 4000,
    games: int = 16,
) -> Iterator[Row]:
    """Yields the speeds and sizes of the replay of images.

    Transitions are those of untrained actors of Ape-X DQN in Pong: two stacks of four frames,
    uint8 [84, 84, 4] each, action, reward and discount. The columns of images are PNG files, as the
    agent encodes and stores them. In rows named "raw" they are the 28,224 bytes themselves, as in
    cpprb, whose compression is not used.

    Args:
      bench: the request.
      capacity: transitions in the memory; raw ones take 1.1 GB, and as much again in the peer.
      loops: loops in each measurement in this process.
      service_loops: loops in each measurement through the service.
      transitions: transitions that are played, and then drawn to fill the memories.
      games: environments that the transitions come from.
    """
    name = "image_replay/in_process_loop"
    agent = bench.make_agent(replay_capacity=capacity, min_replay_size=1, batch_size=_SAMPLED)
    memory, spec = played(agent, _PONG, transitions, games)
    drawn = memory.draw(transitions).steps
    png, raw = _batches(drawn), _batches(agent.decode(drawn, spec))
    png_specs = agent.step_specs(spec)
    image = tf.TensorSpec(spec.image_shape, tf.uint8)
    raw_specs = StoredTransition(
        *(image if isinstance(column, Bytes) else column for column in png_specs)
    )

    def filled(specs: Any, batches: Sequence[AddedBatch]) -> tuple[FilledMemory, float]:
        distributions = agent.data.distributions
        memory, taken = filled_memory(
            lambda: Memory(specs, capacity, distributions, "remove", seed=1), capacity, batches
        )
        return memory, taken / capacity

    png_memory, png_bytes = filled(png_specs, png)
    raw_memory, raw_bytes = filled(raw_specs, raw)
    say(f"filled memories with {capacity} transitions, as PNG and raw")
    yield Row("image_replay/bytes_per_transition", png_bytes, "B", "raw", raw_bytes)

    candidates = {"PNG": both_loops(png_memory, png[0])["ours"]}
    candidates["raw"] = both_loops(raw_memory, raw[0])["ours"]
    if bench.peers:
        candidates[_CPPRB] = cpprb_loop(agent, capacity, raw)
    speeds = bench.rates(name, candidates, loops)
    png_memory.memory.check()
    raw_memory.memory.check()
    yield speeds.row(name, "loops/s", "PNG", "raw")
    yield speeds.row(f"{name}_raw", "loops/s", "raw", _CPPRB)

    images, sample = raw[0].steps.observation_t[:games], png_memory.memory.sample(_SAMPLED)
    codec = {
        "encode": lambda: len(images) * rate(lambda: agent.encode(images), 5),
        "decode": lambda: 2 * _SAMPLED * rate(lambda: agent.decode(sample.steps, spec), 1),
    }
    speeds = bench.in_turns("image_replay/codec", codec)
    for way in codec:
        yield speeds.row(f"image_replay/{way}", "images/s", way)
    del candidates, png_memory, raw_memory
    name = "image_replay/service_loop"
    yield through_service(bench, name, _PONG, png_specs, capacity, png, service_loops)


def priority_tree(
    bench: Bench, items: tuple[int, ...] = (1_000, 1_000_000, 10_000_000), calls: int = 1000
) -> Iterator[Row]:
    """Yields the speed of the tree that infers priorities.

    priority_tree/pairs_of_*: a pair draws an item and sets its priority; a call from Python has 256
      pairs. The memory is full. Its items came in with unknown priorities, which were then set in
      as many draws as it has items. A step is one float, so that most of the time is the tree's.
      The peer is the sum tree of proportional priorities in the same kind of memory.

    Args:
      bench: the request.
      items: numbers of items of the memories that are measured.
      calls: calls in each measurement.
    """
    for count in items:
        pairs = {
            "ours": _pairs(count, ContextualPriorityTree()),
            "sum tree": _pairs(count, Proportional(1.0)),
        }
        say(f"filled memories of {count:,} items")
        name = f"priority_tree/pairs_of_{count}"
        yield bench.rates(name, pairs, calls, _SAMPLED).row(name, "pairs/s", "ours", "sum tree")
        del pairs


def _pairs(items: int, sample: Distribution) -> Callable[[], None]:
    memory = Memory(
        tf.TensorSpec([]), items, {"sample": sample, "remove": Fifo()}, "remove", seed=1
    )
    filling = min(items, _FILL)
    unknown = np.full(filling, UNKNOWN_PRIORITY, np.float32)
    FilledMemory(memory, items, [AddedBatch(np.zeros(filling, np.float32), unknown)])
    priorities = tf.random.Generator.from_seed(0).uniform([_SAMPLED], 0.1, 1.0)

    def draw_and_set() -> None:
        memory.update_priorities(memory.sample(_SAMPLED).keys, priorities)

    for _ in range(math.ceil(items / _SAMPLED)):
        draw_and_set()
    return draw_and_set


def _priorities(count: int) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.1, 1.0, count).astype(np.float32)


def both_loops(filled: FilledMemory, batch: AddedBatch) -> dict[str, Callable[[], None]]:
    """Returns the loops from tensors and from NumPy arrays."""
    tensors, arrays = (batch.first(_INSERTED, convert) for convert in (tf.constant, np.asarray))
    priorities = _priorities(_SAMPLED)
    return {
        "ours": filled.loop(tensors, tf.constant(priorities)),
        "ours from arrays": filled.loop(arrays, priorities),
    }


def cpprb_loop(agent: Agent, capacity: int, batches: Sequence[AddedBatch]) -> Callable[[], None]:
    """Fills a replay of cpprb, a C++ sum tree behind Cython, and returns its loop.

    Its sampling also computes importance weights. Our memory returns masses, from which the learner
    computes the weights.
    """
    import cpprb

    columns = {f"column_{i}": column for i, column in enumerate(batches[0].steps)}
    layout = {
        name: {"shape": column.shape[1:] or 1, "dtype": column.dtype}
        for name, column in columns.items()
    }
    exponent = agent.data.distributions["sample"].exponent
    replay = cpprb.PrioritizedReplayBuffer(capacity, layout, alpha=exponent)

    def insert(batch: AddedBatch) -> None:
        replay.add(**dict(zip(columns, batch.steps)), priorities=batch.priorities)

    for batch in itertools.islice(
        itertools.cycle(batches), capacity // len(batches[0].priorities) + 1
    ):
        insert(batch)
    inserted, priorities = batches[0].first(_INSERTED), _priorities(_SAMPLED)

    def loop() -> None:
        insert(inserted)
        replay.update_priorities(replay.sample(_SAMPLED, beta=1.0)["indexes"], priorities)

    return loop


def _under_adds(
    bench: Bench, filled: FilledMemory, batch: AddedBatch, samples: int
) -> Iterator[Row]:
    """Yields the 99th percentile of the time of `Memory.sample(256)` while another thread adds.

    The adding thread runs a graph that inserts 50 transitions repeatedly for about 100 ms. Between
    calls it holds Python's lock for half a millisecond; shorter calls would show this lock instead
    of the memory's own waits. The row "..._added" is the speed of the adding thread.
    """
    memory, name = filled.memory, "replay/sample_p99_under_adds"
    first_keys = itertools.count(2**48, _INSERTS_A_CALL * _INSERTED)  # far above all other keys

    @tf.function(autograph=False)
    def add_many(first_key):
        def body(begin):
            memory.insert(begin + np.arange(_INSERTED), *batch)
            return begin + _INSERTED

        end = first_key + _INSERTS_A_CALL * _INSERTED
        tf.while_loop(lambda begin: begin < end, body, [first_key])

    def add() -> None:
        add_many(tf.constant(next(first_keys), tf.int64))

    def latency_and_added() -> tuple[float, float]:
        times = []
        inserted, begin = memory.statistics().inserted, time.perf_counter()
        for _ in range(samples):
            drawn = time.perf_counter()
            memory.sample(_SAMPLED)
            times.append(time.perf_counter() - drawn)
        added = memory.statistics().inserted - inserted
        return np.percentile(times, 99) * 1e6, added / (time.perf_counter() - begin)

    def under_adds() -> tuple[float, float]:
        ended = threading.Event()

        def add_until_ended() -> None:
            while not ended.is_set():
                add()

        with futures.ThreadPoolExecutor(1) as pool:
            adding = pool.submit(add_until_ended)
            try:
                return latency_and_added()
            finally:
                ended.set()
                adding.result()

    add()  # traces
    medians = bench.in_turns(name, {"idle": latency_and_added, "under adds": under_adds})
    yield medians.row(name, "us", "under adds", "idle")
    yield medians.row(f"{name}_added", "transitions/s", "under adds", part=1)


def _batches(steps: Nest) -> list[AddedBatch]:
    """Returns drawn transitions as batches with raw priorities."""
    count = len(tree.flatten(steps)[0])
    batch = AddedBatch(tree.map_structure(lambda column: column.numpy(), steps), _priorities(count))
    return [
        tree.map_structure(operator.itemgetter(slice(begin, begin + _FILL_IMAGES)), batch)
        for begin in range(0, count - _FILL_IMAGES + 1, _FILL_IMAGES)
    ]


def through_service(
    bench: Bench,
    name: str,
    environment: str,
    specs: Any,
    capacity: int,
    batches: Sequence[AddedBatch],
    loops: int,
) -> Row:
    """Returns loops a second through the replay role in another process on the loopback.

    One graph call starts 8 loops: inserts, samples, and priorities for the items that the previous
    call drew, as from actors that send in the background and a learner that draws ahead. All
    samples arrive in this process.
    """
    with contextlib.ExitStack() as stack:
        topology, token = stack.enter_context(replay_role(bench.program, environment, capacity))
        client = rpc.Client(topology.address("replay"), token)
        filled = FilledMemory(RemoteStore(client, ItemWire(specs)), capacity, batches)
        say("filled the replay role")
        loop = _remote_loops(client, filled, batches[0], loops)
        stack.enter_context(client.readable_errors())
        return bench.in_turns(name, {"ours": loop}).row(name, "loops/s", "ours")


def _remote_loops(
    client: rpc.Client, filled: FilledMemory, batch: AddedBatch, loops: int
) -> Callable[[], float]:
    """Returns a function that measures loops a second.

    In a graph, a call waits for another only if it needs its reply, so loops overlap by themselves.
    """
    store, batch = filled.memory, batch.first(_INSERTED, tf.constant)
    nobody = [tf.zeros([], tf.int64)] * 3  # no incarnation, delivery and actor steps
    priorities = tf.constant(_priorities(_SAMPLED))

    @tf.function(autograph=False)
    def in_flight(first_key, drawn):
        samples = []
        for i in range(_IN_FLIGHT):
            new = first_key + np.arange(i * _INSERTED, (i + 1) * _INSERTED)
            columns = store.wire.columns(Items(new, *batch))
            client.call("store_put", [*nobody, *columns])
            samples.append(store.draw(_SAMPLED))
            store.write_back(drawn[i], priorities)
        return tf.stack([sample.keys for sample in samples])

    drawn = tf.stack([store.draw(_SAMPLED).keys for _ in range(_IN_FLIGHT)])

    def run() -> None:
        nonlocal drawn
        drawn = in_flight(tf.constant(filled.keys(1)[0]), drawn)

    run()  # traces
    return lambda: _IN_FLIGHT * rate(run, max(1, loops // _IN_FLIGHT))
