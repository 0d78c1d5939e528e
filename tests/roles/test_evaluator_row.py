import types

import numpy as np
import pytest

from common.cluster.parameters import LearnerStatus, Snapshot
from common.reporting import columns
from common.roles import evaluator as evaluator_process


@pytest.mark.parametrize(
    "environment, frames", [("atari:pong", 40_000), ("control:cartpole:swingup", 10_000)]
)
def test_a_row_of_evaluator_csv(environment, frames):
    agent = types.SimpleNamespace(name="apex", setting="dqn")
    status = LearnerStatus(
        version=3, learner_steps=70, actor_steps=10_000, wall_seconds=12.345, finished=False
    )
    row = evaluator_process._row(
        agent, environment, 5, Snapshot(status, np.zeros(1)), np.array([1.0, 3.0])
    )
    assert set(row) == set(columns.EVALUATOR)
    assert row["environment_frames"] == frames and row["actor_steps"] == 10_000
    assert (row["episode_return_mean"], row["episode_return_std"], row["episodes"]) == (2, 1, 2)
    assert (row["seed"], row["wall_seconds"], row["learner_steps"]) == (5, 12.35, 70)
