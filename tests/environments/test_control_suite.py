"""Tests of common.environments.control_suite and control_tasks against the suite itself."""

import copy

import dm_env
import numpy as np
import pytest

from common import environments
from common.environments import control_suite
from common.environments.batch import BatchedEnvironment
from common.environments.control_suite import EPISODE_STEPS, TASKS
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


@pytest.mark.parametrize("speed, reward", [(-1, 0), (0, 0), (0.25, 0.25), (1, 1), (8, 1)])
def test_cheetah_walk_pays_up_to_its_speed(speed, reward):
    class Moving:
        def speed(self):
            return speed

    assert control_suite.cheetah_walk_reward(Moving()) == pytest.approx(reward)


SEEDS = (3, 2**32 - 1)


def random_actions(batch, count):
    """Actions of which some are out of bounds, as an unclipped policy's are."""
    shape = (count, batch.num_environments, *batch.action_spec().shape)
    return np.random.default_rng(1).normal(scale=0.7, size=shape).astype(np.float32)


LONG = "cartpole:swingup"


@pytest.fixture(autouse=True, scope="module")
def compiled_once():
    """Compiles equal models once, which takes longer than their steps here."""
    from dm_control.mujoco.wrapper import MjModel

    compile_model, models = MjModel.from_xml_string, {}

    def from_xml_string(xml, assets=None):
        if xml not in models:
            models[xml] = compile_model(xml, assets)
        return copy.copy(models[xml])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MjModel, "from_xml_string", from_xml_string)
        yield


def both(task, start=None):
    """Returns a batch and the suite's environments; `start` changes the start of each episode."""
    batch = environments.make_batch(f"control:{task}", SEEDS)
    suite = BatchedEnvironment([environments.make(f"control:{task}", seed) for seed in SEEDS])
    for environment in (*batch._environments, *(each.wrapped for each in suite._environments)):
        original = environment.task.initialize_episode

        def initialize(physics, original=original):
            original(physics)
            if start:
                physics.after_reset()  # for positions of bodies
                start(physics, physics.named.data, physics.named.model)

        environment.task.initialize_episode = initialize
    return batch, suite


def compare(batch, suite, steps):
    """Steps both sides, which must give the same; returns the timesteps."""
    pairs = [(batch.reset(), suite.reset())]
    pairs += [(batch.step(each), suite.step(each)) for each in random_actions(batch, steps)]
    for ours, theirs in pairs:  # at the end: what was returned earlier is never written again
        assert_equal(ours, theirs)
    return [ours for ours, _ in pairs]


def assert_equal(ours, theirs):
    for name in ("step_type", "discount", "observation"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_array_equal(mine, other)
        assert mine.dtype == other.dtype
    # The suite's sums and norms of one body are not always those of a row: a few bits of float32.
    np.testing.assert_allclose(ours.reward, theirs.reward, rtol=1e-6, atol=1e-7)
    assert ours.reward.dtype == np.float32


def test_each_task_has_an_entry_and_none_is_without_action_bounds():
    assert sorted(TASKS) == control_suite.names()
    assert not [name for name in TASKS if name.startswith("lqr:")]


@pytest.mark.parametrize("task", TASKS)
def test_each_task_is_as_in_the_suite(task):
    """One for an episode and into the next, the others for a while and from another start."""
    batch, suite = both(task)
    spec, actions = batch.observation_spec(), batch.action_spec()
    assert (spec, actions) == (suite.observation_spec(), suite.action_spec())
    if task in FIGURE_2:
        assert (*spec.shape, *actions.shape) == FIGURE_2[task]
    timesteps = compare(batch, suite, EPISODE_STEPS + 3 if task == LONG else 20)
    if task == LONG:
        assert [timestep.step_type[0] for timestep in timesteps[-5:]] == [1, 2, 0, 1, 1]
    else:
        compare(batch, suite, 3)


def positions(**values):
    def start(physics, data, model):
        for joint, value in values.items():
            data.qpos[joint] = value

    return start


def speeds(**values):
    def start(physics, data, model):
        for joint, value in values.items():
            data.qvel[joint] = value

    return start


def carried(joints, source, target):
    """Moves a body by its joints x and z, so that a site of it is at another site."""

    def start(physics, data, model):
        way = data.site_xpos[target] - data.site_xpos[source]
        for joint, element in zip(joints, (0, 2)):
            data.qpos[joint] += way[element]

    return start


def target_at(geom):
    """Moves the target, which is a geom of the world, to another geom."""

    def start(physics, data, model):
        model.geom_pos["target"] = data.geom_xpos[geom]

    return start


def tip_is_target(physics, data, model):
    model.site_pos["target"] = data.site_xpos["tip"]


def stands_and_runs(physics, data, model):
    physics.data.qpos[2] = 1.5
    physics.data.qvel[:2] = 3.0, 4.0


def ball_in_cup(physics, data, model):
    way = data.site_xpos["target"] - data.xpos["ball"]
    data.qpos[["ball_x", "ball_z"]] += way[[0, 2]]


def box_on_target(physics, data, model):
    data.qpos["box0_x"], data.qpos["box0_z"] = data.site_xpos["target", ["x", "z"]]
    data.qpos["box0_y"] = 0


REWARDED = {
    "acrobot:swingup": positions(shoulder=0.05, elbow=0.02),
    "acrobot:swingup_sparse": positions(shoulder=0.01, elbow=0.01),
    "ball_in_cup:catch": ball_in_cup,
    "cartpole:swingup_sparse": positions(slider=0, hinge_1=0),
    "cartpole:swingup": positions(slider=1, hinge_1=0.3),
    "cheetah:run": speeds(rootx=12),
    "cheetah:walk": speeds(rootx=0.4),
    "finger:spin": speeds(hinge=-20),
    "finger:turn_hard": tip_is_target,
    "fish:swim": target_at("mouth"),
    "hopper:hop": speeds(rootx=2),
    "humanoid:run": stands_and_runs,
    "manipulator:bring_ball": carried(("ball_x", "ball_z"), "ball", "target_ball"),
    "manipulator:bring_peg": carried(("peg_x", "peg_z"), "peg", "target_peg"),
    "manipulator:insert_ball": carried(("ball_x", "ball_z"), "ball", "target_ball"),
    "manipulator:insert_peg": carried(("peg_x", "peg_z"), "peg_grasp", "grasp"),
    "pendulum:swingup": positions(hinge=0.05),
    "point_mass:hard": positions(root_x=0.01, root_y=0.01),
    "quadruped:run": speeds(root=[3, 0, 0, 0, 0, 0]),
    "reacher:hard": target_at("finger"),
    "stacker:stack_2": box_on_target,
    "swimmer:swimmer15": target_at("nose"),
    "walker:run": speeds(rootx=6),
}
"""Starts from which an episode's first steps are rewarded, unlike after random actions."""


@pytest.mark.parametrize("task", REWARDED)
def test_rewards_that_random_actions_do_not_earn(task):
    timesteps = compare(*both(task, REWARDED[task]), steps=3)
    assert np.any(timesteps[1].reward > 0.05), timesteps[1].reward


def test_a_step_before_any_reset_and_a_reset_within_an_episode_begin_one(monkeypatch):
    monkeypatch.setattr(control_suite, "EPISODE_STEPS", 5)
    batch = environments.make_batch("control:cartpole:swingup", SEEDS)
    actions = np.zeros((2, 1), np.float32)
    assert np.all(batch.step(actions).step_type == dm_env.StepType.FIRST)
    batch.step(actions)
    assert np.all(batch.reset().step_type == dm_env.StepType.FIRST)
    types = [batch.step(actions).step_type[0] for _ in range(5)]
    assert types == [dm_env.StepType.MID] * 4 + [dm_env.StepType.LAST]
    with pytest.raises(ValueError, match="3 actions for 2 environments"):
        batch.step(np.zeros((3, 1), np.float32))


def test_an_unstable_simulation_is_an_error_that_names_the_environment():
    batch = environments.make_batch("control:cheetah:run", SEEDS)
    batch.reset()
    batch._batch.qvel[1, 0] = 1e12
    with pytest.raises(control_suite.control.PhysicsError, match="BADQVEL in environment 1"):
        for actions in random_actions(batch, 3):
            batch.step(actions)


def test_threads_change_nothing(monkeypatch):
    alone = environments.make_batch("control:humanoid:run", range(8))
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    together = environments.make_batch("control:humanoid:run", range(8))
    assert (alone._batch.nthread, together._batch.nthread) == (1, 2)
    assert environments.make_batch("control:cartpole:swingup", range(8))._batch.nthread == 1
    alone.reset(), together.reset()
    for actions in random_actions(alone, 5):
        assert_equal(alone.step(actions), together.step(actions))
