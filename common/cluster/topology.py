"""The jobs of a cluster, their addresses, and the task of this process.

They are read from `TF_CONFIG`, as in TensorFlow's own clusters, but with this project's job names:
`{"cluster": {"learner": ["host:port"], ...}, "task": {"type": "learner", "index": 0}}`. If an
address does not answer, probes find out why; TensorFlow's client only reports a timeout. This
module does not import TensorFlow.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import ipaddress
import json
import os
import pathlib
import re
import socket
import tempfile
import time
from typing import Any

from common.cluster.errors import (
    ClusterError,
    NoServiceError,
    ServiceUnavailableError,
    UnknownHostError,
)
from common.reporting import records
from common.user_error import UserError

BIND_HOST_VARIABLE = "REPLAY_RL_BIND_HOST"
_LABEL = r"[\w-]{1,63}"
_ADDRESS = re.compile(rf"(?:\[([\w.:%-]+)\]|({_LABEL}(?:\.{_LABEL})*\.?)):(\d{{1,5}})", re.ASCII)
_UNIX = "unix:"
_SOCKET_BYTES = 107
"""Bytes in the longest path of a Unix socket: Linux's `sun_path` without the final NUL."""
_FORM = 'such as {"cluster": {job: ["host:port"]}, "task": {"type": job, "index": 0}}'
_NOT_IN_SOCKET = "%,?#"
"""Characters that gRPC interprets in addresses, so that it would listen at another path."""


def split_address(address: str) -> tuple[str, int]:
    """Returns (host, port) of `host:port` or `[IPv6]:port`, the host without brackets.

    Raises:
      ClusterError: the address has another form.
    """
    found = _ADDRESS.fullmatch(address)
    if not found or not 1 <= int(found[3]) <= 65535:
        raise ClusterError(
            f"{address!r:.200} is not an address: write host:port with a port from 1 to 65535, and "
            "an IPv6 host in [brackets]"
        )
    return found[1] or found[2], int(found[3])


def unix_path(address: str) -> str | None:
    """Returns the socket's path in `unix:/path`, or None if the address has another form."""
    return address.removeprefix(_UNIX) if address.startswith(f"{_UNIX}/") else None


def check_address(address: str) -> None:
    """Raises ClusterError unless the address is `host:port` or `unix:/path` of a usable path."""
    path = unix_path(address)
    if path is None:
        split_address(address)
    elif not path.isprintable() or set(path) & set(_NOT_IN_SOCKET):
        raise ClusterError(
            f"the socket's path {path!r:.200} contains one of {' '.join(_NOT_IN_SOCKET)} or an "
            "unprintable character: set TMPDIR to another path; it is now "
            f"{tempfile.gettempdir()!r:.200}"
        )
    elif (size := len(os.fsencode(path))) > _SOCKET_BYTES:
        raise ClusterError(
            f"the socket's path {path} has {size} bytes, but may have at most "
            f"{_SOCKET_BYTES}: set TMPDIR to a shorter path; it is now {tempfile.gettempdir()}"
        )


def connect(address: str, timeout_seconds: float) -> socket.socket:
    """Returns a connection to an address.

    Raises:
      OSError: nothing listens there.
    """
    path = unix_path(address)
    if path is None:
        return socket.create_connection(split_address(address), timeout_seconds)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(timeout_seconds)
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def is_loopback(host: str) -> bool:
    """Returns whether a host name or IP address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_ports(count: int) -> list[int]:
    """Returns `count` different TCP ports that are free on the loopback interface right now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]


@dataclasses.dataclass(frozen=True)
class Job:
    """A job of a cluster, reduced to the facts that the transport needs.

    Attributes:
      name: its name in `TF_CONFIG` and in `--role=NAME`.
      calls: names of the jobs whose services it calls.
      is_called: whether other jobs call it, so that the cluster has to list its tasks.
      host: the job whose process serves this job when the cluster lists no task of it, as the
        learner does without a replay. "": the cluster must list a task.
      max_tasks: largest number of tasks; None for no limit.
    """

    name: str
    calls: tuple[str, ...] = ()
    is_called: bool = False
    host: str = ""
    max_tasks: int | None = None


@dataclasses.dataclass(frozen=True)
class Topology:
    """The addresses of every job, and the task of this process.

    Attributes:
      jobs: the jobs that the cluster may have. The first one keeps the run.
      cluster: maps the name of a job to the advertised addresses of its tasks, by index.
      job: name of this process's job.
      index: this process's index in the job, from 0.
      bind_host: host to listen at, if it differs from the advertised host.

    Raises:
      ClusterError: jobs, addresses and task do not fit together.
    """

    jobs: tuple[Job, ...]
    cluster: Mapping[str, tuple[str, ...]]
    job: str
    index: int
    bind_host: str | None = None

    def __post_init__(self):
        seen: dict[str, str] = {}
        for name, addresses in self.cluster.items():
            most = self._job(name).max_tasks
            if most is not None and len(addresses) > most:
                raise ClusterError(
                    f"the cluster lists {len(addresses)} tasks of {name}, but can have only "
                    f"{most}: remove addresses"
                )
            for address in addresses:
                check_address(address)
                if address in seen:
                    raise ClusterError(
                        f"{address} serves both {seen[address]} and {name}: give each task an "
                        "address of its own"
                    )
                seen[address] = name
        job = self._job(self.job)
        if self.index < 0:
            raise ClusterError(f"the task index {self.index} is negative: count from 0")
        if job.max_tasks is not None and self.index >= job.max_tasks:
            raise ClusterError(
                f"the task is {self.job} {self.index}, counted from 0, but a run can have only "
                f"{job.max_tasks} of that job: do not start this task"
            )
        if self.job in self.cluster:
            count = len(self.cluster[self.job])
            if self.index >= count:
                raise ClusterError(
                    f"the task is {self.job} {self.index}, but the cluster lists only {count} "
                    "tasks of that job, counted from 0: correct the index or add an address"
                )
        elif job.is_called:
            raise ClusterError(
                f"the task is {self.job} {self.index}, but the cluster has no job {self.job!r}: "
                "add its address, because other jobs call it"
            )

    @classmethod
    def from_environment(
        cls, jobs: tuple[Job, ...], environment: Mapping[str, str] = os.environ
    ) -> "Topology":
        """Reads the topology from `TF_CONFIG`, and `bind_host` from `REPLAY_RL_BIND_HOST`.

        `REPLAY_RL_BIND_HOST` is optional; 0.0.0.0 for example.

        Raises:
          ClusterError: `TF_CONFIG` is missing or malformed. The message names it.
        """
        text = environment.get("TF_CONFIG")
        if not text:
            raise ClusterError(
                f"TF_CONFIG is not set: a single role needs it, {_FORM}; --role=local does not"
            )
        try:
            config = records.parse_json(text, "TF_CONFIG")
            bind_host = environment.get(BIND_HOST_VARIABLE) or None
            return cls(jobs, *_parse(config), bind_host=bind_host)
        except UserError as error:
            raise ClusterError(str(error)) from None
        except ClusterError as error:
            raise ClusterError(f"TF_CONFIG: {error}") from None

    @classmethod
    def local(
        cls, jobs: tuple[Job, ...], counts: Mapping[str, int], directory: pathlib.Path | None = None
    ) -> "Topology":
        """Returns a cluster with `counts[job]` tasks of each job on this machine; see `of`.

        Args:
          jobs: the jobs that the cluster may have.
          counts: number of tasks by job.
          directory: directory for the tasks' Unix sockets; None uses free loopback ports.
        """
        tasks = [(name, index) for name, count in counts.items() for index in range(count)]
        if directory is None:
            addresses = [f"127.0.0.1:{port}" for port in free_ports(len(tasks))]
        else:
            addresses = [f"{_UNIX}{directory}/{name}-{index}" for name, index in tasks]
        return cls.of(jobs, dict(zip(tasks, addresses)))

    @classmethod
    def of(cls, jobs: tuple[Job, ...], addresses: Mapping[tuple[str, int], str]) -> "Topology":
        """Returns the cluster with these addresses, given by (job, index) in the order of indices.

        The task of this process is the first task of the job that keeps the run.
        """
        cluster: dict[str, tuple[str, ...]] = {}
        for (name, _), address in addresses.items():
            cluster[name] = (*cluster.get(name, ()), address)
        return cls(jobs, cluster, jobs[0].name, 0)

    def to_tf_config(self, job: str, index: int) -> str:
        """Returns the value of `TF_CONFIG` for a task of this cluster."""
        return json.dumps({"cluster": self.cluster, "task": {"type": job, "index": index}})

    def addresses(self, job: str) -> tuple[str, ...]:
        """Returns the addresses of a job's tasks; empty if the cluster lists none."""
        return tuple(self.cluster.get(job, ()))

    def address(self, job: str, index: int = 0) -> str:
        """Returns the advertised address of a task.

        Raises:
          ClusterError: the cluster does not list that task.
        """
        addresses = self.addresses(job)
        if not 0 <= index < len(addresses):
            raise ClusterError(f"the cluster has no {job} {index}: add its host:port to TF_CONFIG")
        return addresses[index]

    def service(self, job: str) -> tuple[str, ...]:
        """Returns the addresses that offer a job's service: of its tasks, or else of its host."""
        return self.addresses(job) or self.addresses(self._job(job).host)

    def hosts(self, job: str) -> bool:
        """Returns whether this process also offers the service of a job without tasks."""
        return self._job(job).host == self.job and not self.addresses(job)

    def service_index(self, job: str) -> int:
        """Returns the position in `service(job)` of the address that this task calls, or has.

        Tasks are assigned to addresses in turn.
        """
        return self.index % len(self.service(job))

    @property
    def keeper_address(self) -> str:
        """The address of the job that keeps the run."""
        return self.address(self.jobs[0].name)

    @property
    def partners(self) -> tuple[str, ...]:
        """The addresses that this task calls.

        Raises:
          ClusterError: the cluster lacks the address of a job that this task calls.
        """
        found: dict[str, None] = {}
        for name in self._job(self.job).calls:
            addresses = self.service(name)
            if not addresses:
                self.address(name)  # raises
            found |= dict.fromkeys(addresses)
        if self.job in self.cluster:
            found.pop(self.own_address, None)
        return tuple(found)

    @property
    def own_address(self) -> str:
        """The address at which others reach this task."""
        return self.address(self.job, self.index)

    @property
    def bind_address(self) -> str:
        """The address at which this task listens.

        `bind_host` does not apply to a loopback address.
        """
        if self.bind_host is None or unix_path(self.own_address) is not None:
            return self.own_address
        host, port = split_address(self.own_address)
        if is_loopback(host):
            return self.own_address
        bind_host = f"[{self.bind_host}]" if ":" in self.bind_host else self.bind_host
        return f"{bind_host}:{port}"

    def _job(self, name: str) -> Job:
        for job in self.jobs:
            if job.name == name:
                return job
        names = ", ".join(job.name for job in self.jobs)
        raise ClusterError(f"unknown job {name!r:.200}: the jobs of this layout are {names}")


def _parse(config: Any) -> tuple[dict[str, tuple[str, ...]], str, int]:
    """Returns (cluster, job, index) of the JSON of TF_CONFIG; raises ClusterError if malformed."""
    records.require_keys("TF_CONFIG", config, {"cluster": {}, "task": {"type": str}})
    cluster, task = config.get("cluster"), config.get("task", {})
    if not cluster or not task.get("type"):
        raise ClusterError(f"the cluster or the task is missing: write JSON {_FORM}")
    for job, addresses in cluster.items():
        is_list = isinstance(addresses, list) and addresses
        if not is_list or not all(type(each) is str for each in addresses):
            raise ClusterError(f'job {job!r:.200} needs a list of addresses, such as ["host:port"]')
    index = task.get("index", 0)
    if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) <= 9:
        index = int(index)  # shell templates tend to quote it, and TensorFlow accepts that too
    if not isinstance(index, int) or isinstance(index, bool):
        raise ClusterError(f'the task\'s "index" is {index!r:.200}: write a whole number from 0')
    return {job: tuple(addresses) for job, addresses in cluster.items()}, task["type"], index


# HTTP/2's client preface with an empty SETTINGS frame (RFC 9113, section 3.4). A server answers
# with a SETTINGS frame of its own; the frame's fourth byte is its type.
_EMPTY_SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _EMPTY_SETTINGS
_SETTINGS_TYPE = 4


def probe(address: str, timeout_seconds: float = 2.0) -> None:
    """Checks that an HTTP/2 server, such as gRPC's, answers at an address.

    Args:
      address: `host:port` or `unix:/path`.
      timeout_seconds: timeout of the connection, and of each read.

    Raises:
      UnknownHostError: the host does not resolve.
      ServiceUnavailableError: nothing listens there, or it sends nothing.
      NoServiceError: something else listens there.
    """
    try:
        with connect(address, timeout_seconds) as connection, connection.makefile("rb") as stream:
            connection.sendall(_PREFACE)
            answer = stream.read(len(_EMPTY_SETTINGS))
    except socket.gaierror as error:
        raise UnknownHostError(
            f"cannot resolve the host of {address} ({error.strerror}): correct it in TF_CONFIG, "
            "or the network's name service"
        ) from None
    except OSError as error:
        raise ServiceUnavailableError(
            f"nothing answers at {address} ({error.strerror or error})"
        ) from None
    if not answer:
        raise ServiceUnavailableError(f"the process that listens at {address} does not reply")
    if len(answer) < len(_EMPTY_SETTINGS) or answer[3] != _SETTINGS_TYPE:
        raise NoServiceError(
            f"the process at {address} is not a service of a cluster: correct the address in "
            "TF_CONFIG"
        )


def is_gone(address: str) -> bool:
    """Returns whether nothing listens at an address, though its host answers."""
    try:
        connect(address, 2.0).close()
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except OSError:
        pass  # slow, or away for a while
    return False


def check_service(address: str, patience_seconds: float) -> None:
    """Checks that a role serves at an address or may do so later.

    Args:
      address: `host:port` or `unix:/path`.
      patience_seconds: how long to wait for its host to resolve. While a cluster starts its
        machines, a machine's name appears only together with the machine.

    Raises:
      UnknownHostError: the host does not resolve in time.
      NoServiceError: something else listens there.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            probe(address)
            return
        except UnknownHostError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
        except ServiceUnavailableError:
            return
