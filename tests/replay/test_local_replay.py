"""Tests of common.replay.local_replay."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from common.replay.local_replay import LocalReplay

T = 3


class Columns(NamedTuple):
    """The columns of an unroll."""

    mark: np.ndarray
    is_last: np.ndarray


SPECS = Columns(tf.TensorSpec([T, 2]), tf.TensorSpec([T], tf.bool))


def unrolls(*marks):
    marks = np.array(marks, np.float32)
    return Columns(
        np.tile(marks[:, None, None], (1, T, 2)), np.tile(marks[:, None] % 2 == 1, (1, T))
    )


def marks_of(columns):
    """The marks of unrolls, which agree in both columns."""
    marks = columns.mark[:, 0, 0].astype(int)
    tf.nest.map_structure(np.testing.assert_array_equal, columns, unrolls(*marks))
    return marks.tolist()


def test_each_unroll_is_followed_by_others_of_its_actor():
    replay = LocalReplay(SPECS, capacity=100, length=T, seed=1)
    assert marks_of(replay.burst([4, 5], unrolls(40, 50), 2)) == [40, 40, 40, 50, 50, 50]
    seen = set()
    for step in range(1, 30):
        burst = marks_of(replay.burst([5, 4], unrolls(50 + 100 * step, 40 + 100 * step), 2))
        assert burst[0] == 50 + 100 * step and burst[3] == 40 + 100 * step
        for row, mark in enumerate(burst):
            assert mark % 100 == (50 if row < 3 else 40) and mark <= 50 + 100 * step
        seen |= {mark // 100 for mark in burst[1:3]}
    assert len(seen) > 10


def test_draws_are_uniform_over_what_is_left_of_an_actors_unrolls():
    replay = LocalReplay(SPECS, capacity=4 * T + 2, length=T, seed=2)  # four unrolls
    for mark in range(9):
        replay.burst([3], unrolls(mark), 1)
    burst = marks_of(replay.burst([3], unrolls(9), 4000))
    counts = np.bincount(burst[1:], minlength=10)
    assert counts[:6].sum() == 0
    np.testing.assert_allclose(counts[6:], 1000, atol=4 * np.sqrt(4000 * 0.25 * 0.75))


def test_equal_seeds_give_equal_bursts_and_actors_differ():
    def draws(seed, actor):
        replay = LocalReplay(SPECS, 100, T, seed)
        return [marks_of(replay.burst([actor], unrolls(mark), 2)) for mark in range(20)]

    assert draws(1, 0) == draws(1, 0)
    assert draws(1, 0) != draws(2, 0) and draws(1, 0) != draws(1, 1)


def test_none_are_added_where_none_are_replayed():
    columns = unrolls(1, 2)
    assert LocalReplay(SPECS, 100, T, 1).burst([0, 1], columns, 0) is columns


def test_what_is_left_of_saved_replays_grows_on(tmp_path):
    """Files are saved one after another, and one may be damaged."""
    replay = LocalReplay(SPECS, 100, T, seed=3)
    for mark in range(8):
        replay.burst([0, 1], unrolls(mark, mark), 1)
    replay.save(tmp_path / "replay")
    (tmp_path / "replay_0").write_bytes(b"damaged")
    again = LocalReplay(SPECS, 100, T, seed=3)
    again.load(tmp_path / "replay")
    for mark in range(8, 12):
        again.burst([0, 1], unrolls(mark, mark), 1)
    counters = again.counters()
    assert (counters.items, counters.duplicates) == (12 + 4, 0)


def test_a_replay_smaller_than_an_unroll():
    with pytest.raises(ValueError, match="a replay of 2 timesteps holds no unroll of 3"):
        LocalReplay(SPECS, 2, T, 1)


def test_a_wrong_column_is_named():
    wrong = unrolls(1)._replace(mark=np.zeros((1, T, 3), np.float32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="mark"):
        LocalReplay(SPECS, 100, T, 1).burst([0], wrong, 2)
