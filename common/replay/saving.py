"""A file of a store's contents, which a restarted process reloads."""

from collections.abc import Iterator
from concurrent import futures
import glob
import pathlib
import time
from typing import Any

from absl import logging
import tensorflow as tf

from common.replay.store import Counters
from common.reporting.records import size_of
from common.user_error import UserError

BYTES_PER_SECOND = 1e6
"""Maximum average rate of saving all replays of a run: 86 GB a day, which any disk endures."""


class ReplayFileError(UserError):
    """A file of a replay memory that cannot be written or loaded."""


def check_saved(wrong: tf.Tensor) -> None:
    """Raises an error with an op's message if the op could not write or load a file.

    Args:
      wrong: string scalar, the message of one line; empty if the op succeeded.

    Raises:
      ReplayFileError: the op failed.
    """
    if line := wrong.numpy().decode(errors="replace"):
        raise ReplayFileError(line)


class StoreFile:
    """The file to which a store is saved periodically while it serves."""

    def __init__(
        self,
        store: Any,
        path: pathlib.Path,
        period_seconds: float,
        is_on: bool = True,
        bytes_per_second: float = BYTES_PER_SECOND,
        outlasts_run: bool = False,
    ):
        """Starts the period that precedes the first save.

        Args:
          store: object with `save(path)` and `load(path)`, which raise ReplayFileError, and
            `counters()`.
          path: path of the file. Other files whose names start with its name belong to it.
          period_seconds: minimum time between the starts of two saves.
          is_on: whether the store is saved and loaded. If not, `load` removes an existing file,
            since a later start would take it for the latest.
          bytes_per_second: maximum average rate of writing. The next save starts at least
            N / bytes_per_second after the start of a save of N bytes; the save in `close` does not
            wait.
          outlasts_run: whether the file stays when the run is over.
        """
        self._store = store
        self._path = path
        self._period_seconds = period_seconds
        self._is_on = is_on
        self._outlasts_run = outlasts_run
        self._bytes_per_second = bytes_per_second
        self._bytes = self._size()
        self._thread = futures.ThreadPoolExecutor(1, "save")
        self._saving: futures.Future | None = None
        self._began = time.monotonic()
        self._saved: Counters | None = None

    def load(self) -> None:
        """Loads the contents if there is a file; logs a warning of one line if it is unusable."""
        # A killed save leaves NAME.tmp.
        is_there = any(file.suffix != ".tmp" for file in self._files())
        if not self._is_on:
            if is_there:
                logging.warning(
                    "the saved replay is removed, because this start does not save the replay"
                )
            self._remove()
        elif is_there:
            try:
                self._store.load(self._path)
                logging.info("the replay resumes with %d saved items", self._store.counters().items)
            except ReplayFileError as error:
                logging.warning("the replay starts empty: %s", error)

    def save_if_due(self) -> None:
        """Starts a save if the last one started at least a period ago."""
        if time.monotonic() - self._began >= self._period_seconds:
            self.begin_to_save()

    def begin_to_save(self) -> None:
        """Starts a save, unless the last one was too recent for the size of the file."""
        if time.monotonic() - self._began >= self._bytes / self._bytes_per_second:
            self._start()

    def _start(self) -> None:
        """Saves the present contents in a thread, unless the last save is still running."""
        if self._is_on and (self._saving is None or self._saving.done()):
            self._began = time.monotonic()
            self._saving = self._thread.submit(self._save, self._store.counters())

    def close(self, is_over: bool, is_bad: bool = False) -> None:
        """Saves the contents if the file lacks any, or removes the file.

        Args:
          is_over: whether the run is over. The file is then removed unless it outlasts the run.
          is_bad: whether the contents are unusable. The file is then removed.
        """
        if self._saving is not None:
            self._saving.result()
        if is_bad or (is_over and not self._outlasts_run):
            self._remove()
        elif self._saved != self._store.counters():
            self._start()
        self._thread.shutdown(wait=True)

    def _save(self, counters: Counters) -> None:
        try:
            self._path.parent.mkdir(exist_ok=True)  # not its parents: the run may have moved
            self._store.save(self._path)
            self._saved, self._bytes = counters, self._size()
        except (ReplayFileError, OSError) as error:
            logging.warning("cannot save the replay: %s; the previous file is kept", error)

    def _files(self) -> Iterator[pathlib.Path]:
        return self._path.parent.glob(f"{glob.escape(self._path.name)}*")

    def _size(self) -> int:
        return size_of(self._files())

    def _remove(self) -> None:
        for file in self._files():
            try:
                file.unlink(missing_ok=True)
            except OSError as error:  # the run can end without the removal
                logging.warning("cannot remove %s: %s", file, error.strerror)
