"""Speed of a learner from images, with a prioritised memory in its own process.

Network and batch size are as configured; the items are of Pong, played by untrained actors. They
are drawn and get new priorities. Those of an agent that stores PNG files are decoded in the
background, `prefetch` batches ahead. All of this is timed. TensorFlow may use all cores.
`sequence_learner_suite.py` measures a learner from sequences in the same way.
"""

from collections.abc import Callable
import dataclasses

import tensorflow as tf

from common import environments
from common.agents.item_agent import ItemAgent
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram
from common.environments.spec import EnvironmentSpec
from common.learning.replay_learner import ReplayLearner
from common.replay.memory import Memory
from common.replay.schedule import Schedule
from common.values import categorical, retrace

_ENVIRONMENT = "atari:pong"
_PEER = "TensorFlow alone, one fixed batch"
_UNLIMITED = Schedule(min_size=1, samples_per_insert=None, tolerance=0.0)


@dataclasses.dataclass(frozen=True)
class ImageLearnerSizes:
    """Amount of what is measured; rates do not depend on it.

    Attributes:
      items: items in the memory.
      games: environments that they come from.
      updates: updates of each repeat.
      bfloat16: whether a learner in bfloat16 is measured, too.
      atoms: atoms of the distributions whose Retrace targets are measured, too; 0: not.
    """

    items: int = 5_000
    games: int = 32
    updates: int = 8
    bfloat16: bool = True
    atoms: int = 0


FULL = ImageLearnerSizes()
QUICK = ImageLearnerSizes(items=1_000, games=8, updates=2)


def measure(program: BenchmarkedProgram, sizes: ImageLearnerSizes, repeats: int) -> list[Row]:
    """Returns the rows of the image learner suite: updates a second, and what Retrace takes.

    The peer makes the same updates of a learner of the same precision, always on one batch that is
    decoded already, without a memory, decoding or another thread. "..._retrace" is the time of the
    targets of an update, beside that of the peer's whole update.
    """
    memory, spec = _filled_memory(program.make_agent(), sizes)
    say(f"filled a memory with {sizes.items} items of {_ENVIRONMENT}")
    candidates: dict[str, Callable[[], float]] = {}
    learners = []
    variants = {"": {}, "_bfloat16": {"precision": "bfloat16"}} if sizes.bfloat16 else {"": {}}
    for variant, fields in variants.items():
        agent = program.make_agent(**fields)
        learners.append(_replay_learner(agent, memory, spec))
        alone = _fixed_batch_step(agent, memory, spec)
        for name, step in (("memory", learners[-1].step), ("alone", alone)):
            candidates[name + variant] = _rate_of(step, sizes)
    if sizes.atoms:
        candidates["retrace"] = _rate_of(_retrace_step(agent, spec, sizes.atoms), sizes)
    name = f"learner/{program.name}_batch{agent.batch_size}"
    speeds = interleave(name, candidates, repeats)
    for learner in learners:
        learner.close()
    memory.check()
    rows = [
        Row(name + of, speeds["memory" + of], "updates/s", _PEER, speeds["alone" + of])
        for of in variants
    ]
    if sizes.atoms:
        times = 1000 / speeds["retrace"], 1000 / speeds["alone"]
        rows.append(Row(f"{name}_retrace", times[0], "ms", "TensorFlow alone, an update", times[1]))
    return rows


def _rate_of(step: Callable[[], object], sizes: ImageLearnerSizes) -> Callable[[], float]:
    return lambda: rate(step, sizes.updates)


def _filled_memory(agent: ItemAgent, sizes: ImageLearnerSizes) -> tuple[Memory, EnvironmentSpec]:
    """Returns a memory with the items of untrained actors, and the environment's spec."""
    games = environments.make_batch(_ENVIRONMENT, range(sizes.games), frames=agent.num_frames)
    spec, actors = EnvironmentSpec.of(games), range(sizes.games)
    actor = agent.make_actor(spec, actors, sizes.games, seed=0)
    memory = agent.make_memory(spec, seed=0)
    loop = agent.acting_loop(
        actor,
        games,
        lambda added: memory.insert(*agent.items(actor, actors, 0, added, 0)),
        lambda *_: None,
    )
    while memory.statistics().items < sizes.items:
        loop.step()
    games.close()
    return memory, spec


def _replay_learner(agent: ItemAgent, memory: Memory, spec: EnvironmentSpec) -> ReplayLearner:
    learner = agent.make_learner(spec, seed=0)
    prefetch = agent.prefetch if agent.decodes else 0
    return agent.replay_learner(learner, memory, spec, 0, _UNLIMITED, prefetch)


def _fixed_batch_step(agent: ItemAgent, memory: Memory, spec: EnvironmentSpec) -> Callable:
    sample = memory.sample(agent.batch_size, max_length=agent.sequence_length)
    batch = sample.batch()._replace(steps=agent.decode(sample.steps, spec))
    update = tf.function(agent.make_learner(spec, seed=0).update)
    return lambda: update(batch)[0].numpy()


def _retrace_step(agent: ItemAgent, spec: EnvironmentSpec, atoms: int) -> Callable:
    """Returns a call of distributional Retrace on random values of the size of an update."""
    shape = [agent.sequence_length - 1, agent.batch_size, spec.action_size]
    random = tf.random.Generator.from_seed(0)
    q_t = tf.nn.softmax(random.normal([*shape, atoms]))
    pi_t, mu_t = tf.nn.softmax(random.normal(shape)), tf.nn.softmax(random.normal(shape))
    a_t = random.uniform(shape[:2], maxval=spec.action_size, dtype=tf.int32)
    r_t, discount_t = random.normal(shape[:2]), tf.fill(shape[:2], 0.99)
    support = categorical.support(-10.0, 10.0, atoms)

    @tf.function
    def targets(q_t: tf.Tensor, pi_t: tf.Tensor) -> tf.Tensor:
        c_t = retrace.coefficients(pi_t, a_t, mu_t, 1.0)
        return retrace.categorical_targets(q_t, pi_t, a_t, c_t, r_t, discount_t, support)

    return lambda: targets(q_t, pi_t).numpy()
