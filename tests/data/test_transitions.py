"""Tests of common.data.transitions: the adder alone, then with an agent of no paper."""

import itertools
import types

from agent_loops import StubAgent, StubLearner, StubPolicy, make_loop, put
import numpy as np
import pytest
import tensorflow as tf
from timesteps import ABSENT, FIRST, LAST, MID, random_experience, timestep

from common.data.transitions import NStepAdder, StoredTransition, Transitions
from common.environments.spec import EnvironmentSpec
from common.replay import columns
from common.replay import memory as memory_lib
from common.replay.store import RateLimiter

SPEC = EnvironmentSpec(2, 1)
DISCOUNTS = {0: 0.2, 0.5: 0.2, 1: 0.6}


class Extras:
    """A policy that keeps the extras with which it is asked for priorities."""

    def initial_priorities(self, transitions, extras_tm1, extras_t):
        self.extras_tm1, self.extras_t = extras_tm1, extras_t
        return np.ones(len(transitions.n_step_reward), np.float32)


def run(n, gamma, step_types, rewards, discounts, nested=False, reward_clip=None):
    """Feeds [T, K] arrays; the observation, the action and the extras all tell (t, k).

    Returns (environment, step) of each transition, the transitions, and the policy.
    """
    num_steps, k = step_types.shape
    policy = Extras()
    adder = NStepAdder(range(k), n, gamma, reward_clip, policy=policy, send_batch=np.inf)
    # One buffer each, overwritten: whatever the adder does not copy shows.
    where = np.zeros((k, 2), np.float32)
    image = np.zeros((k, 2, 2), np.uint8)
    action = np.zeros((k, 1), np.float32)
    value = np.zeros(k, np.float32)
    for t in range(num_steps):
        where[:, 0], where[:, 1], image[:], action[:] = t, np.arange(k), t % 256, t + 0.5
        value[:] = 100 * t + np.arange(k)
        observation = {"where": where, "image": image} if nested else where
        step = timestep(step_types[t], rewards[t], discounts[t], observation)
        extras = {"value": value}
        assert not adder.observe(step, extras)
        adder.act(step, action, extras)
    where[:], image[:], action[:], value[:] = -1, 0, -1, -1
    ((items, count),) = adder.flush()
    assert count == len(items.keys) == adder.num_steps
    numbers = {
        int(columns.make_keys(0, environment, 0, step)): (environment, step)
        for environment in range(k)
        for step in range(num_steps)
    }
    return [numbers[key] for key in items.keys.tolist()], items.steps, policy


def brute_force(step_types, rewards, discounts, n, gamma):
    """The returns and discounts of Ape-X appendix F, one element at a time.

    Returns {(environment, step): (t, t + k, R_{t:t+k}, gamma_{t:t+k})}.
    """
    expected = {}
    num_steps, num_environments = step_types.shape
    for environment in range(num_environments):
        kind, r = step_types[:, environment], rewards[:, environment].astype(float)
        g = gamma * discounts[:, environment].astype(float)
        step = 0
        for t in range(num_steps):
            if kind[t] == LAST:
                continue
            ends = [u for u in range(t + 1, num_steps) if kind[u] == LAST or u == t + n]
            if ends:
                k = ends[0] - t
                n_step_return = sum(
                    np.prod([g[t + j] for j in range(1, i + 1)]) * r[t + i + 1] for i in range(k)
                )
                n_step_discount = np.prod([g[t + j] for j in range(1, k + 1)])
                expected[environment, step] = (t, t + k, n_step_return, n_step_discount)
            step += 1
    return expected


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("n", [1, 3, 5])
@pytest.mark.parametrize("seed", range(2))
def test_random_episodes_against_brute_force(n, seed, nested):
    rng = np.random.default_rng([seed, n])
    k = int(rng.integers(1, 6))
    experience = random_experience(rng, 80, k, DISCOUNTS)
    expected = brute_force(*experience, n=n, gamma=0.9)
    keys, got, policy = run(n, 0.9, *experience, nested=nested)
    environments = np.array([environment for environment, _ in keys])
    assert sorted(keys) == sorted(expected)
    for environment in range(k):
        steps = [step for row, step in keys if row == environment]
        assert steps == list(range(len(steps)))  # in order, without gaps
    assert isinstance(got, StoredTransition)
    assert {got.n_step_reward.dtype, got.n_step_discount.dtype} == {np.dtype(np.float32)}
    start, end, n_step_return, n_step_discount = np.array([expected[key] for key in keys]).T
    np.testing.assert_allclose(got.n_step_reward, n_step_return, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(got.n_step_discount, n_step_discount, rtol=1e-6)
    for observation, time in ((got.observation_tm1, start), (got.observation_t, end)):
        if nested:
            np.testing.assert_array_equal(observation["image"][:, 1, 1], time)
            observation = observation["where"]
        np.testing.assert_array_equal(observation, np.stack([time, environments], 1))
    np.testing.assert_array_equal(got.action_tm1, start[:, None] + 0.5)
    np.testing.assert_array_equal(policy.extras_tm1["value"], 100 * start + environments)
    np.testing.assert_array_equal(policy.extras_t["value"], 100 * end + environments)


def single(rewards, discounts, step_types, **arguments):
    experience = [np.array(x)[:, None] for x in (step_types, rewards, discounts)]
    return run(3, 0.99, *experience, **arguments)[1]


def test_rewards_are_clipped_before_they_are_summed():
    got = single([0, 200, -7, 0.5], [1, 1, 1, 1], [FIRST, MID, MID, MID], reward_clip=10.0)
    np.testing.assert_allclose(got.n_step_reward, [10 - 0.99 * 7 + 0.99**2 * 0.5], rtol=1e-6)
    got = single([0, 200, -7, 0.5], [1, 1, 1, 1], [FIRST, MID, MID, MID])
    np.testing.assert_allclose(got.n_step_reward, [200 - 0.99 * 7 + 0.99**2 * 0.5], rtol=1e-6)


def test_observations_of_bytes_and_discrete_actions():
    """What an Atari actor adds: compressed pictures of different lengths, actions int32 [K]."""
    k, num_steps = 2, 7
    adder = NStepAdder(range(k), 3, 0.99, policy=Extras(), send_batch=np.inf)
    for t in range(num_steps):
        pictures = np.empty(k, object)
        pictures[:] = [bytes([t, index]) * (t + 1) for index in range(k)]
        kinds = [FIRST if t == 0 else MID, LAST if t == 4 else FIRST if t % 5 == 0 else MID]
        step = timestep(kinds, [1, 1], [1, 1], pictures)
        action = np.array([t, 10 + t], np.int32)
        extras = {"q": np.full(k, t, np.float32)}
        adder.observe(step, extras)
        adder.act(step, action, extras)
        pictures[:] = None
    ((items, _),) = adder.flush()
    got = items.steps
    assert got.action_tm1.dtype == np.int32
    assert got.observation_tm1.dtype == got.observation_t.dtype == object
    first = items.keys < columns.make_keys(0, 1, 0, 0)
    np.testing.assert_array_equal(got.action_tm1[first], [0, 1, 2, 3])
    np.testing.assert_array_equal(got.action_tm1[~first], [10, 11, 12, 13])
    ends = [3, 4, 5, 6], [3, 4, 4, 4]
    for index, rows in enumerate((first, ~first)):
        assert got.observation_tm1[rows].tolist() == [bytes([t, index]) * (t + 1) for t in range(4)]
        assert got.observation_t[rows].tolist() == [
            bytes([t, index]) * (t + 1) for t in ends[index]
        ]


def test_seed_rl_vector():
    # SEED RL, agents/r2d2/learner_test.py: n 3, gamma .9, rewards 1..7, done at step 4,
    # the value of the last state 700.
    experience = [
        np.array(x)[:, None]
        for x in (
            [FIRST, MID, MID, MID, LAST, FIRST, MID, MID, MID],
            [0, 1, 2, 3, 4, 0, 5, 6, 7],
            [1, 1, 1, 1, 0, 1, 1, 1, 1],
        )
    ]
    keys, got, _ = run(3, 0.9, *experience)
    targets = got.n_step_reward + got.n_step_discount * 700
    assert [step for _, step in keys] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(targets[2], 3 + 0.9 * 4, rtol=1e-6)
    np.testing.assert_allclose(targets[4], 5 + 0.9 * 6 + 0.9**2 * 7 + 0.9**3 * 700, rtol=1e-6)


def test_an_abandoned_episode_gives_nothing_more():
    # A reset from outside: FIRST without a LAST before it.
    got = single([0, 1, 0, 1, 1, 1], [1] * 6, [FIRST, MID, FIRST, MID, MID, MID])
    np.testing.assert_array_equal(got.observation_tm1[:, 0], [2])
    np.testing.assert_array_equal(got.observation_t[:, 0], [5])


def test_no_transition_ends_or_begins_where_an_environment_is_gone():
    step_types = [FIRST, MID, MID, ABSENT, ABSENT, FIRST, MID, LAST]
    got = single([0, 1, 1, 0, 0, 0, 2, 3], [1, 1, 1, 1, 1, 1, 1, 0], step_types)
    np.testing.assert_array_equal(got.observation_tm1[:, 0], [5, 6])
    np.testing.assert_array_equal(got.observation_t[:, 0], [7, 7])
    np.testing.assert_allclose(got.n_step_reward, [2 + 0.99 * 3, 3], rtol=1e-6)


# With an agent, whose steps have two numbers.


class Policy(StubPolicy):
    """Actions of 0; a transition's priority is its first observation and a half."""

    def __call__(self, observation, state):
        return np.zeros((len(observation), 1), np.float32), state, {}

    def initial_priorities(self, transitions, extras_tm1, extras_t):
        return transitions.observation_tm1[:, 0] + np.float32(0.5)


class Learner(StubLearner):
    """Writes back each item's reward as its priority."""

    def update(self, batch):
        self.steps.assign_add(1)
        rewards = batch.steps.n_step_reward
        return rewards, {"reward": tf.reduce_mean(rewards)}


class TransitionAgent(StubAgent):
    policy, learner = Policy, Learner

    def __init__(self, config, setting, **options):
        super().__init__(config, setting)
        sample, remove = memory_lib.Proportional(1.0), memory_lib.Fifo()
        self.data = Transitions(config, sample, remove, **options)

    def step_specs(self, spec):
        scalar, observation = tf.TensorSpec([]), tf.TensorSpec([spec.observation_size])
        return StoredTransition(
            observation, tf.TensorSpec([spec.action_size]), scalar, scalar, observation
        )


OPTIONS = ("num_copies", "reward_clip", "is_soft")


def make_agent(kind=TransitionAgent, **changes):
    """Returns an agent; `changes` are of its configuration, its data or its attributes."""
    fields = dict(
        n_step=3,
        discount=0.9,
        batch_size=4,
        actor_period=1,
        send_batch=10,
        replay_capacity=20,
        min_replay_size=6,
        samples_per_insert=0.0,
    )
    config = {name: changes.pop(name, value) for name, value in fields.items()}
    options = {name: changes.pop(name) for name in OPTIONS if name in changes}
    agent = kind(types.SimpleNamespace(**config), "small", **options)
    for name, value in changes.items():
        setattr(agent, name, value)
    return agent


def make_adder(agent, actors=range(1), incarnation=0, **options):
    adder = agent.data.make_adder(policy=Policy(), actors=actors, **options)
    adder.incarnation = incarnation
    return adder


def feed(adder, numbers, num_open=100):
    """Returns what a timestep gives; its observations and rewards are numbers [K].

    Then the actors of the first rows act. The others are at the end of an episode.
    """
    size = len(numbers)
    observation = np.stack([numbers, np.zeros(size)], 1).astype(np.float32)
    step_type = np.where(np.arange(size) < num_open, MID, LAST)
    step = timestep(step_type, numbers, np.ones(size), observation)
    deliveries = adder.observe(step, {})
    adder.act(step, np.zeros((size, 1), np.float32), {})
    return deliveries


def test_items_have_the_keys_of_the_papers_actors_and_the_actors_priorities():
    adder = make_adder(make_agent(), range(4, 6), incarnation=6, shard=1)
    given = [feed(adder, [t, t + 100]) for t in range(11)]
    assert not any(given[:3]) and adder.num_steps == 2 * 8
    ((items, num_steps),) = given[-1]
    assert num_steps == 2
    np.testing.assert_array_equal(items.keys, columns.make_keys(1, [4, 5], 6, [7, 7]))
    np.testing.assert_array_equal(items.priorities, [7.5, 107.5])
    assert isinstance(items.steps, StoredTransition)
    np.testing.assert_array_equal(items.steps.observation_tm1, [[7, 0], [107, 0]])
    np.testing.assert_array_equal(items.steps.observation_t, [[10, 0], [110, 0]])
    np.testing.assert_allclose(items.steps.n_step_discount, 0.9**3, rtol=1e-6)


def test_copies_stand_beside_each_other_with_keys_of_their_own():
    adder = make_adder(make_agent(num_copies=2), range(4, 6), incarnation=6, shard=1)
    *_, ((items, num_steps),) = (feed(adder, [t, t + 100]) for t in range(11))
    assert num_steps == 2 and adder.num_steps == 16  # of the actors
    np.testing.assert_array_equal(
        items.keys, columns.make_keys(1, [4, 4, 5, 5], 6, [14, 15, 14, 15])
    )
    np.testing.assert_array_equal(items.steps.observation_t[:, 0], [10, 10, 110, 110])
    np.testing.assert_array_equal(items.priorities, [7.5, 7.5, 107.5, 107.5])


@pytest.mark.parametrize(
    "changes, in_turns, tolerance",
    [
        ({}, False, 2 * 4),  # two calls
        ({"updates_per_call": 3}, False, 2 * 12),
        ({"prefetch": 5}, False, 6 * 4),  # the call and those ahead
        ({"prefetch": 5}, True, 2 * 4),
        ({"samples_per_insert": 8.0}, False, 2 * 80.0),  # two sends
        ({"samples_per_insert": 8.0}, True, 2 * 4),
        ({"samples_per_insert": 8.0, "num_copies": 3}, False, 2 * 240.0),
    ],
)
def test_the_rate_limiter_covers_what_either_side_takes_at_once(changes, in_turns, tolerance):
    agent = make_agent(**changes)
    expected = RateLimiter(6, agent.samples_per_insert, float(tolerance))
    assert agent.rate_limiter(in_turns) == expected


@pytest.mark.parametrize(
    "send_batch, sent", [(10, [[0, 11, 23, 35], [35, 44]]), (0, [[0, 4], [4, 35], [35, 44]])]
)
def test_a_store_elsewhere_gets_so_many_transitions_at_a_time(send_batch, sent):
    agent, actors = make_agent(n_step=1), np.arange(31)
    assert agent.data.send_batch == 10
    adder = make_adder(agent, range(31), send_batch=send_batch)
    given = [
        feed(adder, actors, 4),
        feed(adder, 100 + actors, 31),
        feed(adder, 200 + actors, 9),  # many at once, as an episode's end gives; no small rest
        feed(adder, actors, 0),
        feed(adder, actors, 0),
        adder.flush(),
        adder.flush(),
    ]
    assert not given[0] and not given[4] and not given[6] and adder.num_steps == 44
    assert bool(given[1]) == bool(given[3]) == (not send_batch) == (not given[5])
    firsts = [*range(4), *range(100, 131), *range(200, 209)]
    wanted = [[firsts[begin:end] for begin, end in itertools.pairwise(ends)] for ends in sent]
    found = [
        [(items.priorities - 0.5).tolist() for items, _ in deliveries]
        for deliveries in given
        if deliveries
    ]
    assert found == wanted
    assert all(len(items.keys) == count for deliveries in given for items, count in deliveries)


def fill(memory, agent, count):
    adder = make_adder(agent)
    for step in range(count + agent.config.n_step):
        put(memory, feed(adder, [step]))


def make_trainer(agent, memory):
    return agent.make_trainer(Learner(), memory, SPEC, 0, agent.rate_limiter())


@pytest.mark.parametrize("num_shards, capacity", [(1, 20), (3, 7)])
def test_the_shards_of_a_memory_hold_its_capacity_together(num_shards, capacity):
    memory = make_agent().data.make_store(
        make_agent().step_specs(SPEC), seed=0, num_shards=num_shards
    )
    fill(memory, make_agent(), 30)
    assert memory.statistics().items == capacity


def test_the_capacity_is_soft_where_the_learner_removes():
    agent = make_agent(trim_period=1, is_soft=True)
    memory = agent.data.make_store(agent.step_specs(SPEC), seed=0)
    fill(memory, agent, 25)
    assert memory.statistics().items == 25
    assert make_trainer(agent, memory).step() is not None
    assert memory.statistics().items == 20


def test_a_learner_decodes_as_the_agent_says():
    class Doubling(TransitionAgent):
        decodes = True

        def decode(self, steps, spec):
            assert spec == SPEC
            return steps._replace(n_step_reward=2 * steps.n_step_reward + 100)

    assert not make_agent().decodes
    agent = make_agent(Doubling)
    memory = agent.data.make_store(agent.step_specs(SPEC), seed=0)
    fill(memory, agent, 6)
    metrics = make_trainer(agent, memory).step()
    assert metrics.keys() == {"reward"}
    sample = memory.sample(500)
    rewards = sample.steps.n_step_reward.numpy()
    drawn = sample.masses.numpy() > 50
    np.testing.assert_array_equal(sample.masses.numpy()[drawn], 100 + 2 * rewards[drawn])
    assert drawn.any()


def test_an_adder_sums_clipped_rewards_over_the_agents_steps():
    from sides_task import make_environments

    agent, found, episodes = make_agent(n_step=2, discount=1.0, reward_clip=1.5), [], []

    class Left(Policy):
        def __call__(self, observation, state):
            return np.zeros(len(observation), np.int32), state, {}

    _, loop = make_loop(
        agent, Left(), make_environments(0, 2), lambda *episode: episodes.append(episode)
    )
    for _ in range(11):
        found += loop.step()
    rewards = np.concatenate([items.steps.n_step_reward for items, _ in found])
    assert len(rewards) == 2 * 10 and set(rewards) == {0.0, 1.5, 3.0}
    assert sorted(index for index, _, _ in episodes) == [0, 1]
    assert all(total % 5 == 0 for _, total, _ in episodes)  # not clipped
