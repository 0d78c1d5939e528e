"""Speed of actors and learners that see mazes, with an LSTM and structured actions."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from common.benchmarks.actor_cases import searching_actor
from common.benchmarks.cases import Bench
from common.benchmarks.report import Row, say
from common.types import Batch, Nest

_MAZE = "maze:goal"
_ALONE = "updates alone, one fixed batch"


def maze_actor(
    bench: Bench, settings: Sequence[str], actors: int = 8, batch_steps: int = 10, **changed: Any
) -> Iterator[Row]:
    """Yields the speed of actors in mazes with all that their process does but CSV rows and RPC.

    Engine, convolutions, LSTM, search, unrolls, their PNG files and the replays are included.

    Args:
      bench: the request.
      settings: of the agent: the one that is measured, and its peer.
      actors: environments whose observations are one TensorFlow call.
      batch_steps: steps of all environments in a repeat.
      changed: hyperparameters.
    """
    name = f"actor/maze_{settings[0]}"
    steps = {
        one: searching_actor(bench, _MAZE, actors, **_config(bench, one, changed))[1]
        for one in settings
    }
    speeds = bench.rates(name, steps, batch_steps, actors)
    yield speeds.row(name, "steps/s", *settings)


def maze_learner(
    bench: Bench, setting: str, updates: int = 3, batch_size: int = 2, **changed: Any
) -> Iterator[Row]:
    """Yields updates a second from a queue of unrolls of a maze, whose PNG files are decoded.

    A thread draws and decodes ahead of the updates, as in the learner's process. The unrolls are
    offered to the queue by this process.

    Args:
      bench: the request.
      setting: of the agent.
      updates: of each repeat.
      batch_size: unrolls of an update, fewer than the setting has.
      changed: further hyperparameters.
    """
    config = _config(bench, setting, {"batch_size": batch_size, **changed})
    agent = bench.program.make_agent(**config)
    rows: list[Nest] = []
    acting = {**config, "replayed_unrolls": 0}
    spec, step = searching_actor(bench, _MAZE, batch_size, on_rows=rows.append, **acting)
    while not rows:
        step()
    trained = agent.make_learner(spec, seed=0)
    queue = agent.data.make_store(agent.step_specs(spec), seed=0)
    limiter = agent.rate_limiter()
    trainer = agent.make_trainer(trained, queue, spec, 0, limiter, prefetch=agent.prefetch)

    def from_queue() -> None:
        while (metrics := trainer.step()) is None:
            queue.put(rows[0])
        queue.put(rows[0])
        np.asarray(tuple(metrics.values()))

    fixed = Batch(
        agent.decode(tf.nest.map_structure(tf.convert_to_tensor, rows[0]), spec),
        tf.fill([batch_size], 1 / batch_size),
        tf.constant(float(batch_size)),
    )
    update = tf.function(trained.update, jit_compile=agent.jit_compile, autograph=False)

    def alone() -> None:
        np.asarray(tuple(update(fixed)[1].values()))

    say("tracing")
    name = f"learner/maze_{setting}_batch{batch_size}"
    speeds = bench.rates(name, {"queue": from_queue, _ALONE: alone}, updates)
    trainer.close()
    yield speeds.row(name, "updates/s", "queue", _ALONE)


def _config(bench: Bench, setting: str, changed: dict[str, Any]) -> dict[str, Any]:
    return {**vars(bench.program.settings.configuration(setting)), **changed}
