"""Redundant sub-actions: their mean acts, and nothing else differs from the task."""

import numpy as np
import pytest

from common import environments
from common.environments.spec import EnvironmentSpec

SIZES = {"cartpole_14": 14, "cartpole_21": 21, "reacher_14": 14, "reacher_20": 20}
TASKS = {"cartpole": "control:cartpole:swingup", "reacher": "control:reacher:easy"}


def make(name, seed=5):
    return environments.make(f"python:reproductions.aql.redundant:{name}", seed)


@pytest.mark.parametrize("name, size", SIZES.items())
def test_a_run_is_that_of_the_task_with_the_means(name, size):
    task = environments.make(TASKS[name.partition("_")[0]], 5)
    redundant = make(name)
    ours, theirs = EnvironmentSpec.of(redundant), EnvironmentSpec.of(task)
    assert ours == theirs._replace(action_size=size)
    assert redundant.control_timestep() == task.control_timestep()
    generator = np.random.default_rng(0)
    # An environment's rehearsal has reset it once and taken an action of 0.
    task.reset()
    task.step(np.zeros(theirs.action_size, np.float32))
    pairs = [(redundant.reset(), task.reset())]
    for _ in range(20):
        action = generator.uniform(-1, 1, size).astype(np.float32)
        means = [part.mean() for part in np.split(action, theirs.action_size)]
        pairs.append((redundant.step(action), task.step(np.array(means, np.float32))))
    for mine, its in pairs:
        assert mine.reward == its.reward and mine.discount == its.discount
        np.testing.assert_allclose(mine.observation, its.observation, rtol=1e-6)
