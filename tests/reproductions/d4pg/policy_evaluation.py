"""Critics that evaluate one policy on one replay, compared with Monte Carlo returns.

    python tests/reproductions/d4pg/policy_evaluation.py      # about five minutes on a core

The policy is results/policies/d4pg_cheetah_walk, the replay is of its episodes with noise and
without, N is 1. Three critics learn from the same batches: those of D4PG and D3PG, by the learner
itself with a policy that does not move, and one whose categorical loss is written here after the
description of Acme's D4PG, without a line of the learner's.
"""

import sys
import time
from typing import NamedTuple

import numpy as np
import sonnet as snt
import tensorflow as tf

from common import environments
from common.agents import trained
from common.data.transitions import StoredTransition
from common.evidence.paper import RESULTS
from common.types import Batch
from reproductions.d4pg import d4pg
from reproductions.d4pg.config import D4PGConfig

NOISE = 0.3
KINDS = ("categorical", "scalar", "independent")


class Data(NamedTuple):
    """A replay, and states with their returns.

    Attributes:
      replay: transitions [N, ...] of a step each, with the environment's discounts.
      states: [M, D] of episodes without noise, of which at least half was left.
      rewards: [M, H], the rewards that followed.
    """

    replay: StoredTransition
    states: np.ndarray
    rewards: np.ndarray

    def returns(self, gamma):
        """Discounted returns [M]; after H steps the last reward is assumed to go on."""
        powers = gamma ** np.arange(self.rewards.shape[1])
        rest = self.rewards[:, -100:].mean(axis=1) * gamma ** self.rewards.shape[1] / (1 - gamma)
        return self.rewards @ powers + rest


def load():
    """The run of the kept policy."""
    directory = RESULTS / "policies/d4pg_cheetah_walk"
    return trained.load(directory, d4pg.D4PG)


def play(policy, num_noisy, num_greedy, seed=0):
    """Plays episodes and returns `Data`."""
    generator = np.random.default_rng(seed)
    environment = environments.make("control:cheetah:walk", seed=seed)
    columns, states, rewards = [], [], []
    for episode in range(num_noisy + num_greedy):
        timestep, noise = environment.reset(), NOISE * (episode < num_noisy)
        seen, gained = [], []
        while not timestep.last():
            state = timestep.observation
            action = policy(state[np.newaxis])[0][0]
            action = np.clip(action + noise * generator.normal(size=action.shape), -1, 1)
            timestep = environment.step(action)
            row = (state, action, timestep.reward, timestep.discount, timestep.observation)
            columns.append(row)
            seen.append(state)
            gained.append(timestep.reward)
        if not noise:
            half = len(gained) // 2
            for start in range(0, half, 10):
                states.append(seen[start])
                rewards.append(gained[start : start + half])
    replay = StoredTransition(*(np.array(column, np.float32) for column in zip(*columns)))
    return Data(replay, np.array(states, np.float32), np.array(rewards))


class Evaluation:
    """A critic of a fixed policy."""

    def __init__(self, run, data, kind, config):
        self._kind, self._config, self._data = kind, config, data
        tf.random.set_seed(0)
        self._learner = d4pg.D4PGLearner(config, run.spec)
        self._learner.policy_optimizer = snt.optimizers.SGD(0.0)
        networks = self._learner.networks, self._learner.target_networks
        for each in networks:
            start = 0
            for variable in each.policy.trainable_variables:
                size = variable.shape.num_elements()
                values = run.parameters[start : start + size]
                variable.assign(np.reshape(values, variable.shape))
                start += size
        self._adam = snt.optimizers.Adam(config.learning_rate)
        self._replay = tf.nest.map_structure(tf.constant, data.replay)

    def learn(self, num_updates, jit_compile=True):
        """Learns from uniform batches, the same for each kind."""
        size = len(self._replay.n_step_reward)
        update = self._independent if self._kind == "independent" else self._learner.update

        @tf.function(autograph=False, jit_compile=jit_compile)
        def many(seed):
            def learn(i):
                index = tf.random.stateless_uniform(
                    [self._config.batch_size], [seed, i], 0, size, tf.int32
                )
                steps = tf.nest.map_structure(lambda column: tf.gather(column, index), self._replay)
                steps = steps._replace(
                    n_step_discount=self._config.discount * steps.n_step_discount
                )
                every = tf.ones([self._config.batch_size])
                update(Batch(steps, every / size, tf.constant(float(size))))
                return (i + 1,)

            tf.while_loop(lambda i: i < 100, learn, [0])

        for call in range(num_updates // 100):
            many(tf.constant(call))

    def values(self):
        """Q(s, pi(s)) of the data's states, [M]."""
        networks = self._learner.networks
        outputs = networks.critic(self._data.states, networks.policy(self._data.states))
        if self._kind == "scalar":
            return outputs.numpy()
        c = self._config
        return tf.nn.softmax(outputs).numpy() @ np.linspace(c.v_min, c.v_max, c.num_atoms)

    def _independent(self, batch):
        """The update of Acme's description: each moved atom gives its mass to its neighbours."""
        c, learner, steps = self._config, self._learner, batch.steps
        target, online = learner.target_networks, learner.networks
        atoms = tf.cast(tf.linspace(c.v_min, c.v_max, c.num_atoms), tf.float32)
        next_action = target.policy(steps.observation_t)
        mass = tf.nn.softmax(target.critic(steps.observation_t, next_action))
        moved = steps.n_step_reward[:, None] + steps.n_step_discount[:, None] * atoms[None, :]
        last = c.num_atoms - 1
        place = (tf.clip_by_value(moved, c.v_min, c.v_max) - c.v_min) / (c.v_max - c.v_min) * last
        below = tf.minimum(tf.floor(place), last - 1)
        above_share = place - below
        below = tf.cast(below, tf.int32)
        labels = tf.einsum("bj,bji->bi", mass * (1 - above_share), tf.one_hot(below, last + 1))
        labels += tf.einsum("bj,bji->bi", mass * above_share, tf.one_hot(below + 1, last + 1))
        with tf.GradientTape() as tape:
            logits = online.critic(steps.observation_tm1, steps.action_tm1)
            losses = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        variables = online.critic.trainable_variables
        self._adam.apply(tape.gradient(loss, variables), variables)
        learner.steps.assign_add(1)
        due = tf.equal(learner.steps % c.target_period, 0)
        for o, t in zip(variables, target.critic.trainable_variables):
            t.assign(tf.where(due, o, t))


def configuration(kind, **values):
    """The hyperparameters of the scale small, with N = 1 and uniform replay."""
    defaults = {
        "critic": "scalar" if kind == "scalar" else "categorical",
        "n_step": 1,
        "priority_exponent": 0.0,
        "learning_rate": 3e-4,
        "batch_size": 64,
        "policy_sizes": (128, 128),
        "critic_sizes": (128, 128),
        "target_period": 20,
    }
    return D4PGConfig(**{**defaults, **values})


def errors(run, data, kind, num_updates, **values):
    """Mean of Q, of the returns, root mean square of the difference."""
    config = configuration(kind, **values)
    evaluation = Evaluation(run, data, kind, config)
    evaluation.learn(num_updates)
    returns = data.returns(config.discount)
    difference = evaluation.values() - returns
    return returns.mean() + difference.mean(), returns.mean(), np.sqrt(np.mean(difference**2))


def main():
    """Prints a line for each critic."""
    run = load()
    data = play(run.make_policy(1), num_noisy=8, num_greedy=4)
    for period, num_updates in ((20, 10_000), (100, 10_000), (400, 10_000)):
        for kind in KINDS:
            start = time.time()
            found = errors(run, data, kind, num_updates, target_period=period)
            took = time.time() - start
            print(
                period, num_updates, kind, *(f"{x:.2f}" for x in found), f"{took:.0f} s", flush=True
            )


if __name__ == "__main__":
    sys.exit(main())
