"""Speed and size of the replay memory of transitions.

A loop asks a memory for the work of fifty actor steps and one learner step: insert 50 transitions,
sample 256, set 256 priorities. Every call comes from Python. A memory holds as many transitions as
its capacity and removes the oldest.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import ctypes
import functools
import itertools
import json
import operator
import os
import pathlib
import resource
import tempfile
import threading
import time
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tree

from common.agents.agent import Agent
from common.benchmarks import peers
from common.benchmarks.report import REVERB, Bench, Row, rate, say
from common.benchmarks.roles import ChildProcess, played, replay_role
from common.cluster import rpc
from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.remote.outbox import RemoteStore
from common.replay.columns import Bytes, Signature
from common.replay.memory import Items, ItemWire, Memory
from common.types import Nest

HUMANOID = EnvironmentSpec(67, 21)
_CARTPOLE = EnvironmentSpec(5, 1)
_PONG = "atari:pong"
_INSERTED, _SAMPLED = 50, 256
_IN_FLIGHT = 8
"""Loops under way at once to a memory in another process."""
_FILL, _FILL_IMAGES = 4000, 500
"""Transitions added at once to fill a memory; they fit a message."""
_INSERTS_A_CALL = 4000
_CPPRB, _NUMPY, _REVERB = "cpprb 11", "NumPy sum tree", "Reverb 0.14"


class AddedBatch(NamedTuple):
    """Transitions to be added, a nest of [n, ...], and raw priorities [n] float32."""

    steps: Any
    priorities: Any

    def first(self, count: int, convert: Callable = lambda column: column) -> "AddedBatch":
        """Returns the first rows, with each column converted."""
        return tree.map_structure(lambda column: convert(column[:count]), self)


class FilledMemory:
    """A memory that has removed some of its items.

    Args:
      memory: an empty memory.
      capacity: its capacity.
      batches: batches of one size, which are added in turns.
    """

    def __init__(self, memory: Any, capacity: int, batches: Sequence[AddedBatch]):
        self.memory = memory
        size = len(batches[0].priorities)
        # Each call of `keys` may take more of them than a batch has.
        self._begins = itertools.count(0, max(size, _IN_FLIGHT * _INSERTED))
        for batch in itertools.islice(itertools.cycle(batches), capacity // size + 1):
            memory.put(Items(self.keys(size), *batch))

    def keys(self, count: int) -> np.ndarray:
        """Returns keys that it has not returned before."""
        return next(self._begins) + np.arange(count)

    def loop(self, batch: AddedBatch, priorities: Any) -> Callable[[], None]:
        """Returns the loop: `batch` has the transitions to insert, priorities are [256]."""

        def loop() -> None:
            self.memory.insert(self.keys(_INSERTED), *batch)
            sample = self.memory.sample(_SAMPLED)
            self.memory.update_priorities(sample.keys, priorities)

        return loop


def filled_memory(
    make: Callable[[], Memory], capacity: int, batches: Sequence[AddedBatch]
) -> tuple[FilledMemory, int]:
    """Returns a full memory and the resident bytes that it takes."""
    make().insert(np.arange(len(batches[0].priorities)), *batches[0])  # what the first use loads
    before = resident_bytes()
    filled = FilledMemory(make(), capacity, batches)
    return filled, resident_bytes() - before


def resident_bytes() -> int:
    """Returns the resident memory of this process, without memory that it has freed."""
    # Else later allocations would reuse freed memory and seem to take nothing.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def random_steps(specs: Any, count: int) -> AddedBatch:
    """Returns random transitions of float32 columns, and raw priorities."""
    rng = np.random.default_rng(0)
    steps = tree.map_structure(lambda column: rng.random((count, *column.shape), np.float32), specs)
    return AddedBatch(steps, _priorities(count))


def replay(
    bench: Bench,
    capacity: int = 1_000_000,
    loops: int = 1000,
    samples: int = 2000,
    copied_bytes: int = 2**28,
) -> Iterator[Row]:
    """Yields the speeds and sizes of the replay of transitions.

    Transitions are those of the humanoid, float32: observation 67, action 21, reward, discount,
    next observation 67, together 628 bytes.

    replay/bytes_per_raw_byte: resident memory that filling adds, over the bytes of the transitions,
      and "_52" the same for cartpole's of 52 bytes. The rest is keys, the index and two
      distributions (proportional, and first in, first out).
    replay/in_process_loop: loops in one thread, from tensors as the service and the learner have
      them, and new keys as a NumPy array. "_from_arrays" gets NumPy arrays throughout, as the peers
      do, and converts seven of them into tensors in each loop. "_limit" is a bound by bytes: one
      NumPy copy of a large array, front to back, in one thread, over the bytes of a loop's 306
      rows. Rows are read at random, so it is never reached.

    replay/save, replay/load: see `_saving`.
    replay/service_loop: see `through_service`.

    Args:
      bench: the request.
      capacity: transitions in the memory; all rates depend on it.
      loops: loops of each measurement.
      samples: draws of each measurement of latency.
      copied_bytes: size of the array that is copied for the limit.
    """
    name = "replay/in_process_loop"
    agent = bench.make_agent(replay_capacity=capacity, min_replay_size=1)
    copied = _bytes_copied_per_second(bench, copied_bytes)  # before memory is filled
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
        for peer, make_peer in ((_CPPRB, peers.Cpprb), (_NUMPY, peers.NumpySumTree)):
            candidates[peer] = _peer_loop(make_peer, agent, capacity, [batch])
    speeds = bench.rates(name, candidates, loops)
    yield speeds.row(name, "loops/s", "ours", _CPPRB)
    yield speeds.row(f"{name}_from_arrays", "loops/s", "ours from arrays", _CPPRB)
    if _NUMPY in speeds:
        yield speeds.row(f"{name}_numpy", "loops/s", "ours", _NUMPY)
    yield Row(f"{name}_limit", copied / ((_INSERTED + _SAMPLED) * row_bytes), "loops/s")
    yield from _under_adds(bench, filled, batch.first(_INSERTED), samples)
    yield from _saving(bench, filled.memory, make, candidates["ours"], loops)
    filled.memory.check()
    del filled, candidates
    name = "replay/service_loop"
    yield through_service(
        bench, name, "control:humanoid:run", specs, capacity, [batch], loops, bench.peers
    )


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
    agent encodes and keeps them, or, in rows that say "raw", the 28,224 bytes themselves, as in
    cpprb, whose compression is not used.

    Args:
      bench: the request.
      capacity: transitions in the memory; raw ones take 1.1 GB, and as much again in the peer.
      loops: loops of each measurement in this process.
      service_loops: loops of each measurement through the service.
      transitions: transitions drawn from those that were played.
      games: environments that they come from.
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
    candidates["raw"], candidates["raw from arrays"] = both_loops(raw_memory, raw[0]).values()
    if bench.peers:
        candidates[_CPPRB] = _peer_loop(peers.Cpprb, agent, capacity, raw)
    speeds = bench.rates(name, candidates, loops)
    png_memory.memory.check()
    raw_memory.memory.check()
    yield speeds.row(name, "loops/s", "PNG", "raw")
    yield speeds.row(f"{name}_raw", "loops/s", "raw", _CPPRB)
    yield speeds.row(f"{name}_raw_from_arrays", "loops/s", "raw from arrays", _CPPRB)

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


def _priorities(count: int) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.1, 1.0, count).astype(np.float32)


def _exponent(agent: Agent) -> float:
    return agent.data.distributions["sample"].exponent


def _bytes_copied_per_second(bench: Bench, size: int) -> float:
    source, target = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    return bench.rates("copy", {"B/s": lambda: np.copyto(target, source)}, 4, size)["B/s"]


def both_loops(filled: FilledMemory, batch: AddedBatch) -> dict[str, Callable[[], None]]:
    """Returns the loops of tensors and of NumPy arrays."""
    tensors, arrays = (batch.first(_INSERTED, convert) for convert in (tf.constant, np.asarray))
    priorities = _priorities(_SAMPLED)
    return {
        "ours": filled.loop(tensors, tf.constant(priorities)),
        "ours from arrays": filled.loop(arrays, priorities),
    }


def _peer_loop(
    make: Callable[..., Any], agent: Agent, capacity: int, batches: Sequence[AddedBatch]
) -> Callable[[], None]:
    """Fills one of `common.benchmarks.peers` and returns its loop."""
    size = len(batches[0].priorities)
    peer = make(capacity, list(batches[0].steps), _exponent(agent))
    for batch in itertools.islice(itertools.cycle(batches), capacity // size + 1):
        peer.insert(list(batch.steps), batch.priorities)
    inserted, priorities = batches[0].first(_INSERTED), _priorities(_SAMPLED)

    def loop() -> None:
        peer.insert(list(inserted.steps), inserted.priorities)
        peer.update_priorities(peer.sample(_SAMPLED)[0], priorities)

    return loop


def _under_adds(
    bench: Bench, filled: FilledMemory, batch: AddedBatch, samples: int
) -> Iterator[Row]:
    """Yields the 99th percentile of the time of `Memory.sample(256)` while another thread adds.

    The adding thread runs a graph that inserts 50 transitions again and again for some 100 ms.
    Between calls it holds Python's lock for half a millisecond; shorter calls would show that
    instead of the memory's own waits. In the row "_from_python" the thread calls `Memory.insert`.
    The row "_scheduling" compares with a thread that takes square roots in NumPy, which shows the
    scheduler's part. The row "_added" has the transitions that the graph added meanwhile.
    """
    memory, name = filled.memory, "replay/sample_p99_under_adds"
    first_keys = itertools.count(2**48, _INSERTS_A_CALL * _INSERTED)  # far above the others
    tensors, roots = batch.first(_INSERTED, tf.constant), np.ones(100_000)

    @tf.function(autograph=False)
    def add_many(first_key):
        def body(begin):
            memory.insert(begin + np.arange(_INSERTED), *batch)
            return begin + _INSERTED

        end = first_key + _INSERTS_A_CALL * _INSERTED
        tf.while_loop(lambda begin: begin < end, body, [first_key])

    def add() -> None:
        add_many(tf.constant(next(first_keys), tf.int64))

    def latency_beside(other: Callable[[], object] | None) -> Callable[[], tuple[float, float]]:
        def latency_and_added() -> tuple[float, float]:
            times = []
            inserted, begin = memory.statistics().inserted, time.perf_counter()
            with _repeating(other) if other else contextlib.nullcontext():
                for _ in range(samples):
                    drawn = time.perf_counter()
                    memory.sample(_SAMPLED)
                    times.append(time.perf_counter() - drawn)
            added = memory.statistics().inserted - inserted
            return np.percentile(times, 99) * 1e6, added / (time.perf_counter() - begin)

        return latency_and_added

    add()  # traces
    medians = bench.in_turns(
        name,
        {
            "idle": latency_beside(None),
            "under adds": latency_beside(add),
            "from Python": latency_beside(lambda: memory.insert(filled.keys(_INSERTED), *tensors)),
            "beside computing": latency_beside(lambda: np.sqrt(roots, out=roots)),
        },
    )
    yield medians.row(name, "us", "under adds", "idle")
    yield medians.row(f"{name}_from_python", "us", "from Python", "idle")
    yield medians.row(f"{name}_scheduling", "us", "under adds", "beside computing")
    yield medians.row(f"{name}_added", "transitions/s", "under adds", part=1)


def _saving(
    bench: Bench, memory: Memory, make: Callable[[], Memory], loop: Callable[[], None], loops: int
) -> Iterator[Row]:
    """Yields the speeds of saving and loading a full memory, and that of loops meanwhile.

    The peers write and read the same bytes without a memory. What is written is on the disk.
    """
    with tempfile.TemporaryDirectory() as directory:
        saved, plain = pathlib.Path(directory, "saved"), pathlib.Path(directory, "plain")
        memory.save(saved)
        content = saved.read_bytes()

        def write() -> None:
            with open(plain, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())

        steps = {
            "save": lambda: memory.save(saved),
            "file written": write,
            "load": lambda: make().load(saved),
            "file read": plain.read_bytes,
        }
        speeds = bench.rates("replay/save", steps, 1, len(content) / 1e6)
        yield speeds.row("replay/save", "MB/s", "save", "file written")
        yield speeds.row("replay/load", "MB/s", "load", "file read")

        def while_saving() -> float:
            with _repeating(lambda: memory.save(saved)):
                return rate(loop, loops)

        name = "replay/in_process_loop_while_saving"
        candidates = {"ours": while_saving, "not saved": lambda: rate(loop, loops)}
        yield bench.in_turns(name, candidates).row(name, "loops/s", "ours", "not saved")


@contextlib.contextmanager
def _repeating(function: Callable[[], object]) -> Iterator[None]:
    """Calls `function` again and again in another thread, until the end of the `with`."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            function()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


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
    with_reverb: bool = False,
) -> Row:
    """Returns loops a second through the replay role in another process on the loopback.

    One graph call starts 8 loops: inserts, samples, and priorities for the items that the call
    before has drawn, as from actors that send in the background and a learner that draws ahead. All
    samples arrive in this process. Reverb's side is `common.benchmarks.reverb_peer`.
    """
    with contextlib.ExitStack() as stack:
        topology, token = stack.enter_context(replay_role(bench.program, environment, capacity))
        client = rpc.Client(topology.address("replay"), token)
        filled = FilledMemory(RemoteStore(client, ItemWire(specs)), capacity, batches)
        say("filled the replay role")
        candidates = {"ours": _remote_loops(client, filled, batches[0], loops)}
        if with_reverb:
            candidates[_REVERB] = stack.enter_context(reverb(bench, specs, capacity, loops))
        stack.enter_context(client.readable_errors())
        return bench.in_turns(name, candidates).row(name, "loops/s", "ours", _REVERB)


def _remote_loops(
    client: rpc.Client, filled: FilledMemory, batch: AddedBatch, loops: int
) -> Callable[[], float]:
    """Returns a function that measures loops a second.

    In a graph a call waits for another only if it needs its reply, so loops overlap by themselves.
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


@contextlib.contextmanager
def reverb(bench: Bench, specs: Any, capacity: int, loops: int) -> Iterator[Callable[[], float]]:
    """Yields a function that measures the loops a second of Reverb, in processes of its own."""
    exponent = _exponent(bench.make_agent())
    table = dict(
        capacity=capacity,
        exponent=exponent,
        inserted=_INSERTED,
        sampled=_SAMPLED,
        shapes=[column.shape.as_list() for column in tree.flatten(specs)],
    )
    # By its path: this package is not installed there.
    script = pathlib.Path(__file__).with_name("reverb_peer.py")
    command = [str(REVERB / "bin/python"), "-I", str(script), json.dumps(table)]
    with ChildProcess("peer Reverb", command, answers=True) as process:
        process.ask("")
        say("filled Reverb's table")
        calls = max(1, loops // 10)  # it is slower
        yield lambda: float(process.ask(str(calls)))
