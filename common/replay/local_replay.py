"""Replays of unrolls in the process of the actors, one for each actor."""

from collections.abc import Sequence
import glob
import pathlib

from absl import logging
import numpy as np
import tree

from common.replay import store
from common.replay.memory import Fifo, Memory, Uniform
from common.replay.saving import ReplayFileError
from common.replay.store import Counters
from common.reporting.records import replace_file
from common.types import Nest


class LocalReplay:
    """The replays of a process's actors, which sample uniformly and forget the oldest unroll first.

    An actor's replay is made when its first unroll comes. Draws depend only on the seed, the actor
    and the unrolls that it added.
    """

    def __init__(self, specs: Nest, capacity: int, length: int, seed: int):
        """Makes replays of the same capacity.

        Args:
          specs: nest of `tf.TensorSpec` of shape [T, ...]: the columns of an unroll.
          capacity: timesteps in the replay of each actor.
          length: T, timesteps of an unroll.
          seed: of the draws, not negative.

        Raises:
          ValueError: the capacity is less than an unroll.
        """
        if capacity < length:
            raise ValueError(f"a replay of {capacity} timesteps holds no unroll of {length}")
        self._specs = specs
        self._capacity = capacity // length
        self._seed = seed
        self._memories: dict[int, Memory] = {}

    def burst(self, actors: Sequence[int] | np.ndarray, columns: Nest, replayed: int) -> Nest:
        """Adds unrolls, and returns each followed by R unrolls from the replay of its actor.

        Args:
          actors: the actor of each unroll, [M].
          columns: nest of [M, T, ...].
          replayed: R, drawn with replacement after the unroll was added.

        Returns:
          Nest of [(1 + R) M, T, ...].

        Raises:
          tf.errors.InvalidArgumentError: a column has another dtype or shape.
        """
        if not replayed:
            return columns
        leaves = [np.asarray(leaf) for leaf in tree.flatten(columns)]
        parts: list[list[np.ndarray]] = [[] for _ in leaves]
        for row, actor in enumerate(actors):
            unroll = [leaf[row : row + 1] for leaf in leaves]
            memory = self._memory(int(actor))
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
        """Returns the counters of all replays together."""
        return Counters.total(
            [Counters(), *(memory.counters() for memory in self._memories.values())]
        )

    def save(self, path: pathlib.Path) -> None:
        """Writes a file for each actor next to `path`; see `Memory.save`."""
        for actor, memory in list(self._memories.items()):
            memory.save(path.with_name(f"{path.name}_{actor}"))
        replace_file(path, "")

    def load(self, path: pathlib.Path) -> None:
        """Loads the files that were saved under `path`; says of which actors it cannot."""
        for file in sorted(path.parent.glob(f"{glob.escape(path.name)}_*")):
            actor = file.name.removeprefix(f"{path.name}_")
            if not actor.isdecimal():
                continue  # what a killed save has left, or somebody else's
            try:
                self._memory(int(actor)).load(file)
            except ReplayFileError as error:
                logging.warning("the replay of actor %s starts empty: %s", actor, error)

    def _memory(self, actor: int) -> Memory:
        if actor not in self._memories:
            distributions = {"sample": Uniform(), "remove": Fifo()}
            seed = store.derive_seed(self._seed, actor)
            self._memories[actor] = Memory(
                self._specs, self._capacity, distributions, "remove", seed
            )
        return self._memories[actor]
