"""Tests of common.environments.control_suite and control_tasks against the suite itself."""

import dm_env
import numpy as np
import pytest

from common import environments
from common.environments import control_suite
from common.environments.batch import BatchedEnvironment
from common.environments.control_suite import EPISODE_STEPS, ControlBatch
from common.environments.control_tasks import TASKS
import reproductions

# D4PG figure 2 with the sizes (observations, actions) of its table 1; those of two tasks differ
# in the public suite.
TABLE_1 = {
    "acrobot:swingup": (6, 1),
    "acrobot:swingup_sparse": (6, 1),
    "cartpole:swingup": (5, 1),
    "cartpole:swingup_sparse": (5, 1),
    "cheetah:walk": (17, 6),
    "finger:turn_easy": (12, 2),
    "finger:turn_hard": (12, 2),
    "fish:upright": (24, 5),
    "fish:swim": (24, 5),
    "hopper:stand": (15, 4),
    "humanoid:stand": (67, 21),
    "humanoid:walk": (67, 21),
    "humanoid:run": (67, 21),
    "manipulator:bring_ball": (37, 2),
    "swimmer:swimmer6": (25, 5),
    "swimmer:swimmer15": (61, 14),
}
DIFFERENT = {"fish:upright": (21, 5), "manipulator:bring_ball": (44, 5)}
FIGURE_2 = TABLE_1 | DIFFERENT


def test_names_has_the_tasks_of_d4pg_figure_2():
    assert len(FIGURE_2) == 16
    assert {f"control:{task}" for task in FIGURE_2} <= set(environments.names())
    assert {f"control:{task}" for task in FIGURE_2} == set(
        reproductions.paper("d4pg").experiment("figure 2").environments
    )


def test_names_has_no_task_without_action_bounds():
    assert not [name for name in environments.names() if name.startswith("control:lqr:")]


@pytest.mark.parametrize("task", FIGURE_2)
def test_an_episode_of_each_task(task):
    """Takes 1000 random actions; checks sizes, rewards and the time limit's discount."""
    num_observations, num_actions = FIGURE_2[task]
    environment = environments.make(f"control:{task}", seed=1)
    spec = environment.observation_spec()
    assert (spec.shape, spec.dtype) == ((num_observations,), np.float32)
    actions = environment.action_spec()
    assert (actions.shape, actions.dtype) == ((num_actions,), np.float32)
    assert np.all(actions.minimum == -1) and np.all(actions.maximum == 1)

    rng = np.random.default_rng(0)
    timesteps = [environment.reset()]
    while not timesteps[-1].last():
        timesteps.append(environment.step(rng.uniform(-1, 1, num_actions).astype(np.float32)))
    assert timesteps[0].first() and len(timesteps) == 1001
    assert all(timestep.mid() for timestep in timesteps[1:-1])
    assert all(timestep.discount == 1 for timestep in timesteps[1:])
    assert all(0 <= timestep.reward <= 1 for timestep in timesteps[1:])
    observations = np.stack([timestep.observation for timestep in timesteps])
    assert observations.shape == (1001, num_observations) and observations.dtype == np.float32
    assert np.all(np.isfinite(observations))
    assert len(np.unique(observations, axis=0)) == 1001  # each is a new array, and they differ
    assert environment.step(np.zeros(num_actions, np.float32)).step_type == dm_env.StepType.FIRST


def test_the_observation_joins_the_entries_in_the_order_of_the_spec():
    from dm_control import suite  # Only after control_suite has set MUJOCO_GL.

    task = suite.load("fish", "upright", task_kwargs={"random": 5})
    entries = task.reset().observation
    expected = np.concatenate([np.ravel(entries[key]) for key in task.observation_spec()])
    actual = environments.make("control:fish:upright", seed=5).reset().observation
    np.testing.assert_array_equal(actual, expected.astype(np.float32))


def test_the_seed_decides_the_episode():
    def start(seed):
        return environments.make("control:cartpole:swingup", seed).reset().observation

    np.testing.assert_array_equal(start(3), start(3))
    assert np.any(start(3) != start(4))


@pytest.mark.parametrize("speed, reward", [(-1, 0), (0, 0), (0.25, 0.25), (1, 1), (8, 1)])
def test_cheetah_walk_pays_up_to_its_speed(speed, reward):
    class Moving:
        def speed(self):
            return speed

    task = control_suite.CheetahAtSpeed(control_suite.CHEETAH_WALK_SPEED, random=0)
    assert task.get_reward(Moving()) == pytest.approx(reward)


SEEDS = (3, 2**32 - 1)


def random_actions(batch, count):
    """Actions of which some are out of bounds, as an unclipped policy's are."""
    shape = (count, batch.num_environments, *batch.action_spec().shape)
    return np.random.default_rng(1).normal(scale=0.7, size=shape).astype(np.float32)


@pytest.mark.parametrize("task", TASKS)
def test_each_task_is_as_in_the_suite_for_an_episode_and_into_the_next(task):
    batch = environments.make_batch(f"control:{task}", SEEDS)
    suite = BatchedEnvironment([environments.make(f"control:{task}", seed) for seed in SEEDS])
    assert isinstance(batch, ControlBatch)
    assert batch.observation_spec() == suite.observation_spec()
    assert batch.action_spec() == suite.action_spec()
    ours, theirs = [batch.reset()], [suite.reset()]
    for actions in random_actions(batch, EPISODE_STEPS + 3):
        ours.append(batch.step(actions))
        theirs.append(suite.step(actions))
    for name in ("step_type", "discount"):
        columns = [[getattr(timestep, name) for timestep in side] for side in (ours, theirs)]
        np.testing.assert_array_equal(*columns)
    # Both sides do the same arithmetic; 1e-6 is a few bits of float32.
    for name in ("reward", "observation"):
        columns = [np.stack([getattr(timestep, name) for timestep in s]) for s in (ours, theirs)]
        assert columns[0].dtype == np.float32
        np.testing.assert_allclose(*columns, rtol=1e-6, atol=1e-6)
    assert [timestep.step_type[0] for timestep in ours[-5:]] == [1, 2, 0, 1, 1]


@pytest.mark.parametrize(
    "task, state",
    [
        ("cartpole:swingup_sparse", {"slider": 0.0, "hinge_1": 0.0}),
        ("cartpole:swingup", {"slider": 1.0, "hinge_1": 0.3}),
        ("finger:turn_hard", {}),
        ("finger:spin", {"hinge": -20.0}),
        ("cheetah:run", {"rootx": 12.0}),
        ("cheetah:walk", {"rootx": 0.4}),
        ("walker:run", {"rootx": 6.0}),
        ("humanoid:run", {}),
    ],
)
def test_rewards_that_random_actions_do_not_earn(task, state):
    """Moves the bodies of both sides to where the task pays."""
    batch = environments.make_batch(f"control:{task}", SEEDS)
    suite = [environments.make(f"control:{task}", seed) for seed in SEEDS]
    batch.reset()
    bodies = batch._environments + [each.wrapped for each in suite if each.reset()]
    for body in bodies:
        with body.physics.reset_context():
            if task == "humanoid:run":
                body.physics.data.qpos[2] = 1.5
                body.physics.data.qvel[:2] = 3.0, 4.0
            for joint, value in state.items():
                is_speed = task.split(":")[0] != "cartpole"
                where = body.physics.named.data.qvel if is_speed else body.physics.named.data.qpos
                where[joint] = value
            if task == "finger:turn_hard":  # the finger's tip itself is the target
                tip = body.physics.named.data.site_xpos["tip"]
                body.physics.named.model.site_pos["target"] = tip
    actions = np.zeros((len(SEEDS), *batch.action_spec().shape), np.float32)
    rewards = batch.step(actions).reward
    expected = [environment.step(action).reward for environment, action in zip(suite, actions)]
    assert np.all(rewards > 0.05)
    np.testing.assert_allclose(rewards, expected, rtol=1e-6)


def test_timesteps_are_new_arrays_and_the_last_observation_is_seen():
    batch = environments.make_batch("control:cartpole:swingup", SEEDS)
    timesteps = [batch.reset()]
    copies = [[field.copy() for field in timesteps[0]]]
    for actions in random_actions(batch, EPISODE_STEPS + 1):
        timesteps.append(batch.step(actions))
        copies.append([field.copy() for field in timesteps[-1]])
    for timestep, copy in zip(timesteps, copies):
        for field, before in zip(timestep, copy):
            np.testing.assert_array_equal(field, before)
    before, last, first = (timestep.observation[0] for timestep in timesteps[-3:])
    # The last observation is a step away from the one before; the next one begins an episode.
    assert np.abs(last - before)[:3].max() < 0.2 < np.abs(first - last).max()
    assert [timestep.step_type[0] for timestep in timesteps[-3:]] == [1, 2, 0]
    assert timesteps[-1].reward[0] == 0 and np.all(timesteps[-2].discount == 1)


def test_a_step_before_any_reset_and_a_reset_within_an_episode_begin_one():
    batch = environments.make_batch("control:cartpole:swingup", SEEDS)
    actions = np.zeros((2, 1), np.float32)
    assert np.all(batch.step(actions).step_type == dm_env.StepType.FIRST)
    batch.step(actions)
    assert np.all(batch.reset().step_type == dm_env.StepType.FIRST)
    types = [batch.step(actions).step_type[0] for _ in range(EPISODE_STEPS)]
    assert types == [dm_env.StepType.MID] * (EPISODE_STEPS - 1) + [dm_env.StepType.LAST]


def test_a_wrong_number_of_actions_is_refused():
    batch = environments.make_batch("control:cartpole:swingup", SEEDS)
    batch.reset()
    with pytest.raises(ValueError, match="3 actions for 2 environments"):
        batch.step(np.zeros((3, 1), np.float32))


def test_an_unstable_simulation_is_an_error_that_names_the_environment():
    batch = environments.make_batch("control:cheetah:run", SEEDS)
    batch.reset()
    batch._environments[1].physics.data.qvel[0] = 1e12
    with pytest.raises(control_suite.control.PhysicsError, match="BADQVEL in environment 1"):
        for actions in random_actions(batch, 3):
            batch.step(actions)


def test_tasks_without_a_batch_of_their_own_are_stepped_by_the_suite():
    batch = environments.make_batch("control:reacher:easy", SEEDS)
    assert not isinstance(batch, ControlBatch)
    suite = BatchedEnvironment([environments.make("control:reacher:easy", seed) for seed in SEEDS])
    np.testing.assert_array_equal(batch.reset().observation, suite.reset().observation)
    for actions in random_actions(batch, 5):
        for ours, theirs in zip(batch.step(actions), suite.step(actions)):
            np.testing.assert_array_equal(ours, theirs)
