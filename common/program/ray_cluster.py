"""The roles of a run on a Ray cluster, which chooses their machines.

    python -m binaries.d4pg --role=ray --ray_address=HOST:6379 --environment=... --workdir=...

Ray places a bundle of cores for each task, and another one when its node dies. The roles run as
processes of their own, and talk by TensorFlow's RPC at the addresses of the nodes. This module does
not import TensorFlow.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import functools
import os
import pathlib
import signal
import subprocess
import time
from typing import Any

from common.cluster import topology
from common.cluster.errors import ClusterError
from common.cluster.launcher import FINAL_CODE, GIVE_UP_CODE, Process, ProcessState, log_end
from common.cluster.layout import FlagValues, Layout, Role
from common.cluster.processes import set_parent_death_signal
from common.cluster.topology import Topology

Task = tuple[str, int]
"""A role's name and the index of one of its tasks."""

_ANSWER_SECONDS = 5.0
_PLACE_SECONDS = 30.0
"""Longest wait for cores, which other users of the Ray cluster may have."""
_POLL_SECONDS = 0.2
_PAUSE_SECONDS = 5.0
_MOVE_SECONDS = 30.0
"""Time for roles to end, when all have to start again; a learner saves what it has learnt."""
_GRACE_SECONDS = 20.0
"""Shortest pause before a restart after exit code 0, since the run may just be ending."""
_SHORT_SECONDS = 60.0
_GIVE_UP_AFTER = 5
"""Ends of a task in a row, each within `_SHORT_SECONDS` of its start, that end the run."""


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
      layout: of the run.
      values: of the layout's flags.
      counts: tasks by role.
      cores: of the largest node.
    """
    return {
        (role.name, index): role.threads(values, cores)
        for role in layout.roles
        for index in range(counts[role.name])
    }


def check_cores(needed: Mapping[Task, int], nodes: Sequence[int], flags: Sequence[str]) -> None:
    """Raises ClusterError if a cluster has too few cores.

    Args:
      needed: cores of each task.
      nodes: cores of each node.
      flags: names of the flags that change what is needed.
    """
    largest = max(needed, key=lambda task: needed[task])
    has = f"the Ray cluster has {sum(nodes)} on {len(nodes)} nodes"
    advice = f"add nodes, or lower {' or '.join(f'--{name}' for name in flags)}"
    if needed[largest] > max(nodes, default=0):
        name, index = largest
        raise ClusterError(
            f"{name} {index} needs {needed[largest]} cores of one node, but {has}, "
            f"{max(nodes, default=0)} on the largest: {advice}"
        )
    if sum(needed.values()) > sum(nodes):
        cores: Counter[str] = Counter()
        for (name, _), number in needed.items():
            cores[name] += number
        parts = ", ".join(f"{name} {number}" for name, number in cores.items())
        raise ClusterError(
            f"the run needs {sum(needed.values())} cores ({parts}), but {has}: {advice}"
        )


def make_topology(layout: Layout, addresses: Mapping[Task, str]) -> Topology:
    """Returns the topology of a run whose tasks have these addresses, in the order of tasks."""
    cluster: dict[str, tuple[str, ...]] = {}
    for (name, _), address in addresses.items():
        cluster[name] = (*cluster.get(name, ()), address)
    return Topology(layout.roles, cluster, layout.keeper.name, 0)


@dataclasses.dataclass
class _Supervised:
    """A task with the records of its starts.

    Attributes:
      reference: Ray's, of what the task will have returned; None if it does not run.
      node: on which it was started, by Ray's name.
      exit_code: its last one.
      restarts: number of restarts.
      short_runs: ends in a row that came soon after their start.
      started_at: time of its last start.
      restart_at: time from which it may be started again.
    """

    reference: Any = None
    node: str = ""
    exit_code: int | None = None
    restarts: int = 0
    short_runs: int = 0
    started_at: float = 0.0
    restart_at: float | None = None


class RayCluster:
    """The tasks of a run, supervised by `failure`: call it often."""

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
          ray: the module, connected.
          layout: of the run.
          cores: of each task.
          make_processes: returns a process for each task of a topology.
          log_directory: gets a log `ROLE-INDEX.log` for each task; on a shared file system.
        """
        self._ray = ray
        self._layout = layout
        self._cores = cores
        self._bundles = {task: number for number, task in enumerate(cores)}
        self._called = [task for task in cores if layout.role(task[0]).is_called]
        self._make_processes = make_processes
        self._log_directory = log_directory
        self._supervised = {task: _Supervised() for task in cores}
        self._processes: dict[Task, Process] = {}
        self._dead_nodes: set[str] = set()  # Ray's tables know of a death only seconds later
        self._is_over = False
        self._failure: str | None = None
        self._events: list[str] = []

    def start(self) -> None:
        """Starts all tasks.

        Raises:
          ClusterError: there are not enough free cores.
        """
        from ray.util import placement_group, remove_placement_group

        self._log_directory.mkdir(parents=True, exist_ok=True)
        has_gpu = "GPU" in self._ray.cluster_resources()
        self._resources = {
            task: {"CPU": cores} | ({"GPU": 1} if has_gpu and self._role(task).uses_gpu else {})
            for task, cores in self._cores.items()
        }
        self._group = placement_group(list(self._resources.values()), strategy="SPREAD")
        if not self._group.wait(_PLACE_SECONDS):
            remove_placement_group(self._group)
            raise ClusterError(
                f"Ray found no place for {dict(self._resources)} within {_PLACE_SECONDS:g} s: "
                "others use its cores, or no node has enough of them together, see `ray status`"
            )
        nodes = self._nodes()
        self._start_all(nodes, self._addresses(nodes))

    def states(self) -> dict[Task, ProcessState]:
        """Returns the state of each task."""
        now = time.monotonic()
        return {
            task: ProcessState(
                running=one.reference is not None,
                has_been_ready=bool(one.started_at),
                exit_code=one.exit_code,
                restarts=one.restarts,
                pid=None,
                pause_seconds=one.restart_at and max(0.0, one.restart_at - now),
            )
            for task, one in self._supervised.items()
        }

    def failure(self) -> str | None:
        """Restarts what has ended; returns what ends the run, None if nothing does."""
        for task, one in self._supervised.items():
            if one.reference is not None and self._ray.wait([one.reference], timeout=0)[0]:
                self._end(task, one)
        due = [
            task
            for task, one in self._supervised.items()
            if one.restart_at is not None and time.monotonic() >= one.restart_at
        ]
        if self._failure is None and due:
            with contextlib.suppress(self._ray.exceptions.RayError):  # a node died just now
                self._restart(due)
        return self._failure

    def take_events(self) -> list[str]:
        """Returns a line for each end of a task, or move, since the last call."""
        events, self._events = self._events, []
        return events

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Sends SIGTERM to every task, SIGKILL after the timeout, and leaves the cluster."""
        from ray.util import remove_placement_group

        if not self._ray.is_initialized():
            return
        self._cancel(timeout_seconds)
        with contextlib.suppress(self._ray.exceptions.RayError):
            remove_placement_group(self._group)
        self._ray.shutdown()

    def _role(self, task: Task) -> Role:
        return self._layout.role(task[0])

    def _nodes(self) -> dict[Task, str]:
        """Returns the node of each task's bundle; "" while Ray looks for one."""
        from ray.util import placement_group_table

        nodes = placement_group_table(self._group)["bundles_to_node_id"]
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]} - self._dead_nodes
        found = {task: nodes.get(number, "") for task, number in self._bundles.items()}
        return {task: node if node in alive else "" for task, node in found.items()}

    def _addresses(self, nodes: Mapping[Task, str]) -> dict[Task, str]:
        """Returns an address for each task on its node, at a port that is free there."""
        hosts = {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes()}
        ports = {}
        for node, number in Counter(nodes.values()).items():
            task = next(task for task in nodes if nodes[task] == node)
            find = self._remote(task, topology.free_ports, {"CPU": 0})  # its cores may be in use
            ports[node] = self._ray.get(find.remote(number))
        return {
            task: f"[{hosts[node]}]:{ports[node].pop()}"
            if ":" in hosts[node]
            else f"{hosts[node]}:{ports[node].pop()}"
            for task, node in nodes.items()
        }

    def _start_all(self, nodes: Mapping[Task, str], addresses: Mapping[Task, str]) -> None:
        made = self._make_processes(make_topology(self._layout, addresses))
        self._processes = {(one.name, one.index): one for one in made}
        for task, node in nodes.items():
            self._start(task, node)

    def _start(self, task: Task, node: str) -> None:
        one, process = self._supervised[task], self._processes[task]
        one.restarts += one.started_at > 0
        one.node, one.started_at, one.restart_at = node, time.monotonic(), None
        one.reference = self._remote(task, _run, self._resources[task]).remote(
            process.command, dict(process.environment), os.getcwd(), str(self._log(task))
        )

    def _remote(self, task: Task, function: Callable, resources: Mapping[str, int]) -> Any:
        """Returns a function that Ray runs once, in the bundle of a task."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        return self._ray.remote(function).options(
            num_cpus=resources["CPU"],
            num_gpus=resources.get("GPU", 0),
            max_retries=0,
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=self._bundles[task]
            ),
        )

    def _end(self, task: Task, one: _Supervised) -> None:
        """Records the end of a task."""
        (name, index), keeper = task, self._layout.keeper.name
        code: int | None = None
        try:
            code = self._ray.get(one.reference)
            how = f"ended with exit code {code}"
        except self._ray.exceptions.RayError as error:
            if isinstance(error, self._ray.exceptions.NodeDiedError):
                self._dead_nodes.add(one.node)
            how = f"was lost with its node or worker ({type(error).__name__})"
        one.reference, one.exit_code = None, code
        if code == 0 and (self._is_over or name == keeper):
            self._is_over = True
            return
        is_short = time.monotonic() - one.started_at < _SHORT_SECONDS
        one.short_runs = one.short_runs + 1 if is_short and code is not None else 0
        gives_up = code == GIVE_UP_CODE and (is_short or name == keeper)
        if gives_up or code == FINAL_CODE or one.short_runs >= _GIVE_UP_AFTER:
            path = self._log(task)
            self._failure = f"{name} {index} {how}; {path} ends with:\n{log_end(path)}"
            return
        pause = _PAUSE_SECONDS if code != 0 else _GRACE_SECONDS
        one.restart_at = time.monotonic() + pause
        if code != 0:
            self._events.append(f"{name} {index} {how}: restart in {pause:g} s")

    def _restart(self, due: Sequence[Task]) -> None:
        """Starts tasks where their cores are; all of them if one that others call has moved."""
        if self._is_over:
            for one in self._supervised.values():
                if one.exit_code == 0:
                    one.restart_at = None
        nodes = self._nodes()
        moved = [task for task in self._called if nodes[task] != self._supervised[task].node]
        if moved and not all(nodes.values()):
            return  # Ray looks for cores
        if moved:
            names = ", ".join(f"{name} {index}" for name, index in moved)
            addresses = self._addresses(nodes)
            self._events.append(f"{names} moved to another node: all roles start again")
            self._cancel(_MOVE_SECONDS)
            self._start_all(nodes, addresses)
            return
        for task in due:
            if self._supervised[task].restart_at is not None and nodes[task]:
                self._start(task, nodes[task])

    def _cancel(self, timeout_seconds: float) -> None:
        """Ends all tasks."""
        running = [one.reference for one in self._supervised.values() if one.reference is not None]
        for one in self._supervised.values():
            one.reference = one.restart_at = None
        if timeout_seconds > 0:
            for reference in running:
                self._ray.cancel(reference)
            _, running = (
                self._ray.wait(running, num_returns=len(running), timeout=timeout_seconds)
                if running
                else ([], [])
            )
        for reference in running:
            self._ray.cancel(reference, force=True)

    def _log(self, task: Task) -> pathlib.Path:
        return self._log_directory / f"{task[0]}-{task[1]}.log"


def _run(command: list[str], environment: dict[str, str], folder: str, log: str) -> int:
    """Runs a role on the node where this is called; returns its exit code, as `Popen` does."""
    # `ray.cancel` interrupts; a Ray that a script started in the background would ignore that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(log, "ab") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=functools.partial(set_parent_death_signal, os.getpid()),
        )
    try:
        while process.poll() is None:
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        process.terminate()
    return process.wait()
