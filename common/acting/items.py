"""Transitions as the items of a replay."""

from typing import Any

import numpy as np
import tree

from common.acting.n_step import Transitions
from common.agents.agent import Actor, Agent
from common.replay import keys

Nest = Any


def as_items(
    agent: Agent,
    actor: Actor,
    transitions: Transitions,
    actors: np.ndarray,
    shard: int,
    incarnation: int,
) -> tuple[np.ndarray, Nest, np.ndarray]:
    """What is added to the replay for M transitions, each `agent.num_copies` times in a row.

    Copy j of C of what began at step t has step C * t + j in its key.

    Args:
      actor: gives the initial priorities.
      actors: [K] int, the paper's actor in each environment of the transitions' batch.
      shard: which one of the replay's they are for.
      incarnation: of the actors, as the shard handed it out.

    Returns:
      Keys [C * M] int64, replay steps [C * M, ...] and raw priorities [C * M] float32.
    """
    copies = agent.num_copies
    steps = copies * transitions.step[:, None] + np.arange(copies)
    step_keys = keys.transition_keys(
        shard, actors[transitions.environment_index][:, None], incarnation, steps
    )
    items = agent.steps(transitions), actor.initial_priorities(transitions)
    if copies > 1:
        items = tree.map_structure(lambda column: np.repeat(column, copies, axis=0), items)
    return step_keys.reshape(-1), *items
