"""Tests of common.learning.updates: loops of updates, and calls on a memory of episodes."""

from typing import NamedTuple

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.environments.spec import UnusableEnvironmentError
from common.learning.learner import DivergedError, Gradients, Learner
from common.learning.trainer import Trainer
from common.learning.updates import FusedUpdates, StoreRules, UpdateLoop
from common.replay import store
from common.replay.episode_memory import EpisodeMemory
from common.replay.episode_wire import Episode, Episodes
from common.replay.memory import Uniform
from common.replay.store import Counters, RateLimiter
from common.types import Batch

BATCH, UPDATES = 4, 3
CALL = BATCH * UPDATES
C_MAX = 4.0
EPISODE_STEPS = 6


class Marks(Learner):
    """Finds V = reward for each step, and as its error the updates before, once made finite."""

    def __init__(self):
        super().__init__()
        self.scale = tf.Variable([1.0])
        self.seen = tf.Variable(tf.zeros([0]), shape=[None])

    @property
    def actor_variables(self):
        return (self.scale,)

    def gradients(self, batch):
        rewards = batch.steps.rewards
        self.seen.assign(tf.concat([self.seen, rewards], 0))
        ones = tf.ones_like(rewards)
        errors = ones * tf.cast(self.steps, tf.float32)
        outputs = (rewards, 2 * ones, ones / 2, errors, 0 * ones, 0 * ones)
        return Gradients((), outputs, {"loss": tf.reduce_mean(rewards) * self.scale[0]})

    def apply(self, gradients):
        self.steps.assign_add(1)


class Rules(StoreRules):
    """A log of what is asked of it."""

    def __init__(self):
        self.prepared, self.traced = [], []

    def prepare(self, learner, memory, step, is_first):
        self.prepared.append((step, is_first, memory.counters().sampled))

    def before_updates(self, learner, memory):
        self.traced.append("before")

    def write_back(self, learner, memory, keys, outputs):
        self.traced.append("write")
        memory.write_back(keys, (*outputs, C_MAX))


def episode_of(rewards):
    states = np.zeros([len(rewards) + 1, 1], np.float32)
    return Episode(states, rewards.astype(np.float32), states[:, 0], False, states[1:, 0])


def filled(num_episodes=10, capacity=100, memory_seed=1, num_steps=EPISODE_STEPS):
    """A memory in which each step has another reward."""
    memory = EpisodeMemory(
        tf.TensorSpec([1]), capacity, 1.0, Uniform(), seed=memory_seed, num_batches=UPDATES
    )
    for i in range(num_episodes):
        episode = episode_of(num_steps * i + np.arange(num_steps))
        memory.put(Episodes(num_steps, (episode,)))
    return memory


class Run:
    """A learner, its trainer and the rules."""

    def __init__(self, memory, seed=5, first_step=0):
        self.memory, self.learner, self.rules = memory, Marks(), Rules()
        self.learner.steps.assign(first_step)
        loop = UpdateLoop(self.learner.update, UPDATES, BATCH, jit_compile=False)
        updates = FusedUpdates(loop, self.learner, memory, self.rules, seed)
        limiter = RateLimiter(10, None, float(CALL))
        self.trainer = Trainer(memory, updates, self.learner.steps, limiter)

    def calls(self, count):
        """The rewards that so many calls learn from."""
        before = len(self.learner.seen.numpy())
        for _ in range(count):
            assert self.trainer.step().keys() == {"loss"}
        return self.learner.seen.numpy()[before:].tolist()


def test_a_call_draws_updates_and_writes_back_in_one_graph():
    run = Run(filled())
    rewards = run.calls(1)
    sample = filled().draw(CALL, store.derive_seed(5, 0))
    np.testing.assert_array_equal(rewards, sample.steps.rewards)
    stored = run.memory.stored(sample.keys)
    np.testing.assert_array_equal(stored.values, sample.steps.rewards)
    np.testing.assert_array_equal(stored.rhos, np.full(CALL, 2))
    np.testing.assert_array_equal(stored.divergences, np.full(CALL, 0.5))
    keys, last = np.unique(sample.keys.numpy()[::-1], return_index=True)
    updates = (CALL - 1 - last) // BATCH  # of equal keys the last one counts
    np.testing.assert_array_equal(run.memory.stored(keys).errors, updates)
    assert int(run.learner.steps) == run.trainer.priority_lag == UPDATES
    assert run.trainer.num_samples == CALL and run.trainer.counters == Counters(60, 60)
    run.calls(2)
    assert run.memory.counters() == Counters(60, 60, 3 * CALL)
    assert run.memory.statistics().updated == 3 * CALL
    assert run.rules.traced == ["before", "write"]  # once, since later calls run the same graph


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("first_step", [0, 500])
def test_a_call_is_prepared_before_its_draw(first_step):
    """Also of a resumed run the first call of the process is the first one."""
    run = Run(filled(), first_step=first_step)
    run.calls(3)
    steps = [first_step + UPDATES * call for call in range(3)]
    assert run.rules.prepared == [*zip(steps, [True, False, False], [0, CALL, 2 * CALL])]


@pytest.mark.usefixtures("eager")
def test_draws_depend_on_the_seed_the_learner_step_and_the_contents_alone():
    first, second = (Run(filled(memory_seed=seed)) for seed in (1, 2))
    drawn = first.calls(3)
    second.memory.draw(CALL)  # by somebody else, from the memory's own generator
    assert second.calls(3) == drawn
    assert drawn[:CALL] != drawn[CALL : 2 * CALL]
    assert Run(filled(), first_step=2 * UPDATES).calls(1) == drawn[2 * CALL :]
    assert Run(filled(), seed=6).calls(1) != drawn[:CALL] != Run(filled(9)).calls(1)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_updates_that_are_not_finite_are_one_line_and_change_no_step(value):
    run = Run(filled())
    run.calls(1)
    keys = run.memory.draw(CALL, 1).keys
    before = [column.numpy() for column in run.memory.stored(keys)]
    run.learner.scale.assign([value])
    with pytest.raises(DivergedError, match=rf"^learning has diverged: loss is {value}; .*$"):
        run.trainer.step()
    assert run.memory.statistics().updated == CALL
    for column, expected in zip(run.memory.stored(keys), before):
        np.testing.assert_array_equal(column, expected)


@pytest.mark.usefixtures("eager")
def test_a_call_waits_for_a_batch_of_finished_episodes():
    run = Run(filled(0))
    run.memory.count_steps(20)  # of episodes that run yet
    assert run.trainer.step() is None and run.trainer.counters == Counters(0, 20)
    for size, is_enough in ((BATCH - 1, False), (1, True)):
        run.memory.put(Episodes(0, (episode_of(np.ones(size)),)))
        assert (run.trainer.step() is not None) == is_enough
    assert run.rules.prepared == [(0, True, 0)]


@pytest.mark.usefixtures("eager")
def test_a_memory_that_never_holds_a_batch_is_one_line():
    """Each episode drives the one before it out."""
    run = Run(filled(4, capacity=2 * BATCH - 3, num_steps=BATCH - 1))
    words = "holds only 3 steps.*a batch of 4"
    with pytest.raises(UnusableEnvironmentError, match=words) as caught:
        run.trainer.step()
    assert "\n" not in str(caught.value) and "raise --config.replay_capacity" in str(caught.value)
    assert run.rules.prepared == [] and int(run.learner.steps) == 0


class Steps(NamedTuple):
    """A nest, so that its structure must survive the loop."""

    x: tf.Tensor
    y: dict[str, tf.Tensor]


class Regression(tf.Module):
    """Weighted least squares by Adam: an update with all that a learner has."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.zeros([3]))
        self.optimizer = snt.optimizers.Adam(0.1)
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    def update(self, batch):
        """Returns |error| as the priority."""
        weights = 1 / (batch.size * batch.probabilities)
        with tf.GradientTape() as tape:
            error = batch.steps.y["value"] - tf.linalg.matvec(batch.steps.x, self.w)
            loss = tf.reduce_mean(weights * error**2)
        self.optimizer.apply(tape.gradient(loss, [self.w]), [self.w])
        self.steps.assign_add(1)
        metrics = {
            "loss": loss,
            "weight_max": tf.reduce_max(weights),
            "size": batch.size,
            "first": batch.steps.x[0, 0],
        }
        return tf.abs(error), metrics


def make_samples(size, seed=0):
    """A draw of `size` items from a memory of 40."""
    generator = np.random.default_rng(seed)
    return Batch(
        steps=Steps(
            tf.constant(generator.normal(size=[size, 3]), tf.float32),
            {"value": tf.constant(generator.normal(size=[size]), tf.float32)},
        ),
        probabilities=tf.constant(generator.uniform(1, 3, size) / 80, tf.float32),
        size=tf.constant(40.0),
    )


def rows(samples, begin, end):
    """A part of a draw, as a draw of its own."""
    return samples._replace(
        probabilities=samples.probabilities[begin:end],
        steps=tf.nest.map_structure(lambda column: column[begin:end], samples.steps),
    )


@pytest.mark.parametrize("num_updates, jit_compile", [(2, False), (5, True)])
def test_updates_in_one_call_are_those_of_as_many_calls(num_updates, jit_compile):
    batch_size = 4
    together, apart = Regression(), Regression()
    loop = UpdateLoop(together.update, num_updates, batch_size, jit_compile)
    single = UpdateLoop(apart.update, 1, batch_size, jit_compile)
    assert loop.num_samples == num_updates * batch_size
    for call in range(2):
        samples = make_samples(num_updates * batch_size, seed=call)
        priorities, metrics = loop.learn(samples)
        parts = [
            single.learn(rows(samples, begin, begin + batch_size))
            for begin in range(0, loop.num_samples, batch_size)
        ]
        assert priorities.shape == [loop.num_samples]
        np.testing.assert_allclose(
            priorities, np.concatenate([p for p, _ in parts]), rtol=1e-5, atol=1e-6
        )
        np.testing.assert_allclose(together.w, apart.w, rtol=1e-5, atol=1e-6)
        assert int(together.steps) == int(apart.steps) == (call + 1) * num_updates
        for name in ("loss", "size", "first"):
            mean = np.mean([m[name] for _, m in parts])
            np.testing.assert_allclose(metrics[name], mean, rtol=1e-5)
        maximum = max(float(m["weight_max"]) for _, m in parts)
        np.testing.assert_allclose(metrics["weight_max"], maximum, rtol=1e-6)


def test_an_update_sees_probabilities_and_the_size_of_the_memory_and_may_put_out_any_nest():
    samples = make_samples(6)
    seen = []

    def update(batch):
        seen.append(batch)
        return {"p": batch.probabilities, "steps": batch.steps}, {"size": batch.size}

    outputs, metrics = UpdateLoop(update, 3, 2, jit_compile=False).learn(samples)
    np.testing.assert_array_equal(outputs["p"], samples.probabilities)
    np.testing.assert_array_equal(outputs["steps"].x, samples.steps.x)  # [B, 3]
    np.testing.assert_array_equal(outputs["steps"].y["value"], samples.steps.y["value"])
    assert float(metrics["size"]) == 40
    assert isinstance(seen[0].steps, Steps) and isinstance(outputs["steps"], Steps)
