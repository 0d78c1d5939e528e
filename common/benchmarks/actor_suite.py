"""Speed of an actor, beside the simulator that it cannot outrun.

The loop has everything that an actor's process does except to write CSV rows and pull parameters:
simulator, networks, exploration, the replay's items and their initial priorities. They are sent, in
the background, to the replay role in another process on the loopback; a worker adds them to the
memory of its own process. All environments step in lockstep in one process, with one thread for
BLAS and TensorFlow. This suite measures D4PG's actor with a humanoid, `image_actor_suite.py` that
of Ape-X DQN, `sequence_actor_suite.py` that of a worker.
"""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import functools
import itertools
import time
from typing import NamedTuple

import numpy as np

from common import environments
from common.acting.noise import GaussianNoise
from common.acting.sender import Sender
from common.agents.item_agent import ItemAgent
from common.benchmarks.report import Row, interleave, say
from common.benchmarks.roles import BenchmarkedProgram, RoleProcess
from common.cluster import rpc
from common.cluster import token as token_lib
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.environments.batch import EnvironmentBatch
from common.environments.spec import EnvironmentSpec
from common.program import layouts
from common.replay.service import RemoteMemory
from common.types import Items, Nest

_NOISE = 0.3
"""Standard deviation of random continuous actions, as an untrained policy's actions have it."""

_CAPACITY = 100_000
"""Capacity of the replay, which is only added to."""


@dataclasses.dataclass(frozen=True)
class ActorSizes:
    """Amount of what is measured.

    Attributes:
      environment: its name.
      environments: how many step as one batch.
      batch_steps: steps of the batch in a turn.
      turns: turns of each side in a repeat; short ones, so that a change of load meets both sides.
      in_worker: whether the actor adds to a memory of its own process.
    """

    environment: str = "control:humanoid:run"
    environments: int = 32
    batch_steps: int = 100
    turns: int = 4
    in_worker: bool = False


FULL = ActorSizes()
QUICK = ActorSizes(environments=4, batch_steps=50, turns=1)


class _Sink(NamedTuple):
    """A replay that an actor adds to.

    Attributes:
      add: takes what the actor's adder gave.
      finish: sends the rest and returns the number of items that the replay got.
    """

    add: Callable[[Nest], None]
    finish: Callable[[], int]


def measure(program: BenchmarkedProgram, sizes: ActorSizes, repeats: int) -> list[Row]:
    """Returns the rows of the actor suite, "actor/humanoid_run" for control:humanoid:run.

    The first divides by the CPU seconds of this process, which include the sending thread and
    TensorFlow's RPC; "..._wall" divides by those of the clock. The peer is a second batch of the
    same environments in this process, with random actions and nothing else.
    """
    name = "actor/" + sizes.environment.partition(":")[2].replace(":", "_")
    name += "_in_worker" * sizes.in_worker
    agent = program.make_agent()
    acted, simulated = _make_batch(agent, sizes), _make_batch(agent, sizes)
    spec = EnvironmentSpec.of(acted)
    actors = range(sizes.environments)
    actor = agent.make_actor(spec, actors, len(actors), seed=0)
    to_items = functools.partial(agent.items, actor, actors, 0)
    sinks = _own_memory if sizes.in_worker else _replay_role
    with sinks(program, agent, spec, sizes, to_items) as sink:
        loop = agent.acting_loop(actor, acted, sink.add, lambda *_: None)
        actions = _random_actions(sizes, spec)
        simulated.reset()
        actor_watch = _Watch(sizes, loop.step)
        simulator_watch = _Watch(sizes, lambda: simulated.step(next(actions)))
        interleave(
            f"{name} (steps per CPU second)",
            {"actor": actor_watch, "simulator": simulator_watch},
            sizes.turns * repeats,
        )
        say(f"the replay got {sink.finish()} items of {loop.steps} steps")
    peer = "simulator alone"
    return [
        Row(name, actor_watch.per_cpu_second, "steps/CPU s", peer, simulator_watch.per_cpu_second),
        Row(f"{name}_wall", actor_watch.per_second, "steps/s", peer, simulator_watch.per_second),
    ]


@contextlib.contextmanager
def _replay_role(
    program: BenchmarkedProgram,
    agent: ItemAgent,
    spec: EnvironmentSpec,
    sizes: ActorSizes,
    to_items: Callable[[Nest, int], Items],
) -> Iterator[_Sink]:
    """Yields the replay role in another process, to which a thread sends."""
    topology = Topology.local(layouts.DISTRIBUTED.roles, {"learner": 1, "replay": 1})
    token = token_lib.new_token()
    config = {"replay_capacity": _CAPACITY}
    with RoleProcess(program, "replay", topology, token, sizes.environment, config) as role:
        client = rpc.Client(topology.address("replay"), token)
        memory = RemoteMemory(client, agent.step_specs(spec))
        role.wait_until_available(client)
        sender = Sender(memory, to_items, agent.schedule(), agent.send_batch, StopRequest())
        sender.start()

        def add(added: Nest) -> None:
            if not sender.has_credit():
                raise RuntimeError("the actor is held back: its config limits samples_per_insert")
            sender.add(added)

        def finish() -> int:
            sender.close()
            return memory.statistics().inserted

        yield _Sink(add, finish)


@contextlib.contextmanager
def _own_memory(
    program: BenchmarkedProgram,
    agent: ItemAgent,
    spec: EnvironmentSpec,
    sizes: ActorSizes,
    to_items: Callable[[Nest, int], Items],
) -> Iterator[_Sink]:
    """Yields a memory of this process."""
    del program, sizes
    memory = agent.make_memory(spec, seed=0)
    yield _Sink(
        lambda added: memory.insert(*to_items(added, 0)), lambda: memory.statistics().inserted
    )


class _Watch:
    """A timer of the steps of a batch, which keeps both rates of each turn."""

    def __init__(self, sizes: ActorSizes, step):
        self._sizes = sizes
        self._step = step
        self._rates: list[tuple[float, float]] = []

    def __call__(self) -> float:
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(self._sizes.batch_steps):
            self._step()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        steps = self._sizes.batch_steps * self._sizes.environments
        self._rates.append((steps / cpu, steps / wall))
        return steps / cpu

    def _median(self, which: int) -> float:
        # Without the first: `interleave` calls once to warm up.
        return float(np.median([rates[which] for rates in self._rates[1:]]))

    @property
    def per_cpu_second(self) -> float:
        """Median environment steps per CPU second of this process."""
        return self._median(0)

    @property
    def per_second(self) -> float:
        """Median environment steps per second."""
        return self._median(1)


def _make_batch(agent: ItemAgent, sizes: ActorSizes) -> EnvironmentBatch:
    return environments.make_batch(
        sizes.environment, range(sizes.environments), frames=agent.num_frames
    )


def _random_actions(sizes: ActorSizes, spec: EnvironmentSpec) -> Iterator[np.ndarray]:
    if spec.is_discrete:
        generator = np.random.default_rng(0)
        actions = generator.integers(spec.action_size, size=(64, sizes.environments))
        return itertools.cycle(actions.astype(np.int32))
    noise = GaussianNoise(_NOISE, seed=0)
    zeros = np.zeros((sizes.environments, spec.action_size), np.float32)
    return itertools.cycle([noise(zeros)[0] for _ in range(64)])
