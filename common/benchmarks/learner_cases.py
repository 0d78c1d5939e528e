"""Speed of learners, each with the memory that it draws from in its own process.

Networks and batch sizes are as configured. TensorFlow may use all cores. The peer makes the same
updates of a learner of its own, or of the same one, always on one fixed batch, without a memory,
decoding or another thread.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import functools
import math
import time
from typing import Any

import numpy as np
import tensorflow as tf
import tree

from common import environments
from common.acting.loop import ActingLoop
from common.agents.agent import Agent
from common.benchmarks.actor_cases import MUJOCO, simulators
from common.benchmarks.cases import Bench
from common.benchmarks.replay_cases import random_steps
from common.benchmarks.report import Row, rate, say
from common.benchmarks.roles import started_role
from common.cluster import credentials, rpc
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.data.data import Adder, StoredState
from common.environments.batch import BatchedEnvironment
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner
from common.learning.trainer import Trainer
from common.learning.updates import UpdateLoop
from common.networks import packing
from common.program import layouts
from common.remote.inbox import StoreService
from common.remote.parameters import ParameterService
from common.replay.episode_wire import Episode, Episodes
from common.replay.memory import Memory
from common.replay.store import RateLimiter
from common.roles.actors import ActingBeside
from common.types import Batch, Nest
from common.values import categorical, multistep

WALKER, _WALKER_NAME = EnvironmentSpec(24, 6), "control:walker:walk"
_PONG, _CHEETAH = "atari:pong", "gym:HalfCheetah-v4"
_ANY = RateLimiter(min_size=1)
_ALONE = "TensorFlow alone, one fixed batch"


def learner(
    bench: Bench, items: int = 200_000, updates: int = 160, actor_seconds: float = 5.0
) -> Iterator[Row]:
    """Yields updates a second of D4PG, of a walker: observation 24, action 6, float32.

    The memory holds random transitions, samples by p^alpha and gets new priorities; both are timed.
    The first two rows make the configured number of updates in a call, and one. The peer makes the
    configured number inside one XLA program, without Python between them. "..._limit" is the rate
    at which XLA multiplies [256, 400] by [400, 300] in a loop, over the operations of the update's
    matrix products alone. For "..._with_actors" see `_with_actors`.

    Args:
      bench: the request.
      items: transitions in the memory; rates do not depend on it.
      updates: updates of each repeat.
      actor_seconds: time of each repeat with actors.
    """
    agent = bench.program.make_agent(min_replay_size=1)
    trained, specs = agent.make_learner(WALKER, seed=0), agent.step_specs(WALKER)
    memory = agent.data.make_store(specs, seed=0)
    memory.insert(np.arange(items), *random_steps(specs, items))
    n = agent.updates_per_call

    def from_memory(updates_per_call: int) -> Trainer:
        loop = UpdateLoop(trained.update, updates_per_call, agent.batch_size, agent.jit_compile)
        limiter = agent.rate_limiter()
        return Trainer(memory, loop, trained.steps, limiter)

    together, single, fixed = from_memory(n), from_memory(1), _fixed_loop(agent, trained, memory)
    calls, peer = max(1, updates // n), "XLA loop on one fixed batch"
    name = f"learner/{bench.program.name}"
    say("tracing and compiling")
    speeds = bench.in_turns(
        name,
        {
            "memory": lambda: n * rate(together.step, calls),
            "one by one": lambda: rate(single.step, n * calls),
            peer: lambda: n * rate(fixed, calls),
            "products": _products_per_second,
        },
    )
    operations = update_operations(agent, trained)
    say(f"an update takes {operations / 1e6:.0f} million operations in matrix products")
    limit = speeds["products"] * 2 * 256 * 400 * 300 / operations
    alone = speeds.row(f"{name}_batch{agent.batch_size}", "updates/s", "memory", peer)
    yield alone
    yield speeds.row(f"{name}_updates_per_call_1", "updates/s", "one by one", peer)
    yield Row(f"{alone.name}_limit", limit, "updates/s")
    yield from _with_actors(bench, trained, memory, together.step, actor_seconds, alone)
    memory.check()


def item_learner(
    bench: Bench,
    items: int = 5000,
    games: int = 32,
    updates: int = 8,
    precisions: Sequence[str] = ("float32", "bfloat16"),
    atoms: int = 0,
) -> Iterator[Row]:
    """Yields updates a second from transitions or sequences of Pong, played by untrained actors.

    They are drawn and get new priorities. Those of an agent that stores PNG files are decoded in
    the background, `prefetch` batches ahead; the peer's batch is decoded before. A worker draws
    sequences of raw frames; here the same process also applies the update, without a parameter
    server. "..._retrace" is the time of an update's targets, beside the peer's whole update.

    Args:
      bench: the request.
      items: items in the memory; rates do not depend on it.
      games: environments that they come from.
      updates: updates of each repeat.
      precisions: those of the learners, the agent's own first.
      atoms: atoms of the distributions whose Retrace targets are measured, too; 0: not.
    """
    memory, spec = _played_memory(bench.program.make_agent(), items, games)
    say(f"filled a memory with {items} items of {_PONG}")
    steps: dict[str, Callable[[], object]] = {}
    learners = []
    for precision in precisions:
        fields = {"precision": precision} if precision != precisions[0] else {}
        agent = bench.program.make_agent(**fields)
        prefetch = agent.prefetch if agent.decodes else 0
        trained = agent.make_learner(spec, seed=0)
        learners.append(agent.make_trainer(trained, memory, spec, 0, _ANY, prefetch))
        steps[precision] = learners[-1].step
        steps[f"{precision} alone"] = _fixed_step(agent, memory, spec)
    if atoms:
        steps["retrace"] = _retrace_step(agent, spec, atoms)
    name = f"learner/{bench.program.name}_batch{agent.batch_size}"
    speeds = bench.rates(name, steps, updates)
    for one in learners:
        one.close()
    memory.check()
    for precision in precisions:
        suffix = "" if precision == precisions[0] else f"_{precision}"
        peer = f"{precision} alone"
        yield speeds.row(f"{name}{suffix}", "updates/s", precision, peer, _ALONE)
    if atoms:
        times = 1000 / speeds["retrace"], 1000 / speeds[f"{precisions[0]} alone"]
        yield Row(f"{name}_retrace", times[0], "ms", "TensorFlow alone, an update", times[1])


def unroll_learner(bench: Bench, updates: int = 60) -> Iterator[Row]:
    """Yields updates a second from a queue of unrolls.

    Unrolls are those of a walker, of random numbers. A repeat offers the queue what its updates
    take, three unrolls at once as an actor does; offers are timed as well.

    Args:
      bench: the request.
      updates: updates of each repeat.
    """
    agent = bench.program.make_agent()
    trained, specs = agent.make_learner(WALKER, seed=0), agent.step_specs(WALKER)
    queue = agent.data.make_store(specs, seed=0)
    limiter = agent.rate_limiter()
    trainer = agent.make_trainer(trained, queue, WALKER, 0, limiter)
    unrolls = _random_unrolls(specs, 3)

    def from_queue() -> None:
        while (metrics := trainer.step()) is None:
            queue.put(unrolls)
        metrics["value_loss"].numpy()

    fixed = Batch(
        tree.map_structure(tf.constant, _random_unrolls(specs, agent.batch_size)),
        tf.fill([agent.batch_size], 1 / agent.batch_size),
        tf.constant(float(agent.batch_size)),
    )
    update = tf.function(trained.update, jit_compile=agent.jit_compile, autograph=False)
    say("tracing and compiling")
    name = f"learner/unrolls_batch{agent.batch_size}"
    steps = {"queue": from_queue, _ALONE: lambda: update(fixed)[1]["value_loss"].numpy()}
    speeds = bench.rates(name, steps, updates)
    yield speeds.row(name, "updates/s", "queue", _ALONE)


def episodes(
    bench: Bench,
    capacity: int = 2**18,
    updates: int = 512,
    updates_per_call: Sequence[int] = (16, 4, 1),
) -> Iterator[Row]:
    """Yields pairs a second of a process that acts beside its updates and refreshes its episodes.

    An update and the environment steps that it pays for are a pair: at one step an update, 1,000
    pairs a second are 1,000 updates and 1,000 steps in HalfCheetah, with the draws and sweeps that
    belong to them. The memory is full, of episodes of 1,000 steps whose actions are the untrained
    policy's. CSV rows and snapshots of a run are left out. "episodes/acting" advances the
    environment with the policy, and stores nothing.

    Args:
      bench: the request.
      capacity: steps in the memory.
      updates: updates of each repeat.
      updates_per_call: numbers of updates in a graph call; other agents have the first one.
    """
    peer = "updates in one graph, one fixed sample"
    most = {"updates_per_call": updates_per_call[0]}
    configs: dict[str, dict[str, Any]] = {
        **{f"{number}_a_call": {"updates_per_call": number} for number in updates_per_call},
        "by_rank": {**most, "sampling": "rank"},
        "naf": {**most, "agent": "naf"},
        "ddpg": {**most, "agent": "ddpg", "batch_size": 128},
        "recurrent": {**most, "recurrent": True},
        "ddpg_recurrent": {**most, "agent": "ddpg", "batch_size": 128, "recurrent": True},
    }
    for name, config in configs.items():
        pairs = _Pairs(bench, capacity, config)
        n = pairs.agent.updates_per_call
        steps = {"pairs": pairs.pair, peer: pairs.update}
        speeds = bench.rates(f"episodes/{name}", steps, max(1, updates // n), n)
        pairs.memory.check()
        yield speeds.row(f"episodes/{name}", "pairs/s", "pairs", peer)
    steps = {"acting": pairs.act, MUJOCO: simulators(_CHEETAH, 1, pairs.spec)[MUJOCO]}
    speeds = bench.rates("episodes/acting", steps, updates)
    yield speeds.row("episodes/acting", "steps/s", "acting", MUJOCO)


def update_cost(
    bench: Bench,
    costly: str,
    cheap: str,
    capacity: int = 2**16,
    length: int = 1000,
    updates: tuple[int, int] = (10, 800),
) -> Iterator[Row]:
    """Yields updates per CPU second of two settings, and the cost of one in updates of the other.

    Each setting makes its updates on one fixed sample of full episodes, as many in a call as it is
    configured to. CPU seconds, of all threads, depend less on other programs than those of the
    clock.

    Args:
      bench: the request, of an agent whose data are whole episodes.
      costly: name of a setting.
      cheap: name of another one.
      capacity: steps in the memory.
      length: steps of an episode.
      updates: of each setting in a repeat.
    """
    measures, agents = {}, []
    for setting, number in zip((costly, cheap), updates):
        config = bench.program.settings.overrides[setting]
        pairs = _Pairs(bench, capacity, config, length)
        measures[setting] = functools.partial(_updates_per_cpu_second, pairs, number)
        agents.append(pairs.agent.config.agent)
    speeds = bench.in_turns("learner/update_cost", measures)
    yield speeds.row(f"learner/{agents[0]}_updates", "updates/CPU s", costly, cheap)
    ratio = speeds[cheap] / speeds[costly]
    yield Row(f"learner/{agents[0]}_cost_over_{agents[1]}", ratio, "times")


def _fixed_loop(agent: Agent, trained: Learner, memory: Memory) -> Callable[[], tf.Tensor]:
    """Returns a call of the configured number of updates inside one XLA program."""
    batch, n = memory.sample(agent.batch_size).batch(), agent.updates_per_call

    @tf.function(jit_compile=agent.jit_compile, autograph=False)
    def run(batch: Batch) -> tf.Tensor:
        def body(i, total):
            priorities, _ = trained.update(batch)
            return i + 1, total + tf.reduce_sum(priorities)

        return tf.while_loop(
            lambda i, _: i < n, body, (tf.constant(0), tf.constant(0.0)), maximum_iterations=n
        )[1]

    return lambda: run(batch)


@tf.function(jit_compile=True, autograph=False)
def _products(left: tf.Tensor, right: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Multiplies `count` times; each product depends on the one before, so XLA can drop none."""

    def body(i, last):
        return i + 1, tf.matmul(left + 1e-9 * last[:, :1], right)

    return tf.while_loop(lambda i, _: i < count, body, (tf.constant(0), tf.matmul(left, right)))[1]


def _products_per_second() -> float:
    left, right, count = tf.ones([256, 400]), tf.ones([400, 300]), 1000
    return count * rate(lambda: _products(left, right, tf.constant(count)), 1)


def update_operations(agent: Agent, trained: Learner) -> int:
    """Counts multiplications and additions in the matrix products of one update, by its graph."""

    def spec(column: tf.TensorSpec) -> tf.TensorSpec:
        return tf.TensorSpec([agent.batch_size, *column.shape], column.dtype)

    steps = tree.map_structure(spec, agent.step_specs(WALKER))
    batch = Batch(steps, tf.TensorSpec([agent.batch_size]), tf.TensorSpec([]))
    operations = 0
    update = tf.function(trained.update, autograph=False)
    for op in update.get_concrete_function(batch).graph.get_operations():
        if op.type == "MatMul":
            rows, inner = op.inputs[0].shape
            if op.get_attr("transpose_a"):
                rows, inner = inner, rows
            operations += 2 * rows * inner * op.outputs[0].shape[1]
    return operations


def _with_actors(
    bench: Bench,
    trained: Learner,
    memory: Memory,
    update: Callable[[], object],
    seconds: float,
    alone: Row,
) -> Iterator[Row]:
    """Yields the rows of both sides at once: the learner as before, and an actor's process.

    The actor role acts in all of the paper's actors on the same cores, adds to this process's
    memory as fast as it can, and pulls the parameters that the learner publishes after each call.
    The peers are the learner alone, earlier in the same run, and nothing.
    """
    topology = Topology.local(layouts.DISTRIBUTED.roles, {"learner": 1})
    token = credentials.new_token()
    server = rpc.Server(topology.bind_address, token)
    StoreService(server, memory)
    variables = tuple(trained.actor_variables)
    parameters = ParameterService(server, sum(v.shape.num_elements() for v in variables))
    server.start()

    def publish() -> None:
        values = packing.to_numpy(variables)
        parameters.publish(values, int(trained.steps), actor_steps=0, wall_seconds=0.0)

    def updated_and_acted() -> tuple[float, float]:
        inserted, updates = memory.statistics().inserted, int(trained.steps)
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            update()
            publish()
        passed = time.monotonic() - begin
        inserted = memory.statistics().inserted - inserted
        return (int(trained.steps) - updates) / passed, inserted / passed

    publish()
    inserted, name = memory.statistics().inserted, f"{alone.name}_with_actors"
    flags = {"actor_processes": 1}
    with started_role(bench.program, "actor", topology, token, _WALKER_NAME, flags=flags) as role:
        while memory.statistics().inserted == inserted:
            role.check()
            time.sleep(0.1)
        speeds = bench.in_turns(name, {"both": updated_and_acted})
        role.check()
    server.close()
    yield Row(name, speeds["both"][0], "updates/s", "without actors", alone.value)
    yield speeds.row(f"{name}_acting", "steps/s", "both", part=1)


def _played_memory(agent: Agent, items: int, num_games: int) -> tuple[Memory, EnvironmentSpec]:
    """Returns a memory with the items of untrained actors, and the environment's spec."""
    games = environments.make_batch(_PONG, range(num_games), frames=agent.declaration.num_frames)
    spec, actors = EnvironmentSpec.of(games), range(num_games)
    policy = agent.make_actor(spec, actors, num_games, seed=0)
    specs = agent.step_specs(spec)
    memory = agent.data.make_store(specs, seed=0)
    adder = agent.data.make_adder(policy=policy, actors=actors, specs=specs, seed=0)
    loop = ActingLoop(games, policy, adder, lambda *_: None, agent.encode)
    while memory.statistics().items < items:
        for delivery in loop.step():
            memory.put(delivery.rows)
    games.close()
    return memory, spec


def _fixed_step(agent: Agent, memory: Memory, spec: EnvironmentSpec) -> Callable[[], np.ndarray]:
    batch = memory.draw(agent.batch_size).batch()
    if agent.decodes:
        batch = batch._replace(steps=agent.decode(batch.steps, spec))
    update = tf.function(agent.make_learner(spec, seed=0).update, autograph=False)
    return lambda: update(batch)[0].numpy()


def _retrace_step(agent: Agent, spec: EnvironmentSpec, atoms: int) -> Callable[[], np.ndarray]:
    """Returns a call of distributional Retrace on random values of the size of an update."""
    shape = [agent.data.sequence_length - 1, agent.batch_size, spec.action_size]
    random = tf.random.Generator.from_seed(0)
    q_t = tf.nn.softmax(random.normal([*shape, atoms]))
    pi_t, mu_t = tf.nn.softmax(random.normal(shape)), tf.nn.softmax(random.normal(shape))
    a_t = random.uniform(shape[:2], maxval=spec.action_size, dtype=tf.int32)
    r_t, discount_t = random.normal(shape[:2]), tf.fill(shape[:2], 0.99)
    support = categorical.support(-10.0, 10.0, atoms)

    @tf.function(autograph=False)
    def targets(q_t: tf.Tensor, pi_t: tf.Tensor) -> tf.Tensor:
        c_t = multistep.retrace_coefficients(pi_t, a_t, mu_t, 1.0)
        return multistep.categorical_retrace_targets(q_t, pi_t, a_t, c_t, r_t, discount_t, support)

    return lambda: targets(q_t, pi_t).numpy()


def _random_unrolls(specs: Nest, count: int) -> Nest:
    generator = np.random.default_rng(0)

    def column(spec: tf.TensorSpec) -> np.ndarray:
        shape = (count, *spec.shape)
        if spec.dtype == tf.bool:
            return np.zeros(shape, bool)
        # Also indices of values: those of the encodings' range, and rewards.
        return generator.integers(0, 2, shape).astype(np.float32)

    return tree.map_structure(column, specs)


class _Pairs:
    """A process of ReF-ER with a full memory, and its actor as `ActingBeside` takes it.

    Attributes:
      agent: the agent.
      spec: the environment's.
      memory: the agent's, of episodes whose actions are the untrained policy's.
      num_steps: steps of the environment.
      step: advances the environment by a timestep, whose episodes `insert` adds.
      act: advances it likewise; nothing is stored.
      update: makes the updates of a call, always of the same sample.
    """

    def __init__(self, bench: Bench, capacity: int, config: Mapping[str, Any], length: int = 1000):
        say("filling, tracing and compiling")
        sizes = {"replay_capacity": capacity, "min_replay_size": capacity}
        agent = self.agent = bench.program.make_agent(**{**config, **sizes})
        batch = BatchedEnvironment([environments.make(_CHEETAH, 0)])
        spec = self.spec = EnvironmentSpec.of(batch)
        self._learner = agent.make_learner(spec, 0)
        self._actor_variables = tuple(self._learner.actor_variables)  # once, as a run does
        self._policy = agent.make_actor(spec, range(1), 1, 0)
        specs = agent.step_specs(spec)
        self.memory = agent.data.make_store(specs, 0)
        self._fill(capacity, length)

        def acting(send_batch: float) -> tuple[Adder, Callable[[], object]]:
            adder = agent.data.make_adder(
                policy=self._policy, actors=range(1), specs=specs, seed=0, send_batch=send_batch
            )
            return adder, ActingLoop(batch, self._policy, adder, lambda *_: None, agent.encode).step

        self._adder, self.step = acting(math.inf)
        _, self.act = acting(0)
        limiter = agent.rate_limiter(in_turns=True)
        self._trainer = agent.make_trainer(self._learner, self.memory, spec, 0, limiter)
        self._trainer.beside = ActingBeside(
            limiter, self._trainer.num_samples, 1, self, StopRequest()
        )
        self.pair()
        loop = UpdateLoop(
            self._learner.update, agent.updates_per_call, agent.batch_size, agent.jit_compile
        )
        batch = self.memory.draw(self._trainer.num_samples, 1).batch()
        self.update: Callable[[], object] = lambda: loop.learn(batch)

    def pair(self) -> None:
        """Draws, updates and writes back, and acts beside the updates until a call is due."""
        while self._trainer.step() is None:
            self.step()
            self.insert()

    def pull(self) -> None:
        self._policy.load(packing.to_numpy(self._actor_variables))

    def insert(self) -> None:
        for delivery in self._adder.flush():
            self.memory.put(delivery.rows)

    @property
    def num_steps(self) -> int:
        return self._adder.num_steps

    def _fill(self, capacity: int, length: int) -> None:
        """Adds episodes until another one would not fit, and counts as many steps as fit."""
        rng, steps = np.random.default_rng(0), min(length, capacity)
        for _ in range(capacity // steps):
            observation = rng.normal(size=(steps + 1, self.spec.observation_size))
            observation = observation.astype(np.float32)
            action, _, extras = self._policy(observation, self._policy.initial_state(steps + 1))
            values = extras.pop("value")
            rewards = rng.normal(size=steps).astype(np.float32)
            states = StoredState(observation, action, extras)
            episode = Episode(states, rewards, values, False, np.zeros_like(rewards))
            self.memory.put(Episodes(steps, (episode,)))
        self.memory.count_steps(capacity % steps)


def _updates_per_cpu_second(pairs: _Pairs, updates: int) -> float:
    size, begin = pairs.agent.updates_per_call, time.process_time()
    calls = max(1, updates // size)
    for _ in range(calls):
        pairs.update()
    return calls * size / (time.process_time() - begin)
