"""Tests of rollouts, the example of a new kind of data."""

import threading
import types

import dm_env
import numpy as np
import pytest
from rollouts import RolloutData, Rollouts, RolloutStore
from stores import Kind, Served, T, columns_of, specs_of
import tensorflow as tf
from test_every_store import EveryStore

from common.cluster.processes import StopRequest
from common.learning.learner import Gradients, Learner
from common.learning.trainer import Trainer
from common.learning.update_loop import UpdateLoop
from common.remote.outbox import Outbox
from common.replay.rate_limiter import UNLIMITED
from common.replay.store import Counters


class RolloutKind(Kind):
    """Rollouts of T timesteps whose return is their mark."""

    refuses, is_cut = True, False
    wrong = [
        *Kind.wrong,
        ("returns", lambda returns: returns * np.float32(np.nan), "returns must be finite"),
        ("returns", lambda returns: returns[1:], "column image|column n|column x"),
    ]

    def make(self, width=4, capacity=100):
        return RolloutStore(specs_of(width, T), capacity)

    def rows(self, marks, width=4):
        marks = np.array(marks)
        steps = columns_of(10 * marks[:, None] + np.arange(T), width)
        return Rollouts(marks.astype(np.float32), steps)

    def marks(self, drawn):
        marks = super().marks(drawn)
        np.testing.assert_array_equal(drawn.returns, marks)
        return marks


@pytest.mark.parametrize("kind", [RolloutKind("rollouts")], ids=["rollouts"])
class TestRollouts(EveryStore):
    """The suite of all kinds of data."""


def test_a_draw_empties_the_store():
    kind, store = RolloutKind("rollouts"), RolloutStore(specs_of(4, T), 8)
    assert store.put(kind.rows(range(6))) and not store.put(kind.rows([6, 7, 8]))
    assert store.draw(7) is None and store.counters() == Counters(6, 6)
    assert kind.draw(store, 4) == [0, 1, 2, 3]
    assert store.counters() == Counters(0, 6, 4, removed=2)
    assert kind.draw(store, 1) is None and store.put(kind.rows(range(8)))


class Mean(Learner):
    """Adds up what it learns from."""

    def __init__(self):
        super().__init__()
        self.total = tf.Variable(0.0)

    @property
    def actor_variables(self):
        return (self.total,)

    def gradients(self, batch):
        rewards = batch.steps.steps["reward"]
        tf.debugging.assert_equal(batch.steps.returns, tf.reduce_sum(rewards, 1))
        return Gradients(tf.reduce_sum(rewards), (), {"reward": tf.reduce_mean(rewards)})

    def apply(self, gradients):
        self.total.assign_add(gradients)
        self.steps.assign_add(1)


def test_actors_and_a_learner_take_turns():
    """Two processes of two environments act; an update needs the rollouts of six timesteps."""
    config = types.SimpleNamespace(rollout_length=3, num_rollouts=8)
    data = RolloutData(config, lambda unrolls: {"reward": unrolls.reward})
    specs, learner, num_updates = {"reward": tf.TensorSpec([3])}, Mean(), 5
    served, stop = Served(data.make_store(specs, seed=0)), StopRequest()
    updates = UpdateLoop(learner.update, 1, config.num_rollouts, jit_compile=False)
    trainer = Trainer(served.store, updates, learner.steps, data.rate_limiter(8, None))
    outboxes = [
        Outbox(served.remote(), data.make_writer(), UNLIMITED, stop, in_lockstep=True)
        for _ in range(2)
    ]

    def act(outbox):
        adder, flags = data.make_adder(2), np.ones(2, np.float32)
        for time in range(6 * num_updates + 1):
            reward = flags * time
            timestep = dm_env.TimeStep(flags.astype(np.int32), reward, flags, flags[:, None])
            unrolls = adder.observe(timestep, {})
            if unrolls is not None:
                outbox.add(unrolls)
            while not outbox.has_credit():
                pass
            adder.act(timestep, flags, {})

    for outbox in outboxes:
        outbox.start()
    threads = [threading.Thread(target=act, args=[outbox]) for outbox in outboxes]
    for thread in threads:
        thread.start()
    while int(learner.steps) < num_updates:
        metrics = trainer.step()
        assert metrics is None or metrics["reward"] > 0
    for thread in threads:
        thread.join()
    assert float(learner.total) == 4 * sum(range(1, 6 * num_updates + 1))  # each reward once
    assert served.store.counters() == Counters(0, 8 * num_updates, 8 * num_updates)
    assert served.accepted() == {outbox.incarnation: 12 * num_updates for outbox in outboxes}
    served.close()
