"""Tests of common.learning.checkpoint, with a learner that has all kinds of state: D4PG's."""

import numpy as np
import pytest
import sonnet as snt
import tensorflow as tf

from common.learning import optimizers
from common.learning.checkpoint import Checkpoints
from common.learning.update_loop import Batch, UpdateLoop
from common.replay.memory import Sample
from reproductions.d4pg import learner as learner_lib
from reproductions.d4pg.config import D4PGConfig

BATCH, UPDATES = 4, 1


def make_learner(**values):
    """A learner whose target period does not divide the place of the checkpoint."""
    defaults = dict(
        policy_sizes=(6, 5), critic_sizes=(7, 6), num_atoms=5, v_min=-1.0, v_max=1.0,
        batch_size=BATCH, target_period=5, learning_rate=1e-2,
    )
    learner = learner_lib.D4PGLearner(D4PGConfig(**{**defaults, **values}), 3, 2)
    return learner, UpdateLoop(learner.update, UPDATES, BATCH, jit_compile=False)


def samples(count):
    """A frozen sequence of draws."""
    generator = np.random.default_rng(0)
    size = BATCH * UPDATES

    def draw():
        return Sample(
            tf.range(size, dtype=tf.int64),
            tf.constant(generator.uniform(1, 2, size)),
            tf.constant(30.0, tf.float64),
            tf.constant(20, tf.int64),
            tf.ones([size], tf.int32),
            learner_lib.Transition(
                *(
                    tf.constant(generator.normal(size=[size, *spec.shape]), tf.float32)
                    for spec in learner_lib.transition_specs(3, 2)
                )
            ),
        )

    return [draw() for _ in range(count)]


def update(learner, draw):
    """An update outside of any graph."""
    probabilities = tf.cast(draw.masses / draw.total_mass, tf.float32)
    learner.update(Batch(draw.steps, probabilities, tf.cast(draw.count, tf.float32)))


def state_of(learner):
    return [variable.numpy() for variable in learner.variables]


def assert_same_state(first, second):
    assert len(state_of(first)) == len(state_of(second))
    for a, b in zip(state_of(first), state_of(second)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("already_ran", [False, True])
def test_continues_bit_for_bit(tmp_path, already_ran):
    """Also where the optimisers' variables do not exist yet when the checkpoint is read."""
    draws = samples(9)
    first, loop = make_learner()
    progress = tf.Variable(0.0, dtype=tf.float64)
    for draw in draws[:4]:
        loop(draw)
    progress.assign(12.5)
    Checkpoints(tmp_path, {"learner": first, "progress": progress}).save()
    expected = [loop(draw) for draw in draws[4:]]

    second, loop = make_learner()
    other_progress = tf.Variable(0.0, dtype=tf.float64)
    if already_ran:
        loop(draws[-1])
    assert Checkpoints(tmp_path, {"learner": second, "progress": other_progress}).restore()
    assert float(other_progress) == 12.5
    assert int(second.steps) == 4 * UPDATES
    for draw, (priorities, metrics) in zip(draws[4:], expected):
        other_priorities, other_metrics = loop(draw)
        np.testing.assert_array_equal(other_priorities, priorities)
        for name in metrics:
            assert float(other_metrics[name]) == float(metrics[name])
    assert_same_state(first, second)
    # Both Adams' moments and step counts are part of it: 2 moments for each online variable.
    optimizers = (*second.policy_optimizer.variables, *second.critic_optimizer.variables)
    assert len(optimizers) == 2 * len(second.networks.variables) + 2


def test_without_the_optimisers_it_would_not_be_the_same():
    """What the test above can see: moments that start at zero take another way."""
    draws = samples(3)
    first, _ = make_learner()
    for draw in draws[:2]:
        update(first, draw)
    second, _ = make_learner()
    for source, target in zip(
        (*first.networks.variables, *first.target_networks.variables, first.steps),
        (*second.networks.variables, *second.target_networks.variables, second.steps),
    ):
        target.assign(source)
    update(first, draws[2])
    update(second, draws[2])
    difference = [np.abs(a.numpy() - b.numpy()).max()
                  for a, b in zip(first.networks.variables, second.networks.variables)]
    assert max(difference) > 1e-4


def test_nothing_to_restore(tmp_path):
    learner, _ = make_learner()
    before = state_of(learner)
    assert not Checkpoints(tmp_path / "none", {"learner": learner}).restore()
    for a, b in zip(before, state_of(learner)):
        np.testing.assert_array_equal(a, b)


def test_keeps_the_newest(tmp_path):
    counter = tf.Variable(0)
    checkpoints = Checkpoints(tmp_path, {"counter": counter}, keep=2)
    paths = []
    for value in range(1, 5):
        counter.assign(value)
        paths.append(checkpoints.save())
    assert len(list(tmp_path.glob("*.index"))) == 2
    assert tf.train.latest_checkpoint(str(tmp_path)) == paths[-1]
    counter.assign(0)
    assert Checkpoints(tmp_path, {"counter": counter}).restore()
    assert int(counter) == 4


def test_a_save_that_was_cut_off_leaves_the_former_one(tmp_path):
    counter = tf.Variable(7)
    checkpoints = Checkpoints(tmp_path, {"counter": counter})
    checkpoints.save()
    # As a kill between writing the data and naming it leaves it.
    (tmp_path / "ckpt-2.data-00000-of-00001.tempstate123").write_bytes(b"half")
    counter.assign(0)
    assert Checkpoints(tmp_path, {"counter": counter}).restore()
    assert int(counter) == 7


def test_state_that_does_not_fit_is_an_error(tmp_path):
    learner, _ = make_learner()
    Checkpoints(tmp_path, {"learner": learner}).save()
    other, _ = make_learner(policy_sizes=(6, 5, 4))
    with pytest.raises(ValueError, match="shape"):
        Checkpoints(tmp_path, {"learner": other}).restore()
    with pytest.raises(AssertionError):
        Checkpoints(tmp_path, {"other": tf.Variable(0)}).restore()


def test_a_life_without_an_update_loses_nothing(tmp_path):
    """Saved, restored, saved again at once: the optimisers' moments are still there."""
    draws = samples(6)
    first, loop = make_learner()
    for draw in draws[:3]:
        loop(draw)
    Checkpoints(tmp_path, {"learner": first}).save()
    between, _ = make_learner()
    checkpoints = Checkpoints(tmp_path, {"learner": between})
    assert checkpoints.restore()
    checkpoints.save()

    last, last_loop = make_learner()
    assert Checkpoints(tmp_path, {"learner": last}).restore()
    assert_same_state(first, last)
    for draw in draws[3:]:
        loop(draw)
        last_loop(draw)
    assert_same_state(first, last)


def test_creating_an_optimisers_variables_changes_nothing_else():
    plain, created = (snt.optimizers.Adam(0.1) for _ in range(2))
    first, second = (tf.Variable([1.0, -2.0]) for _ in range(2))
    optimizers.create_variables(created, [second])
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    for gradient in ([0.5, -1.0], [0.0, 3.0]):
        plain.apply([tf.constant(gradient)], [first])
        created.apply([tf.constant(gradient)], [second])
        np.testing.assert_array_equal(first.numpy(), second.numpy())
