"""TensorBoard events."""

from collections.abc import Iterator, Mapping
import contextlib
import os

from absl import logging

from common.reporting.disk import disk_full


class Scalars:
    """A writer of scalars. Importing this module does not import TensorFlow.

    Args:
      directory: where the event files go; made if it does not exist.
    """

    def __init__(self, directory: str | os.PathLike):
        # Imported here because the launcher's process must not import TensorFlow.
        import tensorflow as tf

        self._tf = tf
        self._writer = tf.summary.create_file_writer(os.fspath(directory), flush_millis=10_000)

    def write(self, values: Mapping[str, float | None], step: int) -> None:
        """Writes `{tag: value}` at `step`; a value of None is left out."""
        with self._skipped_if_full(), self._writer.as_default(step=step):
            for tag, value in values.items():
                if value is not None:
                    self._tf.summary.scalar(tag, value)

    def close(self) -> None:
        """Flushes the buffer and closes the file."""
        with self._skipped_if_full():
            self._writer.close()

    @contextlib.contextmanager
    def _skipped_if_full(self) -> Iterator[None]:
        try:
            yield
        except self._tf.errors.OpError as error:
            reason = disk_full(error)
            if not reason:
                raise
            logging.log_every_n_seconds(logging.WARNING, "no scalars: %s", 60, reason)
