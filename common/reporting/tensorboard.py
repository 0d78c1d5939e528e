"""TensorBoard events."""

from collections.abc import Iterator, Mapping
import contextlib
import os
import time
from typing import Any

from absl import logging

from common.reporting.records import disk_full


class Events:
    """A writer of event files. Importing this module does not import TensorFlow.

    Each process writes to a directory of its own: TensorBoard reads only the newest file of each.

    Args:
      directory: where the event files go; made if it does not exist.
    """

    def __init__(self, directory: str | os.PathLike):
        # Imported here because the launcher's process must not import TensorFlow.
        import tensorflow as tf

        self._tf = tf
        self._writer = tf.summary.create_file_writer(os.fspath(directory))
        self._has_begun = False

    def write(self, values: Mapping[str, float | None], step: int) -> None:
        """Writes scalars `{tag: value}` at `step`; a value of None is left out.

        A run that goes on from a checkpoint repeats steps that an earlier process has written.
        TensorBoard drops those from this process's first step on.
        """
        with self._skipped_if_full(), self._writer.as_default(step=step):
            self._begin(step)
            for tag, value in values.items():
                if value is not None:
                    self._tf.summary.scalar(tag, value)
            self._writer.flush()

    def write_hyperparameters(self, values: Mapping[str, Any]) -> None:
        """Writes `{name: value}` as a table, and for the plug-in HParams."""
        from tensorboard.plugins.hparams import api

        texts = {name: str(value) for name, value in values.items()}
        rows = [f"| {name} | {text} |" for name, text in texts.items()]
        plain = {
            name: value if isinstance(value, bool | int | float) else texts[name]
            for name, value in values.items()
        }
        with self._skipped_if_full(), self._writer.as_default(step=0):
            table = "\n".join(["| name | value |", "|---|---|", *rows])
            self._tf.summary.text("hyperparameters", table)
            api.hparams(plain)

    def close(self) -> None:
        """Closes the file."""
        with self._skipped_if_full():
            self._writer.close()

    def _begin(self, step: int) -> None:
        """Tells TensorBoard, once, at which step this process goes on."""
        if self._has_begun:
            return
        from tensorboard.compat.proto import event_pb2

        log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        # Hyperparameters, at step 0, stay.
        event = event_pb2.Event(wall_time=time.time(), step=max(step, 1), session_log=log)
        # No function of `tf.summary` writes this kind of event.
        self._tf.raw_ops.ImportEvent(writer=self._writer._resource, event=event.SerializeToString())
        self._has_begun = True

    @contextlib.contextmanager
    def _skipped_if_full(self) -> Iterator[None]:
        try:
            yield
        except self._tf.errors.OpError as error:
            reason = disk_full(error)
            if not reason:
                raise
            logging.log_every_n_seconds(logging.WARNING, "no events: %s", 60, reason)
