"""Speed of actors, and of the simulators that they cannot outrun.

All environments of an actor step in lockstep in one process, with one thread for BLAS and
TensorFlow. The peers run in the same process and only take random actions. "simulator alone" is a
second batch of the same environments. "mj_step alone", in rows "..._mujoco", is MuJoCo's simulation
of their bodies: a call advances a body by a timestep of the task, without reward, observation and
reset.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import copy
import dataclasses
import functools
import itertools
import time
from typing import Any

import numpy as np

from common import environments
from common.agents.agent import Agent
from common.agents.declaration import AgentDeclaration
from common.benchmarks.report import Bench, Row, rate, say
from common.benchmarks.roles import acting_keeper, replay_role, run_context
from common.environments.mujoco_batch import MujocoBatch, mujoco
from common.environments.spec import EnvironmentSpec
from common.program import layouts
from common.remote.outbox import RemoteStore
from common.remote.parameters import ParameterClient, ParameterPuller
from common.roles.actors import Acting, make_outbox
from common.roles.keeper import ActingKeeper
from common.roles.run_context import RunContext

_NOISE = 0.3
"""Standard deviation of random continuous actions, similar to an untrained policy's actions."""
_CAPACITY = 100_000
"""Capacity of the replay, which is only added to."""
_STRUCTURED = EnvironmentSpec(8, 7, action_choices=(7, 7, 3, 3, 2, 2, 2))
_UNIFORM_SAMPLES = 500  # of AQL's section 5.2
_SIMULATOR, MUJOCO = "simulator alone", "mj_step alone"
_PER_CPU_SECOND = "steps/CPU s"


def actor(
    bench: Bench,
    environment: str = "control:humanoid:run",
    actors: int = 32,
    batch_steps: int = 100,
    turns: int = 4,
    in_worker: bool = False,
) -> Iterator[Row]:
    """Yields the speeds of an actor, "actor/humanoid_run" for control:humanoid:run.

    The actors do everything that an actor process does except for pulling parameters: simulator,
    networks, exploration, CSV rows, the replay's items and their initial priorities. The items are
    sent in the background to the replay role in another process on the loopback; a worker adds them
    to the memory of its own process. With images, one TensorFlow call computes the convolutions of
    the whole batch, and each observation is encoded as PNG for the role.

    The first row is per CPU second of this process, including the sending thread and TensorFlow's
    RPC; "..._wall" is per second of wall-clock time.

    Args:
      bench: the request.
      environment: name of the environment; a step of Atari is four frames.
      actors: environments that step as one batch.
      batch_steps: steps of the batch in a turn.
      turns: turns of each side in a repeat. They are short, so a change of load affects both sides.
      in_worker: whether the actor adds to a memory in its own process.
    """
    name = "actor/" + environment.partition(":")[2].replace(":", "_") + "_in_worker" * in_worker
    agent = bench.make_agent()
    sending = functools.partial(_sending_actors, bench.program)
    adding = _adding_actors if in_worker else sending
    with adding(agent, environment, actors) as (context, acting, step, num_items):
        frames = agent.declaration.num_frames
        steps = {"actor": step, **simulators(environment, actors, context.spec, frames)}
        speeds = bench.in_turns(
            f"{name} (steps per second of CPU time and of wall-clock time)",
            {key: _timed(steps[key], batch_steps, actors) for key in steps},
            turns,
        )
        say(f"the replay received {num_items()} items from {acting.steps} steps")
    yield speeds.row(name, _PER_CPU_SECOND, "actor", _SIMULATOR)
    yield speeds.row(f"{name}_wall", "steps/s", "actor", _SIMULATOR, part=1)
    if MUJOCO in speeds:
        yield speeds.row(f"{name}_mujoco", _PER_CPU_SECOND, "actor", MUJOCO)


def unroll_actor(
    bench: Bench, actors: int = 10, searches: int = 20, batch_steps: int = 60
) -> Iterator[Row]:
    """Yields the speed of the search for actions, and of actors that search, on one core.

    The search is measured alone, at states of random features with the 3,528 structured actions of
    AQL's section 5.2. The agent's search is compared with the exact search, each as in its policy.
    An actor is measured with everything that its process does except RPC: simulator, search,
    unrolls, the replays of its actors, and a burst to the queue for each unroll. For cartpole the
    agent evaluates each of five actions once; its peer has continuous actions and evaluates all
    candidates.

    Args:
      bench: the request.
      actors: number of states in a search, and of environments in an actor's process.
      searches: searches in each repeat.
      batch_steps: steps of all environments in a repeat.
    """
    name = "search/3528_actions"
    policies = {
        "sampled": _search(bench, actors, num_uniform_samples=_UNIFORM_SAMPLES),
        "exact search": _search(bench, actors, search="exact"),
    }
    speeds = bench.rates(name, policies, searches, actors)
    yield speeds.row(name, "states/s", "sampled", "exact search")
    for task, peer, config in (
        ("humanoid:stand", _SIMULATOR, None),
        ("cartpole:swingup", "all 500 candidates", {"num_levels": 0}),
    ):
        name, environment = f"actor/{task.replace(':', '_')}_with_search", f"control:{task}"
        with contextlib.ExitStack() as stack:
            keeper = stack.enter_context(acting_keeper(bench.make_agent(), environment, actors))
            steps = simulators(environment, actors, keeper.context.spec)
            steps["actor"] = _searching_step(keeper)
            if config:
                other = acting_keeper(bench.make_agent(**config), environment, actors)
                steps[peer] = _searching_step(stack.enter_context(other))
            measured = {key: steps[key] for key in ("actor", peer, MUJOCO)}
            speeds = bench.rates(name, measured, batch_steps, actors, time.process_time)
        yield speeds.row(name, _PER_CPU_SECOND, "actor", peer)
        yield speeds.row(f"{name}_mujoco", _PER_CPU_SECOND, "actor", MUJOCO)


def maze_actor(
    bench: Bench, settings: Sequence[str], actors: int = 8, batch_steps: int = 10, **changed: Any
) -> Iterator[Row]:
    """Yields the speed of actors in mazes, with everything that their process does except RPC.

    Engine, convolutions, LSTM, search, unrolls, their PNG files and the replays are included.

    Args:
      bench: the request.
      settings: settings of the agent: first the measured one, then its peer.
      actors: environments whose observations are one TensorFlow call.
      batch_steps: steps of all environments in a repeat.
      changed: hyperparameters to change.
    """
    name = f"actor/maze_{settings[0]}"
    with contextlib.ExitStack() as stack:
        steps = {}
        for setting in settings:
            keeper = acting_keeper(bench.make_agent(setting, **changed), "maze:goal", actors)
            steps[setting] = _searching_step(stack.enter_context(keeper))
        speeds = bench.rates(name, steps, batch_steps, actors)
    yield speeds.row(name, "steps/s", *settings)


def mj_steps(batch: MujocoBatch) -> Callable[[np.ndarray], Any]:
    """Returns a function that advances copies of a batch's bodies by a timestep.

    It takes controls [K, A] and returns the data of each copy. The copies start in the first states
    of the batch's episodes.
    """
    model = batch.simulations[0][0]
    copies = [copy.copy(data) for _, data in batch.simulations]

    def step(controls: np.ndarray) -> list[Any]:
        for data, control in zip(copies, controls):
            data.ctrl[:] = control
            mujoco.mj_step(model, data, batch.substeps)
        return copies

    return step


def simulators(
    environment: str, actors: int, spec: EnvironmentSpec, frames: int | None = None
) -> dict[str, Callable[[], object]]:
    """Returns for each peer a function that takes a step with random actions."""
    batch = environments.make_batch(environment, range(actors), frames=frames)
    batch.reset()
    actions = random_actions(actors, spec)
    steps = {_SIMULATOR: batch.step}
    if isinstance(batch, MujocoBatch):
        steps[MUJOCO] = mj_steps(batch)
    return {name: lambda step=step: step(next(actions)) for name, step in steps.items()}


def _timed(
    step: Callable[[], object], batch_steps: int, actors: int
) -> Callable[[], tuple[float, float]]:
    """Returns a function that measures steps per CPU second and per wall-clock second."""

    def steps_per_second() -> tuple[float, float]:
        begin = time.perf_counter()
        of_cpu = actors * rate(step, batch_steps, time.process_time)
        return of_cpu, actors * batch_steps / (time.perf_counter() - begin)

    return steps_per_second


def random_actions(actors: int, spec: EnvironmentSpec) -> Iterator[np.ndarray]:
    """Yields random actions [K, ...] without end, in a cycle of 64."""
    if spec.is_discrete:
        actions = np.random.default_rng(0).integers(spec.action_size, size=(64, actors))
        return itertools.cycle(actions.astype(np.int32))
    shape = 64, actors, spec.action_size
    noise = np.random.default_rng(0).standard_normal(shape, np.float32)
    return itertools.cycle(np.clip(_NOISE * noise, -1, 1))


_Actors = tuple[RunContext, Acting, Callable[[], object], Callable[[], int]]
"""A run's context, its actors, their step, and a function that counts the items in the replay."""


@contextlib.contextmanager
def _sending_actors(
    program: AgentDeclaration, agent: Agent, environment: str, actors: int
) -> Iterator[_Actors]:
    """Yields the actors of the actor role, which send to the replay role in another process."""
    with contextlib.ExitStack() as stack:
        topology, token = stack.enter_context(replay_role(program, environment, _CAPACITY))
        task = layouts.DISTRIBUTED, dataclasses.replace(topology, job="actor"), token
        context = stack.enter_context(run_context(agent, environment, *task, actors))
        no_learner = ParameterPuller(ParameterClient(context.client(topology.keeper_address)))
        acting = Acting(context, no_learner, send_batch=agent.data.send_batch)
        outbox = make_outbox(context, shard=0)
        outbox.start()
        acting.adder.incarnation = outbox.incarnation

        def step() -> None:
            if not outbox.has_credit():
                raise RuntimeError("the actor is held back: its config limits samples_per_insert")
            outbox.add(acting.step())

        def num_items() -> int:
            outbox.close(acting.adder.flush())
            client = context.client(topology.address("replay"))
            return RemoteStore(client, agent.data.wire(context.step_specs)).counters().inserted

        yield context, acting, step, num_items


@contextlib.contextmanager
def _adding_actors(agent: Agent, environment: str, actors: int) -> Iterator[_Actors]:
    """Yields the actors of a process that also learns, which add to its memory."""
    with acting_keeper(agent, environment, actors) as keeper:
        yield keeper.context, keeper.actors, keeper.actors.act, lambda: keeper.counters().inserted


def _search(bench: Bench, states: int, **config: Any) -> Callable[[], object]:
    """Returns a search at random states."""
    policy = bench.make_agent(**config).make_evaluator(_STRUCTURED, states)
    shape = (states, _STRUCTURED.observation_size)
    observation = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    return functools.partial(policy, observation, policy.initial_state(states))


def _searching_step(keeper: ActingKeeper) -> Callable[[], None]:
    """Returns a function that steps actors with their replays, and empties the learner's queue."""

    def step() -> None:
        timesteps = keeper.actors.timesteps
        while keeper.actors.timesteps == timesteps:  # no step is taken while unrolls do not fit
            keeper.actors.act()
            if items := keeper.counters().items:
                keeper.store.draw(items)

    return step
