"""Tests of common.data.rollouts: the loops that act and update in turns, here and elsewhere."""

import threading
import time

import dm_env
import numpy as np
import pytest
from stores import Served
import tensorflow as tf

from common.acting.loop import ActingLoop
from common.acting.policy import Policy
from common.cluster.processes import StopRequest
from common.data.rollouts import Rollouts
from common.learning.learner import Gradients
from common.learning.trainer import Trainer
from common.learning.updates import RolloutLearner, RolloutUpdates
from common.remote.outbox import Outbox
from common.replay.store import UNLIMITED, Counters
from common.types import StoredState

HORIZON, EPOCHS, BATCH = 12, 3, 4
STATES = StoredState(tf.TensorSpec([1]), tf.TensorSpec([1]), {})


class Counting:
    """Environments whose observation is the number of the step in the episode, as is the reward."""

    def __init__(self, lengths):
        self.lengths = np.array(lengths)
        self.num_environments = len(lengths)
        self.times = np.zeros(len(lengths), np.int64)

    def reset(self):
        return self._timestep()

    def step(self, action):
        assert action.shape == (self.num_environments, 1)
        self.times = np.where(self.times == self.lengths, 0, self.times + 1)
        return self._timestep()

    def _timestep(self):
        is_last = self.times == self.lengths
        step_type = np.where(is_last, 2, np.where(self.times == 0, 0, 1)).astype(np.int32)
        times = self.times.astype(np.float32)
        return dm_env.TimeStep(step_type, times, np.float32(~is_last), times[:, None].copy())


class Versioned(Policy):
    """A policy whose action and value tell the version of its parameters."""

    version = 0

    def load(self, flat):
        self.version = int(flat[0])

    def __call__(self, observation, state=()):
        version = np.full(len(observation), self.version, np.float32)
        extras = {"version": version, "value": 100 * version + observation[:, 0]}
        return version[:, None].copy(), state, extras


class Recorder(RolloutLearner):
    """A learner that keeps all batches and whose parameter is the number of its rollouts."""

    def __init__(self):
        super().__init__()
        self.version = tf.Variable(0.0)
        self.calls, self.batches = [], {}

    @property
    def actor_variables(self):
        return (self.version,)

    def prepare(self, rollout):
        self.calls.append(("prepare", int(self.steps)))

    def begin(self, rollout):
        return rollout

    def gradients(self, batch):
        # Without the step they would come in any order: nothing else here depends on the last.
        tf.numpy_function(self._keep, [self.steps.read_value(), *self.flat(batch.steps)], [])
        return Gradients((), (), {"mean_reward": tf.reduce_mean(batch.steps.rewards)})

    def _keep(self, step, *leaves):
        self.batches[int(step)] = [leaf.copy() for leaf in leaves]  # their memory is used again

    def seen(self):
        """Returns the columns [updates * batch] of all updates in their order."""
        assert sorted(self.batches) == list(range(int(self.steps)))
        batches = [self.batches[step] for step in sorted(self.batches)]
        return [np.concatenate(column) for column in zip(*batches)]

    def apply(self, gradients):
        self.steps.assign_add(1)

    def end(self, steps):
        self.version.assign_add(1.0)
        return {"last_reward": steps.rewards[-1]}

    @staticmethod
    def flat(steps):
        return [steps.states.observation[:, 0], steps.states.action[:, 0], steps.values]


def make_trainer(data, store, learner, seed=0):
    updates = RolloutUpdates(
        learner, HORIZON, BATCH, EPOCHS * HORIZON // BATCH, seed, jit_compile=False
    )
    return Trainer(store, updates, learner.steps, data.rate_limiter(0, None))


def run(lengths, num_rollouts, seed=0):
    """Returns the columns [rollouts, epochs, horizon] that the learner has seen."""
    data, learner, policy = Rollouts(HORIZON, 0.9, 0.8), Recorder(), Versioned()
    store, writer, waiting = data.make_store(STATES, seed=0), data.make_writer(), []
    trainer = make_trainer(data, store, learner, seed)
    environments = Counting(lengths)
    loop = ActingLoop(
        environments,
        policy,
        data.make_adder(len(lengths)),
        lambda added: waiting.extend(writer.add(added)),
        lambda *_: None,
        asks_again=data.on_policy,
    )
    while int(learner.version) < num_rollouts:
        metrics = trainer.step()
        if metrics is not None:
            assert metrics.keys() == {"mean_reward", "last_reward"}
            policy.load(learner.version.numpy()[None])
            assert store.counters().items == 0
        loop.step()
        while waiting and store.put(waiting[0].rows):
            waiting.pop(0)
        assert not waiting
    calls = [("prepare", EPOCHS * HORIZON // BATCH * i) for i in range(num_rollouts)]
    assert learner.calls == calls
    return [column.reshape(num_rollouts, EPOCHS, HORIZON) for column in learner.seen()]


def test_all_steps_of_a_rollout_have_one_version_and_none_is_lost():
    observation, action, values = run([1000], 4)
    for i in range(4):
        for epoch in range(EPOCHS):
            wanted = np.arange(i * HORIZON, (i + 1) * HORIZON)
            np.testing.assert_array_equal(np.sort(observation[i, epoch]), wanted)
            np.testing.assert_array_equal(values[i, epoch], observation[i, epoch] + 100 * i)
        assert (action[i] == i).all()
        assert len({tuple(epoch) for epoch in observation[i]}) == EPOCHS  # orders of their own


def test_versions_with_several_actors_and_ends():
    _, action, _ = run([5, 1000, 7], 6)
    for i in range(6):
        assert (action[i] == i).all()


def test_orders_follow_from_the_seed():
    first, again, other = (run([1000], 2, seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("num_actors, wanted", [(12, [7, 5]), (7, [7, 6]), (10_000, [1, 1])])
def test_shares_of_processes_fill_a_rollout(num_actors, wanted):
    data = Rollouts(HORIZON, 0.9, 0.8)
    sizes = {12: (7, 5), 7: (4, 3), 10_000: (1, 1)}[num_actors]
    shares = [data.make_adder(k, k / num_actors)._num_steps for k in sizes]
    assert shares == wanted


def test_two_processes_and_a_learner_take_turns():
    data, learner = Rollouts(HORIZON, 0.9, 0.8), Recorder()
    served, stop, num_rollouts = Served(data.make_store(STATES, seed=0)), StopRequest(), 5
    trainer = make_trainer(data, served.store, learner)
    outboxes = [
        Outbox(served.remote(), data.make_writer(), UNLIMITED, stop, in_lockstep=True)
        for _ in range(2)
    ]

    def act(outbox):
        policy, added = Versioned(), []
        loop = ActingLoop(
            Counting([4, 9]),
            policy,
            data.make_adder(2, share=0.5),
            added.append,
            lambda *_: None,
            asks_again=True,
        )
        for sent in range(1, num_rollouts + 1):
            while not added:
                loop.step()
            outbox.add(added.pop())
            while not outbox.has_credit() or policy.version < sent:
                policy.load(learner.version.numpy()[None])

    for outbox in outboxes:
        outbox.start()
    threads = [threading.Thread(target=act, args=[outbox], daemon=True) for outbox in outboxes]
    for thread in threads:
        thread.start()
    end = time.monotonic() + 20
    while int(learner.version) < num_rollouts and time.monotonic() < end:
        trainer.step()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    action = learner.seen()[1].reshape(num_rollouts, -1)
    assert (action == np.arange(num_rollouts)[:, None]).all()
    size = HORIZON * num_rollouts
    assert served.store.counters() == Counters(0, size, size)
    accepted = served.accepted()
    assert set(accepted) == {outbox.incarnation for outbox in outboxes}
    assert size <= sum(accepted.values()) <= size + 2 * num_rollouts
    served.close()
