"""Tests of common.replay.columns, library and footprint."""

import dataclasses
import pathlib
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from common import environments
from common.environments.spec import EnvironmentSpec
from common.replay import columns, footprint, library, png
from reproductions.reactor.config import ReactorConfig
from reproductions.reactor.reactor import Reactor


def test_the_layout_is_documented():
    assert columns.make_keys(0, 0, 0, 7) == 7
    assert columns.make_keys(0, 0, 1, 0) == 1 << 32
    assert columns.make_keys(0, 1, 0, 0) == 1 << 46
    assert columns.make_keys(1, 0, 0, 0) == 1 << 58
    assert columns.make_keys(31, 4095, 16383, 2**32 - 1) == 2**63 - 1  # never negative


def test_different_parts_give_different_keys_in_their_order():
    rng = np.random.default_rng(0)
    bits = (
        footprint.SHARD_BITS,
        footprint.ACTOR_BITS,
        footprint.INCARNATION_BITS,
        footprint.STEP_BITS,
    )
    parts = rng.integers([1 << b for b in bits], size=[500, 4])
    made = columns.make_keys(*parts.T)
    assert made.dtype == np.int64 and np.all(made >= 0)
    by_parts = np.lexsort(parts.T[::-1])  # the shard first
    np.testing.assert_array_equal(np.argsort(made), by_parts)


def test_arguments_broadcast_and_keys_differ():
    made = columns.make_keys(2, np.arange(3)[:, None], 5, np.arange(4))
    assert made.shape == (3, 4) and len(np.unique(made)) == 12
    np.testing.assert_array_equal(np.diff(made, axis=1), 1)  # consecutive steps, consecutive keys


def test_incarnations_keep_lives_apart():
    lives = [columns.make_keys(0, 3, life, np.arange(1000)) for life in (0, 1, 16383)]
    assert len(np.unique(lives)) == 3000


def test_a_key_tells_its_shard():
    shards = np.arange(footprint.MAX_SHARDS)
    made = columns.transition_keys(shards, 4095, (1 << 40) + 16383, 2**32 - 1)
    np.testing.assert_array_equal(columns.shard_of(made), shards)
    assert np.array_equal(made, columns.make_keys(shards, 4095, 16383, 2**32 - 1))


@pytest.mark.parametrize("part, bits", [(0, 5), (1, 12), (2, 14), (3, 32)])
def test_a_part_that_does_not_fit_is_named(part, bits):
    name = ("shard", "actor", "incarnation", "step")[part]
    for wrong in (-1, 2**bits, np.array([0, 2**bits])):
        arguments = [0, 0, 0, 0]
        arguments[part] = wrong
        with pytest.raises(ValueError, match=rf"{name} must be in \[0, 2\^{bits}\)"):
            columns.make_keys(*arguments)


def test_a_library_that_was_not_built(tmp_path):
    with pytest.raises(library.ReplayLibraryError, match="not built yet") as e:
        library.find(tmp_path, "2.21.0")
    assert "`python setup.py build_ext --inplace`" in str(e.value) and "\n" not in str(e.value)
    assert isinstance(e.value, ImportError)


def test_a_library_of_another_tensorflow_names_both_versions_and_the_command(tmp_path):
    (tmp_path / "_ops.tf-2.18.1.so").touch()
    with pytest.raises(library.ReplayLibraryError) as e:
        library.find(tmp_path, "2.21.0")
    message = str(e.value)
    assert "built for TensorFlow 2.18.1, but TensorFlow 2.21.0 is installed" in message
    assert "`python setup.py build_ext --inplace`" in message and "\n" not in message


def test_the_right_library_is_found_beside_others(tmp_path):
    for version in ("2.18.1", "2.21.0", "2.21.0-rc1"):
        (tmp_path / f"_ops.tf-{version}.so").touch()
    assert library.find(tmp_path, "2.21.0") == tmp_path / "_ops.tf-2.21.0.so"


def test_a_library_that_does_not_load_is_readable(tmp_path, monkeypatch):
    (tmp_path / f"_ops.tf-{tf.__version__}.so").write_bytes(b"not a library")
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    with pytest.raises(library.ReplayLibraryError, match=f"TensorFlow {tf.__version__}: run"):
        library.ops.__wrapped__()


def test_the_library_loads_once():
    assert library.ops() is library.ops()
    assert callable(library.ops().replay_insert)


ROOT = pathlib.Path(__file__).parents[2]
PNG = types.SimpleNamespace(torso="atari")
FILL = """
import types

import dm_env
import numpy as np
import tensorflow as tf
from common.environments.spec import EnvironmentSpec
from common.replay import footprint, png
from common.replay.memory import ContextualPriorityTree, Fifo, Proportional, Uniform
from common.replay.memory import Memory

rng = np.random.default_rng(0)
noise = rng.integers(0, 256, [100, 16, 16, 4]).astype(np.uint8)

class Noise(dm_env.Environment):
    def reset(self):
        return dm_env.restart(noise[0])

    def step(self, action):
        return dm_env.transition(0.0, noise[action])

    def observation_spec(self):
        return dm_env.specs.Array([16, 16, 4], np.uint8)

    def action_spec(self):
        return dm_env.specs.DiscreteArray(100)

def taken():
    fields = dict(line.split(":") for line in open("/proc/self/status"))
    return 1024 * int(fields["RssAnon"].split()[0])

def show(columns, steps, sample, remove, bytes_per_step, length=1):
    specs = {name: spec for name, (spec, _) in columns.items()}
    memory = Memory(specs, steps, {"sample": sample, "remove": remove}, "remove", seed=1)
    before = taken()
    # Beyond the capacity, so that items are removed, too.
    for begin in range(0, steps + 20_000, 1000):
        keys = np.arange(begin, begin + 1000)
        values = {name: value for name, (_, value) in columns.items()}
        items = np.arange(max(0, begin - length + 1), begin + 1000 - length + 1)
        lengths = np.full(len(items), length, np.int32)
        memory.insert(keys, values, np.ones(len(items), np.float32), items, lengths)
    print((taken() - before) / (steps * bytes_per_step))
    return memory

floats = tf.TensorSpec([157], tf.float32), np.ones([1000, 157], np.float32)
control = footprint.transition_bytes_per_step(None, EnvironmentSpec(67, 21), None)
kept = [
    show({"x": floats}, 150_000, Proportional(0.6), Proportional(-0.4), control),
    show({"x": floats}, 150_000, Uniform(), Fifo(), control),
]
footprint._BUSIER = 1.0
spec = EnvironmentSpec(1024, 100, (16, 16, 4), True)
images = footprint.transition_bytes_per_step(types.SimpleNamespace(torso="atari"), spec, Noise())
file = png.column((16, 16, 4)), png.encode(np.repeat(noise, 10, axis=0))
numbers = tf.TensorSpec([3], tf.float32), np.ones([1000, 3], np.float32)
columns = {"old": file, "new": file, "numbers": numbers}
kept.append(show(columns, 50_000, Proportional(0.6), Fifo(), images))

spec = EnvironmentSpec(1024, 18, (16, 16, 4), True)
raw = types.SimpleNamespace(png_frames=False, state_size=0)
sequences = footprint.sequence_bytes_per_step(raw, spec, None)
unroll = types.SimpleNamespace(unroll_length=3, replayed_unrolls=2)
unrolls = 3 * footprint.unroll_bytes_per_step(unroll, EnvironmentSpec(67, 21), None)
columns = {
    "floats": (tf.TensorSpec([3, 67 + 2 * 21 + 2]), np.ones([1000, 3, 111], np.float32)),
    "is_last": (tf.TensorSpec([3], tf.bool), np.ones([1000, 3], bool)),
}
kept.append(show(columns, 50_000, Uniform(), Fifo(), unrolls))
columns = {
    "observation": (tf.TensorSpec([1024], tf.uint8), np.ones([1000, 1024], np.uint8)),
    "step_type": (tf.TensorSpec([], tf.uint8), np.ones([1000], np.uint8)),
    "numbers": (tf.TensorSpec([3 + 18], tf.float32), np.ones([1000, 21], np.float32)),
}
kept.append(show(columns, 100_000, ContextualPriorityTree(), Fifo(), sequences, length=33))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_full_memory_takes_about_what_is_estimated():
    """Rather less where the estimate is of a soft capacity, which this memory has not."""
    ended = subprocess.run(
        [sys.executable, "-c", FILL], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    for ratio in map(float, ended.stdout.split()):
        assert 0.75 < ratio < 1.05


def test_a_humanoids_transition():
    """628 bytes (D4PG's facts), and the structures of the memory."""
    found = footprint.transition_bytes_per_step(None, EnvironmentSpec(67, 21), None)
    assert found == pytest.approx(1.1 * (628 + 66), abs=1)


@pytest.mark.parametrize("game", ["pong", "yars_revenge"])
def test_images_are_estimated_from_a_few_frames_of_the_game(game):
    environment = environments.make(f"atari:{game}", 0)
    spec = EnvironmentSpec.of(environment)
    estimated = footprint.transition_bytes_per_step(PNG, spec, environment)
    rng = np.random.default_rng(1)
    played = [environment.step(rng.integers(18)).observation for _ in range(600)]
    environment.close()
    image = np.mean([len(file) for file in png.encode(np.stack(played))])
    assert 1.4 < estimated / (2 * image) < 3


def test_small_images_are_stored_as_they_are():
    spec = EnvironmentSpec(400, 6, image_shape=(10, 10, 4), is_discrete=True)
    found = footprint.transition_bytes_per_step(types.SimpleNamespace(torso="minatar"), spec, None)
    assert found == pytest.approx(1.1 * (2 * 400 + 12 + 66), abs=1)


def test_a_timestep_of_reactor():
    """What is beside an Atari frame takes less than 5 % of its bytes."""
    environment = environments.make("atari:pong", 0, frames=1)
    spec = EnvironmentSpec.of(environment)
    config = ReactorConfig()
    raw = footprint.sequence_bytes_per_step(config, spec, environment)
    assert raw == 7056 + 13 + 4 * spec.action_size + 121 < 1.05 * 7056
    with_states = dataclasses.replace(config, stored_state=True)
    specs = tf.nest.flatten(Reactor(with_states).step_specs(spec).extras["state"])
    states = sum(4 * of.shape.num_elements() for of in specs)
    assert footprint.sequence_bytes_per_step(with_states, spec, environment) == raw + states
    as_files = dataclasses.replace(config, png_frames=True)
    assert footprint.sequence_bytes_per_step(as_files, spec, environment) < raw / 2
    environment.close()


def test_a_humanoids_unroll():
    """AQL's facts: 67 floats of the observation, two actions of 21, reward, discount, is_last."""
    config = types.SimpleNamespace(unroll_length=30, replayed_unrolls=2)
    found = footprint.unroll_bytes_per_step(config, EnvironmentSpec(67, 21), None)
    assert found == pytest.approx(4 * (67 + 2 * 21 + 2) + 1 + 66 / 30)
    vector = EnvironmentSpec(9, 7, action_choices=(7, 7, 3, 3, 2, 2, 2))
    single = EnvironmentSpec(9, 11, is_discrete=True)
    of_vector, of_single = (
        footprint.unroll_bytes_per_step(config, spec, None) for spec in (vector, single)
    )
    assert of_vector - of_single == 4 * 2 * 6
    config.replayed_unrolls, config.queue_capacity = 0, 64  # actors then keep no unroll
    assert footprint.unroll_bytes_per_step(config, vector, None) == 0
    assert footprint.unroll_queue_bytes(config, vector, None) == pytest.approx(64 * 30 * of_vector)


def test_vectors_take_four_bytes_a_number():
    config = types.SimpleNamespace(torso="mlp", png_frames=False, state_size=0)
    image = EnvironmentSpec(8, 2, image_shape=(2, 4, 1), is_discrete=True)
    vector = image._replace(image_shape=None)
    of_vector, of_image = (
        footprint.transition_bytes_per_step(config, spec, None) for spec in (vector, image)
    )
    assert of_vector - of_image == pytest.approx(1.1 * 2 * 3 * 8, abs=1)
    of_vector, of_image = (
        footprint.sequence_bytes_per_step(config, spec, None) for spec in (vector, image)
    )
    assert of_vector - of_image == 3 * 8
