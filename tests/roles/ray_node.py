"""Nodes of a Ray cluster, as processes of this machine."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

from common.cluster.topology import free_ports

_START_SECONDS = 120.0


class RayNode:
    """A node of a Ray cluster.

    Args:
      log: gets its output.
      host: its address, one of the loopback's, but not 127.0.0.1, for which Ray takes another.
      cores: number of cores that the node reports.
      *options: options of `ray start`.
    """

    def __init__(self, log: pathlib.Path, host: str, cores: int, *options: str):
        self._log = log
        with open(log, "ab") as file:
            self._popen = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
                    *(f"--node-ip-address={host}", f"--num-cpus={cores}", "--num-gpus=0"),
                    *("--object-store-memory=80000000", "--disable-usage-stats", *options),
                ],
                # Its workers have niceness 15 otherwise, and the machine may have other work.
                env={**os.environ, "RAY_worker_niceness": "0"},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def wait(self) -> None:
        """Returns when the node has joined; AssertionError if it does not."""
        deadline = time.monotonic() + _START_SECONDS
        while "Ray runtime started" not in (text := self._log.read_text()):
            assert self._popen.poll() is None and time.monotonic() < deadline, text
            time.sleep(0.2)

    def pids(self) -> set[int]:
        """Returns the node's processes, without those of roles."""
        pids = [int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*")]
        return {pid for pid in pids if _session(pid) == self._popen.pid}

    def kill(self) -> None:
        """Ends them all at once, as a power cut does."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._popen.wait()


def _session(pid: int) -> int | None:
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid)


@contextlib.contextmanager
def two_nodes(folder: str | os.PathLike, cores: int):
    """Yields the address of a Ray cluster and its two nodes, 127.0.0.2 and 127.0.0.3.

    Args:
      folder: gets logs; its path is short, since Ray's sockets are below it.
      cores: number of cores of each node.
    """
    folder = pathlib.Path(folder)
    (port,) = free_ports(1)
    address = f"127.0.0.2:{port}"
    head = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}/ray")
    nodes = [RayNode(folder / "node_0.log", "127.0.0.2", cores, *head)]
    try:
        nodes[0].wait()
        nodes.append(RayNode(folder / "node_1.log", "127.0.0.3", cores, f"--address={address}"))
        nodes[1].wait()
        yield address, nodes
    finally:
        for node in nodes:
            node.kill()
