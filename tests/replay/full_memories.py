"""Fills memories and prints what each takes, as a share of what was estimated.

A program of its own, since other tests of a process leave memory that is freed meanwhile.
"""

import pathlib
import types

import dm_env
import numpy as np
import tensorflow as tf

from common.cluster.processes import return_free_memory
from common.environments.spec import EnvironmentSpec
from common.replay import footprint, png
from common.replay.memory import ContextualPriorityTree, Fifo, Memory, Proportional, Uniform


class Noise(dm_env.Environment):
    """An environment whose images PNG cannot compress."""

    images = np.random.default_rng(0).integers(0, 256, [100, 16, 16, 4]).astype(np.uint8)

    def reset(self):
        return dm_env.restart(self.images[0])

    def step(self, action):
        return dm_env.transition(0.0, self.images[action])

    def observation_spec(self):
        return dm_env.specs.Array([16, 16, 4], np.uint8)

    def action_spec(self):
        return dm_env.specs.DiscreteArray(100)


def taken():
    """Returns the bytes of this process that are no file's, without what was freed."""
    return_free_memory()
    fields = dict(line.split(":") for line in pathlib.Path("/proc/self/status").open())
    return 1024 * int(fields["RssAnon"].split()[0])


def show(estimated, columns, steps, sample, remove, length=1):
    """Returns a memory that has removed items for others, and prints its share.

    Args:
      estimated: bytes for each step.
      columns: {name: (spec, values of 1,000 steps)}.
      steps: the capacity.
      sample: the distribution to sample from.
      remove: the distribution that picks the items to remove.
      length: number of steps of an item.
    """
    specs = {name: spec for name, (spec, _) in columns.items()}
    values = {name: value for name, (_, value) in columns.items()}
    memory = Memory(specs, steps, {"sample": sample, "remove": remove}, "remove", seed=1)
    before = taken()
    for begin in range(0, steps + 10_000, 1000):
        items = np.arange(max(0, begin - length + 1), begin + 1000 - length + 1)
        lengths = np.full(len(items), length, np.int32)
        keys, priorities = np.arange(begin, begin + 1000), np.ones(len(items), np.float32)
        memory.insert(keys, values, priorities, items, lengths)
    print("share", (taken() - before) / (steps * estimated))
    return memory


def main():
    """Fills memories of the agents' kinds, all of which stay until the end."""
    floats = {"x": (tf.TensorSpec([157]), np.ones([1000, 157], np.float32))}
    control = footprint.transition_bytes_per_step(None, EnvironmentSpec(67, 21), None)
    kept = [
        show(control, floats, 75_000, Proportional(0.6), Proportional(-0.4)),
        show(control, floats, 75_000, Uniform(), Fifo()),
    ]

    unroll = types.SimpleNamespace(unroll_length=3, replayed_unrolls=2)
    unrolls = 3 * footprint.unroll_bytes_per_step(unroll, EnvironmentSpec(67, 21), None)
    columns = {
        "floats": (tf.TensorSpec([3, 67 + 2 * 21 + 2]), np.ones([1000, 3, 111], np.float32)),
        "is_last": (tf.TensorSpec([3], tf.bool), np.ones([1000, 3], bool)),
    }
    kept.append(show(unrolls, columns, 50_000, Uniform(), Fifo()))

    spec = EnvironmentSpec(1024, 18, (16, 16, 4), True)
    raw = types.SimpleNamespace(png_frames=False, state_size=0)
    sequences = footprint.sequence_bytes_per_step(raw, spec, None)
    columns = {
        "observation": (tf.TensorSpec([1024], tf.uint8), np.ones([1000, 1024], np.uint8)),
        "step_type": (tf.TensorSpec([], tf.uint8), np.ones([1000], np.uint8)),
        "numbers": (tf.TensorSpec([3 + 18]), np.ones([1000, 21], np.float32)),
    }
    kept.append(show(sequences, columns, 100_000, ContextualPriorityTree(), Fifo(), length=33))

    footprint._BUSIER = 1.0
    spec = EnvironmentSpec(1024, 100, (16, 16, 4), True)
    files = types.SimpleNamespace(torso="atari")
    images = footprint.transition_bytes_per_step(files, spec, Noise())
    file = png.column((16, 16, 4)), png.encode(np.repeat(Noise.images, 10, axis=0))
    numbers = tf.TensorSpec([3]), np.ones([1000, 3], np.float32)
    columns = {"old": file, "new": file, "numbers": numbers}
    kept.append(show(images, columns, 50_000, Proportional(0.6), Fifo()))


if __name__ == "__main__":
    main()
