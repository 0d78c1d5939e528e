"""Speed and size of the replay memory.

For the loop see `common.benchmarks.loops`. Transitions are those of the humanoid, float32:
observation 67, action 21, reward, discount, next observation 67, together 628 bytes; the memory
holds as many as its capacity and removes the oldest.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import itertools
import threading
import time

import numpy as np
import tensorflow as tf
import tree

from common.agents.item_agent import ItemAgent
from common.benchmarks import loops as loops_lib
from common.benchmarks import peers
from common.benchmarks.loops import INSERTED, SAMPLED, AddedBatch
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram
from common.environments.spec import EnvironmentSpec
from common.replay import memory as memory_lib

HUMANOID, HUMANOID_NAME = EnvironmentSpec(67, 21), "control:humanoid:run"
CARTPOLE = EnvironmentSpec(5, 1)
_FILL = 4000
"""Transitions added at once to fill a memory; they fit a message."""
_INSERTS_A_CALL = 4000
_CPPRB, _NUMPY = "cpprb 11", "NumPy sum tree"


@dataclasses.dataclass(frozen=True)
class ReplaySizes:
    """Amount of what is measured; rates depend on the capacity, not on the counts.

    Attributes:
      capacity: transitions in the memory.
      loops: loops of each measurement.
      samples: draws of each measurement of latency.
      copied_bytes: size of the array that is copied for the limit.
    """

    capacity: int = 1_000_000
    loops: int = 1000
    samples: int = 2000
    copied_bytes: int = 2**28


FULL = ReplaySizes()
QUICK = ReplaySizes(capacity=20_000, loops=100, samples=200, copied_bytes=2**24)


def measure(
    program: BenchmarkedProgram, sizes: ReplaySizes, repeats: int, with_peers: bool
) -> list[Row]:
    """Returns the rows of the replay suite."""
    agent = program.make_agent(replay_capacity=sizes.capacity, min_replay_size=1)
    limit = _copying_loops(agent, sizes, repeats)
    rows = [_bytes_per_raw_byte(agent, CARTPOLE, sizes, "_52")[0]]
    row, memory, keys = _bytes_per_raw_byte(agent, HUMANOID, sizes, "")
    rows.append(row)
    rows += _in_process(agent, memory, keys, sizes, repeats, with_peers)
    rows.append(Row("replay/in_process_loop_limit", limit, "loops/s"))
    rows += _under_adds(agent, memory, keys, sizes, repeats)
    memory.check()
    del memory
    rows.append(
        loops_lib.through_service(
            "replay/service_loop",
            program,
            HUMANOID_NAME,
            agent.step_specs(HUMANOID),
            sizes.capacity,
            [_batch(agent, HUMANOID, _FILL)],
            sizes.loops,
            repeats,
        )
    )
    return rows


def _batch(agent: ItemAgent, spec: EnvironmentSpec, size: int) -> AddedBatch:
    """Returns random transitions and raw priorities."""
    rng = np.random.default_rng(0)
    steps = tree.map_structure(
        lambda column: rng.random((size, *column.shape), np.float32), agent.step_specs(spec)
    )
    return AddedBatch(steps, rng.uniform(0.1, 1.0, size).astype(np.float32))


def _bytes_per_raw_byte(
    agent: ItemAgent, spec: EnvironmentSpec, sizes: ReplaySizes, suffix: str
) -> tuple[Row, memory_lib.Memory, Callable[[int], np.ndarray]]:
    """Returns the row of the resident memory that filling adds, the memory, and new keys.

    The row divides by the bytes of the transitions: 628 each, with suffix "_52" cartpole's 52. The
    rest is keys, the index and two distributions (proportional, and first in, first out).
    """
    batch = _batch(agent, spec, _FILL)
    agent.make_memory(spec, seed=0).insert(np.arange(_FILL), *batch)  # what the first use loads
    before = loops_lib.resident_bytes()
    memory = agent.make_memory(spec, seed=0)
    keys = loops_lib.key_ranges(_FILL)
    loops_lib.fill(memory, sizes.capacity, keys, [batch])
    raw = sizes.capacity * memory.signature.bytes_per_step
    value = (loops_lib.resident_bytes() - before) / raw
    say(f"filled a memory with {sizes.capacity} transitions of {memory.signature.bytes_per_step} B")
    return Row(f"replay/bytes_per_raw_byte{suffix}", value, "B/B"), memory, keys


def _copying_loops(agent: ItemAgent, sizes: ReplaySizes, repeats: int) -> float:
    """Returns the limit by bytes: loops/s if a loop only copied its 306 rows.

    The speed is that of one NumPy copy of a large array, front to back, in one thread. Rows are
    read at random, so it is never reached.
    """
    source = np.ones(sizes.copied_bytes, np.uint8)
    target = np.zeros_like(source)
    copies = interleave(
        "copy", {"copies/s": lambda: rate(lambda: np.copyto(target, source), 4)}, repeats
    )
    row_bytes = memory_lib.Signature(agent.step_specs(HUMANOID)).bytes_per_step
    return copies["copies/s"] * sizes.copied_bytes / ((INSERTED + SAMPLED) * row_bytes)


def _in_process(
    agent: ItemAgent,
    memory: memory_lib.Memory,
    keys,
    sizes: ReplaySizes,
    repeats: int,
    with_peers: bool,
) -> list[Row]:
    """Returns loops a second through `Memory` in one thread, in turn with the peers' loops.

    Ours gets tensors, as from the service and the learner, and new keys as a NumPy array. The row
    "_from_arrays" gets NumPy arrays throughout, as the peers do, and converts seven of them into
    tensors in each loop.
    """
    batch = _batch(agent, HUMANOID, INSERTED)
    columns = memory.signature.flatten(batch.steps)
    priorities = _batch(agent, HUMANOID, SAMPLED).priorities

    tensors = tree.map_structure(tf.constant, batch)
    loops = {
        "ours": loops_lib.memory_loop(memory, keys, tensors, tf.constant(priorities)),
        "ours from arrays": loops_lib.memory_loop(memory, keys, batch, priorities),
    }
    if with_peers:
        exponent = agent.distributions()[0]["sample"].exponent
        filling = _batch(agent, HUMANOID, _FILL)
        others = {
            _CPPRB: peers.Cpprb(sizes.capacity, columns, exponent),
            _NUMPY: peers.NumpySumTree(sizes.capacity, columns, exponent, seed=1),
        }
        for name, peer in others.items():
            for _ in range(sizes.capacity // _FILL + 1):
                peer.insert(memory.signature.flatten(filling.steps), filling.priorities)
            loops[name] = loops_lib.peer_loop(peer, columns, batch.priorities, priorities)
    speeds = interleave(
        "replay/in_process_loop",
        {name: lambda loop=loop: rate(loop, sizes.loops) for name, loop in loops.items()},
        repeats,
    )
    name, unit = "replay/in_process_loop", "loops/s"
    value, from_arrays = speeds["ours"], speeds["ours from arrays"]
    if not with_peers:
        return [Row(name, value, unit), Row(f"{name}_from_arrays", from_arrays, unit)]
    return [
        Row(name, value, unit, _CPPRB, speeds[_CPPRB]),
        Row(f"{name}_from_arrays", from_arrays, unit, _CPPRB, speeds[_CPPRB]),
        Row(f"{name}_numpy", value, unit, _NUMPY, speeds[_NUMPY]),
    ]


def _under_adds(
    agent: ItemAgent, memory: memory_lib.Memory, keys, sizes: ReplaySizes, repeats: int
) -> list[Row]:
    """Returns the 99th percentile of the time of `Memory.sample(256)` while another thread adds.

    The adding thread runs a graph that inserts 50 transitions again and again for some 100 ms.
    Between calls it holds Python's lock for half a millisecond; shorter calls would show that
    instead of the memory's own waits. In the row "_from_python" the thread calls `Memory.insert`.
    The row "_scheduling" compares with a thread that takes square roots in NumPy, which shows the
    scheduler's part. The row "_added" has the transitions that the graph added meanwhile.
    """
    batch = _batch(agent, HUMANOID, INSERTED)

    @tf.function
    def add_many(first_key):
        for i in tf.range(_INSERTS_A_CALL):
            begin = first_key + INSERTED * tf.cast(i, tf.int64)
            memory.insert(begin + np.arange(INSERTED), *batch)

    first_keys = itertools.count(2**48, _INSERTS_A_CALL * INSERTED)  # far above the others

    def add() -> None:
        add_many(tf.constant(next(first_keys), tf.int64))

    tensors = tree.map_structure(tf.constant, batch)

    def add_from_python() -> None:
        memory.insert(keys(INSERTED), *tensors)

    roots = np.ones(100_000)

    def compute() -> None:
        np.sqrt(roots, out=roots)

    def latency() -> float:
        times = []
        for _ in range(sizes.samples):
            begin = time.perf_counter()
            memory.sample(SAMPLED)
            times.append(time.perf_counter() - begin)
        return float(np.percentile(times, 99)) * 1e6

    added = []

    def latency_under_adds() -> float:
        inserted, begin = memory.statistics().inserted, time.perf_counter()
        with _repeating(add):
            value = latency()
        inserted = memory.statistics().inserted - inserted
        added.append(inserted / (time.perf_counter() - begin))
        return value

    def latency_beside(other: Callable[[], None]) -> Callable[[], float]:
        def measure() -> float:
            with _repeating(other):
                return latency()

        return measure

    add()  # traces
    name = "replay/sample_p99_under_adds"
    medians = interleave(
        name,
        {
            "idle": latency,
            "under adds": latency_under_adds,
            "under adds from Python": latency_beside(add_from_python),
            "computing": latency_beside(compute),
        },
        repeats,
    )
    value = medians["under adds"]
    return [
        Row(name, value, "us", "idle", medians["idle"]),
        Row(
            f"{name}_from_python", medians["under adds from Python"], "us", "idle", medians["idle"]
        ),
        Row(f"{name}_scheduling", value, "us", "beside computing", medians["computing"]),
        Row(f"{name}_added", float(np.median(added[1:])), "transitions/s"),
    ]


@contextlib.contextmanager
def _repeating(function: Callable[[], None]) -> Iterator[None]:
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
