"""Layouts: the processes that a run consists of. This module does not import TensorFlow."""

from collections.abc import Callable, Mapping
import dataclasses
import importlib
from typing import Any

from common.cluster.topology import Job, Topology

FlagValues = Mapping[str, Any]
"""Values of a layout's own flags, by name."""


class LayoutError(ValueError):
    """Flags or a cluster that a layout cannot have; one line that says what to do."""


@dataclasses.dataclass(frozen=True)
class Role(Job):
    """A job of a layout, and what a task of it is.

    Attributes:
      run: "module:function" of the process, called with a `common.roles.run_context.RunContext`.
      local_tasks: how many a local run starts, given the values of the layout's flags.
      threads: of a task, given the values of the layout's flags and the usable cores.
      acts: whether its tasks share the paper's actors among them.
      uses_gpu: whether a task may use a GPU; no other does.
      outlives_keeper: whether a local run waits for its tasks after the run has been finished.
      replay_share: the part of the replay memory that a task holds.
    """

    run: str = ""
    local_tasks: Callable[[FlagValues], int] = lambda values: 1
    threads: Callable[[FlagValues, int], int] = lambda values, cores: 1
    acts: bool = False
    uses_gpu: bool = False
    outlives_keeper: bool = False
    replay_share: Callable[[Topology], float] = lambda topology: 0.0

    def function(self) -> Callable[[Any], None]:
        """Imports the function that a task runs, and with it TensorFlow."""
        module, _, name = self.run.partition(":")
        return getattr(importlib.import_module(module), name)


@dataclasses.dataclass(frozen=True)
class Layout:
    """The processes of a run and how they are connected.

    Attributes:
      name: for people.
      roles: the one that keeps the run first: its counters, limits, checkpoints and files.
      flags: names of the flags that programs of this layout have and others do not.
      local_values: values of those flags in a local run, where the user gives none: a function of
        the values given, the number of actors and the usable cores.
      check: raises LayoutError if a run cannot have so many tasks, by job; jobs whose number is not
        known are left out.
    """

    name: str
    roles: tuple[Role, ...]
    flags: tuple[str, ...] = ()
    local_values: Callable[[FlagValues, int, int], FlagValues] = lambda values, actors, cores: {}
    check: Callable[[Mapping[str, int]], None] = lambda tasks: None

    @property
    def keeper(self) -> Role:
        """The role that keeps the run."""
        return self.roles[0]

    @property
    def last_role(self) -> Role:
        """The role whose end is the end of everything that a run does."""
        return next((role for role in self.roles if role.outlives_keeper), self.keeper)

    @property
    def acting_role(self) -> Role:
        """The role whose tasks share the paper's actors."""
        return next(role for role in self.roles if role.acts)

    def role(self, job: str) -> Role:
        """Returns the role of a job.

        Raises:
          LayoutError: there is none.
        """
        for role in self.roles:
            if role.name == job:
                return role
        names = ", ".join(role.name for role in self.roles)
        raise LayoutError(
            f"--role={job} is not of this setting's layout, {self.name}: its roles are {names}"
        )

    def actors_of(self, index: int, tasks: int, num_actors: int) -> range:
        """Returns the actors of one of the tasks that act, as evenly as possible.

        Raises:
          LayoutError: the number of tasks is not known, above the number of actors, or not above
            the index.
        """
        job = self.acting_role.name
        if not tasks:
            raise LayoutError(
                f"--actor_processes is missing: TF_CONFIG does not list the tasks of {job}, so say "
                "how many processes share the actors"
            )
        if tasks > num_actors:
            raise LayoutError(
                f"there are {tasks} tasks of {job} for --num_actors={num_actors}: have fewer, or "
                "raise --num_actors"
            )
        if index >= tasks:
            raise LayoutError(
                f"this is {job} {index}, counted from 0, but there are {tasks}: give every role "
                "the same --actor_processes"
            )
        return range(index * num_actors // tasks, (index + 1) * num_actors // tasks)
