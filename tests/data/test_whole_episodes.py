"""Tests of common.data.episodes: the adder alone, then with an agent that does not fuse updates."""

import types

from agent_loops import StubAgent, StubPolicy, make_loop, put
import dm_env
from dm_env import specs
import numpy as np
from one_process import OneProcessRun
import pytest
import tensorflow as tf
from timesteps import FIRST, LAST, MID, timestep

from common.data.data import StoredState
from common.data.episodes import EpisodeAdder, WholeEpisodes
from common.environments import UnusableEnvironmentError
from common.environments.batch import BatchedEnvironment
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Gradients, Learner
from common.replay import store
from common.replay.episode_wire import Episodes
from common.replay.memory import Uniform
from common.replay.store import RateLimiter

END = 3
"""LAST with discount 0."""
EPISODE_STEPS = 6


def play(adder, script, values=True):
    """Returns the rows that `observe` gives for each timestep of `script`, which are `Episodes`.

    The arrays are overwritten in place after each timestep. Environment k has the observation
    100 k + t, the action -(100 k + t), the value 1000 + 100 k + t, the advantage 2000 + 100 k + t
    and the reward 10 t + k.
    """
    script = np.array(script)
    k = script.shape[1]
    given, observation = [], np.zeros((k, 1), np.float32)
    for t, step_types in enumerate(script):
        observation[:, 0] = 100 * np.arange(k) + t
        extras = {"mean": 2 * observation}
        if values:
            extras["value"] = 1000 + observation[:, 0]
            extras["advantage"] = 2000 + observation[:, 0]
        kinds, rewards = np.minimum(step_types, LAST), 10.0 * t + np.arange(k)
        step = timestep(kinds, rewards, step_types != END, observation)
        action = -observation
        deliveries = adder.observe(step, extras)
        given.append(deliveries[0].rows if deliveries else Episodes(0, ()))
        assert sum(steps for _, steps in deliveries) == given[-1].num_steps
        adder.act(step, action, extras)
        for array in (action, *extras.values()):
            array[:] = np.nan
    assert adder.num_steps == sum(rows.num_steps for rows in given) and not adder.flush()
    return given


def test_episodes_of_two_environments():
    given = play(
        EpisodeAdder(2, 100),
        [[FIRST, FIRST], [MID, END], [MID, FIRST], [LAST, MID], [FIRST, MID], [MID, LAST]],
    )
    assert [len(delivery.episodes) for delivery in given] == [0, 1, 0, 1, 0, 1]
    # A LAST row has no action.
    assert [delivery.num_steps for delivery in given] == [2, 1, 2, 1, 2, 1]
    (a,), (b,), (c,) = (delivery.episodes for delivery in given if delivery.episodes)
    assert [episode.terminated for episode in (a, b, c)] == [True, False, False]
    np.testing.assert_array_equal(a.states.observation[:, 0], [100, 101])
    np.testing.assert_array_equal(b.states.observation[:, 0], [0, 1, 2, 3])
    np.testing.assert_array_equal(b.states.action[:, 0], [0, -1, -2, 0])
    np.testing.assert_array_equal(b.states.extras["mean"][:, 0], [0, 2, 4, 6])
    np.testing.assert_array_equal(b.values, [1000, 1001, 1002, 1003])
    np.testing.assert_array_equal(b.advantages, [2000, 2001, 2002])
    np.testing.assert_array_equal(b.rewards, [10, 20, 30])
    np.testing.assert_array_equal(c.rewards, [31, 41, 51])
    np.testing.assert_array_equal(c.states.observation[:, 0], [102, 103, 104, 105])
    assert set(b.states.extras) == {"mean"}
    for leaf in (b.rewards, b.values, b.advantages, b.states.action):
        assert leaf.dtype == np.float32


def test_an_episode_that_restarts_without_last_is_dropped():
    given = play(EpisodeAdder(1, 100), [[FIRST], [MID], [FIRST], [END]])
    (episode,) = given[-1].episodes
    np.testing.assert_array_equal(episode.states.observation[:, 0], [2, 3])
    np.testing.assert_array_equal(episode.rewards, [30])


def test_without_values_and_advantages_they_are_zeros():
    (episode,) = play(EpisodeAdder(1, 100), [[FIRST], [MID], [END]], values=False)[-1].episodes
    np.testing.assert_array_equal(episode.values, np.zeros(3))
    np.testing.assert_array_equal(episode.advantages, np.zeros(2))


@pytest.mark.parametrize("step_type, discount", [(MID, 0.0), (MID, 0.9), (LAST, 0.5)])
def test_a_discount_that_episodes_do_not_have_is_refused(step_type, discount):
    adder, observation = EpisodeAdder(2, 100), np.zeros((2, 1), np.float32)
    first = timestep([FIRST, FIRST], [0, 0], [1, 1], observation)
    adder.observe(first, {})
    adder.act(first, observation, {})
    with pytest.raises(UnusableEnvironmentError, match=f"a discount of {discount:g}: "):
        adder.observe(timestep([MID, step_type], [1, 1], [1, discount], observation), {})


# With an agent.


class Counting(dm_env.Environment):
    """The reward of a step is its number in the episode, which a time limit ends."""

    def __init__(self, seed):
        del seed
        self._step = EPISODE_STEPS

    def reset(self):
        self._step = 0
        return dm_env.restart(np.zeros(1, np.float32))

    def step(self, action):
        if self._step == EPISODE_STEPS:
            return self.reset()
        self._step += 1
        ends = self._step == EPISODE_STEPS
        step = dm_env.truncation if ends else dm_env.transition
        return step(float(self._step), np.full(1, self._step, np.float32))

    def observation_spec(self):
        return specs.Array((1,), np.float32)

    def action_spec(self):
        return specs.BoundedArray((1,), np.float32, minimum=-1, maximum=1)


class Actor(StubPolicy):
    """Actions of 0; the value of a state is 10 more than its observation."""

    def __call__(self, observation, state):
        extras = {"value": 10 + observation[:, 0]}
        return np.zeros((len(observation), 1), np.float32), state, extras


class Mean(Learner):
    """Finds for each step: V = reward, rho = 2, D_KL = 0.5, error = 1, A = 3; lowers c_max."""

    def __init__(self):
        super().__init__()
        self.mean = tf.Variable([0.0])
        self.seen = tf.Variable(tf.zeros([0]), shape=[None])

    @property
    def actor_variables(self):
        return (self.mean,)

    def gradients(self, batch):
        rewards = batch.steps.rewards
        self.seen.assign(tf.concat([self.seen, rewards], 0))
        ones = tf.ones_like(rewards)
        loss = tf.reduce_mean(rewards) + self.mean[0]
        c_max = tf.maximum(1.5, 4 - tf.cast(self.steps, tf.float32)) * ones
        outputs = (rewards, 2 * ones, 0.5 * ones, ones, 0 * ones, 3 * ones, c_max)
        return Gradients((), outputs, {"loss": loss})

    def apply(self, gradients):
        self.steps.assign_add(1)


class EpisodeAgent(StubAgent):
    policy, learner = Actor, Mean

    def __init__(self, config, setting):
        super().__init__(config, setting)
        self.updates_per_call = config.updates_per_call
        self.data = WholeEpisodes(config, Uniform(), config.removal)

    def step_specs(self, spec):
        observation = tf.TensorSpec([spec.observation_size])
        return StoredState(observation, tf.TensorSpec([spec.action_size]), {})


def make_agent(**changes):
    fields = dict(
        discount=1.0,
        batch_size=4,
        updates_per_call=1,
        actor_period=1,
        replay_capacity=100,
        min_replay_size=20,
        samples_per_insert=4.0,  # an update for each step
        removal="oldest",
    )
    return EpisodeAgent(types.SimpleNamespace(**fields | changes), "small")


def make_run(**changes):
    """Returns a run of two actors and a learner, in turns."""
    environments = BatchedEnvironment([Counting(0), Counting(1)])
    return OneProcessRun(make_agent(**changes), environments, in_turns=True)


def test_a_store_elsewhere_hears_of_many_steps_at_a_time():
    agent = make_agent()
    assert agent.data.send_batch == 64
    for send_batch, sizes in ((64, [64, 36]), (0, [2] * 50)):
        run = make_run()
        adder, loop = make_loop(
            agent, Actor(), BatchedEnvironment([Counting(0), Counting(1)]), send_batch=send_batch
        )
        deliveries = []
        while adder.num_steps < 100:
            deliveries += loop.step()
        deliveries += adder.flush()
        assert [steps for _, steps in deliveries if steps] == sizes and not adder.flush()
        assert all(rows.num_steps == steps for rows, steps in deliveries)
        assert sum(len(rows.episodes) for rows, _ in deliveries) == 2 * (100 // 2 // EPISODE_STEPS)
        put(run.memory, deliveries)
        assert run.memory.counters().inserted == 100


@pytest.mark.parametrize("in_turns", [False, True])
def test_a_call_is_due_as_soon_as_its_steps_are_executed(in_turns):
    agent = make_agent(updates_per_call=3)
    assert agent.rate_limiter(in_turns) == RateLimiter(20, 4.0, 12.0, min_items=4)
    assert agent.data.acts_during_updates


@pytest.mark.parametrize("num_shards, capacity", [(1, 100), (3, 34)])
def test_the_shards_of_a_memory_hold_its_capacity_together(num_shards, capacity):
    agent = make_agent()
    memory = agent.data.make_store(agent.step_specs(EnvironmentSpec(1, 1)), 0, num_shards)
    assert memory.capacity == capacity


def test_actors_go_on_until_there_is_a_batch_of_finished_steps():
    """However few steps are to be executed before the first update."""
    run = make_run(min_replay_size=2)
    limiter = make_agent(min_replay_size=2).rate_limiter()
    while run.memory.counters().items < 4:
        assert limiter.may_insert(run.memory.counters()) and run.trainer.step() is None
        run.act()
    assert not limiter.may_insert(run.memory.counters()) and run.trainer.step() is not None


def test_steps_of_running_episodes_count_but_cannot_be_drawn():
    run = make_run()
    for executed in range(2, 2 * EPISODE_STEPS + 1, 2):
        run.act()
        assert run.memory.counters() == (0, executed, 0, 0, 0, 0)
    run.act()  # both episodes end
    assert run.memory.counters() == (12, 12, 0, 0, 0, 0)
    stored = run.memory.stored(np.arange(6))
    np.testing.assert_array_equal(stored.values, 10 + np.arange(6))
    # The value of the state at which the time is up stands for what would follow.
    np.testing.assert_array_equal(stored.q_ret, [37, 36, 34, 31, 27, 22])


@pytest.mark.parametrize("num_updates", [1, 3])
def test_a_call_draws_updates_and_writes_back(num_updates):
    run, again = (make_run(updates_per_call=num_updates) for _ in range(2))
    run.train(1)
    while again.memory.counters().inserted < run.memory.counters().inserted:
        again.act()
    drawn = again.memory.draw(4 * num_updates, store.derive_seed(0, 0))
    np.testing.assert_array_equal(run.learner.seen, drawn.steps.rewards)
    stored = run.memory.stored(drawn.keys)
    np.testing.assert_array_equal(stored.values, drawn.steps.rewards)
    np.testing.assert_array_equal(stored.rhos, np.full(4 * num_updates, 2))
    np.testing.assert_array_equal(stored.divergences, np.full(4 * num_updates, 0.5))
    np.testing.assert_array_equal(stored.errors, np.ones(4 * num_updates))
    np.testing.assert_array_equal(stored.advantages, np.full(4 * num_updates, 3))
    # With a rho of 2 they are far from the policy once c_max is 2, in the third update.
    num_far = len(np.unique(drawn.keys)) if num_updates == 3 else 0
    assert run.memory.statistics().far_policy == num_far
    run.train(2)
    assert int(run.learner.steps) == 3 * num_updates and run.trainer.priority_lag == num_updates
    assert run.memory.counters().sampled == 3 * 4 * num_updates


def test_an_episode_that_is_longer_than_the_memory_is_one_line():
    run = make_run(replay_capacity=EPISODE_STEPS - 1)
    with pytest.raises(UnusableEnvironmentError, match="an episode of more than 5 st") as caught:
        run.train(1)
    assert "\n" not in str(caught.value)
