"""Speed and size of the replay memory with images.

For the loop see `common.benchmarks.loops`. Transitions are those of Ape-X DQN in Pong under random
actions: two stacks of four frames, uint8 [84, 84, 4] each, action, reward and discount. The columns
of images are PNG files, as the agent encodes and keeps them, or, in rows that say "raw", the 28,224
bytes themselves. The memory holds as many as its capacity and removes the oldest.
"""

from collections.abc import Callable, Sequence
import dataclasses
import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tree

from common import environments
from common.agents.item_agent import ItemAgent
from common.benchmarks import loops as loops_lib
from common.benchmarks import peers
from common.benchmarks.loops import INSERTED, SAMPLED, AddedBatch
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram
from common.environments.spec import EnvironmentSpec
from common.replay.memory import Bytes, Memory
from common.types import StoredTransition

_ENVIRONMENT = "atari:pong"
_FILL = 500
"""Transitions added at once to fill a memory."""
_CPPRB, _RAW = "cpprb 11", "raw"


@dataclasses.dataclass(frozen=True)
class ImageReplaySizes:
    """Amount of what is measured.

    Attributes:
      capacity: transitions in the memory; raw ones take 1.1 GB, and as much again in the peer.
      loops: loops of each measurement in this process.
      service_loops: loops of each measurement through the service.
      transitions: different transitions.
      games: environments that they come from.
    """

    capacity: int = 20_000
    loops: int = 50
    service_loops: int = 200
    transitions: int = 4000
    games: int = 16


FULL = ImageReplaySizes()
QUICK = ImageReplaySizes(capacity=1000, loops=10, service_loops=16, transitions=1000, games=4)


class _Columns(NamedTuple):
    """Specs of a kind of columns, and batches of _FILL transitions that fill a memory."""

    specs: StoredTransition
    batches: Sequence[AddedBatch]


def measure(
    program: BenchmarkedProgram, sizes: ImageReplaySizes, repeats: int, with_peers: bool
) -> list[Row]:
    """Returns the rows of the image replay suite."""
    agent = program.make_agent(
        replay_capacity=sizes.capacity, min_replay_size=1, batch_size=SAMPLED
    )
    stacks, spec = _play(agent, sizes)
    png, raw = _columns(agent, stacks, spec, sizes)
    png_bytes, png_memory, png_keys = _filled(agent, png, sizes)
    raw_bytes, raw_memory, raw_keys = _filled(agent, raw, sizes)
    say(f"filled memories with {sizes.capacity} transitions, as PNG and raw")
    rows = [Row("image_replay/bytes_per_transition", png_bytes, "B", _RAW, raw_bytes)]

    inserted = tree.map_structure(lambda column: column[:INSERTED], raw.batches[0])
    priorities = _priorities(SAMPLED)

    def loop(memory, keys, columns: _Columns) -> Callable[[], None]:
        batch = tree.map_structure(lambda c: tf.constant(c[:INSERTED]), columns.batches[0])
        return loops_lib.memory_loop(memory, keys, batch, tf.constant(priorities))

    loops = {
        "PNG": loop(png_memory, png_keys, png),
        _RAW: loop(raw_memory, raw_keys, raw),
        "raw from arrays": loops_lib.memory_loop(raw_memory, raw_keys, inserted, priorities),
    }
    if with_peers:
        loops[_CPPRB] = _cpprb_loop(agent, raw, inserted, priorities, sizes)
    name = "image_replay/in_process_loop"
    speeds = interleave(
        name, {of: lambda loop=loop: rate(loop, sizes.loops) for of, loop in loops.items()}, repeats
    )
    png_memory.check()
    raw_memory.check()
    rows += [
        Row(name, speeds["PNG"], "loops/s", _RAW, speeds[_RAW]),
        _beside_cpprb(f"{name}_raw", speeds[_RAW], speeds),
        _beside_cpprb(f"{name}_raw_from_arrays", speeds["raw from arrays"], speeds),
    ]
    rows += _codec(agent, stacks, spec, png_memory, repeats)
    del loops, png_memory, raw_memory
    rows.append(
        loops_lib.through_service(
            "image_replay/service_loop",
            program,
            _ENVIRONMENT,
            png.specs,
            sizes.capacity,
            png.batches,
            sizes.service_loops,
            repeats,
        )
    )
    return rows


def _play(agent: ItemAgent, sizes: ImageReplaySizes) -> tuple[np.ndarray, EnvironmentSpec]:
    """Returns stacks of frames [T + n, K, 84, 84, 4] of K games from their beginning."""
    games = environments.make_batch(_ENVIRONMENT, range(sizes.games))
    spec = EnvironmentSpec.of(games)
    rng = np.random.default_rng(0)
    stacks = [games.reset().observation.copy()]
    for _ in range(sizes.transitions // sizes.games + agent.n_step - 1):
        actions = rng.integers(spec.action_size, size=sizes.games, dtype=np.int32)
        stacks.append(games.step(actions).observation.copy())
    return np.stack(stacks), spec


def _columns(
    agent: ItemAgent, stacks: np.ndarray, spec: EnvironmentSpec, sizes: ImageReplaySizes
) -> tuple[_Columns, _Columns]:
    """Returns the same transitions with PNG files and raw."""
    specs = agent.step_specs(spec)
    image = tf.TensorSpec(spec.image_shape, tf.uint8)
    raw_specs = StoredTransition(*(image if isinstance(one, Bytes) else one for one in specs))
    files = np.stack([agent.encode(stack) for stack in stacks])
    rng = np.random.default_rng(1)
    count = sizes.transitions
    actions = rng.integers(spec.action_size, size=count, dtype=np.int32)
    rewards = rng.integers(-1, 2, count).astype(np.float32)
    discounts = np.full(count, agent.discount**agent.n_step, np.float32)

    def columns(specs: StoredTransition, observations: np.ndarray) -> _Columns:
        before, after = (
            one.reshape(-1, *observations.shape[2:])
            for one in (observations[: -agent.n_step], observations[agent.n_step :])
        )
        steps = StoredTransition(before, actions, rewards, discounts, after)

        def batch(begin: int) -> AddedBatch:
            rows = slice(begin, begin + _FILL)
            return AddedBatch(
                tree.map_structure(lambda column: column[rows], steps), _priorities(_FILL)
            )

        return _Columns(specs, [batch(begin) for begin in range(0, count, _FILL)])

    return columns(specs, files), columns(raw_specs, stacks)


def _priorities(count: int) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.1, 1.0, count).astype(np.float32)


def _filled(
    agent: ItemAgent, columns: _Columns, sizes: ImageReplaySizes
) -> tuple[float, Memory, Callable[[int], np.ndarray]]:
    """Returns the resident bytes a transition of a full memory, the memory, and new keys."""

    def make() -> Memory:
        distributions, removal = agent.distributions()
        return Memory(columns.specs, sizes.capacity, distributions, removal, seed=1)

    row = tree.map_structure(lambda column: column[:1], columns.batches[0])
    make().insert(np.arange(1), *row)  # what the first use loads
    before = loops_lib.resident_bytes()
    memory, keys = make(), loops_lib.key_ranges(_FILL)
    loops_lib.fill(memory, sizes.capacity, keys, columns.batches)
    return (loops_lib.resident_bytes() - before) / sizes.capacity, memory, keys


def _cpprb_loop(
    agent: ItemAgent,
    raw: _Columns,
    inserted: AddedBatch,
    priorities: np.ndarray,
    sizes: ImageReplaySizes,
) -> Callable[[], None]:
    """Returns the loop on a full cpprb, without its compression."""
    exponent = agent.distributions()[0]["sample"].exponent
    peer = peers.Cpprb(sizes.capacity, list(inserted.steps), exponent)
    filling = itertools.cycle(raw.batches)
    for batch in itertools.islice(filling, sizes.capacity // _FILL + 1):
        peer.insert(list(batch.steps), batch.priorities)
    return loops_lib.peer_loop(peer, list(inserted.steps), inserted.priorities, priorities)


def _beside_cpprb(name: str, value: float, speeds: dict[str, float]) -> Row:
    peer = _CPPRB if _CPPRB in speeds else None
    return Row(name, value, "loops/s", peer, speeds.get(_CPPRB))


def _codec(
    agent: ItemAgent, stacks: np.ndarray, spec: EnvironmentSpec, memory: Memory, repeats: int
) -> list[Row]:
    """Returns images a second that the agent encodes, and those that it decodes of a sample."""
    images, sample = stacks[-1], memory.sample(SAMPLED)
    encodes, decodes = 5, 1
    speeds = interleave(
        "image_replay/codec",
        {
            "encode": lambda: len(images) * rate(lambda: agent.encode(images), encodes),
            "decode": lambda: 2 * SAMPLED * rate(lambda: agent.decode(sample.steps, spec), decodes),
        },
        repeats,
    )
    return [Row(f"image_replay/{name}", speed, "images/s") for name, speed in speeds.items()]
