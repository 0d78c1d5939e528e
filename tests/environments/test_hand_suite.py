"""Tests of common.environments.hand_suite."""

import importlib.util
import math

import numpy as np
import pytest

from common import environments
from common.environments import hand_suite
from common.environments.hand_suite import soft_indicator
from common.environments.spec import EnvironmentSpec

installed = pytest.mark.skipif(
    importlib.util.find_spec("myosuite") is None, reason="needs the hand: make hand"
)
SIZES = {"catch": 70, "pick_up_and_orient": 77, "rotate_in_hand": 72}  # table 2
NOTHING = np.zeros(13)


@pytest.mark.parametrize(
    "error, tolerance, margin, expected",
    [
        (1.0, 1, 5, 1.0),
        (1.0001, 1, 5, 0.832),
        (5.0001, 5, 40, 0.929),
        (5.0, 0, 5, 0.05),
        (-3.0, 0, 5, 1.0),
        (2.5, 0, 5, 1 - math.tanh(2.178272 / 2) ** 2),
    ],
)
def test_the_soft_indicator_is_the_papers_which_is_not_shifted(error, tolerance, margin, expected):
    assert soft_indicator(error, tolerance, margin) == pytest.approx(expected, abs=5e-4)


@installed
@pytest.mark.parametrize("task", SIZES)
def test_hand_observations_and_actions_have_the_papers_sizes(task):
    environment = environments.make(f"hand:{task}", 0)
    assert EnvironmentSpec.of(environment) == EnvironmentSpec(SIZES[task], 13)
    assert environment.wrapped._max_steps == (1000 if task == "rotate_in_hand" else 500)
    model = environment.wrapped.model
    assert (model.nv - 6, model.nu, model.neq) == (22, 13, 9)
    assert model.body("object").mass == pytest.approx(0.05)


@installed
def test_observations_are_the_state():
    hand = hand_suite.Hand("pick_up_and_orient", 3)
    observation = hand.reset().observation
    data = hand.data
    expected = [
        *data.qpos[:22],
        *data.qvel[:22],
        *data.ctrl,
        *data.joint("object").qpos,
        *data.joint("object").qvel,
    ]
    np.testing.assert_allclose(observation[:70], expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(observation[73:]), 1, atol=1e-6)
    assert observation[72] > 0.08  # the target's height


@installed
def test_actions_move_the_targets_within_the_actuators_ranges():
    hand = hand_suite.Hand("catch", 1)
    hand.reset()
    low, high = hand.model.actuator_ctrlrange.T
    before = hand.data.ctrl.copy()
    action = np.linspace(-1, 1, 13)
    hand.step(action)
    expected = np.clip(before + 0.06 * action, low, high)
    np.testing.assert_allclose(hand.data.ctrl, expected, atol=1e-12)
    assert np.any(expected != before + 0.06 * action)
    before = hand.data.ctrl.copy()
    hand.step(np.full(13, -3.0))  # a policy's action without bounds
    np.testing.assert_allclose(hand.data.ctrl, np.maximum(before - 0.06, low), atol=1e-12)
    for _ in range(60):
        hand.step(np.ones(13))
        assert np.all(hand.data.ctrl <= high)
    assert hand.control_timestep() == pytest.approx(0.01)


@installed
@pytest.mark.parametrize("task", ["catch", "rotate_in_hand"])
def test_contact_with_the_table_ends_the_episode_without_reward(task):
    hand = hand_suite.Hand(task, 0)
    hand.reset()
    hand.data.joint("object").qpos[:3] = 0.4, 0.4, 0.045  # beside the hand, near the table
    timestep, steps = hand.step(NOTHING), 1
    while not timestep.last():
        timestep, steps = hand.step(NOTHING), steps + 1
    assert (timestep.reward, timestep.discount) == (0, 0) and steps < 50
    assert hand.step(NOTHING).first()


@installed
def test_rewards_of_catching_follow_from_heights():
    hand = hand_suite.Hand("catch", 2)
    hand.reset()
    for _ in range(20):
        timestep = hand.step(NOTHING)
        below = 100 * (hand.data.site("palm").xpos[2] - hand.data.body("object").xpos[2])
        if timestep.last():
            assert timestep.reward == 0
            return
        assert timestep.reward == pytest.approx(soft_indicator(below, 0, 5))


@installed
def test_rewards_of_picking_up_follow_from_the_pose():
    hand = hand_suite.Hand("pick_up_and_orient", 2)
    target = hand.reset().observation[70:].astype(np.float64)
    assert hand.step(NOTHING).reward < 0.5
    hand.data.joint("object").qpos[:] = target
    hand.data.joint("object").qvel[:] = 0
    assert hand.step(NOTHING).reward == pytest.approx(1.0, abs=1e-6)
    hand.data.joint("object").qpos[3:] = 0.0, 1.0, 0.0, 0.0  # upside down
    hand.data.joint("object").qpos[:3] = target[:3] + [0.0, 0.0, 0.03]
    hand.data.joint("object").qvel[:] = 0
    reward = hand.step(NOTHING).reward
    distance = 100 * np.linalg.norm(hand.data.body("object").xpos - target[:3])
    assert distance > 2 and reward == pytest.approx(0.5 * soft_indicator(distance, 1, 5), abs=1e-6)


@installed
def test_rewards_of_rotating_follow_from_both_angles():
    hand = hand_suite.Hand("rotate_in_hand", 2)
    sine, cosine = hand.reset().observation[70:]
    angle = math.atan2(sine, cosine)
    for offset, tilt in ((0.0, 0.0), (20.0, 0.0), (-20.0, 30.0), (0.0, 60.0)):
        turn = angle + math.radians(offset)
        yaw = np.array([math.cos(turn / 2), 0, 0, math.sin(turn / 2)])
        # Tilted about its own y axis, whose direction in the plane stays.
        half = math.radians(tilt) / 2
        w, z = yaw[0], yaw[3]
        quaternion = [
            w * math.cos(half),
            -z * math.sin(half),
            w * math.sin(half),
            z * math.cos(half),
        ]
        hand.data.joint("object").qpos[:] = [0.0, 0.0, 0.6, *quaternion]
        hand.data.joint("object").qvel[:] = 0
        timestep = hand.step(NOTHING)
        sine, cosine = timestep.observation[70:]
        error = abs(math.degrees(math.remainder(turn - math.atan2(sine, cosine), 2 * math.pi)))
        expected = soft_indicator(error, 5, 40) * soft_indicator(tilt, 45, 45)
        assert timestep.reward == pytest.approx(expected, abs=1e-3)


@installed
def test_the_rotations_target_moves_by_the_papers_noise():
    task, generator = hand_suite._RotateInHand(), np.random.default_rng(0)
    task.angle, task.noise = 0.0, 0.0
    noises, angles = [], []
    for _ in range(50_000):
        task.advance(generator)
        noises.append(task.noise)
        angles.append(task.angle)
    degrees = np.degrees(noises)
    increments = degrees[1:] - 0.99 * degrees[:-1]
    assert increments.std() == pytest.approx(0.025, rel=0.02)
    assert degrees.std() == pytest.approx(0.025 / math.sqrt(1 - 0.99**2), rel=0.2)
    turned = np.remainder(np.diff(angles) + np.pi, 2 * np.pi) - np.pi
    np.testing.assert_allclose(turned, noises[1:], atol=1e-9)
    assert np.abs(angles).max() <= np.pi


@installed
@pytest.mark.parametrize("task", SIZES)
def test_equal_seeds_of_the_hand_give_equal_episodes_that_start_free(task):
    first, second, other = (hand_suite.Hand(task, seed) for seed in (5, 5, 6))
    starts = []
    for _ in range(3):
        timesteps = [hand.reset() for hand in (first, second, other)]
        starts.append(timesteps[0].observation)
        np.testing.assert_array_equal(timesteps[0].observation, timesteps[1].observation)
        assert np.any(timesteps[0].observation != timesteps[2].observation)
        touched = (first.data.contact.geom == first.model.geom("object").id).any(axis=1)
        assert np.all(first.data.contact.dist[touched] >= -0.002)
        for step in range(5):
            action = np.sin(np.arange(13) + step)
            mine, theirs = first.step(action), second.step(action)
            np.testing.assert_array_equal(mine.observation, theirs.observation)
            assert not first.data.warning.number.any()
    assert np.any(starts[0] != starts[1])
