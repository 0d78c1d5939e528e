"""Trains on two machines, which are network namespaces with addresses of their own.

    .venv/bin/python tests/roles/two_machines.py d4pg
    .venv/bin/python tests/roles/two_machines.py aql --latency_ms=50 --away_seconds=120

The learner, or parameter server, and the evaluator are on the first machine, the replay on the
second, an acting process on each. Roles are started one by one, as docs/clusters.md says. Rates of
the learner are compared with those of the same roles on the loopback, in turns, at no latency and
at --latency_ms. Then no packet arrives for --away_seconds. Ends with exit code 1 if a role ends or
learning does not go on. No test: takes minutes, and needs root, `ip` and /dev/net/tun.
"""

import argparse
from collections import deque
from collections.abc import Iterator
import contextlib
import fcntl
import json
import os
import pathlib
import secrets
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

from soaks import SOAKS, layout_of
from watched_run import WatchedRun, parse

from common.cluster.credentials import TOKEN_VARIABLE
from common.cluster.topology import BIND_HOST_VARIABLE, Topology
from common.reporting.command_line import Parser

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


_ROOT = pathlib.Path(__file__).parents[2]
_PORT = 7001
_START_SECONDS = 1200.0
_SETTLE_SECONDS = 10.0
"""After a change, before a rate is measured."""
_STOPPED_CODE = 128 + signal.SIGTERM


class RolesByHand:
    """The roles of a run, each with its TF_CONFIG, on one machine or on two.

    Args:
      name: the soak whose program and flags they use.
      link: between the machines.
      folder: gets the run and the logs.
      is_apart: whether the roles are on both machines.
    """

    def __init__(self, name: str, link: NetworkLink, folder: pathlib.Path, is_apart: bool):
        soak, self._layout, self._link = SOAKS[name], layout_of(SOAKS[name]), link
        acting = self._layout.acting_role
        jobs = {role.name: 1 for role in self._layout.roles} | {acting.name: len(link.hosts)}
        self._tasks = [(job, index) for job, count in jobs.items() for index in range(count)]
        self._sides = dict.fromkeys(self._tasks, "a")
        hosts = dict.fromkeys(self._tasks, "127.0.0.1")
        if is_apart:
            for job, index in self._tasks:
                is_second = job == "replay" or job == acting.name and index % 2
                self._sides[job, index] = "ab"[is_second]
                hosts[job, index] = link.hosts["ab"[is_second]]
        addresses = {task: f"{hosts[task]}:{_PORT + i}" for i, task in enumerate(self._tasks)}
        self._topology = Topology.of(self._layout.roles, addresses)
        self.run = WatchedRun(folder / "run")
        self._command = [
            *(sys.executable, "-m", soak.module, f"--flagfile={_ROOT / soak.flagfile}"),
            *(f"--workdir={self.run.workdir}", "--evaluation_seconds=120"),
            f"--{self._layout.acting_flag}={len(link.hosts)}",
        ]
        self._variables = {
            **os.environ,
            TOKEN_VARIABLE: secrets.token_hex(16),
            BIND_HOST_VARIABLE: "0.0.0.0",
        }
        self._programs: dict[str, subprocess.Popen] = {}

    def start(self) -> None:
        """Starts all roles and returns when the learner has made updates."""
        before = self.run.learner("learner_steps")
        for job, index in self._tasks:
            with open(self.run.workdir.with_name(f"{job}-{index}.log"), "ab") as log:
                self._programs[f"{job}-{index}"] = subprocess.Popen(
                    [*self._link.command(self._sides[job, index]), *self._command, f"--role={job}"],
                    cwd=_ROOT,
                    env=self._variables | {"TF_CONFIG": self._topology.to_tf_config(job, index)},
                    stdout=log,
                    stderr=log,
                )
        self._wait(lambda: self.run.learner("learner_steps") > before, "first updates")

    def rate(self, seconds: float) -> float:
        """Returns the learner's updates a second, over so many seconds."""
        self._sleep(_SETTLE_SECONDS)
        columns = "learner_steps", "wall_seconds"
        before = [self.run.learner(column) for column in columns]
        self._sleep(seconds)
        steps, wall = (self.run.learner(column) - old for column, old in zip(columns, before))
        return steps / wall

    def go_on(self) -> float:
        """Returns the seconds until the learner makes updates again."""
        before, began = self.run.learner("learner_steps"), time.monotonic()
        self._wait(lambda: self.run.learner("learner_steps") > before, "updates again")
        return time.monotonic() - began

    def stop(self) -> None:
        """Stops all roles in order; AssertionError if one did not end as it should."""
        for program in self._programs.values():
            program.terminate()
        codes = {name: program.wait(120) for name, program in self._programs.items()}
        self._programs = {}
        assert set(codes.values()) == {_STOPPED_CODE}, f"exit codes: {codes}{self.run.logs()}"

    def kill(self) -> None:
        """Ends what is left."""
        for program in self._programs.values():
            program.kill()
            program.wait()

    def _sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            self._check()
            time.sleep(min(0.2, remaining))

    def _wait(self, condition, what: str) -> None:
        def is_so() -> bool:
            self._check()
            return condition()

        self.run.wait_for(is_so, _START_SECONDS, what)

    def _check(self) -> None:
        ended = {name: program.poll() for name, program in self._programs.items()}
        ended = {name: code for name, code in ended.items() if code is not None}
        assert not ended, f"roles have ended: {ended}{self.run.logs()}"


def _arguments() -> argparse.Namespace:
    parser = Parser(prog="python tests/roles/two_machines.py", description=__doc__)
    parser.add_argument(
        "agent", choices=[name for name in SOAKS if layout_of(SOAKS[name]).acting_flag]
    )
    numbers = {
        "latency_ms": (20.0, "there and back"),
        "away_seconds": (60.0, "without a packet"),
        "seconds": (30.0, "of each measurement of a rate"),
        "rounds": (2, "of measurements, of which the medians count"),
    }
    for name, (default, text) in numbers.items():
        parser.add_argument(
            f"--{name}", type=type(default), default=default, help=f"{text}, default {default:g}"
        )
    return parse(parser)


def main() -> None:
    """Runs, measures, prints and writes the JSON file."""
    arguments = _arguments()
    folder = (arguments.workdir or pathlib.Path(tempfile.mkdtemp(prefix="machines_"))).absolute()
    link, latency = NetworkLink(), f"latency_{arguments.latency_ms:g}_ms"
    rates: dict[str, list[float]] = {"loopback": [], "link": [], latency: []}
    megabytes = []
    runs = []
    for name in ("loopback", "link"):
        (folder / name).mkdir(parents=True, exist_ok=True)
        runs.append(RolesByHand(arguments.agent, link, folder / name, name == "link"))
    together, apart = runs
    with link.laid():
        try:
            for number in range(arguments.rounds):
                together.start()
                rates["loopback"].append(together.rate(arguments.seconds))
                together.stop()
                link.latency_seconds = 0.0
                apart.start()
                before, began = link.num_bytes, time.monotonic()
                rates["link"].append(apart.rate(arguments.seconds))
                megabytes.append((link.num_bytes - before) / 1e6 / (time.monotonic() - began))
                link.latency_seconds = arguments.latency_ms / 1000
                rates[latency].append(apart.rate(arguments.seconds))
                if number + 1 < arguments.rounds:
                    apart.stop()
            print(rates, megabytes, flush=True)
            link.is_up = False
            standing = apart.rate(arguments.away_seconds - _SETTLE_SECONDS)
            link.is_up = True
            back = apart.go_on()
            after = apart.rate(arguments.seconds)
            apart.stop()
            apart.run.check_files()
        finally:
            for run in runs:
                run.kill()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    rows = [
        (name, rate, "updates/s", "loopback" if name != "loopback" else None, medians["loopback"])
        for name, rate in medians.items()
    ]
    rows += [
        ("traffic", statistics.median(megabytes), "MB/s", None, None),
        ("while_away", standing, "updates/s", None, None),
        (f"goes_on_after_{arguments.away_seconds:g}_s_away", back, "s", None, None),
        ("after_away", after, "updates/s", f"before, {latency}", medians[latency]),
    ]
    record = [
        {
            "name": f"two_machines/{arguments.agent}_{name}",
            "value": value,
            "unit": unit,
            "peer": peer,
            "peer_value": peer and peer_value,
            "ratio": peer and value / peer_value,
        }
        for name, value, unit, peer, peer_value in rows
    ]
    for row in record:
        of = f", {row['ratio']:.2f} of {row['peer']}" if row["peer"] else ""
        print(f"{row['name']}: {row['value']:.4g} {row['unit']}{of}")
    print(f"runs and logs are in {folder}")
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
