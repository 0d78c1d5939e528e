"""Speed and size of the tree that infers priorities, and of the memory around it.

A pair is an item drawn and its priority set, 256 a call, from Python. The tree is beside the sum
tree of proportional priorities in the same kind of memory. Steps are of one float, so that the
pairs are mostly their trees.
"""

from collections.abc import Callable
import dataclasses
import math
import operator

import numpy as np
import tensorflow as tf
import tree

from common.agents.sequence_agent import SequenceAgent
from common.benchmarks import loops
from common.benchmarks.loops import SAMPLED, AddedBatch
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram
from common.environments.spec import EnvironmentSpec
from common.replay.distributions import (
    UNKNOWN_PRIORITY,
    ContextualPriorityTree,
    Distribution,
    Fifo,
    Proportional,
)
from common.replay.memory import Memory

_STEP = tf.TensorSpec([], tf.float32)
_FILL = 500
"""Steps added at once to fill a memory."""


@dataclasses.dataclass(frozen=True)
class PriorityTreeSizes:
    """Amount of what is measured.

    Attributes:
      items: of the memories whose trees are measured.
      calls: of each measurement.
      frames: in the memory whose size is measured.
    """

    items: tuple[int, ...] = (1_000, 1_000_000, 10_000_000)
    calls: int = 1000
    frames: int = 40_000


FULL = PriorityTreeSizes()
QUICK = PriorityTreeSizes(items=(1_000,), calls=20, frames=2_000)


def measure(program: BenchmarkedProgram, sizes: PriorityTreeSizes, repeats: int) -> list[Row]:
    """Returns the rows of the priority tree suite."""
    agent = program.make_agent(replay_capacity=sizes.frames, min_replay_size=1)
    return [
        *(_pairs(items, sizes.calls, repeats) for items in sizes.items),
        Row("priority_tree/bytes_per_frame_byte", _bytes_per_frame_byte(agent, sizes), "B/B"),
    ]


def _pairs(items: int, calls: int, repeats: int) -> Row:
    """Returns pairs a second from a memory that is full.

    Its priorities were unknown when the items came in, and set for as many draws as it has items.
    """
    priorities = tf.random.Generator.from_seed(0).uniform([SAMPLED], 0.1, 1.0)

    def candidate(sample: Distribution) -> Callable[[], float]:
        memory = Memory(_STEP, items, {"sample": sample, "remove": Fifo()}, "remove", seed=1)
        unknown = np.full(_FILL, UNKNOWN_PRIORITY, np.float32)
        batch = AddedBatch(np.zeros(_FILL, np.float32), unknown)
        loops.fill(memory, items, loops.key_ranges(_FILL), [batch])

        def draw_and_set() -> None:
            memory.update_priorities(memory.sample(SAMPLED).keys, priorities)

        for _ in range(math.ceil(items / SAMPLED)):
            draw_and_set()
        return lambda: SAMPLED * rate(draw_and_set, calls)

    name, peer = f"priority_tree/pairs_of_{items}", "sum tree"
    candidates = {"ours": candidate(ContextualPriorityTree()), peer: candidate(Proportional(1.0))}
    say(f"filled memories of {items:,} items")
    speeds = interleave(name, candidates, repeats)
    return Row(name, speeds["ours"], "pairs/s", peer, speeds[peer])


def _bytes_per_frame_byte(agent: SequenceAgent, sizes: PriorityTreeSizes) -> float:
    """Returns the resident memory that frames of Atari add, with a sequence from each of them.

    It is divided by the bytes of the frames, 7,056 each. The rest is what else a step has, keys,
    the index, the tree and the order of removal.
    """
    spec = EnvironmentSpec(84 * 84, 18, (84, 84, 1), is_discrete=True)
    overlap = agent.sequence_length - 1
    steps = tree.map_structure(
        lambda column: np.ones((_FILL + overlap, *column.shape), column.dtype.as_numpy_dtype),
        agent.step_specs(spec),
    )
    lengths = np.full(_FILL, agent.sequence_length, np.int32)
    unknown = np.full(_FILL, UNKNOWN_PRIORITY, np.float32)

    def filled(frames: int) -> Memory:
        memory = agent.make_memory(spec, seed=0)
        for begin in range(0, frames, _FILL):
            keys = np.arange(begin + overlap * bool(begin), begin + _FILL + overlap)
            new = tree.map_structure(operator.itemgetter(slice(len(keys))), steps)
            memory.insert(keys, new, unknown, np.arange(begin, begin + _FILL), lengths)
        memory.check()
        return memory

    filled(_FILL)  # what the first use loads
    before = loops.resident_bytes()
    memory = filled(sizes.frames)
    added = loops.resident_bytes() - before
    return added / (memory.statistics().steps * spec.observation_size)
