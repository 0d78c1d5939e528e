"""Layouts, which describe the processes of a run. This module does not import TensorFlow."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import importlib
from typing import Any

from common.cluster.topology import Job, Topology
from common.user_error import UserError

FlagValues = Mapping[str, Any]
"""Values of a layout's own flags, by name."""


def imported(name: str) -> Any:
    """Returns the object that "module:name" names; its module is imported only now."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


class LayoutError(UserError):
    """Error of flags or a cluster that do not fit a layout; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Role(Job):
    """A job of a layout with everything that is needed to run its tasks.

    Attributes:
      run: "module:function" that a task runs; the function receives a
        `common.roles.run_context.RunContext`.
      local_tasks: number of tasks in a local run, given the values of the layout's flags.
      threads: threads of a task, given the values of the layout's flags and the usable cores.
      acts: whether its tasks share the paper's actors. If the keeper and another role act, the
        keeper chooses the actions of all actors, and the other role's tasks step the environments.
      uses_gpu: whether its tasks may use a GPU, which is hidden from the tasks of other roles.
      outlives_keeper: whether a local run waits for its tasks after the run is over.
    """

    run: str = ""
    local_tasks: Callable[[FlagValues], int] = lambda values: 1
    threads: Callable[[FlagValues, int], int] = lambda values, cores: 1
    acts: bool = False
    uses_gpu: bool = False
    outlives_keeper: bool = False


@dataclasses.dataclass(frozen=True)
class Layout:
    """The processes of a run and their connections.

    Attributes:
      name: name for error messages.
      roles: the roles. The first one keeps the run: its counters, limits, checkpoints and files.
      flags: names of the flags that only programs of this layout have.
      acting_flag: name of the flag that gives the number of acting tasks if the cluster does not
        list them.
      local_values: returns defaults of the layout's flags in a local run, given the flags' values,
        the number of actors and the usable cores.
      memory: the job whose tasks hold the replay, "" if there is none.
      has_memory_per_actor: whether each actor has a replay of the configured size; otherwise all
        tasks of `memory` share a single replay.
      chosen_by: name of a flag. Runs that set it use this layout, other runs use a layout without
        `chosen_by`.
      store: the job that serves the store to which actors add, "" if actors keep it themselves.
      applies_gradients: whether the keeper applies gradients from workers instead of using a store.
    """

    name: str
    roles: tuple[Role, ...]
    flags: tuple[str, ...] = ()
    acting_flag: str = ""
    local_values: Callable[[FlagValues, int, int], FlagValues] = lambda values, actors, cores: {}
    memory: str = ""
    has_memory_per_actor: bool = False
    chosen_by: str = ""
    store: str = ""
    applies_gradients: bool = False

    @property
    def keeper(self) -> Role:
        """The role that keeps the run."""
        return self.roles[0]

    @property
    def acting_role(self) -> Role:
        """The role whose tasks share the paper's actors."""
        return next(role for role in reversed(self.roles) if role.acts)

    def last_role(self, values: FlagValues) -> Role:
        """Returns the role that ends last, given the values of the layout's flags."""
        last = (role for role in self.roles if role.outlives_keeper and role.local_tasks(values))
        return next(last, self.keeper)

    def num_memories(self, num_actors: int) -> int:
        """Returns the number of replay memories of the configured size in a run."""
        return num_actors if self.has_memory_per_actor else 1

    def memory_share(self, topology: Topology, num_actors: int) -> float:
        """Returns the number of replay memories that a task holds; less than 1 for a shard.

        Args:
          topology: addresses of the cluster, and the task.
          num_actors: number of the paper's actors in the task.
        """
        is_here = topology.job == self.memory or (self.memory and topology.hosts(self.memory))
        if not is_here:
            return 0.0
        if self.has_memory_per_actor:
            return float(num_actors)
        return 1 / len(topology.service(self.memory))

    def role(self, job: str, others: Sequence[str] = ()) -> Role:
        """Returns the role of a job.

        Args:
          job: name of the job.
          others: values of --role that are not jobs, for the error message.

        Raises:
          LayoutError: the layout has no such role.
        """
        for role in self.roles:
            if role.name == job:
                return role
        names = ", ".join((*others, *(role.name for role in self.roles)))
        raise LayoutError(
            f"--role={job} does not exist in this setting's layout, {self.name}: use one of {names}"
        )

    def require_tasks(self, tasks: Mapping[str, int], num_actors: int) -> None:
        """Raises LayoutError if the numbers of tasks do not fit the run.

        Args:
          tasks: number of tasks by job; jobs with an unknown number are missing.
          num_actors: number of actors in the whole run.
        """
        job = self.acting_role.name
        acting, shards = tasks.get(job, 0), tasks.get(self.store, 0)
        if acting > num_actors:
            raise LayoutError(
                f"there are {acting} {job} processes for {num_actors} actors: lower "
                f"--{self.acting_flag}, or raise the number of actors"
            )
        if acting and shards > acting:
            raise LayoutError(
                f"there are {shards} {self.store} processes, but only {acting} {job} processes, "
                f"each of which adds to a single one: lower --replay_shards (or the {self.store} "
                f"tasks in TF_CONFIG), or raise --{self.acting_flag}"
            )

    def actors_of(self, index: int, tasks: int, num_actors: int) -> range:
        """Returns the actors of an acting task; tasks share the actors as evenly as possible.

        Args:
          index: index of the acting task, from 0.
          tasks: number of acting tasks, 0 if it is unknown.
          num_actors: number of actors in the whole run.

        Raises:
          LayoutError: the number of tasks is unknown, or not larger than the index.
        """
        job = self.acting_role.name
        if not tasks:
            raise LayoutError(
                f"--{self.acting_flag} is missing: TF_CONFIG does not list the tasks of {job}, so "
                "give the number of processes that share the actors"
            )
        if index >= tasks:
            raise LayoutError(
                f"this is {job} {index}, counted from 0, but there are only {tasks} such tasks: "
                f"give every role the same --{self.acting_flag}"
            )
        return range(index * num_actors // tasks, (index + 1) * num_actors // tasks)
