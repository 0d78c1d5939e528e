"""What the environments in `reproductions` have in common."""

import numpy as np
import pytest

from common import environments
from common.cluster.layout import imported
from common.environments.spec import EnvironmentSpec, random_action
from reproductions.aql import rover

SPECS = {
    "reproductions.reactor.catch:make": EnvironmentSpec(
        36 * 36, 3, image_shape=(36, 36, 1), is_discrete=True
    ),
    "reproductions.aql.golf:make": EnvironmentSpec(3, 2, action_choices=(3, 0)),
    "reproductions.aql.match:make_5": EnvironmentSpec(5, 5),
    "reproductions.aql.rover:make": EnvironmentSpec(8, 7, action_choices=rover.CHOICES),
    "reproductions.aql.rover:make_11": EnvironmentSpec(8, 11, is_discrete=True),
}


def episode(name, seed):
    """An episode of random actions that begins by a step; another one follows it."""
    environment, generator = imported(name)(seed=seed), np.random.default_rng(0)
    timesteps = []
    while not timesteps or not timesteps[-1].last():
        action = random_action(environment.action_spec(), generator)
        timesteps.append(environment.step(action))
        environment.observation_spec().validate(timesteps[-1].observation)
    assert timesteps[0].first() and environment.step(action).first()
    return tuple((timestep.reward, timestep.observation.tobytes()) for timestep in timesteps)


@pytest.mark.parametrize("name, spec", SPECS.items())
def test_specs_are_those_of_an_agent_and_the_seed_decides_all(name, spec):
    assert EnvironmentSpec.of(environments.make(f"python:{name}", seed=0)) == spec
    episodes = [episode(name, seed) for seed in range(8)]
    assert episodes[0] == episode(name, 0) and len(set(episodes)) > 3


@pytest.mark.parametrize(
    "name, size", [("cartpole_14", 14), ("cartpole_21", 21), ("reacher_14", 14), ("reacher_20", 20)]
)
def test_redundant_sub_actions_act_by_their_means_and_nothing_else_differs(name, size):
    tasks = {"cartpole": "control:cartpole:swingup", "reacher": "control:reacher:easy"}
    task = environments.make(tasks[name.partition("_")[0]], 5)
    redundant = environments.make(f"python:reproductions.aql.redundant:{name}", 5)
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
