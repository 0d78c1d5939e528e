"""An agent of no paper that learns from unrolls, and an environment of integer vectors for it."""

import types
from typing import NamedTuple

import dm_env
from dm_env import specs
import numpy as np
import tensorflow as tf

from common.acting.policy import Policy
from common.agents.agent import Agent
from common.data.unrolls import ReplayedUnrolls
from common.learning.learner import Gradients, Learner

EPISODE_STEPS, TIMESTEPS = 6, 7
"""Of an episode; its FIRST is a timestep, too."""


class Sums(dm_env.Environment):
    """The reward is the sum of both elements of the action; a time limit ends an episode."""

    def __init__(self, seed):
        del seed
        self._left = 0

    def reset(self):
        self._left = EPISODE_STEPS
        return dm_env.restart(np.zeros(1, np.float32))

    def step(self, action):
        if not self._left:
            return self.reset()
        self._left -= 1
        step = dm_env.transition if self._left else dm_env.truncation
        return step(float(action.sum()), np.full(1, EPISODE_STEPS - self._left, np.float32))

    def observation_spec(self):
        return specs.Array((1,), np.float32)

    def action_spec(self):
        return specs.BoundedArray((2,), np.int64, minimum=[-1, 0], maximum=[1, 3])


class Columns(NamedTuple):
    """The stored columns."""

    observation: tf.Tensor
    action: tf.Tensor
    reward: tf.Tensor
    is_last: tf.Tensor


class Actor(Policy):
    """Random actions, shifted by the parameter."""

    def __init__(self, seed, choices):
        self._generator = np.random.default_rng(seed)
        self._choices = choices
        self._shift = 0

    def load(self, flat):
        self._shift = int(1000 * flat[0])

    def __call__(self, observation, state):
        drawn = self._generator.integers(self._choices, size=(len(observation), 2))
        action = ((drawn + self._shift) % self._choices).astype(np.int32)
        return action, state, {"action": action}


class Mean(Learner):
    """The mean of all rewards that it has seen."""

    def __init__(self):
        super().__init__()
        self.mean = tf.Variable([0.0])

    @property
    def actor_variables(self):
        return (self.mean,)

    def gradients(self, batch):
        reward = tf.reduce_mean(batch.steps.reward)
        return Gradients(reward - self.mean, (), {"reward": reward})

    def apply(self, gradients):
        self.steps.assign_add(1)
        self.mean.assign_add(gradients / tf.cast(self.steps, tf.float32))


def columns(unrolls):
    """Returns what is stored and sent of unrolls."""
    return Columns(unrolls.observation, unrolls.extras["action"], unrolls.reward, unrolls.is_last)


class UnrollAgent(Agent):
    """Sends all columns but the discounts."""

    declaration = types.SimpleNamespace(paper="none", num_frames=None)
    jit_compile = False
    publish_period = 1

    def __init__(self, config, setting):
        super().__init__(config, setting)
        self.updates_per_call = config.updates_per_call
        self.data = ReplayedUnrolls(config, columns)

    def step_specs(self, spec):
        t = self.config.unroll_length
        return Columns(
            tf.TensorSpec([t, spec.observation_size]),
            tf.TensorSpec([t, spec.action_size], tf.int32),
            tf.TensorSpec([t]),
            tf.TensorSpec([t], tf.bool),
        )

    def build_learner(self, spec, seed):
        return Mean()

    def make_actor(self, spec, actors, num_actors, seed):
        return Actor(seed, spec.action_choices)

    def make_evaluator(self, spec, num_environments):
        return Actor(0, spec.action_choices)


def make_agent(**changes):
    """Returns the agent; B * T = 20."""
    fields = dict(
        unroll_length=5,
        batch_size=4,
        replayed_unrolls=2,
        replay_capacity=50,
        queue_capacity=8,
        actor_period=5,
        min_replay_size=0,
        samples_per_insert=3.0,
        discount=0.9,
        updates_per_call=1,
    )
    return UnrollAgent(types.SimpleNamespace(**fields | changes), "small")
