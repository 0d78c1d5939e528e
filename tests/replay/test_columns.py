"""Tests of common.replay.columns and common.replay.library."""

import numpy as np
import pytest
import tensorflow as tf

from common.replay import columns, footprint, library


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
