import json
import pathlib
import subprocess
import sys

import pytest

from common.replay.footprint import BYTES_A_VALUE, memory_bytes

ROOT = pathlib.Path(__file__).parents[2]
# (capacity, steps, floats a step, distributions): small steps and large ones, full and not.
CASES = [
    (400_000, 400_000, 13, ["Proportional(0.6)", "Fifo()"]),
    (150_000, 150_000, 157, ["Proportional(0.6)", "Proportional(-0.4)"]),
    (150_000, 150_000, 157, ["Uniform()", "Fifo()"]),
    (4_000_000, 100_000, 157, ["Proportional(0.6)", "Fifo()"]),
]
BYTES_CASE = (50_000, 50_000, "bytes", ["Proportional(0.6)", "Fifo()"])
MEAN_BYTES = 950
"""Of a frame of Pong as PNG (papers/apex.md)."""
FILL = """
import json, pathlib, sys
import numpy as np
import tensorflow as tf
from common.replay.distributions import Fifo, Proportional, Uniform
from common.replay.memory import Bytes, Memory

rng = np.random.default_rng(0)

def taken():
    fields = dict(line.split(":") for line in open("/proc/self/status"))
    return 1024 * int(fields["RssAnon"].split()[0])

def values(floats):
    if floats == "bytes":
        return np.array([bytes(n) for n in rng.integers(450, 1451, 1000)], object)
    return np.ones([1000, floats], np.float32)

kept = []
for capacity, steps, floats, (sample, remove) in json.loads(sys.argv[1]):
    spec = Bytes(2000) if floats == "bytes" else tf.TensorSpec([floats], tf.float32)
    distributions = {"sample": eval(sample), "remove": eval(remove)}
    memory = Memory(spec, capacity, distributions, "remove", seed=1)
    before = taken()
    # Beyond the capacity, so that a full one has removed, too.
    for begin in range(0, steps + 20_000 * (steps == capacity), 1000):
        keys = np.arange(begin, begin + 1000)
        memory.insert(keys, values(floats), np.ones(1000, np.float32))
    assert memory.statistics().steps == steps
    print(taken() - before)
    if floats != "bytes":
        kept.append(memory)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_is_what_a_memory_really_takes():
    cases = CASES + 3 * [BYTES_CASE]
    ended = subprocess.run(
        [sys.executable, "-c", FILL, json.dumps(cases)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    all_taken = [int(taken) for taken in ended.stdout.split()]
    for (capacity, steps, floats, _), taken in zip(CASES, all_taken, strict=False):
        assert taken == pytest.approx(memory_bytes(steps, capacity, 4 * floats), rel=0.15)
    # Three times, each in place of the one before: what that had taken is used again.
    expected = memory_bytes(BYTES_CASE[1], BYTES_CASE[0], MEAN_BYTES + BYTES_A_VALUE)
    first, *others = all_taken[len(CASES) :]
    assert first == pytest.approx(expected, rel=0.15)
    assert max(others) < 0.2 * expected


def test_what_is_not_filled_costs_its_index_only():
    assert memory_bytes(0, 1_000_000, 628) == 8 * 2**21
    assert memory_bytes(1, 1_000_000, 628) - memory_bytes(0, 1_000_000, 628) < 700
