"""Tests of common.replay.columns, library and footprint."""

import dataclasses
import pathlib
import sys
import types

from launched import forked
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


def test_the_library_of_another_tensorflow_or_none_is_one_line_with_the_command(tmp_path):
    def refused(words):
        with pytest.raises(library.ReplayLibraryError, match=words) as caught:
            library.find(tmp_path, "2.21.0")
        message = str(caught.value)
        assert "`python setup.py build_ext --inplace`" in message and "\n" not in message

    refused("not built yet")
    (tmp_path / "_ops.tf-2.18.1.so").touch()
    refused("built for TensorFlow 2.18.1, but TensorFlow 2.21.0 is installed")
    for version in ("2.21.0", "2.21.0-rc1"):
        (tmp_path / f"_ops.tf-{version}.so").touch()
    assert library.find(tmp_path, "2.21.0") == tmp_path / "_ops.tf-2.21.0.so"


def test_a_library_that_does_not_load_is_readable(tmp_path, monkeypatch):
    (tmp_path / f"_ops.tf-{tf.__version__}.so").write_bytes(b"not a library")
    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    with pytest.raises(library.ReplayLibraryError, match=f"TensorFlow {tf.__version__}: run"):
        library.ops.__wrapped__()


PNG = types.SimpleNamespace(torso="atari")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_full_memory_takes_about_what_is_estimated(tmp_path):
    """Rather less where the estimate is of a soft capacity, which this memory has not."""
    with forked() as start:
        folder = str(pathlib.Path(__file__).parent)
        program = start(tmp_path / "log", "full_memories", PYTHONPATH=folder)
        assert program.wait(600) == 0, program.output
    lines = [line.split() for line in program.output.splitlines() if line.startswith("share ")]
    assert len(lines) == 5
    for _, share in lines:
        assert 0.75 < float(share) < 1.05


def test_a_humanoids_transition():
    """628 bytes (D4PG's facts), and the structures of the memory."""
    found = footprint.transition_bytes_per_step(None, EnvironmentSpec(67, 21), None)
    assert found == pytest.approx(1.1 * (628 + 66), abs=1)


def test_images_are_estimated_from_a_few_frames_of_the_game():
    environment = environments.make("atari:yars_revenge", 0)
    spec = EnvironmentSpec.of(environment)
    estimated = footprint.transition_bytes_per_step(PNG, spec, environment)
    rng = np.random.default_rng(1)
    played = [environment.step(rng.integers(18)).observation for _ in range(200)]
    environment.close()
    image = np.mean([len(file) for file in png.encode(np.stack(played))])
    assert 1.4 < estimated / (2 * image) < 3


def test_small_images_are_stored_as_they_are():
    spec = EnvironmentSpec(400, 6, image_shape=(10, 10, 4), is_discrete=True)
    found = footprint.transition_bytes_per_step(types.SimpleNamespace(torso="minatar"), spec, None)
    assert found == pytest.approx(1.1 * (2 * 400 + 12 + 66), abs=1)


def test_a_timestep_of_reactor():
    """What is stored with an Atari frame takes less than 5 % of its bytes."""
    environment = environments.make("atari:pong", 0, frames=1)
    spec = EnvironmentSpec.of(environment)
    config = ReactorConfig()
    raw = footprint.sequence_bytes_per_step(config, spec, environment)
    assert raw == 7056 + 13 + 4 * spec.action_size + 129 < 1.05 * 7056
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
