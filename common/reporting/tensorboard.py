"""TensorBoard events."""

from collections.abc import Mapping
import os
import time
from typing import Any

from common.reporting.records import skipped_if_full
from common.reporting.run_directory import RunDirectory

MEAN_RETURN = "evaluator/episode_return"
"""Tag of the evaluations' mean returns."""
_METRICS = (MEAN_RETURN, "actor/episode_return", "time/learner_steps_per_second")
"""Tags that the plug-in HParams shows next to the hyperparameters."""


class Events:
    """A writer of event files. Importing this module does not import TensorFlow.

    TensorBoard reads the files of a directory one after the other, so two processes must not write
    there at the same time.

    Args:
      directory: the directory for the event files; created if it does not exist.
      goes_on: whether this process repeats steps of an earlier one, whose events are then dropped.
    """

    def __init__(self, directory: str | os.PathLike, goes_on: bool = True):
        # Imported here because the launcher's process must not import TensorFlow.
        import tensorflow as tf

        self._tf = tf
        self._writer = tf.summary.create_file_writer(os.fspath(directory))
        self._has_begun = not goes_on

    def write(self, values: Mapping[str, float | None], step: int) -> None:
        """Writes scalars `{tag: value}` at `step`; a value of None is left out.

        A run that continues from a checkpoint repeats steps that an earlier process has written.
        With `goes_on`, TensorBoard drops the earlier events from this process's first step on.
        """
        with skipped_if_full("no events"), self._writer.as_default(step=step):
            self._begin(step)
            for tag, value in values.items():
                if value is not None:
                    self._tf.summary.scalar(tag, value)
            self._writer.flush()

    def write_evaluation(self, run: RunDirectory, mean: float, deviation: float, step: int) -> None:
        """Writes an evaluation's mean return and standard deviation, and its film if any."""
        self.write({MEAN_RETURN: mean, f"{MEAN_RETURN}_std": deviation}, step)
        film = run.film(step)
        if not film.exists():
            return
        from tensorboard.plugins.image import metadata

        with skipped_if_full("no events"), self._writer.as_default(step=step):
            # As a picture, which browsers show moving; `tf.summary.image` encodes still ones only.
            self._tf.summary.write(
                "evaluator/film",
                self._tf.stack([b"", b"", film.read_bytes()]),
                metadata=metadata.create_summary_metadata("evaluator/film", ""),
            )
            self._writer.flush()

    def write_hyperparameters(self, values: Mapping[str, Any]) -> None:
        """Writes `{name: value}` for the plug-in HParams."""
        from tensorboard.plugins.hparams import api

        plain = {
            name: value if isinstance(value, bool | int | float) else str(value)
            for name, value in values.items()
        }
        with skipped_if_full("no events"), self._writer.as_default(step=0):
            api.hparams_config(
                [api.HParam(name) for name in plain],
                [api.Metric(tag, display_name=tag) for tag in _METRICS],
            )
            api.hparams(plain)

    def close(self) -> None:
        """Closes the file."""
        with skipped_if_full("no events"):
            self._writer.close()

    def _begin(self, step: int) -> None:
        """Tells TensorBoard, once, at which step this process continues."""
        if self._has_begun:
            return
        from tensorboard.compat.proto import event_pb2

        log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        # Hyperparameters, at step 0, stay.
        event = event_pb2.Event(wall_time=time.time(), step=max(step, 1), session_log=log)
        # No function of `tf.summary` writes this kind of event.
        self._tf.raw_ops.ImportEvent(writer=self._writer._resource, event=event.SerializeToString())
        self._has_begun = True
