"""Tests of common.data.unrolls beside those of every store in tests/remote."""

import threading
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from common.data.unrolls import UnrollQueue

T = 3


class Columns(NamedTuple):
    """Columns of several dtypes."""

    observation: dict
    reward: np.ndarray
    is_last: np.ndarray


SPECS = Columns(
    {"image": tf.TensorSpec([T, 2, 2], tf.uint8), "flat": tf.TensorSpec([T, 4])},
    tf.TensorSpec([T]),
    tf.TensorSpec([T], tf.bool),
)


def unrolls(*marks):
    """Returns unrolls that tell their marks in all columns."""

    def column(spec):
        values = np.array(marks) % 2 if spec.dtype == tf.bool else np.array(marks)
        values = values.reshape([-1] + [1] * len(spec.shape)).astype(spec.dtype.as_numpy_dtype)
        return np.broadcast_to(values, [len(marks), *spec.shape]).copy()

    return tf.nest.map_structure(column, SPECS)


def marks_of(drawn):
    """Returns the marks of unrolls, which agree in all columns."""
    marks = drawn.steps.reward[:, 0].astype(int)
    tf.nest.map_structure(np.testing.assert_array_equal, drawn.steps, unrolls(*marks))
    for array, spec in zip(tf.nest.flatten(drawn.steps), tf.nest.flatten(SPECS), strict=True):
        assert array.dtype == spec.dtype.as_numpy_dtype
    return marks.tolist()


def test_keeps_copies_in_the_order_of_arrival():
    queue, put = UnrollQueue(SPECS, 4), unrolls(1, 2)
    assert queue.put(put) and queue.put(unrolls(3))
    put.reward[:] = 99
    assert marks_of(queue.draw(1)) == [1]
    assert not queue.put(unrolls(4, 5, 6)) and queue.put(unrolls(7))
    assert queue.draw(4) is None and marks_of(queue.draw(3)) == [2, 3, 7]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"reward": np.zeros((2, T))}, "column reward must be float32, is float64"),
        ({"reward": np.zeros((3, T), "f")}, r"column reward must .* \[2, 3\], has \[3, 3\]"),
        ({"is_last": np.zeros((2, T, 1), bool)}, "column is_last must have shape"),
        ({"is_last": np.float32(0)}, "column is_last must be bool"),
        (
            {"observation": {**unrolls(1, 2).observation, "image": np.zeros((2, T, 2, 3), "B")}},
            "column observation/image must have shape",
        ),
        ({"observation": {"flat": np.zeros((2, T, 4), np.float32)}}, "image"),
    ],
)
def test_wrong_columns_are_named_and_leave_the_queue_as_it_was(changes, words):
    queue = UnrollQueue(SPECS, 4)
    queue.put(unrolls(1))
    with pytest.raises(ValueError, match=words):
        queue.put(unrolls(2, 3)._replace(**changes))
    assert queue.counters().inserted == 1
    assert queue.put(unrolls(2)) and marks_of(queue.draw(2)) == [1, 2]


def test_what_never_fits_is_an_error():
    with pytest.raises(ValueError, match="5 unrolls exceed the queue, which holds 4"):
        UnrollQueue(SPECS, 4).put(unrolls(1, 2, 3, 4, 5))
    with pytest.raises(ValueError, match="capacity must be at least 1, is 0"):
        UnrollQueue(SPECS, 0)
    for count in (0, -5):
        with pytest.raises(ValueError, match=f"num_items must be at least 1, is {count}"):
            UnrollQueue(SPECS, 4).draw(count)


def test_many_threads_put_while_one_draws():
    queue, num_threads, num_puts = UnrollQueue(SPECS, 10), 8, 30

    def put(thread):
        for number in range(num_puts):
            while not queue.put(unrolls(*[thread] * (1 + number % 3))):
                pass

    threads = [threading.Thread(target=put, args=[thread]) for thread in range(num_threads)]
    for thread in threads:
        thread.start()
    drawn, total = [], num_threads * num_puts * 2
    while len(drawn) < total:
        assert queue.counters().items <= 10
        if (one := queue.draw(1)) is not None:
            drawn += marks_of(one)
    for thread in threads:
        thread.join()
    assert queue.counters() == (0, total, total, 0, 0, 0)
    assert np.bincount(drawn).tolist() == [total // num_threads] * num_threads
