import functools
import subprocess
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
import tensorflow as tf

from common.reporting import tensorboard
from common.reporting.tensorboard import Events


def test_scalars_can_be_read_back(tmp_path):
    writer = Events(tmp_path / "tensorboard")
    writer.write({"loss": 2.5, "not yet": None}, step=10)
    writer.write({"loss": 1.5}, step=1 << 33)
    writer.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert events.Tags()["tensors"] == ["loss"]
    assert [event.step for event in events.Tensors("loss")] == [10, 1 << 33]
    values = [float(tf.make_ndarray(event.tensor_proto)) for event in events.Tensors("loss")]
    assert values == pytest.approx([2.5, 1.5])


def test_hyperparameters_are_a_table_and_known_to_the_plug_in(tmp_path):
    writer = Events(tmp_path)
    writer.write_hyperparameters({"agent": "d4pg", "n_step": 5, "rate": 1e-4, "sizes": (300, 200)})
    writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    (table,) = events.Tensors("hyperparameters")
    text = tf.make_ndarray(table.tensor_proto).item().decode()
    assert "| rate | 0.0001 |\n| sizes | (300, 200) |" in text
    content = events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    found = metadata.parse_session_start_info_plugin_data(content).hparams
    assert found["n_step"].number_value == 5 and found["sizes"].string_value == "(300, 200)"
    assert found["rate"].number_value == 1e-4 and found["agent"].string_value == "d4pg"


def test_a_full_disk_costs_events_and_no_more(tmp_path, monkeypatch):
    writer, told = Events(tmp_path), []
    monkeypatch.setattr(
        tensorboard.logging,
        "log_every_n_seconds",  # which says nothing for a minute after another test's warning
        lambda level, text, seconds, *values: told.append(text % values),
    )

    def fail(tag, value, error=None):
        raise error

    full = tf.errors.ResourceExhaustedError(None, None, "events.v2; No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(tf.summary, "scalar", functools.partial(fail, error=full))
        writer.write({"loss": 1.0}, step=1)
        assert told == ["no events: disk full: events.v2; No space left on device"]
        other = tf.errors.PermissionDeniedError(None, None, "events.v2; Permission denied")
        patch.setattr(tf.summary, "scalar", functools.partial(fail, error=other))
        with pytest.raises(tf.errors.PermissionDeniedError):
            writer.write({"loss": 2.0}, step=2)
    writer.write({"loss": 3.0}, step=3)
    writer.close()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.step for event in events.Tensors("loss")] == [3]


def test_importing_the_package_does_not_import_tensorflow():
    modules = "csv_rows columns tensorboard progress run_directory curves".split()
    code = f"import sys; import {', '.join('common.reporting.' + name for name in modules)}"
    code += "; print(sorted({'tensorflow', 'pandas', 'matplotlib'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
