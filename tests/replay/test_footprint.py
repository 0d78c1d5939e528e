import json
import pathlib
import subprocess
import sys

import pytest

from common.replay.footprint import memory_bytes

ROOT = pathlib.Path(__file__).parents[2]
# (capacity, steps, floats a step, distributions): small steps and large ones, full and not.
CASES = [
    (400_000, 400_000, 13, ["Proportional(0.6)", "Fifo()"]),
    (150_000, 150_000, 157, ["Proportional(0.6)", "Proportional(-0.4)"]),
    (150_000, 150_000, 157, ["Uniform()", "Fifo()"]),
    (4_000_000, 100_000, 157, ["Proportional(0.6)", "Fifo()"]),
]
FILL = """
import json, pathlib, sys
import numpy as np
import tensorflow as tf
from common.replay.distributions import Fifo, Proportional, Uniform
from common.replay.memory import Memory

def taken():
    fields = dict(line.split(":") for line in open("/proc/self/status"))
    return 1024 * int(fields["RssAnon"].split()[0])

kept = []
for capacity, steps, floats, (sample, remove) in json.loads(sys.argv[1]):
    spec = tf.TensorSpec([floats], tf.float32)
    distributions = {"sample": eval(sample), "remove": eval(remove)}
    memory = Memory(spec, capacity, distributions, "remove", seed=1)
    before = taken()
    # Beyond the capacity, so that a full one has removed, too.
    for begin in range(0, steps + 20_000 * (steps == capacity), 1000):
        keys = np.arange(begin, begin + 1000)
        memory.insert(keys, np.ones([1000, floats], np.float32), np.ones(1000, np.float32))
    assert memory.statistics().steps == steps
    kept.append(memory)
    print(taken() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_is_what_a_memory_really_takes():
    ended = subprocess.run(
        [sys.executable, "-c", FILL, json.dumps(CASES)], cwd=ROOT, capture_output=True, text=True,
        timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    for (capacity, steps, floats, _), taken in zip(CASES, ended.stdout.split(), strict=True):
        assert int(taken) == pytest.approx(memory_bytes(steps, capacity, 4 * floats), rel=0.15)


def test_what_is_not_filled_costs_its_index_only():
    assert memory_bytes(0, 1_000_000, 628) == 8 * 2**21
    assert memory_bytes(1, 1_000_000, 628) - memory_bytes(0, 1_000_000, 628) < 700
