"""Speed of the search for actions, and of actors that search, on one core.

The search is measured alone, at states of random features with the 3,528 structured actions of
AQL's section 5.2: that of the agent beside the exact one, each as its policy makes it. An actor is
measured with all that its process does except CSV rows and RPC: simulator, search, unrolls, the
replays of its actors, and a burst to the queue for each unroll. NumPy and TensorFlow have one
thread.
"""

from collections.abc import Callable
import dataclasses
import functools
import time
from typing import Any

import numpy as np

from common import environments
from common.agents.unroll_agent import UnrollAgent
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram
from common.environments.spec import EnvironmentSpec

_STRUCTURED = EnvironmentSpec(8, 7, action_choices=(7, 7, 3, 3, 2, 2, 2))
_UNIFORM_SAMPLES = 500  # of AQL's section 5.2
_HUMANOID, _CARTPOLE = "control:humanoid:stand", "control:cartpole:swingup"
_STEPS = "steps/CPU s"


@dataclasses.dataclass(frozen=True)
class UnrollActorSizes:
    """Amount of what is measured.

    Attributes:
      actors: states of a search, and environments of an actor's process.
      searches: of each repeat.
      batch_steps: steps of all environments in a repeat.
    """

    actors: int = 10
    searches: int = 20
    batch_steps: int = 60


FULL = UnrollActorSizes()
QUICK = UnrollActorSizes(actors=2, searches=2, batch_steps=35)


def measure(program: BenchmarkedProgram, sizes: UnrollActorSizes, repeats: int) -> list[Row]:
    """Returns the rows of the search, then of a humanoid's actor and of a cartpole's.

    Of the cartpole's five actions the agent evaluates each once; its peer has continuous actions
    and evaluates all candidates.
    """
    searches = interleave(
        "search/3528_actions",
        {
            "sampled": _searches(program, sizes, num_uniform_samples=_UNIFORM_SAMPLES),
            "exact": _searches(program, sizes, search="exact"),
        },
        repeats,
    )
    simulated = _make_batch(_HUMANOID, sizes)
    simulated.reset()
    action = np.zeros((sizes.actors, *simulated.action_spec().shape), np.float32)
    humanoid = interleave(
        "actor/humanoid_stand_with_search",
        {
            "actor": _actor(program, _HUMANOID, sizes),
            "simulator": _per_cpu_second(lambda: simulated.step(action), sizes),
        },
        repeats,
    )
    cartpole = interleave(
        "actor/cartpole_swingup_with_search",
        {
            "actor": _actor(program, _CARTPOLE, sizes),
            "all candidates": _actor(program, _CARTPOLE, sizes, num_levels=0),
        },
        repeats,
    )
    sampled, exact = searches["sampled"], searches["exact"]
    return [
        Row("search/3528_actions", sampled, "states/s", "exact search", exact),
        Row("search/exact_q_3528_time_over_aql", sampled / exact, "times"),
        Row(
            "actor/humanoid_stand_with_search",
            humanoid["actor"],
            _STEPS,
            "simulator alone",
            humanoid["simulator"],
        ),
        Row(
            "actor/cartpole_swingup_with_search",
            cartpole["actor"],
            _STEPS,
            "all 500 candidates",
            cartpole["all candidates"],
        ),
    ]


def _searches(
    program: BenchmarkedProgram, sizes: UnrollActorSizes, **config: Any
) -> Callable[[], float]:
    """Returns a function that measures states a second."""
    agent = program.make_agent(**config)
    policy = agent.make_evaluator(_STRUCTURED, sizes.actors)
    shape = (sizes.actors, _STRUCTURED.observation_size)
    observation = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    search = functools.partial(policy, observation, policy.initial_state(sizes.actors))
    return lambda: sizes.actors * rate(search, sizes.searches)


def _actor(
    program: BenchmarkedProgram, environment: str, sizes: UnrollActorSizes, **config: Any
) -> Callable[[], float]:
    """Returns a function that measures an actor's steps per CPU second."""
    say(f"making {sizes.actors} of {environment}")
    agent = program.make_agent(**config)
    assert isinstance(agent, UnrollAgent)
    batch = _make_batch(environment, sizes)
    spec = EnvironmentSpec.of(batch)
    actors = range(sizes.actors)
    actor = agent.make_actor(spec, actors, len(actors), seed=0)
    memory = agent.make_memory(spec, seed=0)

    def add(added) -> None:
        agent.insert(memory, actor, actors, added, incarnation=1)
        memory.queue.take(memory.queue.size())

    loop = agent.acting_loop(actor, batch, add, lambda *episode: None)
    return _per_cpu_second(loop.step, sizes)


def _per_cpu_second(step: Callable[[], object], sizes: UnrollActorSizes) -> Callable[[], float]:
    def steps_per_second() -> float:
        begin = time.process_time()
        for _ in range(sizes.batch_steps):
            step()
        return sizes.batch_steps * sizes.actors / (time.process_time() - begin)

    return steps_per_second


def _make_batch(environment: str, sizes: UnrollActorSizes):
    return environments.make_batch(environment, range(sizes.actors))
