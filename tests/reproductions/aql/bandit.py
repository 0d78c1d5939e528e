"""A contextual bandit with a known optimum, in which learner and policy learn without roles."""

import numpy as np
import tensorflow as tf

from common.data.unrolls import Unrolls
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.types import Batch
from reproductions.aql.aql import AQLLearner, SearchPolicy
from reproductions.aql.config import AQLConfig

CONTEXTS = 2
SMALL = {
    "state_size": 32,
    "action_size": 32,
    "joint_sizes": (32, 32),
    "proposal_sizes": (32,),
    "num_proposal_samples": 15,
    "num_uniform_samples": 15,
    "learning_rate": 6e-3,
    "discount": 0.0,
    "batch_size": 16,
    "unroll_length": 6,
}


def optimum(space):
    """Of each context, [2, D]: choices that differ between the contexts."""
    (first,) = space.uniform((1,), np.random.default_rng(4))
    return np.stack([first, (first + 1) % np.array(space.choices)]).astype(np.float32)


def rewards(space, contexts, actions):
    """The shares of choices that match, [N]."""
    return (actions == optimum(space)[contexts]).mean(axis=-1).astype(np.float32)


def learn(space, num_updates):
    """Learns, and returns the greedy actions of both contexts, [2, D]."""
    config = AQLConfig(**SMALL)
    shape = (config.batch_size, config.unroll_length)
    rows = shape[0] * shape[1]
    spec = EnvironmentSpec(observation_size=CONTEXTS, action_size=space.size)
    tf.random.set_seed(0)
    learner = AQLLearner(config, spec, space)
    policy = SearchPolicy(config, spec, space, np.full(rows, 0.1), seed=1)
    greedy = SearchPolicy(config, spec, space, np.zeros(CONTEXTS), seed=3)
    update, state = tf.function(learner.update), policy.initial_state(rows)
    generator = np.random.default_rng(2)
    for _ in range(num_updates):
        policy.load(packing.to_numpy(learner.actor_variables))
        contexts = generator.integers(CONTEXTS, size=rows)
        observation = np.eye(CONTEXTS, dtype=np.float32)[contexts]
        _, state, extras = policy(observation, state)
        reward = rewards(space, contexts, extras["action_index"])
        ends = np.zeros(rows, np.float32), np.zeros(rows, bool)
        unroll = Unrolls(observation, reward, *ends, extras)
        steps = tf.nest.map_structure(
            lambda column: tf.constant(column.reshape(*shape, *column.shape[1:])), unroll
        )
        update(Batch(steps, tf.ones([shape[0]]), tf.constant(1.0)))
    greedy.load(packing.to_numpy(learner.actor_variables))
    return greedy(np.eye(CONTEXTS, dtype=np.float32), ())[2]["best_index"]
