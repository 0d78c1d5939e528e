"""Tests that a bad argument raises an error that names it, and leaves a memory unchanged."""

import numpy as np
import pytest
import tensorflow as tf

from common.replay.columns import Bytes
from common.replay.episode_memory import EpisodeMemory, WindowMemory
from common.replay.memory import (
    ContextualPriorityTree,
    Fifo,
    Memory,
    Proportional,
    RankBased,
    Uniform,
)

SPECS = {
    "x": tf.TensorSpec([2], tf.float32),
    "n": tf.TensorSpec([], tf.int32),
    "s": Bytes(3),
    "f": Bytes(5, prefix=b"\0<", suffix=b">"),
}
KEYS, PRIORITIES = np.array([20, 21]), np.float32([1, 1])


def strings(*values):
    return np.array(values, object)


STEPS = {
    "x": np.zeros([2, 2], np.float32),
    "n": np.zeros([2], np.int32),
    "s": strings(b"", b"\0\0\0"),
    "f": strings(b"\0<>", b"\0<\0\0>"),
}


def make_memory():
    memory = Memory(
        SPECS, 6, {"sample": Proportional(0.6), "uniform": Uniform(), "old": Fifo()}, "old", seed=1
    )
    memory.insert(
        np.arange(6),
        {
            "x": np.arange(12, dtype=np.float32).reshape(6, 2),
            "n": np.arange(6, dtype=np.int32),
            "s": strings(b"", b"1", b"22", b"333", b"44", b"5"),
            "f": strings(*[b"\0<%d>" % key for key in range(6)]),
        },
        np.arange(6, dtype=np.float32),
    )
    return memory


def state(memory):
    """Returns all that callers can observe of a memory, except how much was sampled."""
    found, steps = memory.read(np.arange(30))
    sample = memory.sample(1)
    statistics = memory.statistics()._replace(sampled=0)
    columns = [column.numpy().tolist() for column in steps.values()]
    return (
        statistics,
        found.numpy().tolist(),
        columns,
        float(sample.total_mass),
        int(sample.count),
    )


def insert(**changes):
    arguments = {"keys": KEYS, "steps": STEPS, "priorities": PRIORITIES} | changes
    return lambda memory: memory.insert(**arguments)


def update(keys=(1, 2), priorities=(1.0, 1.0)):
    return lambda memory: memory.update_priorities(keys, priorities)


def sample(*arguments, **named):
    return lambda memory: memory.sample(*arguments, **named)


def columns(**changes):
    return insert(steps=STEPS | changes)


DOUBLES = tf.ones([2], tf.float64)


@pytest.mark.parametrize(
    "call, message",
    [
        (insert(keys=np.float32([20, 21])), "keys must be int64, is float32"),
        (insert(keys=tf.constant([20, 21])), "keys must be int64, is int32"),
        (insert(keys=np.array([[20, 21]])), "step_keys must be of shape"),
        (insert(keys=np.array([20, -3])), r"step_keys\[1\].* is -3"),
        (
            insert(keys=np.arange(20, 27), priorities=np.ones(7, np.float32)),
            "step_keys: 7 steps at once do not fit a capacity of 6",
        ),
        (insert(priorities=np.float32([1, np.nan])), r"priorities\[1\] .*nan"),
        (insert(priorities=np.float32([1, -0.999])), r"priorities\[1\] .*-0.999"),
        (insert(priorities=DOUBLES), "priorities must be float32, is float64"),
        (insert(priorities=np.float32([1])), r"priorities must be of shape \[2\]"),
        (insert(item_keys=np.array([20, -1])), r"item_keys\[1\]"),
        (insert(item_keys=np.array([[20, 21]])), "item_keys must be of shape"),
        (insert(item_lengths=np.int32([2, 0])), r"item_lengths\[1\] must be in \[1, 6\]"),
        (insert(item_lengths=np.int32([7, 1])), r"item_lengths\[0\] must be in \[1, 6\]"),
        (
            insert(keys=np.array([20, 2**63 - 1]), item_lengths=np.int32([1, 2])),
            r"item_keys\[1\] \+ item_lengths\[1\] must be at most 2\^63",
        ),
        (insert(item_lengths=np.int32([1, 1, 1])), "item_lengths must be of shape"),
        (columns(x=np.zeros([2, 2])), "column x must be float, is double"),
        (columns(x=np.float32([[0, 1], [np.nan, 3]])), "column x must be finite, has NaN or inf"),
        (columns(x=np.zeros([2, 3], "f")), r"column x must be of shape \[2,2\], is \[2,3\]"),
        (columns(s=strings(b"", b"4444")), r"column s\[1\] must have at most 3 bytes, has 4"),
        (columns(f=strings(b"\0<>", b"\1<>")), r"column f\[1\] must begin with the prefix"),
        (columns(f=strings(b"\0<1", b"\0<>")), r"column f\[0\] must end with the suffix"),
        (columns(s=np.zeros([2], np.float32)), "column s must be string, is float"),
        (columns(s=strings(b"")), r"column s must be of shape \[2\], is \[1\]"),
        (update([-1, 2]), r"keys\[0\]"),
        (update(priorities=np.float32([9, np.inf])), r"priorities\[1\] .*inf"),
        (update(priorities=np.float32([9])), "priorities must be of shape"),
        (sample(0), "batch_size must be at least 1, is 0"),
        (sample([1, 2]), "batch_size must be a scalar"),
        (sample(1, max_length=-1), "max_length"),
        (sample(2**31 - 1, max_length=2**40), "overflow|too large|elements"),
        (lambda memory: memory.read([-1]), r"keys\[0\]"),
        (lambda memory: memory.masses([-1]), r"keys\[0\] must not be negative"),
    ],
)
def test_an_invalid_argument_is_named_and_changes_nothing(call, message):
    memory = make_memory()
    before = state(memory)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(memory)
    memory.check()
    assert state(memory) == before


def test_in_a_graph_too():
    memory = make_memory()
    before = state(memory)

    @tf.function(autograph=False)
    def call(keys, priorities):
        memory.insert(keys, STEPS, priorities)
        return memory.update_priorities(keys, priorities)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"priorities\[1\]"):
        call(tf.constant(KEYS), tf.constant([1.0, np.nan]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="keys must be int64"):
        call(tf.constant([1.0, 2.0]), tf.constant([1.0, 1.0]))
    assert state(memory) == before


@pytest.mark.parametrize("dtype", [tf.half, tf.bfloat16, tf.float32, tf.float64])
def test_every_kind_of_float_is_checked_everywhere(dtype):
    memory = Memory(tf.TensorSpec([37], dtype), 9, {"old": Fifo()}, "old")
    good = np.full([5, 37], dtype.max, dtype.as_numpy_dtype)
    good[:, ::3] = dtype.min
    good[:, 1::3] = 0
    memory.insert(np.arange(5), good, np.ones(5, np.float32))
    for place in range(0, good.size, 7):
        bad = good.copy()
        bad.flat[place] = (np.nan, np.inf, -np.inf)[place % 3]
        with pytest.raises(tf.errors.InvalidArgumentError, match="column step must be finite"):
            memory.insert(np.arange(5, 10), bad, np.ones(5, np.float32))
    assert memory.statistics().inserted == 5
    integers = Memory(tf.TensorSpec([2], tf.int32), 9, {"old": Fifo()}, "old")
    bits = np.float32([[np.nan, np.inf]]).view(np.int32)
    integers.insert(np.arange(1), bits, np.ones(1, np.float32))
    assert integers.statistics().inserted == 1


def test_wrong_structures_and_names():
    memory = make_memory()
    before = state(memory)
    with pytest.raises(ValueError, match="structure of the specs: .* is a dict with x$"):
        memory.insert(KEYS, {"x": STEPS["x"]}, PRIORITIES)
    with pytest.raises(
        ValueError, match='unknown distribution "nobody": it must be one of .*sample'
    ):
        memory.sample(1, "nobody")
    for masses in (memory.mass, lambda name: memory.masses([1], name)):
        with pytest.raises(
            ValueError, match='unknown distribution "nobody": it must be one of .*sample'
        ):
            masses("nobody")
    assert state(memory) == before


def test_nothing_to_sample():
    memory = Memory(
        SPECS, 4, {"sample": Proportional(1.0), "uniform": Uniform(), "old": Fifo()}, "old"
    )
    for name in ("sample", "uniform", "old"):
        with pytest.raises(tf.errors.FailedPreconditionError, match="no item"):
            memory.sample(1, name)
    assert set(memory.statistics()) == {0}
    memory.insert([], {name: column[:0] for name, column in STEPS.items()}, [])
    assert memory.update_priorities([], []) == 0
    assert memory.update_priorities([5], [1.0]) == 1
    memory.check()


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"capacity": 0}, ValueError, "capacity must be at least 1, is 0"),
        ({"capacity": 2**31}, tf.errors.InvalidArgumentError, "capacity.* must be at most 2.30"),
        ({"removal": "nobody"}, ValueError, 'unknown removal "nobody": it must be one of'),
        (
            {"capacity": 4, "hard_capacity": 3},
            ValueError,
            "hard_capacity must be at least .* 4, is 3",
        ),
        (
            {"capacity": 4, "hard_capacity": 2**31},
            tf.errors.InvalidArgumentError,
            "hard_capacity.*30",
        ),
        ({"specs": tf.TensorSpec([], tf.string)}, ValueError, "column step holds strings.*Bytes"),
        ({"specs": tf.TensorSpec([], tf.variant)}, tf.errors.InvalidArgumentError, "no fixed size"),
        ({"specs": tf.TensorSpec([None], tf.float32)}, ValueError, "column step .* not fully"),
        (
            {"specs": tf.TensorSpec([2**40], tf.float64), "capacity": 2**10},
            tf.errors.ResourceExhaustedError,
            "1024 steps",
        ),
    ],
)
def test_a_memory_that_cannot_be(arguments, error, message):
    arguments = {
        "specs": SPECS,
        "capacity": 4,
        "distributions": {"old": Fifo()},
        "removal": "old",
    } | arguments
    with pytest.raises(error, match=message):
        Memory(**arguments)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Bytes(0), "max_bytes must be at least 1, is 0"),
        (lambda: Bytes(3, prefix=b"12", suffix=b"34"), "max_bytes must be at least 4, is 3"),
        (lambda: Proportional(np.nan), r"exponent must be in \[-7, 7\], is nan"),
        (lambda: Proportional(-8), r"exponent must be in \[-7, 7\]"),
        (lambda: ContextualPriorityTree(7.5), r"exponent must be in \[-7, 7\]"),
        (lambda: RankBased(-0.5), r"exponent must be in \[0, 7\]"),
        (lambda: RankBased(0.5, 0), "period must be at least 1, is 0"),
        (lambda: Proportional(1.0, uniform_mix=np.nan), r"uniform_mix must be in \[0, 1\], is"),
        (lambda: ContextualPriorityTree(uniform_mix=1.1), r"uniform_mix must be in \[0, 1\], is"),
    ],
)
def test_settings_out_of_their_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_unknown_kind_of_distribution_is_named():
    class Other:
        kind, exponent, uniform_mix, period = "nobody", 0.0, 0.0, 1

    with pytest.raises(tf.errors.InvalidArgumentError, match='"nobody".*"rank_based"'):
        Memory(SPECS, 4, {"sample": Other()}, "sample")


# Memories of whole episodes.

EPISODE_SPECS = {"observation": tf.TensorSpec([2], tf.float32), "text": Bytes(3)}
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


def make_episode_memory():
    memory = EpisodeMemory(EPISODE_SPECS, 4, 0.9, RankBased(0.5, 1), seed=1)
    memory.add(**ADDED)
    memory.refresh(**REFRESHED | {"values": np.float32([5, 6])})
    return memory


def episode_state(memory):
    keys = np.arange(8)
    stored = [column.numpy().tobytes() for column in memory.stored(keys)]
    return memory.statistics(), stored, memory.sample(2, seed=1).keys.numpy().tolist()


def add(**changes):
    return lambda memory: memory.add(**ADDED | changes)


def refresh(**changes):
    return lambda memory: memory.refresh(**REFRESHED | changes)


def scale(value):
    return lambda memory: memory.set_reward_scale(value, recompute=True)


def windows(*arguments):
    return lambda memory: memory.sample_episodes(*arguments)


def steps(**changes):
    return add(steps=ADDED["steps"] | changes)


def long_episode(memory):
    long_steps = {name: np.concatenate([v, v]) for name, v in ADDED["steps"].items()}
    memory.add(long_steps, np.zeros(5, np.float32), np.zeros(6, np.float32), True)


PER_STEP = ("values", "rhos", "divergences", "errors", "next_values", "advantages")


@pytest.mark.parametrize(
    "call, message",
    [
        (add(rewards=np.float32([])), "rewards: an episode must have at least 1 step"),
        (long_episode, "an episode of 5 steps does not fit a capacity of 4"),
        (add(rewards=np.float32([1, np.nan])), r"rewards\[1\] must be finite, is nan"),
        (add(rewards=np.float32([[1, 2]])), "rewards must be of shape"),
        (add(rewards=DOUBLES), "rewards must be float32"),
        (add(values=np.float32([1, 2])), r"values must be of shape \[3\]"),
        (add(values=np.float32([1, 2, np.inf])), r"values\[2\] must be finite"),
        (add(advantages=np.float32([1, 2, 3])), r"advantages must be of shape \[2\]"),
        (add(advantages=np.float32([1, np.nan])), r"advantages\[1\] must be finite, is nan"),
        (add(terminated=[True]), "terminated must be a scalar"),
        (add(terminated=np.float32(1)), "terminated must be bool"),
        (
            steps(observation=np.zeros([3, 3], np.float32)),
            r"column observation must be of shape \[3,2\], is \[3,3\]",
        ),
        (refresh(keys=np.array([0, -1])), r"keys\[1\] must not be negative"),
        (refresh(num_batches=3), "keys: 2 steps are not 3 batches of one size"),
        *((refresh(**{name: np.float32([1, np.inf])}), rf"{name}\[1\]") for name in PER_STEP),
        *((refresh(**{name: np.float32([1])}), rf"{name} must be of shape") for name in PER_STEP),
        (refresh(rhos=np.float32([1, -0.5])), r"rhos\[1\] must be at least 0"),
        (refresh(errors=np.float32([-1, 0])), r"errors\[0\] must be at least 0"),
        (refresh(c_max=np.float32(np.nan)), "c_max must be at least 1, is nan"),
        (refresh(c_max=0.5), "c_max must be at least 1, is 0.5"),
        (refresh(c_max=[4.0]), "c_max must be a scalar"),
        (refresh(c_max=tf.constant(4.0, tf.float64)), "c_max must be float32"),
        (lambda memory: memory.contains(np.int64([-2])), r"keys\[0\]"),
        (scale(np.inf), "scale must be finite and not negative, is inf"),
        (scale(-1.0), "scale must be finite and not negative, is -1"),
        (lambda memory: memory.observation_moments("text"), "column text must be float, is string"),
        (lambda memory: memory.count_steps(-1), "n must not be negative, is -1"),
        (sample(0), "batch_size must be at least 1, is 0"),
        (sample(1, history=-2), "history"),
        (sample(1, num_batches=0), "num_batches"),
        (windows(-3, 4), "batch_size must be at least 1, is -3"),
        (windows(2, 0), "max_steps must be at least 1, is 0"),
        (windows([2], 4), "batch_size must be a scalar"),
        (windows(2, [4]), "max_steps must be a scalar"),
        (windows(2, 4, [1, 2]), "seed must be a scalar"),
        (windows(2, 4, 1, 2**31), "num_batches must be at most 2.30, is 2147483648"),
    ],
)
def test_an_invalid_argument_is_named_and_changes_no_episode(call, message):
    memory = make_episode_memory()
    before = episode_state(memory)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(memory)
    memory.check()
    sampled = episode_state(memory)[0].sampled
    assert episode_state(memory)[1:] == before[1:] and sampled == before[0].sampled + 2


def test_a_batch_above_the_number_of_steps():
    memory = EpisodeMemory(EPISODE_SPECS, 4, 0.9, Uniform())
    for batch_size in (1, 4, 5, 2**31 - 1):
        message = f"the memory holds 0 steps, fewer than a batch of {batch_size}"
        with pytest.raises(tf.errors.FailedPreconditionError, match=message):
            memory.sample(batch_size)
    memory.refresh(np.int64([]), *[np.float32([])] * 5, 4.0)
    assert memory.refresh(**REFRESHED) == 2
    assert set(memory.statistics()._replace(missing=0)) == {0}
    with pytest.raises(ValueError, match="structure"):
        memory.add(**ADDED | {"steps": {"text": TEXT}})
    with pytest.raises(
        ValueError, match='unknown column "pixels": it must be one of .*observation.*text'
    ):
        memory.observation_moments("pixels")
    memory.check()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"capacity": 0}, "capacity must be at least 1, is 0"),
        ({"discount": 1.5}, r"discount must be in \[0, 1\], is 1.5"),
        ({"discount": np.nan}, "discount must be"),
        ({"sampling": Fifo()}, "sampling must be Uniform, RankBased, or .* 0, is Fifo"),
        ({"sampling": Proportional(0.5)}, "with a uniform_mix above 0, is Proportional"),
        ({"removal": "newest"}, 'unknown removal "newest": it must be one of .*oldest'),
        ({"specs": tf.TensorSpec([], tf.string)}, "column step holds strings"),
    ],
)
def test_an_episode_memory_that_cannot_be(arguments, message):
    arguments = {
        "specs": EPISODE_SPECS,
        "capacity": 4,
        "discount": 0.9,
        "sampling": Uniform(),
    } | arguments
    with pytest.raises(ValueError, match=message):
        EpisodeMemory(**arguments)


def test_a_memory_of_windows_has_no_history():
    with pytest.raises(TypeError, match="history"):
        WindowMemory(EPISODE_SPECS, 4, 0.9, window=2, history=3)


def test_a_capacity_above_the_slots():
    with pytest.raises(tf.errors.InvalidArgumentError, match="capacity must be at most 2.29"):
        EpisodeMemory(EPISODE_SPECS, 2**30, 0.9, Uniform())
