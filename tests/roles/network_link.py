"""Two network namespaces that stand for two machines, and the link between them.

Packets of the two machines meet in this process, which delays them or loses them: Linux's `netem`
does the same where the kernel has it. Needs root, `ip` (Debian: iproute2), and /dev/net/tun.
"""

from collections import deque
from collections.abc import Iterator
import contextlib
import fcntl
import os
import select
import struct
import subprocess
import threading
import time

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_PACKET_BYTES = 65_536
_QUEUED_PACKETS = 5_000
"""What a device keeps for this process, which may have to wait for a core."""


class NetworkLink:
    """A link between two machines, "a" and "b".

    Attributes:
      latency_seconds: time of a packet from one machine to the other and of its answer back.
      is_up: whether packets arrive. Nobody is told when they do not, as of a pulled cable behind a
        switch.
      num_bytes: bytes that have arrived at either machine.
    """

    hosts = {"a": "10.231.7.1", "b": "10.231.7.2"}

    def __init__(self):
        self.latency_seconds = 0.0
        self.is_up = True
        self.num_bytes = 0
        self._names = {side: f"replay_rl_{os.getpid()}_{side}" for side in self.hosts}

    def command(self, side: str) -> list[str]:
        """Returns the beginning of a command that starts a program on a machine."""
        return ["ip", "netns", "exec", self._names[side]]

    @contextlib.contextmanager
    def laid(self) -> Iterator[None]:
        """Makes the machines and the link, and removes them.

        Raises:
          OSError: this process has not the right, or the system has no TUN devices or no `ip`.
        """
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(self._machine(side)) for side in self.hosts]
            ends, end = os.pipe()
            thread = threading.Thread(target=self._forward, args=(*files, ends), name="link")
            thread.start()
            try:
                yield
            finally:
                os.close(end)
                thread.join()
                os.close(ends)

    @contextlib.contextmanager
    def _machine(self, side: str) -> Iterator[int]:
        name, device = self._names[side], f"tun_{os.getpid()}_{side}"[:15]
        file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        try:
            request = struct.pack("16sH22x", device.encode(), _IFF_TUN | _IFF_NO_PI)
            fcntl.ioctl(file, _TUNSETIFF, request)
            _ip("netns", "add", name)
            try:
                _ip("link", "set", device, "netns", name, "txqueuelen", str(_QUEUED_PACKETS))
                _ip("-n", name, "address", "add", f"{self.hosts[side]}/24", "dev", device)
                for each in ("lo", device):
                    _ip("-n", name, "link", "set", each, "up")
                yield file
            finally:
                _ip("netns", "delete", name)
        finally:
            os.close(file)

    def _forward(self, a: int, b: int, ends: int) -> None:
        """Takes packets from each device to the other one until `ends` is closed."""
        others, waiting = {a: b, b: a}, deque[tuple[float, int, bytes]]()
        while True:
            wait = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
            ready, _, _ = select.select([a, b, ends], [], [], wait)
            if ends in ready:
                return
            due = time.monotonic() + self.latency_seconds / 2
            for file in ready:
                packet = os.read(file, _PACKET_BYTES)
                if self.is_up:
                    waiting.append((due, others[file], packet))
            while waiting and waiting[0][0] <= time.monotonic():
                _, file, packet = waiting.popleft()
                with contextlib.suppress(BlockingIOError):  # full: lost, as in a network
                    self.num_bytes += os.write(file, packet)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
