"""Tests of common.data.rollouts beside those of every store: the versions of its steps."""

import numpy as np
import pytest
import tensorflow as tf

from common.data.rollouts import Rollout, RolloutStore
from common.replay.store import Counters

SPECS = {"x": tf.TensorSpec([])}


def rows(version, *marks):
    return Rollout(np.full(len(marks), version), {"x": np.float32(marks)})


def marks(drawn):
    assert len(set(drawn.version.tolist())) == 1
    return drawn.steps["x"].tolist()


def test_a_draw_drops_the_others():
    store = RolloutStore(SPECS, 8)
    assert store.put(rows(0, *range(6))) and not store.put(rows(0, 6, 7, 8))
    assert store.draw(7) is None and store.counters() == Counters(6, 6)
    assert marks(store.draw(4)) == [0, 1, 2, 3]
    assert store.counters() == Counters(0, 6, 4, removed=2)
    assert store.draw(1) is None and store.put(rows(1, *range(8)))


def test_steps_of_a_drawn_version_are_dropped():
    """An actor that was killed has sent twice, so that another comes too late."""
    store = RolloutStore(SPECS, 8)
    assert store.put(rows(0, 1, 2)) and store.put(rows(0, 3, 4))
    assert marks(store.draw(4)) == [1, 2, 3, 4]
    assert store.put(rows(0, 5, 6)) and store.counters() == Counters(0, 6, 4, removed=2)
    assert store.put(rows(1, 7, 8)) and store.put(rows(0, 9, 10)) and store.put(rows(1, 11, 12))
    assert marks(store.draw(4)) == [7, 8, 11, 12]


def test_steps_of_another_version_replace_those_held():
    """The learner has returned to a checkpoint while steps of before are on their way."""
    store = RolloutStore(SPECS, 8)
    assert store.put(rows(9, *range(7)))
    assert store.put(rows(5, 7, 8, 9)) and store.counters() == Counters(3, 10, removed=7)
    assert marks(store.draw(3)) == [7, 8, 9]


def test_a_store_that_follows_a_learner_takes_steps_of_its_version_alone():
    """It has returned to checkpoint 5; one actor sends steps of before, early, another late."""
    version = 5
    store = RolloutStore(SPECS, 8)
    store.follow(lambda: version)
    assert store.put(rows(8, 0, 1)) and store.put(rows(5, 2, 3)) and store.put(rows(8, 4, 5))
    assert store.draw(4) is None and store.put(rows(5, 6, 7))
    assert marks(store.draw(4)) == [2, 3, 6, 7]
    assert store.put(rows(5, 8, 9)) and store.counters() == Counters(0, 10, 4, removed=6)
    version = 6
    assert store.put(rows(6, 10, 11)) and marks(store.draw(2)) == [10, 11]


def test_a_put_has_one_version():
    store = RolloutStore(SPECS, 8)
    with pytest.raises(ValueError, match="version must be one, is 3 to 4"):
        store.put(Rollout(np.array([3, 4]), {"x": np.float32([1, 2])}))
    assert store.counters() == Counters()
