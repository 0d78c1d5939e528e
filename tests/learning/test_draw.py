"""Tests of common.learning.draw: rows that are drawn anew."""

from common.learning.draw import replace_rows
import numpy as np
import tensorflow as tf

from common.replay.memory import Sample


def make_sample(keys, masses, total_mass):
    keys = np.array(keys)
    return Sample(
        tf.constant(keys),
        tf.constant(masses, tf.float64),
        tf.constant(total_mass, tf.float64),
        tf.constant(50, tf.int64),
        tf.ones(len(keys), tf.int32),
        {
            "image": tf.constant([b"image %d" % key for key in keys]),
            "value": tf.constant(np.stack([keys, -keys], 1)),
        },
    )


def test_rows_are_replaced_whole_with_their_probabilities():
    """The memory has lost a fifth of its mass in between."""
    sample = make_sample([4, 5, 6, 7], [1.0, 2.0, 3.0, 4.0], 20.0)
    fresh = make_sample([8, 9], [4.0, 0.5], 16.0)
    joined = replace_rows(sample, [3, 1], fresh)
    np.testing.assert_array_equal(joined.keys, [4, 9, 6, 8])
    np.testing.assert_allclose(
        joined.masses / joined.total_mass, [1 / 20, 0.5 / 16, 3 / 20, 4 / 16]
    )
    assert float(joined.total_mass) == 20 and int(joined.count) == 50
    assert joined.steps["image"].numpy().tolist() == [
        b"image 4",
        b"image 9",
        b"image 6",
        b"image 8",
    ]
    np.testing.assert_array_equal(joined.steps["value"], [[4, -4], [9, -9], [6, -6], [8, -8]])
    for old, new in zip(tf.nest.flatten(sample), tf.nest.flatten(joined)):
        assert (old.dtype, old.shape) == (new.dtype, new.shape)
