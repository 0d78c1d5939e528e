import dm_env
import numpy as np
import pytest

from common import environments
from common.environments import control_suite

# D4PG figure 2.
FIGURE_2 = [
    "acrobot:swingup", "acrobot:swingup_sparse", "cartpole:swingup", "cartpole:swingup_sparse",
    "cheetah:walk", "finger:turn_easy", "finger:turn_hard", "fish:upright", "fish:swim",
    "hopper:stand", "humanoid:stand", "humanoid:walk", "humanoid:run", "manipulator:bring_ball",
    "swimmer:swimmer6", "swimmer:swimmer15"]


def test_names_has_the_tasks_of_d4pg_figure_2():
    assert len(set(FIGURE_2)) == 16
    assert {f"control:{task}" for task in FIGURE_2} <= set(environments.names())


def test_names_has_no_task_without_action_bounds():
    assert not [name for name in environments.names() if name.startswith("control:lqr:")]


# Sizes: D4PG table 1; for fish upright and manipulator, whose sizes differ, the public suite.
@pytest.mark.parametrize("name, num_observations, num_actions", [
    ("acrobot:swingup", 6, 1),
    ("cartpole:swingup", 5, 1),
    ("cheetah:walk", 17, 6),
    ("fish:upright", 21, 5),
    ("manipulator:bring_ball", 44, 5),
    ("swimmer:swimmer15", 61, 14),
])
def test_specs_and_steps(name, num_observations, num_actions):
    environment = environments.make(f"control:{name}", seed=1)
    spec = environment.observation_spec()
    assert (spec.shape, spec.dtype) == ((num_observations,), np.float32)
    actions = environment.action_spec()
    assert (actions.shape, actions.dtype) == ((num_actions,), np.float32)
    assert np.all(actions.minimum == -1) and np.all(actions.maximum == 1)

    first = environment.reset()
    assert first.first()
    second = environment.step(np.zeros(num_actions, np.float32))
    assert second.mid() and second.discount == 1 and 0 <= second.reward <= 1
    for timestep in (first, second):
        assert timestep.observation.shape == (num_observations,)
        assert timestep.observation.dtype == np.float32
    assert first.observation is not second.observation


def test_the_observation_joins_the_entries_in_the_order_of_the_spec():
    from dm_control import suite  # Imported here: after control_suite has set MUJOCO_GL.
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


def test_the_time_limit_is_last_with_discount_1_after_1000_steps():
    environment = environments.make("control:cheetah:walk", seed=0)
    environment.reset()
    action = np.zeros(6, np.float32)
    steps = 1
    while not (timestep := environment.step(action)).last():
        steps += 1
    assert steps == 1000
    assert timestep.discount == 1
    assert environment.step(action).step_type == dm_env.StepType.FIRST


@pytest.mark.parametrize("speed, reward", [(-1, 0), (0, 0), (.25, .25), (1, 1), (8, 1)])
def test_cheetah_walk_pays_up_to_its_speed(speed, reward):
    class Moving:
        def speed(self):
            return speed
    task = control_suite.CheetahAtSpeed(control_suite.CHEETAH_WALK_SPEED, random=0)
    assert task.get_reward(Moving()) == pytest.approx(reward)
