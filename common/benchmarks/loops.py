"""The loop that replay memories are measured by: ours, those of others, and through the service.

A loop asks a memory for the work of fifty actor steps and one learner step: insert 50 transitions,
sample 256, set 256 priorities. Every call comes from Python.
"""

from collections.abc import Callable, Sequence
import ctypes
import itertools
import resource
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tree

from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram, RoleProcess
from common.cluster import rpc
from common.cluster import token as token_lib
from common.cluster.topology import Topology
from common.program import layouts
from common.replay import memory as memory_lib
from common.replay.service import RemoteMemory

INSERTED, SAMPLED = 50, 256
IN_FLIGHT = 8
"""Loops under way at once to a memory in another process."""


class AddedBatch(NamedTuple):
    """Transitions to be added, a nest of [n, ...], and raw priorities [n] float32."""

    steps: Any
    priorities: np.ndarray


def key_ranges(most: int) -> Callable[[int], np.ndarray]:
    """Returns a function that gives n keys, at most `most`, that it has not given before."""
    begins = itertools.count(0, most)

    def take(n: int) -> np.ndarray:
        return next(begins) + np.arange(n)

    return take


def fill(
    memory, capacity: int, keys: Callable[[int], np.ndarray], batches: Sequence[AddedBatch]
) -> None:
    """Inserts batches, of one size, in turns, until a memory of this capacity has removed some."""
    size = len(batches[0].priorities)
    for _, batch in zip(range(capacity // size + 1), itertools.cycle(batches)):
        memory.insert(keys(size), *batch)


def resident_bytes() -> int:
    """Returns the resident memory of this process, without memory that it has freed."""
    # Else later allocations would reuse freed memory and seem to take nothing.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def memory_loop(
    memory: memory_lib.Memory, keys: Callable[[int], np.ndarray], batch: AddedBatch, priorities
) -> Callable[[], None]:
    """Returns the loop on `memory`: `batch` has INSERTED transitions, priorities are [SAMPLED]."""

    def loop() -> None:
        memory.insert(keys(INSERTED), *batch)
        sample = memory.sample(SAMPLED)
        memory.update_priorities(sample.keys, priorities)

    return loop


def peer_loop(
    peer, columns: Sequence[np.ndarray], inserted: np.ndarray, priorities: np.ndarray
) -> Callable[[], None]:
    """Returns the loop on one of `common.benchmarks.peers`."""

    def loop() -> None:
        peer.insert(columns, inserted)
        indices = peer.sample(SAMPLED)[0]
        peer.update_priorities(indices, priorities)

    return loop


def through_service(
    name: str,
    program: BenchmarkedProgram,
    environment: str,
    specs: Any,
    capacity: int,
    batches: Sequence[AddedBatch],
    loops: int,
    repeats: int,
) -> Row:
    """Returns loops a second through the replay role in another process on the loopback.

    One graph call starts IN_FLIGHT loops: inserts, samples, and priorities for the items that the
    call before has drawn, as from actors that send in the background and a learner that draws
    ahead. All samples arrive in this process.

    Args:
      name: name of the row.
      program: the program whose role is started.
      environment: the environment that the role is started for.
      specs: columns of the agent's steps in it.
      capacity: capacity of the memory.
      batches: batches that fill it; the first rows of the first one are inserted later, too.
      loops: loops of each measurement.
      repeats: measurements, whose median counts.
    """
    topology = Topology.local(layouts.DISTRIBUTED.roles, {"learner": 1, "replay": 1})
    token = token_lib.new_token()
    config = {"replay_capacity": capacity, "min_replay_size": 1}
    with RoleProcess(program, "replay", topology, token, environment, config) as role:
        client = rpc.Client(topology.address("replay"), token)
        role.wait_until_available(client)
        memory = RemoteMemory(client, specs)
        keys = key_ranges(max(len(batches[0].priorities), IN_FLIGHT * INSERTED))
        fill(memory, capacity, keys, batches)
        say("filled the replay role")
        graph = _remote_loops(
            client, memory, tree.map_structure(lambda column: column[:INSERTED], batches[0])
        )
        drawn = tf.stack([memory.sample(SAMPLED).keys for _ in range(IN_FLIGHT)])

        def run() -> None:
            nonlocal drawn
            drawn = graph(tf.constant(keys(1)[0]), drawn)

        run()
        calls = max(1, loops // IN_FLIGHT)
        with client.readable_errors():
            speed = interleave(name, {"loops/s": lambda: IN_FLIGHT * rate(run, calls)}, repeats)[
                "loops/s"
            ]
    return Row(name, speed, "loops/s")


def _remote_loops(client: rpc.Client, memory: RemoteMemory, batch: AddedBatch) -> Callable:
    """Returns a graph of IN_FLIGHT loops: (first new key, keys [IN_FLIGHT, 256]) -> keys drawn.

    In a graph a call waits for another only if it needs its reply, so the loops overlap by
    themselves.
    """
    batch = tree.map_structure(tf.constant, batch)
    columns = memory.signature.flatten(batch.steps)
    nobody, no_count = tf.zeros([], tf.int64), tf.zeros([], tf.int64)
    priorities = tf.constant(np.random.default_rng(0).uniform(0.1, 1.0, SAMPLED), tf.float32)

    @tf.function
    def loops(first_key, drawn):
        samples = []
        for i in range(IN_FLIGHT):
            new = first_key + np.arange(i * INSERTED, (i + 1) * INSERTED)
            arguments = [nobody, no_count, new, batch.priorities, *columns]
            client.call("replay_insert", arguments)
            samples.append(memory.sample(SAMPLED))
            memory.update_priorities(drawn[i], priorities)
        return tf.stack([sample.keys for sample in samples])

    return loops
