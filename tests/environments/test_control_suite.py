import dm_env
import numpy as np
import pytest

from common import environments
from common.environments import control_suite
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
