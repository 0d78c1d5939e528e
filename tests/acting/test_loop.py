"""Tests of common.acting.loop, and of the evaluator's loop."""

import dm_env
from dm_env import specs
import numpy as np
import pytest

from common import environments
from common.acting import loop as loop_lib
from common.acting.loop import ActingLoop
from common.acting.policy import Policy
from common.data.transitions import NStepAdder
from common.environments.batch import BatchedEnvironment
from common.replay import columns
from common.reporting import csv_rows
from common.reporting.csv_rows import read_rows
from common.reporting.run_directory import RunDirectory
from common.roles.evaluator import environment_seeds, num_environments, run_episodes


class Ladder(dm_env.Environment):
    """Episodes of the given lengths in turn; reward `rung` a step; observes (episode, step)."""

    def __init__(self, lengths, rung=1.0):
        self._lengths = lengths
        self._rung = rung
        self._episode = -1
        self._step = 0
        self._ended = True

    def _observation(self):
        return np.array([self._episode, self._step], np.float32)

    def reset(self):
        self._episode += 1
        self._step = 0
        self._ended = False
        return dm_env.restart(self._observation())

    def step(self, action):
        if self._ended:
            return self.reset()
        self._step += 1
        if self._step == self._lengths[self._episode % len(self._lengths)]:
            self._ended = True
            return dm_env.termination(self._rung, self._observation())
        return dm_env.transition(self._rung, self._observation())

    def observation_spec(self):
        return specs.Array((2,), np.float32)

    def action_spec(self):
        return specs.BoundedArray((1,), np.float32, minimum=-1, maximum=1)


class Unlearnt(Policy):
    """A policy without parameters."""

    def load(self, flat):
        raise NotImplementedError


class CountingPolicy(Unlearnt):
    """A recurrent policy: its state counts the steps of the episode from 100, and is its action."""

    def initial_state(self, num_environments):
        return {"count": np.full((num_environments, 1), 100, np.float32)}

    def __call__(self, observation, state):
        count = state["count"]
        np.testing.assert_array_equal(count[:, 0], 100 + observation[:, 1])
        return count.copy(), {"count": count + 1}, {"count": count[:, 0].copy()}


class RewardSeeing(Unlearnt):
    """Its state and its extra are the rewards of the episode so far."""

    sees_rewards = True

    def initial_state(self, num_environments):
        return np.zeros(num_environments, np.float32)

    def with_reward(self, state, reward):
        return state + reward

    def __call__(self, observation, state):
        rungs = np.array([1, 2])[: len(observation)]
        np.testing.assert_array_equal(state, rungs * observation[:, 1])
        return np.zeros((len(observation), 1), np.float32), state, {"twice": 2 * state}


@pytest.mark.parametrize("evaluates", [False, True])
def test_a_policy_sees_the_reward_that_led_to_its_observation(evaluates):
    environment = BatchedEnvironment([Ladder([3], rung=1.0), Ladder([2, 5], rung=2.0)])
    if evaluates:
        np.testing.assert_array_equal(run_episodes(environment, RewardSeeing(), 4), [3, 3, 4, 10])
    else:
        _, _, extras, _ = run_loop(9, environment, RewardSeeing())
        assert extras.tm1["twice"].max() == 2 * 2 * 4


class Feedforward(Unlearnt):
    """A policy without a state."""

    def __call__(self, observation, state):
        assert state == ()
        return np.zeros((len(observation), 1), np.float32), (), {"twice": 2 * observation[:, 1]}


class Extras:
    """Keeps the extras of transitions in the place of priorities."""

    def initial_priorities(self, transitions, extras_tm1, extras_t):
        self.tm1, self.t = extras_tm1, extras_t
        return np.ones(len(transitions.n_step_reward), np.float32)


def run_loop(steps, environment, policy, encode=None, reward_clip=None):
    """Returns the loop, its items, their extras and the episodes after so many steps."""
    episodes, extras = [], Extras()
    adder = NStepAdder(range(2), 2, 0.5, reward_clip, policy=extras, send_batch=np.inf)
    loop = ActingLoop(environment, policy, adder, lambda *episode: episodes.append(episode), encode)
    for _ in range(steps):
        assert not loop.step()
    ((items, _),) = adder.flush()
    return loop, items, extras, episodes


def test_the_loop_hands_out_all_transitions_and_episodes():
    environment = BatchedEnvironment([Ladder([3], rung=1.0), Ladder([2, 5], rung=2.0)])
    loop, items, extras, episodes = run_loop(9, environment, Feedforward())
    got = items.steps
    # Environment 0: 3 steps, reset, 3 steps, reset, 1 step. Environment 1: 2, reset, 5, reset.
    assert loop.steps == 7 + 7
    assert sorted(episodes) == [(0, 3.0, 3), (0, 3.0, 3), (1, 4.0, 2), (1, 10.0, 5)]

    first = items.keys < columns.make_keys(0, 1, 0, 0)
    np.testing.assert_array_equal(items.keys[first], columns.make_keys(0, 0, 0, np.arange(6)))
    np.testing.assert_array_equal(
        got.observation_tm1[first], [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    )
    np.testing.assert_array_equal(
        got.observation_t[first], [[0, 2], [0, 3], [0, 3], [1, 2], [1, 3], [1, 3]]
    )
    np.testing.assert_array_equal(got.n_step_reward[first], [1.5, 1.5, 1] * 2)
    np.testing.assert_array_equal(got.n_step_discount[first], [0.25, 0, 0] * 2)
    # The extras of the last state are the policy's on the true last observation.
    np.testing.assert_array_equal(extras.t["twice"], 2 * got.observation_t[:, 1])
    np.testing.assert_array_equal(extras.tm1["twice"], 2 * got.observation_tm1[:, 1])


def test_the_recurrent_state_starts_again_with_each_episode():
    environment = BatchedEnvironment([Ladder([3]), Ladder([2, 5])])
    _, items, extras, _ = run_loop(12, environment, CountingPolicy())
    got = items.steps
    np.testing.assert_array_equal(got.action_tm1[:, 0], 100 + got.observation_tm1[:, 1])
    np.testing.assert_array_equal(extras.t["count"], 100 + got.observation_t[:, 1])


def test_the_policy_sees_what_is_encoded_once_a_timestep_for_the_transitions():
    environment = BatchedEnvironment([Ladder([3]), Ladder([2, 5], rung=5.0)])
    encoded = []

    def encode(observation):
        encoded.append(observation)
        texts = np.empty(len(observation), object)
        texts[:] = [row.tobytes() for row in observation]
        return texts

    _, items, extras, episodes = run_loop(9, environment, Feedforward(), encode, reward_clip=1.0)
    got = items.steps
    assert len(encoded) == 9
    assert (1, 10.0, 2) in episodes  # returns are not clipped
    assert np.all(got.n_step_reward <= 1.5)
    for texts, found in ((got.observation_tm1, extras.tm1), (got.observation_t, extras.t)):
        seen = np.array([np.frombuffer(text, np.float32) for text in texts])
        np.testing.assert_array_equal(found["twice"], 2 * seen[:, 1])


@pytest.mark.parametrize(
    "num_episodes, expected", [(1, [1]), (3, [1, 3, 10]), (5, [1, 1, 3, 3, 10])]
)
def test_evaluation_gives_the_number_asked_for_from_all_environments(num_episodes, expected):
    """The first environment ends ten times as often as the last; it gives no more for that."""
    environment = BatchedEnvironment([Ladder([1]), Ladder([3]), Ladder([10])])
    np.testing.assert_array_equal(run_episodes(environment, Feedforward(), num_episodes), expected)


def test_evaluation_starts_afresh_and_resets_the_state():
    environment = BatchedEnvironment([Ladder([3, 4]), Ladder([2, 5])])
    environment.reset()
    environment.step(np.zeros((2, 1), np.float32))
    got = run_episodes(environment, CountingPolicy(), 4)
    np.testing.assert_array_equal(got, [4, 3, 5, 2])


def test_an_evaluation_that_is_stopped_gives_what_is_finished():
    environment = BatchedEnvironment([Ladder([2]), Ladder([5])])
    calls = iter([False] * 3 + [True])
    returns = run_episodes(environment, Feedforward(), 4, is_stopped=lambda: next(calls))
    np.testing.assert_array_equal(returns, [2])


def test_an_episode_without_an_end_is_cut_and_the_others_are_not():
    """Environment 0 never ends; its second episode begins when the others have played theirs."""
    environment = BatchedEnvironment([Ladder([10**9], rung=1.0), Ladder([4, 3], rung=1.0)])
    said = []
    returns = run_episodes(environment, CountingPolicy(), 4, max_steps=6, tell=said.append)
    np.testing.assert_array_equal(returns, [6, 6, 4, 3])
    assert len(said) == 1 and "did not end within 6 steps" in said[0]


def test_an_episode_that_ends_at_the_limit_is_not_cut():
    said = []
    environment = BatchedEnvironment([Ladder([6, 7], rung=1.0)])
    returns = run_episodes(environment, Feedforward(), 3, max_steps=6, tell=said.append)
    np.testing.assert_array_equal(returns, [6, 6, 6])
    assert len(said) == 1


@pytest.mark.parametrize("episodes, environments", [(1, 1), (10, 10), (15, 8), (200, 10)])
def test_an_evaluation_has_at_most_ten_environments(episodes, environments):
    seeds = environment_seeds(3, episodes)
    assert len(seeds) == len(set(seeds)) == num_environments(episodes) == environments
    assert not set(seeds) & set(environment_seeds(4, episodes))


# Seeds, starts and CSV records.


def test_seeds_differ_between_runs_actors_and_starts():
    seeds = [
        of(seed, actor, start)
        for of in (loop_lib.actor_seed, loop_lib.exploration_seed)
        for seed in range(3)
        for actor in range(40)
        for start in range(5)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_the_seed_of_the_first_start_is_of_run_and_actor_alone():
    for seed, actor in ((0, 0), (3, 0), (0, 7), (2**31 - 1, 359)):
        expected = np.random.SeedSequence([seed, actor]).generate_state(1)[0]
        assert loop_lib.actor_seed(seed, actor, 0) == expected


def test_an_environment_of_another_start_begins_otherwise():
    def first_observations(start):
        seeds = [loop_lib.actor_seed(5, actor, start) for actor in range(2, 4)]
        return environments.make_batch("control:cartpole:swingup", seeds).reset().observation

    again, other = first_observations(0), first_observations(1)
    np.testing.assert_array_equal(again, first_observations(0))
    for row in range(2):
        assert np.any(again[row] != other[row])


def test_a_start_counts_from_its_beginning(tmp_path):
    run = RunDirectory(tmp_path)
    starts = [
        loop_lib.record_start(run, actors)
        for actors in (range(0, 3), range(3, 5), range(0, 3), range(0, 3), range(5, 7), range(3, 5))
    ]
    assert starts == [0, 0, 1, 2, 0, 1]
    # With other processes: at least those of the actor that had most.
    assert loop_lib.record_start(run, range(2, 4)) >= 3


def test_a_torn_row_does_not_matter(tmp_path):
    run = RunDirectory(tmp_path)
    loop_lib.record_start(run, range(1))
    run.lives_csv.write_text(run.lives_csv.read_text() + "2")
    assert loop_lib.record_start(run, range(1)) == 1
    assert run.lives_csv.read_text().splitlines() == ["first_actor,last_actor", "0,0", "0,0"]


def test_a_row_for_each_episode(tmp_path):
    run = RunDirectory(tmp_path)
    status = {
        "wall_seconds": 2.5,
        "incarnation": 9,
        "parameter_version": 3,
        "parameter_age_steps": 16,
    }
    log = loop_lib.EpisodeLog(run, range(4, 6), lambda: status)
    log.write(1, 7.5, 10)
    log.write(0, 1.0, 4)
    log.write(1, 8.5, 20)
    rows = read_rows(run.acting_csv)
    assert tuple(rows.columns) == csv_rows.ACTING
    assert rows["actor"].tolist() == [5, 4, 5]
    assert rows["actor_steps"].tolist() == [10, 4, 30]
    assert rows["episode_return"].tolist() == [7.5, 1.0, 8.5]
    assert rows["episode_length"].tolist() == [10, 4, 20]
    assert set(rows["incarnation"]) == {9}
