"""Replays of unrolls in an actor process, one for each actor."""

from collections.abc import Sequence
import pathlib

from absl import logging
import numpy as np
import tree

from common.replay import store
from common.replay.memory import Fifo, Memory, Uniform
from common.replay.saving import ReplayFileError
from common.replay.store import Counters
from common.types import Nest


class LocalReplay:
    """The replays of a process's actors, which sample uniformly and remove the oldest unroll first.

    An actor's draws depend only on the seed, the actor's number and the unrolls that it added.
    """

    by_actor = True  # see `Store`

    def __init__(self, specs: Nest, actors: range, capacity: int, length: int, seed: int):
        """Creates empty replays of the same capacity.

        Args:
          specs: nest of `tf.TensorSpec` of shape [T, ...]: the columns of an unroll.
          actors: numbers of the actors in this process.
          capacity: timesteps in the replay of each actor.
          length: T, timesteps of an unroll.
          seed: seed of the draws, not negative.

        Raises:
          ValueError: the capacity is less than one unroll.
        """
        if capacity < length:
            raise ValueError(f"a replay of {capacity} timesteps cannot hold an unroll of {length}")
        distributions = {"sample": Uniform(), "remove": Fifo()}
        self._memories = {
            actor: Memory(
                specs, capacity // length, distributions, "remove", store.derive_seed(seed, actor)
            )
            for actor in actors
        }

    def burst(self, actors: Sequence[int] | np.ndarray, columns: Nest, replayed: int) -> Nest:
        """Adds unrolls, and returns each followed by R unrolls from its actor's replay.

        Args:
          actors: number of each unroll's actor, [M].
          columns: the unrolls, nest of [M, T, ...].
          replayed: R, drawn with replacement after the unroll was added. For R = 0 none is added.

        Returns:
          Nest of [(1 + R) M, T, ...].

        Raises:
          tf.errors.InvalidArgumentError: a column has the wrong dtype or shape.
        """
        if not replayed:
            return columns
        leaves = [np.asarray(leaf) for leaf in tree.flatten(columns)]
        parts: list[list[np.ndarray]] = [[] for _ in leaves]
        for row, actor in enumerate(actors):
            unroll = [leaf[row : row + 1] for leaf in leaves]
            memory = self._memories[actor]
            memory.insert(
                np.array([memory.counters().inserted]),
                tree.unflatten_as(columns, unroll),
                np.ones(1, np.float32),
            )
            drawn = tree.flatten(memory.sample(replayed).steps)
            for part, own, others in zip(parts, unroll, drawn):
                part += [own, others.numpy()]
        return tree.unflatten_as(columns, [np.concatenate(part) for part in parts])

    def counters(self) -> Counters:
        """Returns the sums of the replays' counters."""
        return Counters.total(memory.counters() for memory in self._memories.values())

    def save(self, path: pathlib.Path) -> None:
        """Writes a file for each actor next to `path`; see `Memory.save`."""
        for actor, memory in self._memories.items():
            memory.save(_file_of(path, actor))

    def load(self, path: pathlib.Path) -> None:
        """Loads the files of these actors, whichever process saved them under `path`.

        Logs a warning for each file that cannot be loaded.
        """
        for actor, memory in self._memories.items():
            try:
                if (file := _file_of(path, actor)).exists():
                    memory.load(file)
            except ReplayFileError as error:
                logging.warning("the replay of actor %d starts empty: %s", actor, error)


def _file_of(path: pathlib.Path, actor: int) -> pathlib.Path:
    return path.with_name(f"{path.name}_{actor}")
