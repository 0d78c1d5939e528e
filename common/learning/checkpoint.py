"""Checkpoints: a registry of named state, saved as a whole."""

import pathlib
from collections.abc import Mapping

import tensorflow as tf


class Checkpoints:
    """Saves and restores named trackables (modules, variables) in one directory.

    A save is written beside the old one and named last, so a kill in its middle leaves the old one.
    """

    def __init__(self, directory: pathlib.Path, state: Mapping[str, tf.Module | tf.Variable],
                 keep: int = 2):
        self._manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(**state), str(directory), max_to_keep=keep
        )

    def restore(self) -> bool:
        """Restores the newest checkpoint; False if there is none.

        Raises:
          ValueError or AssertionError: it does not fit the state, in a shape or in a name.
        """
        path = self._manager.latest_checkpoint
        if path is None:
            return False
        self._manager.checkpoint.restore(path).assert_existing_objects_matched()
        return True

    def save(self) -> str:
        """Saves all of the state and returns the path of the checkpoint."""
        return self._manager.save()
