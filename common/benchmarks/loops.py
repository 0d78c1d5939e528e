"""The loop that replay memories are measured by: ours, those of others, and through the service.

A loop is what fifty actor steps and one learner step ask of a memory: insert 50 transitions, sample
256, set 256 priorities. Every call comes from Python.
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
from common.benchmarks.roles import Program, RoleProcess
from common.cluster import rpc
from common.cluster import token as token_lib
from common.cluster.topology import Topology
from common.replay import memory as memory_lib
from common.replay.service import RemoteMemory

INSERTED, SAMPLED = 50, 256
IN_FLIGHT = 8
"""Loops under way at once to a memory in another process."""


class Batch(NamedTuple):
    """Transitions, a nest of [n, ...], and raw priorities [n] float32."""

    steps: Any
    priorities: np.ndarray


def key_ranges(most: int) -> Callable[[int], np.ndarray]:
    """Returns a function that gives n keys, at most `most`, that it has not given before."""
    begins = itertools.count(0, most)

    def take(n: int) -> np.ndarray:
        return next(begins) + np.arange(n)

    return take


def fill(
    memory, capacity: int, keys: Callable[[int], np.ndarray], batches: Sequence[Batch]
) -> None:
    """Inserts batches, of one size, in turns, until a memory of this capacity has removed some."""
    size = len(batches[0].priorities)
    for _, batch in zip(range(capacity // size + 1), itertools.cycle(batches)):
        memory.insert(keys(size), *batch)


def resident_bytes() -> int:
    """Returns what this process takes, by /proc/self/statm, without what it has freed."""
    # Else what comes next would go into freed memory and seem to take nothing.
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def memory_loop(
    memory: memory_lib.Memory, keys: Callable[[int], np.ndarray], batch: Batch, priorities
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
    program: Program,
    environment: str,
    specs: Any,
    capacity: int,
    batches: Sequence[Batch],
    loops: int,
    repeats: int,
) -> Row:
    """Loops a second through the replay role in another process on the loopback.

    One graph call starts IN_FLIGHT loops: inserts, samples, and the priorities of what the call
    before has drawn, as actors that send in the background and a learner that draws ahead give them
    to do. All samples arrive in this process.

    Args:
      name: of the row.
      environment: that the role is started for.
      specs: of the agent's steps in it.
      capacity: of the memory.
      batches: fill it, and begin with what is inserted later.
      loops: of each measurement.
    """
    topology = Topology.local({"replay": 1}, "replay")
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


def _remote_loops(client: rpc.Client, memory: RemoteMemory, batch: Batch) -> Callable:
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
            client.call("replay_insert", [nobody, no_count, new, batch.priorities, *columns])
            samples.append(memory.sample(SAMPLED))
            memory.update_priorities(drawn[i], priorities)
        return tf.stack([sample.keys for sample in samples])

    return loops
