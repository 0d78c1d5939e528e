"""The jobs of a cluster, their addresses, and the task of this process.

The source is `TF_CONFIG`, as for TensorFlow's own clusters, with this project's job names:
`{"cluster": {"learner": ["host:port"], ...}, "task": {"type": "learner", "index": 0}}`.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import ipaddress
import json
import os
import socket

from common.cluster.errors import ClusterError

BIND_HOST_VARIABLE = "REPLAY_RL_BIND_HOST"


def split_address(address: str) -> tuple[str, int]:
    """Returns (host, port) of `host:port` or `[IPv6]:port`; the host comes without brackets.

    Raises:
        ClusterError: it is neither.
    """
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    well_formed = (
        colon
        and bare
        and not any(c.isspace() or c in "/[]" for c in bare)
        and (bracketed or ":" not in bare)
        and port.isascii()
        and port.isdigit()
        and 1 <= int(port) <= 65535
    )
    if not well_formed:
        raise ClusterError(
            f"{address!r} is not an address: write host:port with a port from 1 to 65535, "
            "an IPv6 host in [brackets]"
        )
    return bare, int(port)


def is_loopback(host: str) -> bool:
    """Returns whether a host name or number means this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_ports(count: int) -> list[int]:
    """Returns `count` different TCP ports that are free on the loopback at this moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@dataclasses.dataclass(frozen=True)
class Job:
    """A job of a cluster, as the transport has to know it.

    Attributes:
        name: in `TF_CONFIG` and after `--role=`.
        calls: names of the jobs whose services it calls.
        is_called: whether others call it, so that the cluster has to list its tasks.
        host: job whose process offers this one's service where the cluster lists no task of this
            one; "" if the cluster has to list one.
        max_tasks: how many tasks there can be; None is any number.
    """

    name: str
    calls: tuple[str, ...] = ()
    is_called: bool = False
    host: str = ""
    max_tasks: int | None = None


@dataclasses.dataclass(frozen=True)
class Topology:
    """The addresses of every job, and the task that this process has.

    Attributes:
        jobs: the jobs that the cluster may have, the one that keeps the run first.
        cluster: job -> its addresses, by index, as others call them.
        job: this process's job.
        index: its index in the job, from 0.
        bind_host: the host to listen at, where it differs from the advertised one.
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
                    f"the cluster lists {len(addresses)} tasks of {name}: there can be {most}"
                )
            for address in addresses:
                split_address(address)
                if address in seen:
                    raise ClusterError(
                        f"{address} serves both {seen[address]} and {name}: give each task an "
                        "address of its own"
                    )
                seen[address] = name
        job = self._job(self.job)
        if self.index < 0:
            raise ClusterError(f"the task index {self.index} is negative: count from 0")
        if self.job in self.cluster:
            count = len(self.cluster[self.job])
            if self.index >= count:
                raise ClusterError(
                    f"the task is {self.job} {self.index}, but the cluster lists {count} of that "
                    "job: correct the index or add its address"
                )
        elif job.is_called:
            raise ClusterError(
                f"the task is {self.job} {self.index}, but the cluster has no job {self.job!r}: "
                "add its address, others have to reach it"
            )

    @classmethod
    def from_environment(
        cls, jobs: tuple[Job, ...], environment: Mapping[str, str] = os.environ
    ) -> "Topology":
        """Reads `TF_CONFIG`, and `REPLAY_RL_BIND_HOST` where it is set (for example 0.0.0.0).

        Raises:
            ClusterError: the variable is missing or malformed; one line that names it.
        """
        text = environment.get("TF_CONFIG")
        if not text:
            raise ClusterError(
                'TF_CONFIG is not set: a single role needs {"cluster": {job: ["host:port"]}, '
                '"task": {"type": job, "index": 0}}; --role=local needs none'
            )
        try:
            bind_host = environment.get(BIND_HOST_VARIABLE) or None
            return cls(jobs, *_parse(text), bind_host=bind_host)
        except ClusterError as error:
            raise ClusterError(f"TF_CONFIG: {error}") from None

    @classmethod
    def local(cls, jobs: tuple[Job, ...], counts: Mapping[str, int]) -> "Topology":
        """Returns a cluster of `counts[job]` tasks a job, on free ports of the loopback.

        Its task is the first one of the job that keeps the run.
        """
        ports = iter(free_ports(sum(counts.values())))
        cluster = {
            name: tuple(f"127.0.0.1:{next(ports)}" for _ in range(count))
            for name, count in counts.items()
            if count
        }
        return cls(jobs, cluster, jobs[0].name, 0)

    def to_tf_config(self, job: str, index: int) -> str:
        """Returns the `TF_CONFIG` text for one task of this cluster."""
        task = dataclasses.replace(self, job=job, index=index)
        return json.dumps(
            {
                "cluster": {name: list(addresses) for name, addresses in task.cluster.items()},
                "task": {"type": job, "index": index},
            }
        )

    def addresses(self, job: str) -> tuple[str, ...]:
        """Returns the addresses of a job's tasks, none where the cluster lists none."""
        return tuple(self.cluster.get(job, ()))

    def address(self, job: str, index: int = 0) -> str:
        """Returns one task's advertised address.

        Raises:
            ClusterError: the cluster does not list that task.
        """
        addresses = self.addresses(job)
        if not 0 <= index < len(addresses):
            raise ClusterError(f"the cluster has no {job} {index}: add its host:port to TF_CONFIG")
        return addresses[index]

    def service(self, job: str) -> tuple[str, ...]:
        """Returns the addresses that offer a job's service: those of its tasks, or of its host."""
        return self.addresses(job) or self.addresses(self._job(job).host)

    def hosts(self, job: str) -> bool:
        """Returns whether this process offers a job's service besides that of its own job."""
        return self._job(job).host == self.job and not self.addresses(job)

    def share(self, job: str) -> int:
        """Returns the index of the task of a job's service that this task uses, or is.

        Tasks use them in turns.
        """
        return self.index % len(self.service(job))

    @property
    def keeper(self) -> str:
        """The address of the job that keeps the run."""
        return self.address(self.jobs[0].name)

    @property
    def partners(self) -> tuple[str, ...]:
        """The addresses that this task calls.

        Raises:
            ClusterError: the cluster lacks one.
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
        """The address under which others reach this task."""
        return self.address(self.job, self.index)

    @property
    def bind_address(self) -> str:
        """The address at which this task listens; a loopback address stays on the loopback."""
        host, port = split_address(self.own_address)
        if self.bind_host is None or is_loopback(host):
            return self.own_address
        bind_host = f"[{self.bind_host}]" if ":" in self.bind_host else self.bind_host
        return f"{bind_host}:{port}"

    def _job(self, name: str) -> Job:
        for job in self.jobs:
            if job.name == name:
                return job
        names = ", ".join(job.name for job in self.jobs)
        raise ClusterError(f"unknown job {name!r}: the jobs of this layout are {names}")


def _parse(text: str) -> tuple[dict[str, tuple[str, ...]], str, int]:
    """Returns (cluster, job, index) of a TF_CONFIG text of the right shape."""
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ClusterError(
            f"it is not JSON ({error.msg} at character {error.pos}): check quotes and commas"
        ) from None
    cluster = config.get("cluster") if isinstance(config, dict) else None
    if not isinstance(cluster, dict) or not cluster:
        raise ClusterError('it has no "cluster": write {"cluster": {job: ["host:port"]}, ...}')
    for job, addresses in cluster.items():
        if (
            not isinstance(addresses, list)
            or not addresses
            or not all(isinstance(address, str) for address in addresses)
        ):
            raise ClusterError(f'job {job!r} needs a list of addresses, as ["host:port"]')
    task = config.get("task")
    if not isinstance(task, dict) or not isinstance(task.get("type"), str):
        raise ClusterError('it has no "task": write "task": {"type": job, "index": 0}')
    index = task.get("index", 0)
    if isinstance(index, str) and index.isascii() and index.isdigit():
        index = int(index)  # a shell template quotes it easily, and TensorFlow takes it too
    if not isinstance(index, int) or isinstance(index, bool):
        raise ClusterError(f'the task\'s "index" is {index!r}: write a whole number from 0')
    return {job: tuple(addresses) for job, addresses in cluster.items()}, task["type"], index
