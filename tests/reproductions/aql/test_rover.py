"""Rover: each of its seven sub-actions matters, and a driver by hand reads many beacons."""

import copy
import itertools
import math

import numpy as np
import pytest

from reproductions.aql import rover

STILL = np.array([3, 3, 1, 1, 0, 0, 0], np.int32)


def drive(observation):
    """A policy by hand: turns and tilts towards the beacon, drives, jumps, crouches and reads."""
    ahead, left, _, _, tilt, is_near, rock, bar = observation
    angle = math.degrees(math.atan2(left, ahead))
    turn = int(np.argmin(np.abs(np.array(rover.TURNS) - angle)))
    tilted = int(np.argmin(np.abs(np.array(rover.TILTS) - 30 * tilt)))
    is_aimed = abs(30 * tilt - rover.TILTS[tilted]) <= 3
    forward = 1 if is_near else 2
    return np.array([turn, tilted, 1, forward, is_near and is_aimed, rock, bar], np.int32)


def play(policy, seed=0, make=rover.make):
    """Returns the return of an episode and the last timestep."""
    environment = make(seed)
    timestep, total = environment.reset(), 0.0
    for _ in range(rover.EPISODE_STEPS):
        assert not timestep.last()
        timestep = environment.step(policy(timestep.observation))
        total += timestep.reward
    return total, timestep


def random_policy(seed):
    generator = np.random.default_rng(seed)
    return lambda _: generator.integers(rover.CHOICES).astype(np.int32)


def test_the_actions_are_the_papers_large_set():
    assert math.prod(rover.CHOICES) == 3528 == 7 * 7 * 3 * 3 * 2 * 2 * 2
    spec = rover.make(0).action_spec()
    assert (spec.shape, spec.dtype, spec.minimum) == ((7,), np.int32, 0)
    assert spec.maximum.tolist() == [6, 6, 2, 2, 1, 1, 1]
    assert len(rover.TURNS) == len(rover.TILTS) == 7


def test_a_driver_by_hand_is_far_ahead_of_chance():
    skilled = [play(drive, seed)[0] for seed in range(5)]
    chance = [play(random_policy(seed), seed)[0] for seed in range(5)]
    assert np.mean(skilled) > 20 and np.mean(chance) < 0


def test_each_of_11_actions_is_one_of_the_large_set():
    small, large = rover.make_11(2), rover.make(2)
    assert small.action_spec().num_values == 11 == len(rover.CURATED)
    assert small.reset().observation.tolist() == large.reset().observation.tolist()
    for index, action in enumerate(rover.CURATED):
        own, other = small.step(index), large.step(np.array(action, np.int32))
        assert (own.reward, own.observation.tolist()) == (other.reward, other.observation.tolist())


def test_an_episode_ends_by_its_time_limit():
    _, last = play(drive)
    assert last.last() and last.discount == 1.0


@pytest.mark.parametrize("index", range(len(rover.CHOICES)))
def test_every_sub_action_matters(index):
    """In some state each choice of it has an outcome of its own."""
    environment = rover.make(1)
    environment.reset()
    generator = np.random.default_rng(0)
    most = 0
    for _ in range(200):
        rest = generator.integers(rover.CHOICES).astype(np.int32)
        rest[5:] = environment._ahead == 1, environment._ahead == 2
        outcomes = set()
        for choice in range(rover.CHOICES[index]):
            action = rest.copy()
            action[index] = choice
            timestep = copy.deepcopy(environment).step(action)
            outcomes.add((round(timestep.reward, 6), timestep.observation.tobytes()))
        most = max(most, len(outcomes))
        timestep = environment.step(rest)
        if timestep.last():
            environment.reset()
    assert most == rover.CHOICES[index]


def test_moving_follows_the_axes():
    for drive_to, strafe in itertools.product(range(3), range(3)):
        environment = rover.make(0)
        environment.reset()
        environment._beacon = 2 + 0j
        action = STILL.copy()
        action[2:4] = strafe, drive_to
        reward = environment.step(action).reward
        # To strafe left, 0, moves the beacon to the right.
        expected = abs(2 - 0.5 * (drive_to - 1) - 0.5j * (1 - strafe))
        assert reward == pytest.approx(0.2 * (2 - expected))


@pytest.mark.parametrize("ahead", range(3))
def test_a_rock_needs_a_jump_and_a_bar_a_crouch(ahead):
    rewards = {}
    for jump, crouch in itertools.product(range(2), range(2)):
        environment = rover.make(0)
        environment.reset()
        environment._beacon, environment._ahead = 2 + 0j, ahead
        action = np.array([3, 3, 1, 2, 0, jump, crouch], np.int32)
        rewards[jump, crouch] = environment.step(action).reward
    moved = [key for key, reward in rewards.items() if reward > 0]
    assert moved == [(int(ahead == 1), int(ahead == 2))]


@pytest.mark.parametrize(
    "beacon, tilt, reward", [(0.4, 3, 1.0), (0.4, 0, -0.1), (0.6, 3, -0.1), (0.4, 6, -0.1)]
)
def test_reading_needs_reach_and_aim(beacon, tilt, reward):
    environment = rover.make(0)
    environment.reset()
    environment._beacon, environment._height = complex(beacon), 0.0
    action = STILL.copy()
    action[[1, 4]] = tilt, 1
    timestep = environment.step(action)
    assert timestep.reward == pytest.approx(reward)
    assert (abs(environment._beacon) >= 1) == (reward > 0)  # another one
