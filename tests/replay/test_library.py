"""Tests of common.replay.library."""

import pytest
import tensorflow as tf

from common.replay import library


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
