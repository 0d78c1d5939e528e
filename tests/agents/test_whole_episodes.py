"""Tests of common.data.episodes, by an agent of no paper whose updates are not fused."""

import types

import dm_env
from dm_env import specs
import numpy as np
import pytest
import tensorflow as tf

from common.acting.policy import Policy
from common.agents.agent import Agent
from common.data.episodes import WholeEpisodes
from common.environments import UnusableEnvironmentError
from common.environments.batch import BatchedEnvironment
from common.environments.spec import EnvironmentSpec
from common.learning.learner import Gradients, Learner
from common.replay import store
from common.replay.memory import Uniform
from common.replay.store import RateLimiter
from common.types import Episode, Episodes, StoredState

EPISODE_STEPS = 6
SEED = 3


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


class Actor(Policy):
    """Actions of 0; the value of a state is 10 more than its observation."""

    def load(self, flat):
        pass

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


class EpisodeAgent(Agent):
    jit_compile = False

    def __init__(self, config, setting):
        super().__init__(config, setting)
        self.updates_per_call = config.updates_per_call
        self.data = WholeEpisodes(config, Uniform(), config.removal)

    def step_specs(self, spec):
        observation = tf.TensorSpec([spec.observation_size])
        return StoredState(observation, tf.TensorSpec([spec.action_size]), {})

    def make_learner(self, spec, seed):
        return Mean()

    def make_actor(self, spec, actors, num_actors, seed):
        return Actor()

    def make_evaluator(self, spec, num_environments):
        return Actor()


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


class Run:
    """Two actors and a learner, in turns."""

    def __init__(self, **changes):
        self.agent = agent = make_agent(**changes)
        environments = BatchedEnvironment([Counting(0), Counting(1)])
        self.spec = EnvironmentSpec.of(environments)
        self.learner = agent.make_learner(self.spec, seed=1)
        self.memory = agent.make_store(self.spec, seed=1)
        limiter = agent.rate_limiter(in_turns=True)
        self.trainer = agent.make_trainer(self.learner, self.memory, self.spec, SEED, limiter)
        self.writer = agent.make_writer(Actor(), range(2), self.spec, seed=2)
        self.acting = agent.acting_loop(Actor(), environments, self._add, lambda *_: None)

    def _add(self, added):
        (delivery,) = self.writer.add(added)
        assert delivery.steps == self.writer.count_steps(added)
        assert self.memory.put(delivery.rows)

    def train(self, num_calls):
        """Acts until so many calls of updates were made; returns the metrics of the last."""
        for _ in range(num_calls):
            while (metrics := self.trainer.step()) is None:
                self.acting.step()
        return metrics


def episode(size):
    states = StoredState(np.zeros((size + 1, 1)), np.zeros((size + 1, 1)), {})
    return Episode(0, states, np.zeros(size), np.zeros(size + 1), False, np.zeros(size))


def test_a_store_elsewhere_hears_of_many_steps_at_a_time():
    agent, spec = make_agent(), EnvironmentSpec(1, 1)
    writer = agent.make_writer(Actor(), range(2), spec, 0, in_batches=True)
    short, long, longer = episode(3), episode(5), episode(7)
    assert not list(writer.add(Episodes(40, (short, long))))
    assert not list(writer.add(Episodes(23, ())))
    (delivery,) = writer.add(Episodes(2, (longer,)))
    assert delivery == (Episodes(65, (short, long, longer)), 65)
    assert not list(writer.flush())
    assert not list(writer.add(Episodes(1, ())))
    assert list(writer.flush()) == [(Episodes(1, ()), 1)]
    here = agent.make_writer(Actor(), range(2), spec, 0)
    assert list(here.add(Episodes(2, ()))) == [(Episodes(2, ()), 2)]


@pytest.mark.parametrize("in_turns", [False, True])
def test_a_call_is_due_as_soon_as_its_steps_are_executed(in_turns):
    agent = make_agent(updates_per_call=3)
    assert agent.rate_limiter(in_turns) == RateLimiter(20, 4.0, 12.0, min_items=4)
    assert agent.data.acts_beside


@pytest.mark.parametrize("num_shards, capacity", [(1, 100), (3, 34)])
def test_the_shards_of_a_memory_hold_its_capacity_together(num_shards, capacity):
    memory = make_agent().make_store(EnvironmentSpec(1, 1), seed=0, num_shards=num_shards)
    assert memory.capacity == capacity


def test_actors_go_on_until_there_is_a_batch_of_finished_steps():
    """However few steps are to be executed before the first update."""
    run = Run(min_replay_size=2)
    limiter = run.agent.rate_limiter()
    while run.memory.counters().items < 4:
        assert limiter.may_insert(run.memory.counters()) and run.trainer.step() is None
        run.acting.step()
    assert not limiter.may_insert(run.memory.counters()) and run.trainer.step() is not None


def test_steps_of_running_episodes_count_but_cannot_be_drawn():
    run = Run()
    for executed in range(2, 2 * EPISODE_STEPS + 1, 2):
        run.acting.step()
        assert run.memory.counters() == (0, executed, 0, 0, 0, 0)
    run.acting.step()  # both episodes end
    assert run.memory.counters() == (12, 12, 0, 0, 0, 0)
    stored = run.memory.stored(np.arange(6))
    np.testing.assert_array_equal(stored.values, 10 + np.arange(6))
    # The value of the state at which the time is up stands for what would follow.
    np.testing.assert_array_equal(stored.q_ret, [37, 36, 34, 31, 27, 22])


@pytest.mark.parametrize("num_updates", [1, 3])
def test_a_call_draws_updates_and_writes_back(num_updates):
    run, again = (Run(updates_per_call=num_updates) for _ in range(2))
    run.train(1)
    while again.memory.counters().inserted < run.memory.counters().inserted:
        again.acting.step()
    drawn = again.memory.draw(4 * num_updates, store.derive_seed(SEED, 0))
    np.testing.assert_array_equal(run.learner.seen, drawn.rewards)
    stored = run.memory.stored(drawn.keys)
    np.testing.assert_array_equal(stored.values, drawn.rewards)
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
    run = Run(replay_capacity=EPISODE_STEPS - 1)
    with pytest.raises(UnusableEnvironmentError, match="an episode of more than 5 st") as caught:
        run.train(1)
    assert "\n" not in str(caught.value)
