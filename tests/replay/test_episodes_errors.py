"""Tests that a bad argument raises an error that names it, and leaves the memory unchanged."""

import numpy as np
import pytest
import tensorflow as tf

from common.replay.columns import Bytes
from common.replay.episode_memory import EpisodeMemory
from common.replay.memory import Fifo, RankBased, Uniform

SPECS = {"observation": tf.TensorSpec([2], tf.float32), "text": Bytes(3)}
TEXT = np.array([b"", b"1", b"22"], object)
ADDED = {
    "steps": {"observation": np.zeros([3, 2], np.float32), "text": TEXT},
    "rewards": np.float32([1, 2]),
    "values": np.float32([1, 2, 3]),
    "terminated": False,
    "advantages": np.float32([1, 2]),
}
REFRESHED = {
    "keys": np.array([0, 1]),
    "values": np.float32([1, 2]),
    "rhos": np.float32([1, 2]),
    "divergences": np.float32([1, 2]),
    "errors": np.float32([1, 2]),
    "next_values": np.float32([1, 2]),
    "c_max": 4.0,
    "advantages": np.float32([1, 2]),
}


def make_memory():
    memory = EpisodeMemory(SPECS, 4, 0.9, RankBased(0.5, 1), seed=1)
    memory.add(**ADDED)
    memory.refresh(**REFRESHED | {"values": np.float32([5, 6])})
    return memory


def state(memory):
    keys = np.arange(8)
    stored = [column.numpy().tobytes() for column in memory.stored(keys)]
    return memory.statistics(), stored, memory.sample(2, seed=1).keys.numpy().tolist()


def add(**changes):
    return lambda memory: memory.add(**ADDED | changes)


def refresh(**changes):
    return lambda memory: memory.refresh(**REFRESHED | changes)


def steps(**changes):
    return add(steps=ADDED["steps"] | changes)


def long_episode(memory):
    long_steps = {name: np.concatenate([v, v]) for name, v in ADDED["steps"].items()}
    memory.add(long_steps, np.zeros(5, np.float32), np.zeros(6, np.float32), True)


INVALID = (
    {
        "no step": (add(rewards=np.float32([])), "rewards: an episode must have at least 1 step"),
        "too long": (long_episode, "an episode of 5 steps does not fit a capacity of 4"),
        "rewards NaN": (
            add(rewards=np.float32([1, np.nan])),
            r"rewards\[1\] must be finite, is nan",
        ),
        "a state with NaN": (
            steps(observation=np.float32([[0, 0], [0, 0], [0, np.nan]])),
            "column observation must be finite",
        ),
        "rewards as a matrix": (add(rewards=np.float32([[1, 2]])), "rewards must be of shape"),
        "rewards of text": (add(rewards=np.array(["1", "2"])), "rewards must be float32"),
        "rewards of a double tensor": (
            add(rewards=tf.zeros([2], tf.float64)),
            "rewards must be float",
        ),
        "values too few": (add(values=np.float32([1, 2])), r"values must be of shape \[3\]"),
        "values infinite": (add(values=np.float32([1, 2, np.inf])), r"values\[2\] must be finite"),
        "values of complex": (add(values=np.zeros(3, np.complex64)), "values must be float32"),
        "advantages of a state too many": (
            add(advantages=np.float32([1, 2, 3])),
            r"advantages must be of shape \[2\]",
        ),
        "advantages NaN": (
            add(advantages=np.float32([1, np.nan])),
            r"advantages\[1\] must be finite, is nan",
        ),
        "advantages of complex": (
            add(advantages=np.zeros(2, np.complex64)),
            "advantages must be float32",
        ),
        "terminated as a vector": (add(terminated=[True]), "terminated must be a scalar"),
        "terminated as a number": (add(terminated=np.float32(1)), "terminated must be bool"),
        "a column of doubles": (
            steps(observation=np.zeros([3, 2])),
            "column observation must be fl",
        ),
        "a column of another shape": (
            steps(observation=np.zeros([3, 3], np.float32)),
            r"column observation must be of shape \[3,2\], is \[3,3\]",
        ),
        "a column without the last state": (
            steps(text=TEXT[:2]),
            r"column text must be of shape \[3\], is \[2\]",
        ),
        "a string too long": (
            steps(text=np.array([b"", b"", b"4444"], object)),
            r"column text\[2\] must have at most 3 bytes, has 4",
        ),
        "keys of floats": (refresh(keys=np.float32([0, 1])), "keys must be int64"),
        "a negative key": (refresh(keys=np.array([0, -1])), r"keys\[1\] must not be negative"),
        "keys as a matrix": (refresh(keys=np.array([[0, 1]])), "keys must be of shape"),
        "batches of different size": (
            refresh(num_batches=3),
            "keys: 2 steps are not 3 batches of one size",
        ),
        "rhos negative": (refresh(rhos=np.float32([1, -0.5])), r"rhos\[1\] must be at least 0"),
        "errors negative": (refresh(errors=np.float32([-1, 0])), r"errors\[0\] must be at least 0"),
        "c_max NaN": (refresh(c_max=np.float32(np.nan)), "c_max must be at least 1, is nan"),
        "c_max below 1": (refresh(c_max=0.5), "c_max must be at least 1, is 0.5"),
        "c_max as a vector": (refresh(c_max=[4.0]), "c_max must be a scalar"),
        "c_max of a double tensor": (
            refresh(c_max=tf.constant(4.0, tf.float64)),
            "c_max must be fl",
        ),
        "stored of floats": (lambda memory: memory.stored(np.float32([0])), "keys must be int64"),
        "contains of a negative key": (
            lambda memory: memory.contains(np.int64([-2])),
            r"keys\[0\]",
        ),
        "a count for c_max 0": (
            lambda memory: memory.count_far_policy(0.0),
            "c_max must be at least",
        ),
        "a scale of infinity": (
            lambda memory: memory.set_reward_scale(np.inf, recompute=True),
            "scale must be finite and not negative, is inf",
        ),
        "a negative scale": (
            lambda memory: memory.set_reward_scale(-1.0, recompute=True),
            "scale must be finite and not negative, is -1",
        ),
        "an unknown column": (
            lambda memory: memory.observation_moments("pixels"),
            'column "pixels" is none of: observation text',
        ),
        "a column of strings": (
            lambda memory: memory.observation_moments("text"),
            "column text must be float, is string",
        ),
        "steps uncounted": (lambda memory: memory.count_steps(-1), "n must not be negative, is -1"),
        "an empty batch": (lambda memory: memory.sample(0), "batch_size must be at least 1, is 0"),
        "a negative history": (lambda memory: memory.sample(1, history=-2), "history"),
        "no batch": (lambda memory: memory.sample(1, num_batches=0), "num_batches"),
    }
    | {
        f"{name} not finite": (
            refresh(**{name: np.float32([1, np.inf])}),
            rf"{name}\[1\] must be finite, is inf",
        )
        for name in ("values", "rhos", "divergences", "errors", "next_values", "advantages")
    }
    | {
        f"{name} too few": (refresh(**{name: np.float32([1])}), rf"{name} must be of shape \[2\]")
        for name in ("values", "rhos", "divergences", "errors", "next_values", "advantages")
    }
)


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_argument_is_named_and_changes_nothing(name):
    call, message = INVALID[name]
    memory = make_memory()
    before = state(memory)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(memory)
    memory.check()
    sampled = state(memory)[0].sampled
    assert state(memory)[1:] == before[1:] and sampled == before[0].sampled + 2


def test_a_batch_above_the_number_of_steps():
    memory = EpisodeMemory(SPECS, 4, 0.9, Uniform())
    for batch_size in (1, 4, 5, 2**31 - 1):
        message = f"the memory holds 0 steps, fewer than a batch of {batch_size}"
        with pytest.raises(tf.errors.FailedPreconditionError, match=message):
            memory.sample(batch_size)
    memory.refresh(np.int64([]), *[np.float32([])] * 5, 4.0)
    assert memory.refresh(**REFRESHED) == 2
    assert set(memory.statistics()._replace(missing=0)) == {0}
    with pytest.raises(ValueError, match="structure"):
        memory.add(**ADDED | {"steps": {"text": TEXT}})
    memory.check()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"capacity": 0}, "capacity must be at least 1, is 0"),
        ({"discount": 1.5}, r"discount must be in \[0, 1\], is 1.5"),
        ({"discount": np.nan}, "discount must be"),
        ({"sampling": Fifo()}, "sampling must be Uniform or RankBased, is Fifo"),
        ({"removal": "newest"}, 'removal "newest" is none of .*oldest'),
        ({"specs": tf.TensorSpec([], tf.string)}, "column step is of strings"),
    ],
)
def test_a_memory_that_cannot_be(arguments, message):
    arguments = {"specs": SPECS, "capacity": 4, "discount": 0.9, "sampling": Uniform()} | arguments
    with pytest.raises(ValueError, match=message):
        EpisodeMemory(**arguments)


def test_a_capacity_above_the_slots():
    with pytest.raises(tf.errors.InvalidArgumentError, match="capacity must be at most 2.29"):
        EpisodeMemory(SPECS, 2**30, 0.9, Uniform())


@pytest.mark.parametrize(
    "arguments, message",
    [((-0.5, 1), "exponent must be in"), ((np.nan, 1), "exponent"), ((0.5, 0), "period must be")],
)
def test_a_rank_based_distribution_that_cannot_be(arguments, message):
    with pytest.raises(ValueError, match=message):
        RankBased(*arguments)
