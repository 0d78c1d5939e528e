"""The roles of a run on a Ray cluster, which chooses their machines.

    python -m binaries.d4pg --role=ray --ray_address=HOST:6379 --environment=... --workdir=...

Ray reserves a bundle of cores for each task, and moves the bundle when its node dies. A Ray actor
in each bundle starts the role's process, as a local run does. The roles communicate by TensorFlow's
RPC at the addresses of the nodes. This module does not import TensorFlow.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
import contextlib
import os
import pathlib
import signal
import sys
import time
from typing import Any

from common.cluster import topology
from common.cluster.errors import ClusterError
from common.cluster.launcher import Cluster, ProcessState
from common.cluster.layout import FlagValues, Layout
from common.cluster.local_process import LocalProcess, Process
from common.cluster.processes import StopRequest
from common.cluster.topology import Topology
from common.program import flags as flags_lib
from common.program.local import LaunchedRun, is_over, processes_of, with_defaults
from common.program.task import ProgramRun

Task = tuple[str, int]
"""A role's name and the index of one of its tasks."""

_NO_ADDRESS = f"--{flags_lib.RAY_ADDRESS.name}="
"""Flag of the roles, which get the user's flags as well and would refuse the address."""
_ANSWER_SECONDS = 5.0
_PLACE_SECONDS = 30.0
"""Longest wait for cores, which other users of the Ray cluster may occupy."""
_PAUSE_SECONDS = 2.0
_MOVE_SECONDS = 30.0
"""Time for roles to end when all have to restart. A learner saves a checkpoint first."""


def run_on_ray(run: ProgramRun) -> None:
    """Starts every role of the layout on a Ray cluster, and supervises them."""
    if is_over(run):
        return
    run.inspect_environment(is_launch=True)
    ray = connect(flags_lib.RAY_ADDRESS.value or "")
    stop = StopRequest().install()  # instead of Ray's own handler of SIGTERM
    nodes = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    values, counts = with_defaults(run, max(nodes))
    cores = cores_of(run.layout, values, counts, max(nodes))
    run.open_directory()
    with run.directory.hold():
        cluster = RayCluster(
            ray,
            run.layout,
            cores,
            lambda topology: processes_of(run, values, topology, {}, _NO_ADDRESS),
            run.directory.logs,
        )
        LaunchedRun(run, stop).run(cluster)
    sys.exit(stop.exit_code)


def connect(address: str) -> Any:
    """Connects this process to a Ray cluster and returns the module `ray`.

    Raises:
      ClusterError: Ray is not installed, or cannot be used at the address.
    """
    try:
        import ray
    except ImportError:
        raise ClusterError(
            "--role=ray needs Ray, which is not installed: `.venv/bin/python -m pip install "
            "--no-build-isolation --editable '.[ray]'`, on every node"
        ) from None
    try:
        topology.connect(address, _ANSWER_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster answers at --ray_address={address} ({error.strerror or error}): start "
            "one with `ray start --head`, which prints its address"
        ) from None
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ClusterError(f"Ray at --ray_address={address} cannot be used: {reason}") from None
    return ray


def cores_of(
    layout: Layout, values: FlagValues, counts: Mapping[str, int], cores: int
) -> dict[Task, int]:
    """Returns the cores that each task of a run needs: one for each of its threads.

    Args:
      layout: the run's layout.
      values: values of the layout's flags, by name.
      counts: number of tasks by role.
      cores: number of cores of the largest node.
    """
    return {
        (role.name, index): role.threads(values, cores)
        for role in layout.roles
        for index in range(counts[role.name])
    }


class RemoteProcess:
    """A `LocalProcess` in a Ray actor, with the same methods.

    Attributes:
      pid: always None, because the process may run on another machine.
      lost: message if the process was lost with its node or worker, "" otherwise.
    """

    pid = None
    lost = ""

    def __init__(self, ray: Any, actor: Any):
        """Wraps a Ray actor that has been requested; Ray may not have placed it yet."""
        self._ray = ray
        self._actor = actor
        self._answer = actor.poll.remote()
        self._code: int | None = None
        self._is_ready = False

    def poll(self) -> tuple[int | None, bool]:
        """Returns the exit code, None if the process runs, and whether it has been ready."""
        if self._code is None and self._ray.wait([self._answer], timeout=0)[0]:
            try:
                self._code, self._is_ready = self._ray.get(self._answer)
            except self._ray.exceptions.ActorUnavailableError:
                pass  # the network; for an actor that has died, Ray raises another error
            except self._ray.exceptions.RayError as error:
                self._code = -signal.SIGKILL
                self.lost = f"was lost with its node or worker ({type(error).__name__})"
            self._answer = self._actor.poll.remote()
        return self._code, self._is_ready

    def signal(self, number: int) -> None:
        """Sends a signal to the process and to the processes that it has started."""
        self._actor.signal.remote(number)

    def clear(self, seconds: float = 0.0) -> int:
        """Kills the process, the rest of its group and its Ray actor; returns the exit code."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            answer = self._actor.clear.remote(seconds)
            self._code = self._ray.get(answer, timeout=seconds + _ANSWER_SECONDS)
        self._ray.kill(self._actor)
        return -signal.SIGKILL if self._code is None else self._code


class RayCluster(Cluster):
    """A cluster of processes on the nodes of a Ray cluster.

    If a task that others call has moved to another node, all tasks restart with new addresses.
    """

    _poll_seconds = 0.5

    def __init__(
        self,
        ray: Any,
        layout: Layout,
        cores: Mapping[Task, int],
        make_processes: Callable[[Topology], Sequence[Process]],
        log_directory: pathlib.Path,
    ):
        """Prepares the tasks.

        Args:
          ray: the module `ray`, connected to the cluster.
          layout: the run's layout.
          cores: number of cores that each task needs.
          make_processes: returns a process for each task of a topology.
          log_directory: directory for a log `ROLE-INDEX.log` of each task; on a shared file system.
        """
        super().__init__((), log_directory, pause_seconds=_PAUSE_SECONDS)
        self._ray = ray
        self._layout = layout
        self._bundles = {task: number for number, task in enumerate(cores)}
        self._called = [task for task in cores if layout.role(task[0]).is_called]
        self._make_processes = make_processes
        has_gpu = "GPU" in ray.cluster_resources()
        self._resources = {
            task: {"CPU": number}
            | ({"GPU": 1} if has_gpu and layout.role(task[0]).uses_gpu else {})
            for task, number in cores.items()
        }
        self._group: Any = None
        self._places: Mapping[Task, str] = {}  # the node whose address each task has

    def _open(self) -> None:
        from ray.util import placement_group

        self._group = placement_group(list(self._resources.values()), strategy="SPREAD")
        deadline = time.monotonic() + _PLACE_SECONDS
        while not self._group.wait(1):
            if time.monotonic() > deadline or self._is_stopping:
                flags = " or ".join(f"--{name}" for name in self._layout.flags)
                raise ClusterError(
                    f"Ray could not reserve {self._resources} within {_PLACE_SECONDS:g} s: it has "
                    "too few cores, others use them, or no single node has enough for a task (see "
                    f"`ray status`): add nodes, or lower {flags}"
                )
        self._place(self._nodes())

    def _launch(self, process: Process, log: pathlib.Path) -> RemoteProcess:
        task = process.name, process.index
        start = self._remote(task, LocalProcess, self._resources[task])
        return RemoteProcess(self._ray, start.remote(process, str(log), os.getcwd()))

    def _restart(self, state: ProcessState) -> None:
        """Restarts a process in its bundle, or all if a task that others call has moved."""
        with contextlib.suppress(self._ray.exceptions.RayError):  # a node has just died
            nodes = self._nodes()
            called = [task for task in self._called if not self._supervised[task].is_done]
            moved = [task for task in called if nodes[task] != self._places[task]]
            if not moved and nodes[state.process.name, state.process.index]:
                super()._restart(state)
            elif moved and all(nodes.values()):
                self._place(nodes)
                names = ", ".join(f"{name} {index}" for name, index in moved)
                with self._lock:
                    self._events.append(f"{names} moved to another node: all roles restart")
                self._end_all(_MOVE_SECONDS)
                for each in self._supervised.values():
                    if not each.is_done and not self._is_stopping:
                        super()._restart(each)

    def _close(self) -> None:
        from ray.util import remove_placement_group

        with contextlib.suppress(self._ray.exceptions.RayError):
            if self._group is not None:
                remove_placement_group(self._group)
        self._ray.shutdown()

    def _nodes(self) -> dict[Task, str]:
        """Returns the node of each task's bundle; "" while Ray looks for one."""
        from ray.util import placement_group_table

        nodes = placement_group_table(self._group)["bundles_to_node_id"]
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        found = {task: nodes.get(number, "") for task, number in self._bundles.items()}
        return {task: node if node in alive else "" for task, node in found.items()}

    def _place(self, nodes: Mapping[Task, str]) -> None:
        """Gives each task an address on its node, at a port that is free there."""
        hosts = {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes()}
        ports = {}
        for node, number in Counter(nodes.values()).items():
            task = next(task for task in nodes if nodes[task] == node)
            find = self._remote(task, topology.free_ports, {"CPU": 0})  # its cores may be in use
            ports[node] = self._ray.get(find.remote(number))
        bracketed = {node: f"[{host}]" if ":" in host else host for node, host in hosts.items()}
        addresses = {task: f"{bracketed[node]}:{ports[node].pop()}" for task, node in nodes.items()}
        for process in self._make_processes(Topology.of(self._layout.roles, addresses)):
            task = process.name, process.index
            self._supervised.setdefault(task, ProcessState(process)).process = process
        self._places = nodes

    def _remote(self, task: Task, what: Callable, resources: Mapping[str, int]) -> Any:
        """Returns a wrapper with which Ray calls a function or class in the bundle of a task."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        return self._ray.remote(what).options(
            num_cpus=resources["CPU"],
            num_gpus=resources.get("GPU", 0),
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=self._bundles[task]
            ),
        )
