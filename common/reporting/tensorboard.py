"""TensorBoard events."""

from collections.abc import Mapping
import os


class Scalars:
    """A writer of scalars. Importing this module does not import TensorFlow.

    Args:
      directory: where the event files go; made if it does not exist.
    """

    def __init__(self, directory: str | os.PathLike):
        # Imported here because the launcher's process must not import TensorFlow.
        import tensorflow as tf

        self._summary = tf.summary
        self._writer = tf.summary.create_file_writer(os.fspath(directory), flush_millis=10_000)

    def write(self, values: Mapping[str, float | None], step: int) -> None:
        """Writes `{tag: value}` at `step`; a value of None is left out."""
        with self._writer.as_default(step=step):
            for tag, value in values.items():
                if value is not None:
                    self._summary.scalar(tag, value)

    def close(self) -> None:
        """Flushes the buffer and closes the file."""
        self._writer.close()
