"""Speed of a learner with a prioritised memory in its own process.

Networks and batch size are as configured, for a walker: observation 24, action 6, float32. The
memory holds 200,000 random transitions, samples by p^alpha and gets new priorities; both are timed.
TensorFlow may use all cores.
"""

from collections.abc import Callable
import dataclasses
import time

import numpy as np
import tensorflow as tf
import tree

from common.agents.item_agent import ItemAgent
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram, RoleProcess
from common.cluster import rpc
from common.cluster import token as token_lib
from common.cluster.parameters import ParameterService
from common.cluster.topology import Topology
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner
from common.learning.replay_learner import ReplayLearner
from common.learning.update_loop import UpdateLoop
from common.networks import packing
from common.program import layouts
from common.replay import memory as memory_lib
from common.replay.service import ReplayService
from common.types import Batch

WALKER, WALKER_NAME = EnvironmentSpec(24, 6), "control:walker:walk"
_PEER = "XLA loop on one fixed batch"


@dataclasses.dataclass(frozen=True)
class LearnerSizes:
    """Amount of what is measured; rates do not depend on it.

    Attributes:
      items: transitions in the memory.
      updates: updates of each repeat.
      actor_seconds: time of each repeat with actors; 0 leaves those rows out.
    """

    items: int = 200_000
    updates: int = 160
    actor_seconds: float = 5.0


FULL = LearnerSizes()
QUICK = LearnerSizes(items=20_000, updates=32, actor_seconds=1.0)


def measure(program: BenchmarkedProgram, sizes: LearnerSizes, repeats: int) -> list[Row]:
    """Returns the rows of the learner suite."""
    agent = program.make_agent(min_replay_size=1)
    learner = agent.make_learner(WALKER, seed=0)
    memory = agent.make_memory(WALKER, seed=0)
    _fill(agent, memory, sizes.items)
    rows, together = _alone(agent, learner, memory, sizes, repeats)
    if sizes.actor_seconds:
        rows += _with_actors(program, agent, learner, memory, together, sizes, repeats, rows[0])
    memory.check()
    return rows


def _fill(agent: ItemAgent, memory: memory_lib.Memory, items: int) -> None:
    rng = np.random.default_rng(0)
    steps = tree.map_structure(
        lambda column: rng.random((items, *column.shape), np.float32), agent.step_specs(WALKER)
    )
    memory.insert(np.arange(items), steps, rng.uniform(0.1, 1.0, items).astype(np.float32))


def _alone(
    agent: ItemAgent, learner: Learner, memory: memory_lib.Memory, sizes: LearnerSizes, repeats: int
) -> tuple[list[Row], ReplayLearner]:
    """Returns updates a second with nothing beside, in calls of the configured number and of one.

    The peer makes the same updates of the same learner, the configured number of them inside one
    XLA program, always on one batch, without a memory or Python between them. The limit is the rate
    at which XLA multiplies [256, 400] by [400, 300] in a loop, over the operations of the update's
    matrix products alone.
    """
    together = _replay_learner(agent, learner, memory, agent.updates_per_call)
    single = _replay_learner(agent, learner, memory, 1)
    fixed = _fixed_batch_loop(agent, learner, memory)
    n = agent.updates_per_call
    calls = max(1, sizes.updates // n)
    say("tracing and compiling")
    speeds = interleave(
        "learner/d4pg",
        {
            "memory": lambda: n * rate(together.step, calls),
            "one by one": lambda: rate(single.step, n * calls),
            "fixed batch": lambda: n * rate(fixed, calls),
            "products": _products_per_second,
        },
        repeats,
    )
    name, unit, peer = f"learner/d4pg_batch{agent.batch_size}", "updates/s", speeds["fixed batch"]
    operations = _operations(agent, learner)
    limit = speeds["products"] * 2 * 256 * 400 * 300 / operations
    say(f"an update takes {operations / 1e6:.0f} million operations in matrix products")
    rows = [
        Row(name, speeds["memory"], unit, _PEER, peer),
        Row("learner/d4pg_updates_per_call_1", speeds["one by one"], unit, _PEER, peer),
        Row(f"{name}_limit", limit, unit),
    ]
    return rows, together


def _replay_learner(
    agent: ItemAgent, learner: Learner, memory: memory_lib.Memory, num_updates: int
) -> ReplayLearner:
    """Returns the loop of a learner's process with a memory of its own: nothing is drawn ahead."""
    loop = UpdateLoop(learner.update, num_updates, agent.batch_size, agent.jit_compile)
    return ReplayLearner(memory, loop, learner.steps, agent.schedule())


def _fixed_batch_loop(
    agent: ItemAgent, learner: Learner, memory: memory_lib.Memory
) -> Callable[[], tf.Tensor]:
    batch = memory.sample(agent.batch_size).batch()
    n = agent.updates_per_call

    @tf.function(jit_compile=agent.jit_compile)
    def run(batch: Batch) -> tf.Tensor:
        def body(i, total):
            priorities, _ = learner.update(batch)
            return i + 1, total + tf.reduce_sum(priorities)

        return tf.while_loop(
            lambda i, _: i < n, body, (tf.constant(0), tf.constant(0.0)), maximum_iterations=n
        )[1]

    return lambda: run(batch)


@tf.function(jit_compile=True)
def _products(left: tf.Tensor, right: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Multiplies `count` times; each product depends on the one before, so XLA can drop none."""

    def body(i, last):
        return i + 1, tf.matmul(left + 1e-9 * last[:, :1], right)

    return tf.while_loop(lambda i, _: i < count, body, (tf.constant(0), tf.matmul(left, right)))[1]


def _products_per_second() -> float:
    left, right, count = tf.ones([256, 400]), tf.ones([400, 300]), 1000
    return count * rate(lambda: _products(left, right, tf.constant(count)), 1)


def _operations(agent: ItemAgent, learner: Learner) -> int:
    """Counts multiplications and additions in the matrix products of one update, by its graph."""

    def spec(column: tf.TensorSpec) -> tf.TensorSpec:
        return tf.TensorSpec([agent.batch_size, *column.shape], column.dtype)

    batch = Batch(
        tree.map_structure(spec, agent.step_specs(WALKER)),
        tf.TensorSpec([agent.batch_size]),
        tf.TensorSpec([]),
    )
    graph = tf.function(learner.update).get_concrete_function(batch).graph
    operations = 0
    for op in graph.get_operations():
        if op.type == "MatMul":
            rows, inner = op.inputs[0].shape
            if op.get_attr("transpose_a"):
                rows, inner = inner, rows
            operations += 2 * rows * inner * op.outputs[0].shape[1]
    return operations


def _with_actors(
    program: BenchmarkedProgram,
    agent: ItemAgent,
    learner: Learner,
    memory: memory_lib.Memory,
    replay_learner: ReplayLearner,
    sizes: LearnerSizes,
    repeats: int,
    alone: Row,
) -> list[Row]:
    """Returns the rows of both sides at once: the learner as before, and an actor's process.

    The actor role acts in all of the paper's actors on the same cores, adds to this process's
    memory as fast as it can, and pulls the parameters that the learner publishes after each call.
    The peers are the learner alone, earlier in the same run, and nothing.
    """
    topology = Topology.local(layouts.DISTRIBUTED.roles, {"learner": 1})
    token = token_lib.new_token()
    server = rpc.Server(topology.bind_address, token)
    ReplayService(server, memory)
    variables = tuple(learner.actor_variables)
    parameters = ParameterService(server, sum(v.shape.num_elements() for v in variables))
    server.start()

    def publish() -> None:
        parameters.publish(
            packing.to_numpy(variables), int(learner.steps), actor_steps=0, wall_seconds=0.0
        )

    def step() -> None:
        replay_learner.step()
        publish()

    acted: list[float] = []

    def updates_per_second() -> float:
        inserted, updates = memory.statistics().inserted, int(learner.steps)
        begin = time.monotonic()
        while time.monotonic() - begin < sizes.actor_seconds:
            step()
        seconds = time.monotonic() - begin
        acted.append((memory.statistics().inserted - inserted) / seconds)
        return (int(learner.steps) - updates) / seconds

    publish()
    inserted = memory.statistics().inserted
    flags = {"actor_processes": 1}
    with RoleProcess(program, "actor", topology, token, WALKER_NAME, {}, flags) as role:
        while memory.statistics().inserted == inserted:
            role.check()
            time.sleep(0.1)
        name = f"{alone.name}_with_actors"
        speed = interleave(name, {"updates/s": updates_per_second}, repeats)["updates/s"]
        role.check()
    server.close()
    return [
        Row(name, speed, "updates/s", "without actors", alone.value),
        Row(f"{name}_acting", float(np.median(acted[1:])), "steps/s"),
    ]
