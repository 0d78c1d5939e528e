"""Speed of learners, each with the memory that it draws from in its own process.

Networks and batch sizes are as configured. TensorFlow may use all cores. The peer makes the same
updates, always on the same items, without a memory, decoding or another thread.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import functools
import time
from typing import Any

import numpy as np
import tree

from common.agents.agent import Agent
from common.benchmarks import learner_peers
from common.benchmarks.replay_cases import random_steps
from common.benchmarks.report import Bench, Row, rate, say
from common.benchmarks.roles import played, serving_keeper, started_role
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Learner
from common.learning.updates import UpdateLoop
from common.replay.store import RateLimiter
from common.roles.keeper import ServingKeeper
from common.types import Batch

WALKER, _WALKER_NAME = EnvironmentSpec(24, 6), "control:walker:walk"
_PONG = "atari:pong"
_ANY = RateLimiter(min_size=1)
_ALONE = "TensorFlow alone, one fixed batch"


def learner(
    bench: Bench, items: int = 200_000, updates: int = 160, actor_seconds: float = 5.0
) -> Iterator[Row]:
    """Yields D4PG's updates a second for a walker: observation 24, action 6, float32.

    The memory holds random transitions, samples by p^alpha and receives new priorities; both are
    timed. A call makes the configured number of updates in the first row, and a single update in
    "..._updates_per_call_1". The peer makes the configured number on fixed batches.
    `_with_actors` explains "..._with_actors". On request, learners of other libraries are also
    compared, see `learner_peers`.

    Args:
      bench: the request.
      items: transitions in the memory; rates do not depend on it.
      updates: updates in each repeat.
      actor_seconds: time of each repeat with actors.
    """
    agent = bench.make_agent(min_replay_size=1)
    with serving_keeper(agent, _WALKER_NAME) as keeper:
        trained, memory = keeper.learner, keeper.store
        memory.insert(np.arange(items), *random_steps(agent.step_specs(WALKER), items))
        one_by_one = bench.make_agent(min_replay_size=1, updates_per_call=1)
        single = one_by_one.make_trainer(trained, memory, WALKER, 0, agent.rate_limiter())
        n, peer = agent.updates_per_call, "XLA loop on fixed batches"
        batch = memory.sample(keeper.trainer.num_samples).batch()
        fixed, calls = fixed_updates(agent, trained, batch, WALKER), max(1, updates // n)
        name = f"learner/{bench.program.name}"
        say("tracing and compiling")
        candidates = {
            "memory": lambda: n * rate(keeper.trainer.step, calls),
            "one by one": lambda: rate(single.step, n * calls),
            peer: lambda: n * rate(fixed, calls),
        }
        with learner_peers.started() if bench.peers else contextlib.nullcontext({}) as others:
            for title, measure in others.values():
                candidates[title] = functools.partial(measure, n * calls)
            speeds = bench.in_turns(name, candidates)
        alone = speeds.row(f"{name}_batch{agent.batch_size}", "updates/s", "memory", peer)
        yield alone
        for other, (title, _) in others.items():
            yield speeds.row(f"{alone.name}_{other}", "updates/s", "memory", title)
        yield speeds.row(f"{name}_updates_per_call_1", "updates/s", "one by one", peer)
        yield from _with_actors(bench, keeper, actor_seconds, alone)
        memory.check()


def item_learner(
    bench: Bench,
    items: int = 5000,
    games: int = 32,
    updates: int = 8,
    precisions: Sequence[str] = ("float32", "bfloat16"),
) -> Iterator[Row]:
    """Yields updates a second from transitions or sequences of Pong, played by untrained actors.

    Items are drawn and receive new priorities. If the agent stores PNG files, these are decoded in
    the background, `prefetch` batches ahead; the peer's batch is decoded beforehand. A worker draws
    sequences of raw frames; here the same process also applies the update, without a parameter
    server.

    Args:
      bench: the request.
      items: items in the memory; rates do not depend on it.
      games: environments that the items come from.
      updates: updates in each repeat.
      precisions: precisions of the learners, the agent's own first.
    """
    memory, spec = played(bench.make_agent(), _PONG, items, games)
    say(f"filled a memory with {items} items of {_PONG}")
    steps: dict[str, Callable[[], object]] = {}
    trainers = []
    for precision in precisions:
        fields = {"precision": precision} if precision != precisions[0] else {}
        agent = bench.make_agent(**fields)
        prefetch = agent.prefetch if agent.decodes else 0
        trained = agent.make_learner(spec, seed=0)
        trainers.append(agent.make_trainer(trained, memory, spec, 0, _ANY, prefetch))
        steps[precision] = trainers[-1].step
        batch = memory.draw(agent.batch_size).batch()
        steps[f"{precision} alone"] = fixed_updates(agent, trained, batch, spec)
    name = f"learner/{bench.program.name}_batch{agent.batch_size}"
    speeds = bench.rates(name, steps, updates)
    for trainer in trainers:
        trainer.close()
    memory.check()
    for precision in precisions:
        suffix = "" if precision == precisions[0] else f"_{precision}"
        peer = f"{precision} alone"
        yield speeds.row(f"{name}{suffix}", "updates/s", precision, peer, _ALONE)


def unroll_learner(
    bench: Bench,
    environment: str = _WALKER_NAME,
    setting: str = "",
    updates: int = 60,
    batch_size: int = 0,
    **changed: Any,
) -> Iterator[Row]:
    """Yields updates a second from a queue of unrolls, which untrained actors have played.

    A repeat refills the queue with what its updates take, a batch at once; this is timed as well.
    PNG files in the unrolls are decoded in the background, ahead of the updates, as in the
    learner's process; the peer's batch is decoded beforehand.

    Args:
      bench: the request.
      environment: name of the environment.
      setting: setting of the agent, which is then part of the row's name; "": its default.
      updates: updates in each repeat.
      batch_size: unrolls of an update; 0: the setting's number.
      changed: hyperparameters to change.
    """
    if batch_size:
        changed["batch_size"] = batch_size
    agent = bench.make_agent(setting, **changed)
    queue, spec = played(agent, environment, agent.batch_size)
    unrolls = queue.draw(agent.batch_size)
    rows = tree.map_structure(_as_added, unrolls.steps)
    with serving_keeper(agent, environment) as keeper:

        def from_queue() -> None:
            while (metrics := keeper.trainer.step()) is None:
                keeper.store.put(rows)
            keeper.store.put(rows)  # to be decoded while the next call updates
            np.asarray(tuple(metrics.values()))

        fixed = fixed_updates(agent, keeper.learner, unrolls.batch(), spec)
        say("tracing and compiling")
        title = f"{environment.partition(':')[0]}_{setting}" if setting else "unrolls"
        name = f"learner/{title}_batch{agent.batch_size}"
        speeds = bench.rates(name, {"queue": from_queue, _ALONE: fixed}, updates)
        yield speeds.row(name, "updates/s", "queue", _ALONE)


def _as_added(column: Any) -> np.ndarray:
    """Returns a drawn column as a store accepts it, with strings as objects."""
    column = np.asarray(column)
    return column.astype(object) if column.dtype.kind == "S" else column


def _with_actors(bench: Bench, keeper: ServingKeeper, seconds: float, alone: Row) -> Iterator[Row]:
    """Yields the rows of a learner with its bookkeeping, and of an actor role that runs meanwhile.

    The actor role runs all of the paper's actors on the same cores, adds to this process's memory
    as fast as it can, and pulls the parameters that the learner publishes. The learner's peer is
    the learner alone, earlier in the same run; the actors have no peer.
    """
    bookkeeping, context = keeper.bookkeeping, keeper.context

    def updated_and_acted() -> tuple[float, float]:
        inserted, updates = keeper.counters().inserted, bookkeeping.steps
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            bookkeeping.after_call(keeper.trainer.step())
        passed = time.monotonic() - begin
        inserted = keeper.counters().inserted - inserted
        return (bookkeeping.steps - updates) / passed, inserted / passed

    inserted, name = keeper.counters().inserted, f"{alone.name}_with_actors"
    run = context.topology, context.credentials.token, context.environment
    with started_role(bench.program, "actor", *run, flags={"actor_processes": 1}) as role:
        while keeper.counters().inserted == inserted:
            role.check()
            time.sleep(0.1)
        speeds = bench.in_turns(name, {"both": updated_and_acted})
        role.check()
    yield Row(name, speeds["both"][0], "updates/s", "without actors", alone.value)
    yield speeds.row(f"{name}_acting", "steps/s", "both", part=1)


def fixed_updates(
    agent: Agent, trained: Learner, batch: Batch, spec: EnvironmentSpec
) -> Callable[[], object]:
    """Returns the updates of a call, always on the same items, which are decoded beforehand.

    They also copy the target networks. Without copies, XLA would compute the targets of the fixed
    items once instead of in each update: D4PG would make 1.34 times as many updates.
    """
    if agent.decodes:
        batch = batch._replace(steps=agent.decode(batch.steps, spec))
    sizes = agent.updates_per_call, agent.batch_size
    loop = UpdateLoop(trained.update, *sizes, agent.jit_compile)
    return lambda: np.asarray(tuple(loop.learn(batch)[1].values()))
