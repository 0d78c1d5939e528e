"""IMPALA's whole path, from environments to updates, learns a problem with a known answer."""

from agent_loops import make_loop, put
import dm_env
from dm_env import specs
import numpy as np
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from reproductions.aql.agent import AQL
from reproductions.aql.config import AQLConfig

REWARDS = np.array([[0.0, 1.0], [3.0, -1.0]])
"""[state, action]."""
TO_STATE_1 = np.array([[0.2, 0.9], [0.7, 0.1]])
"""Probability of state 1 after [state, action]."""
EPISODE_STEPS = 17
"""Of two states: unrolls of 10 timesteps have ends of episodes at any place."""


class TwoStates:
    """An `EnvironmentBatch` of two states and two actions; its time limit is not an end."""

    num_environments = 64

    def __init__(self):
        self._generator = np.random.default_rng(0)
        self._steps = EPISODE_STEPS

    def reset(self):
        self._steps = 0
        self._state = self._generator.integers(2, size=self.num_environments)
        return self._timestep(dm_env.StepType.FIRST, np.zeros(self.num_environments))

    def step(self, actions):
        if self._steps == EPISODE_STEPS:
            return self.reset()
        reward, to_1 = REWARDS[self._state, actions], TO_STATE_1[self._state, actions]
        self._state = (self._generator.random(self.num_environments) < to_1).astype(int)
        self._steps += 1
        is_last = self._steps == EPISODE_STEPS
        return self._timestep(dm_env.StepType.LAST if is_last else dm_env.StepType.MID, reward)

    def observation_spec(self):
        return specs.Array((2,), np.float32)

    def action_spec(self):
        return specs.DiscreteArray(2)

    def _timestep(self, kind, reward):
        return dm_env.TimeStep(
            np.full(self.num_environments, int(kind), np.int32),
            reward.astype(np.float32),
            np.ones(self.num_environments, np.float32),
            np.eye(2, dtype=np.float32)[self._state],
        )


class Run:
    """A learner, and actors that act with its newest parameters."""

    num_actors = TwoStates.num_environments

    def __init__(self):
        config = AQLConfig(
            search="none",
            replayed_unrolls=0,
            batch_size=self.num_actors,
            queue_capacity=2 * self.num_actors,
            state_size=16,
            joint_sizes=(16,),
            proposal_sizes=(16,),
            discount=0.9,
            unroll_length=10,
            impala_reward_scale=0.5,
            impala_entropy_cost=0.0,
            learning_rate=0.03,
        )
        agent, actors = AQL(config), range(self.num_actors)
        environments = TwoStates()
        spec = EnvironmentSpec.of(environments)
        self.learner = agent.make_learner(spec, seed=0)
        self.policy = agent.make_actor(spec, actors, self.num_actors, seed=0)
        self._queue = agent.data.make_store(agent.step_specs(spec), seed=0)
        _, self._loop = make_loop(agent, self.policy, environments)
        self._update = tf.function(self.learner.update)
        self.pull()

    def pull(self):
        self.policy.load(packing.to_numpy(self.learner.actor_variables))

    def draw(self) -> Batch:
        while (drawn := self._queue.draw(self.num_actors)) is None:
            put(self._queue, self._loop.step())
        return drawn.batch()

    def update(self):
        """Makes an update on new unrolls."""
        self._update(self.draw())
        self.pull()


def test_it_learns_and_actors_and_learner_agree_on_the_probability_of_every_action():
    """An unroll's first action is one of before the update: the one that completed the last."""
    run, ends = Run(), 0
    policy = run.learner.network.policy

    def difference(unroll):
        trunk = policy.trunk(tf.reshape(unroll.observation, [-1, 2]))
        log_pi = policy.proposal.log_prob(trunk, tf.reshape(unroll.extras["action_index"], [-1, 1]))
        return np.abs(
            tf.reshape(log_pi, unroll.extras["log_prob"].shape) - unroll.extras["log_prob"]
        )

    for _ in range(6):
        batch = run.draw()
        np.testing.assert_allclose(difference(batch.steps)[:, 1:], 0, atol=1e-5)
        ends += np.count_nonzero(batch.steps.is_last)
        run.update()
        assert difference(batch.steps).max() > 1e-3
    assert ends
    for _ in range(30):
        run.update()
    best = tf.constant([[1.0], [0.0]])  # it pays to be in state 1, and to stay there
    assert np.exp(policy.proposal.log_prob(policy.trunk(tf.eye(2)), best)).min() > 0.9
