"""Tests of common.replay.unroll_queue."""

import threading
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from common.replay.unroll_queue import UnrollQueue

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
    """Unrolls that tell their marks in all columns."""
    marks = np.array(marks)
    return Columns(
        {
            "image": np.broadcast_to(marks[:, None, None, None], (len(marks), T, 2, 2)).astype(
                np.uint8
            ),
            "flat": np.broadcast_to(marks[:, None, None], (len(marks), T, 4)).astype(np.float32),
        },
        np.broadcast_to(marks[:, None], (len(marks), T)).astype(np.float32),
        np.broadcast_to(marks[:, None] % 2 == 1, (len(marks), T)),
    )


def marks_of(taken):
    """The marks of unrolls, which agree in all columns."""
    marks = taken.reward[:, 0].astype(int)
    tf.nest.map_structure(np.testing.assert_array_equal, taken, unrolls(*marks))
    for array, spec in zip(tf.nest.flatten(taken), tf.nest.flatten(SPECS), strict=True):
        assert array.dtype == spec.dtype.as_numpy_dtype
    return marks.tolist()


def test_gives_batches_in_the_order_of_arrival():
    queue = UnrollQueue(SPECS, 8)
    assert queue.take(1) is None and queue.size() == 0
    assert queue.offer(7, 1, unrolls(1, 2, 3)) and queue.offer(9, 1, unrolls(4, 5))
    assert queue.size() == 5 and queue.take(6) is None
    assert marks_of(queue.take(4)) == [1, 2, 3, 4]
    assert queue.offer(7, 2, unrolls(6))
    assert marks_of(queue.take(2)) == [5, 6]
    assert queue.take(1) is None
    statistics = queue.statistics()
    assert (statistics.items, statistics.inserted, statistics.sampled) == (0, 6, 6)


def test_keeps_copies():
    queue, offered = UnrollQueue(SPECS), unrolls(1, 2)
    assert queue.offer(7, 1, offered)
    offered.reward[:] = 99
    assert marks_of(queue.take(2)) == [1, 2]


def test_takes_an_offer_whole_or_not_at_all():
    queue = UnrollQueue(SPECS, 4)
    assert queue.offer(7, 1, unrolls(1, 2, 3))
    assert not queue.offer(7, 2, unrolls(4, 5))
    assert queue.size() == 3
    assert queue.offer(9, 1, unrolls(6))  # of other actors, which fits
    queue.take(1)
    assert not queue.offer(7, 2, unrolls(4, 5))
    queue.take(1)
    assert queue.offer(7, 2, unrolls(4, 5))
    assert marks_of(queue.take(4)) == [3, 6, 4, 5]


def test_an_offer_that_is_repeated_changes_nothing():
    queue = UnrollQueue(SPECS, 4)
    for _ in range(3):
        assert queue.offer(7, 1, unrolls(1, 2))
    queue.take(2)
    assert queue.offer(7, 2, unrolls(3, 4, 5, 6))
    # Late, and while the queue is full.
    assert queue.offer(7, 1, unrolls(1, 2)) and queue.offer(7, 2, unrolls(3, 4, 5, 6))
    assert marks_of(queue.take(4)) == [3, 4, 5, 6] and queue.size() == 0
    assert queue.statistics().inserted == 6


def test_a_new_queue_takes_up_the_numbers_of_a_former_one():
    queue = UnrollQueue(SPECS, 4)
    assert queue.offer(7, 57, unrolls(1))
    assert queue.offer(7, 57, unrolls(1)) and queue.size() == 1
    assert queue.offer(7, 58, unrolls(2)) and marks_of(queue.take(2)) == [1, 2]
    # An actor skips no number: whoever does is not the same one.
    for number in (60, 2**44):
        with pytest.raises(ValueError, match=f"number must be at most 59, is {number}"):
            queue.offer(7, number, unrolls(3))
    assert queue.offer(7, 59, unrolls(4)) and marks_of(queue.take(1)) == [4]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"reward": np.zeros((2, T))}, "column reward must be float32, is float64"),
        (
            {"reward": np.zeros((2, T + 1), np.float32)},
            r"column reward must .* \[2, 3\], .* \[2, 4\]",
        ),
        ({"reward": np.zeros((3, T), np.float32)}, r"column reward must have shape \[2, 3\]"),
        ({"is_last": np.zeros((2, T, 1), bool)}, "column is_last must have shape"),
        ({"is_last": np.float32(0)}, "column is_last must be bool"),
        (
            {
                "observation": unrolls(1, 2).observation
                | {"image": np.zeros((2, T, 2, 3), np.uint8)}
            },
            "column observation/image must have shape",
        ),
        *[
            ({"reward": np.float32([[1, 2, 3], [4, wrong, 6]])}, "column reward must be finite")
            for wrong in (np.nan, np.inf, -np.inf)
        ],
        ({"observation": {"flat": np.zeros((2, T, 4), np.float32)}}, "image"),
    ],
)
def test_wrong_columns_are_named_and_leave_the_queue_as_it_was(changes, words):
    queue = UnrollQueue(SPECS, 4)
    queue.offer(7, 1, unrolls(1))
    with pytest.raises(ValueError, match=words):
        queue.offer(7, 2, unrolls(2, 3)._replace(**changes))
    assert queue.statistics().inserted == 1
    assert queue.offer(7, 2, unrolls(2)) and marks_of(queue.take(2)) == [1, 2]


def test_what_never_fits_is_an_error():
    with pytest.raises(ValueError, match="5 unrolls exceeds the queue, which holds 4"):
        UnrollQueue(SPECS, 4).offer(7, 1, unrolls(1, 2, 3, 4, 5))
    with pytest.raises(ValueError, match="capacity must be at least 1, is 0"):
        UnrollQueue(SPECS, 0)
    assert UnrollQueue(SPECS).offer(7, 1, unrolls(*range(200)))


def test_many_threads_offer_and_repeat_while_one_takes():
    queue, num_threads, num_offers = UnrollQueue(SPECS, 10), 8, 60
    total = num_threads * sum(1 + number % 3 for number in range(1, num_offers + 1))

    def offer(thread):
        rng = np.random.default_rng(thread)
        for number in range(1, num_offers + 1):
            part = unrolls(*[thread] * (1 + number % 3))
            while not queue.offer(thread, number, part):
                pass
            if rng.random() < 0.3:
                assert queue.offer(thread, number, part)

    threads = [threading.Thread(target=offer, args=[thread]) for thread in range(num_threads)]
    for thread in threads:
        thread.start()
    taken = []
    while len(taken) < total:
        assert queue.size() <= 10
        if (one := queue.take(1)) is not None:
            taken += marks_of(one)
    for thread in threads:
        thread.join()
    assert queue.size() == 0 and queue.statistics().inserted == queue.statistics().sampled == total
    assert np.bincount(taken).tolist() == [total // num_threads] * num_threads
