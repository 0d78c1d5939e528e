"""How fast and how large the replay memory is.

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

from common.agents.agent import Agent, EnvironmentSpec
from common.benchmarks import loops as loops_lib
from common.benchmarks import peers
from common.benchmarks.loops import INSERTED, SAMPLED, Batch
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import Program
from common.replay import memory as memory_lib

HUMANOID, HUMANOID_NAME = EnvironmentSpec(67, 21), "control:humanoid:run"
CARTPOLE = EnvironmentSpec(5, 1)
_FILL = 4000
"""Transitions added at once to fill a memory; they fit a message."""
_INSERTS_A_CALL = 4000
_CPPRB, _NUMPY = "cpprb 11", "NumPy sum tree"


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much is measured; rates are independent of the counts, but not of the capacity."""

    capacity: int = 1_000_000
    loops: int = 1000
    samples: int = 2000
    copied_bytes: int = 2**28


QUICK = Sizes(capacity=20_000, loops=100, samples=200, copied_bytes=2**24)


def measure(program: Program, sizes: Sizes, repeats: int, with_peers: bool) -> list[Row]:
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


def _batch(agent: Agent, spec: EnvironmentSpec, size: int) -> Batch:
    """Random transitions and raw priorities."""
    rng = np.random.default_rng(0)
    steps = tree.map_structure(
        lambda column: rng.random((size, *column.shape), np.float32), agent.step_specs(spec)
    )
    return Batch(steps, rng.uniform(0.1, 1.0, size).astype(np.float32))


def _bytes_per_raw_byte(
    agent: Agent, spec: EnvironmentSpec, sizes: Sizes, suffix: str
) -> tuple[Row, memory_lib.Memory, Callable[[int], np.ndarray]]:
    """Resident memory of the process that filling a memory adds.

    Divided by what its transitions hold: 628 bytes each, with suffix "_52" cartpole's 52. The rest
    is keys, the index, two distributions (proportional and first in, first out).
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


def _copying_loops(agent: Agent, sizes: Sizes, repeats: int) -> float:
    """The limit by bytes: loops/s if a loop were nothing but the copying of its 306 rows.

    At the speed of one NumPy copy of a large array, front to back, in one thread. Rows are read at
    random, so this is never reached.
    """
    source = np.ones(sizes.copied_bytes, np.uint8)
    target = np.zeros_like(source)
    copies = interleave(
        "copy", {"copies/s": lambda: rate(lambda: np.copyto(target, source), 4)}, repeats
    )
    row_bytes = memory_lib.Signature(agent.step_specs(HUMANOID)).bytes_per_step
    return copies["copies/s"] * sizes.copied_bytes / ((INSERTED + SAMPLED) * row_bytes)


def _in_process(
    agent: Agent, memory: memory_lib.Memory, keys, sizes: Sizes, repeats: int, with_peers: bool
) -> list[Row]:
    """Loops a second through `Memory`, one thread; peers do the same loops in turn with ours.

    Ours gets tensors, as from the service and the learner, and new keys as a NumPy array; the row
    "_from_arrays" gets NumPy arrays throughout, as the peers do, and pays for turning seven of them
    into tensors a loop.
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
    agent: Agent, memory: memory_lib.Memory, keys, sizes: Sizes, repeats: int
) -> list[Row]:
    """99th percentile of the time that `Memory.sample(256)` takes while another thread adds.

    The adding thread runs a graph that inserts 50 transitions again and again for some 100 ms. From
    call to call it holds Python's lock for half a millisecond, which calls shorter than that would
    show instead of the memory's own waits; the row "_from_python" is of a thread that calls
    `Memory.insert`. The row "_scheduling" compares with a thread that takes square roots in NumPy:
    what of it is the scheduler's. "_added" says how much was added meanwhile, by the graph.
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

    def compute(roots=np.ones(100_000)) -> None:
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
