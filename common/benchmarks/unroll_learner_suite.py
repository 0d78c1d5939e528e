"""Speed of a learner that takes its batches from a queue of unrolls.

Unrolls are those of a walker, of random numbers, and the agent is the default one. A repeat offers
the queue what its updates take; offers are timed as well. TensorFlow may use all cores.
"""

import dataclasses

import numpy as np
import tensorflow as tf
import tree

from common.agents.unroll_agent import UnrollAgent
from common.benchmarks.report import Row, interleave, rate, say
from common.benchmarks.roles import BenchmarkedProgram
from common.environments.spec import EnvironmentSpec
from common.learning.queue_learner import QueueLearner
from common.replay.unroll_queue import UnrollQueue
from common.types import Batch, Nest

_WALKER = EnvironmentSpec(24, 6)
_OFFER = 3  # unrolls, as an actor offers them


@dataclasses.dataclass(frozen=True)
class UnrollLearnerSizes:
    """Amount of what is measured.

    Attributes:
      updates: of each repeat.
    """

    updates: int = 60


FULL = UnrollLearnerSizes()
QUICK = UnrollLearnerSizes(updates=4)


def measure(program: BenchmarkedProgram, sizes: UnrollLearnerSizes, repeats: int) -> list[Row]:
    """Returns updates a second from the queue, beside those on one batch without a queue."""
    agent = program.make_agent()
    assert isinstance(agent, UnrollAgent)
    learner = agent.make_learner(_WALKER, seed=0)
    specs = agent.step_specs(_WALKER)
    queue = UnrollQueue(specs, agent.queue_capacity)
    updates = QueueLearner(queue, agent.update_loop(learner))
    offer = _random_unrolls(specs, _OFFER)
    number = 0

    def from_queue() -> None:
        nonlocal number
        while (metrics := updates.step()) is None:
            number += 1
            queue.offer(1, number, offer)
        metrics["value_loss"].numpy()

    fixed = Batch(
        tree.map_structure(tf.constant, _random_unrolls(specs, agent.batch_size)),
        tf.fill([agent.batch_size], 1 / agent.batch_size),
        tf.constant(float(agent.batch_size)),
    )
    update = tf.function(learner.update, jit_compile=agent.jit_compile)
    say("tracing and compiling")
    name = f"learner/unrolls_batch{agent.batch_size}"
    speeds = interleave(
        name,
        {
            "queue": lambda: rate(from_queue, sizes.updates),
            "fixed batch": lambda: rate(
                lambda: update(fixed)[1]["value_loss"].numpy(), sizes.updates
            ),
        },
        repeats,
    )
    return [
        Row(
            name,
            speeds["queue"],
            "updates/s",
            "TensorFlow alone, one fixed batch",
            speeds["fixed batch"],
        )
    ]


def _random_unrolls(specs: Nest, count: int) -> Nest:
    generator = np.random.default_rng(0)

    def column(spec: tf.TensorSpec) -> np.ndarray:
        shape = (count, *spec.shape)
        if spec.dtype == tf.bool:
            return np.zeros(shape, bool)
        # Also indices of values: those of the encodings' range, and rewards.
        return generator.integers(0, 2, shape).astype(np.float32)

    return tree.map_structure(column, specs)
