"""Speed of the learner of Ape-X DQN, with a prioritised memory in its own process.

Network and batch size are as configured; the transitions are of Pong, played by untrained actors.
The memory holds PNG files. They are drawn and decoded in the background, `prefetch` batches ahead,
and get new priorities; all of this is timed. TensorFlow may use all cores.
"""

from collections.abc import Callable
import dataclasses

import tensorflow as tf

from common import environments
from common.agents.replay_agent import ReplayAgent
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram
from common.environments.spec import EnvironmentSpec
from common.learning.replay_learner import ReplayLearner
from common.replay.memory import Memory
from common.types import Batch

_ENVIRONMENT = "atari:pong"
_PEER = "TensorFlow alone, one fixed batch"
_PRECISIONS = ("float32", "bfloat16")


@dataclasses.dataclass(frozen=True)
class ImageLearnerSizes:
    """Amount of what is measured; rates do not depend on it.

    Attributes:
      items: transitions in the memory.
      games: environments that they come from.
      updates: updates of each repeat.
    """

    items: int = 5_000
    games: int = 32
    updates: int = 8


FULL = ImageLearnerSizes()
QUICK = ImageLearnerSizes(items=1_000, games=8, updates=2)


def measure(program: BenchmarkedProgram, sizes: ImageLearnerSizes, repeats: int) -> list[Row]:
    """Returns the rows of the image learner suite, updates a second in each precision.

    The peer makes the same updates of a learner of the same precision, always on one batch that is
    decoded already, without a memory, decoding or another thread.
    """
    memory, spec = _filled_memory(program.make_agent(), sizes)
    say(f"filled a memory with {sizes.items} transitions of {_ENVIRONMENT}")
    candidates: dict[str, Callable[[], float]] = {}
    learners = []
    for precision in _PRECISIONS:
        agent = program.make_agent(min_replay_size=1, precision=precision)
        learners.append(_replay_learner(agent, memory, spec))
        alone = _fixed_batch_step(agent, memory, spec)
        for name, step in (("memory", learners[-1].step), ("alone", alone)):
            candidates[f"{precision} {name}"] = _rate_of(step, sizes)
    speeds = interleave("learner/apex_dqn", candidates, repeats)
    for learner in learners:
        learner.close()
    name = f"learner/apex_dqn_batch{agent.batch_size}"
    return [
        Row(row, speeds[f"{of} memory"], "updates/s", _PEER, speeds[f"{of} alone"])
        for row, of in zip((name, f"{name}_bfloat16"), _PRECISIONS)
    ]


def _rate_of(step: Callable[[], object], sizes: ImageLearnerSizes) -> Callable[[], float]:
    return lambda: rate(step, sizes.updates)


def _filled_memory(agent: ReplayAgent, sizes: ImageLearnerSizes) -> tuple[Memory, EnvironmentSpec]:
    """Returns a memory with the transitions of untrained actors, and the environment's spec."""
    games = environments.make_batch(_ENVIRONMENT, range(sizes.games))
    spec, actors = EnvironmentSpec.of(games), range(sizes.games)
    actor = agent.make_actor(spec, actors, sizes.games, seed=0)
    memory = agent.make_memory(spec, seed=0)
    loop = agent.acting_loop(
        actor,
        games,
        lambda transitions: memory.insert(*agent.items(actor, actors, 0, transitions, 0)),
        lambda *_: None,
    )
    while memory.statistics().items < sizes.items:
        loop.step()
    games.close()
    return memory, spec


def _replay_learner(agent: ReplayAgent, memory: Memory, spec: EnvironmentSpec) -> ReplayLearner:
    learner = agent.make_learner(spec, seed=0)
    return agent.replay_learner(learner, memory, spec, 0, agent.schedule(), agent.prefetch)


def _fixed_batch_step(agent: ReplayAgent, memory: Memory, spec: EnvironmentSpec) -> Callable:
    sample = memory.sample(agent.batch_size)
    probabilities = tf.cast(sample.masses / sample.total_mass, tf.float32)
    steps = agent.decode(sample.steps, spec)
    batch = Batch(steps, probabilities, tf.cast(sample.count, tf.float32))
    update = tf.function(agent.make_learner(spec, seed=0).update)
    return lambda: update(batch)[0].numpy()
