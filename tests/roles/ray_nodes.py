"""Trains D4PG on Ray through faults, on two nodes that are processes of this machine.

    .venv/bin/python tests/roles/ray_nodes.py --json=results/benchmarks/ray_nodes.json

The flags are those of the soak. While the agent learns, an actor is killed with -9, then the Ray
worker of another actor, then the whole second node; a third node joins a minute later. Ends with
exit code 1 if a role does not come back, learning does not go on from a checkpoint, the run does
not reach its end, or its return stays below the soak's. No test: takes minutes, and needs Ray.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from soaks import SOAKS
from watched_run import TOKEN, WatchedRun

from common.cluster.token import TOKEN_VARIABLE
from common.reporting.command_line import Parser, check_writable
from common.reporting.csv_rows import read_rows
from common.reporting.run_directory import RunDirectory

_ROOT = pathlib.Path(__file__).parents[2]
_SOAK = SOAKS["d4pg"]
_ADDRESS = "127.0.0.2:6390"
_START_SECONDS = 600.0
_RATE_SECONDS = 30.0
_JOIN_SECONDS = 60.0
"""From the death of the second node until the third one joins."""
_COLUMNS = ("wall_seconds", "learner_steps", "actor_steps", "episode_return_mean")


def _field(pid: int, number: int) -> int:
    """Returns a field of /proc/PID/stat, counted from 0 after the name of the program."""
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(text.rpartition(")")[2].split()[number])


def _parent(pid: int) -> int:
    return _field(pid, 1)


class Node:
    """A node of a Ray cluster.

    Args:
      host: its address, one of the loopback's.
      cores: that it says it has.
      log: gets its output.
      *options: of `ray start`.
    """

    def __init__(self, host: str, cores: int, log: pathlib.Path, *options: str):
        with open(log, "ab") as file:
            self._popen = subprocess.Popen(
                [
                    *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block"),
                    *(f"--node-ip-address={host}", f"--num-cpus={cores}", "--num-gpus=0"),
                    *("--object-store-memory=80000000", "--disable-usage-stats", *options),
                ],
                cwd=_ROOT,
                # Ray's workers have niceness 15 otherwise, and the busy machine has other work.
                env={**os.environ, "RAY_worker_niceness": "0"},
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def pids(self) -> list[int]:
        """Returns the node's processes, without those of roles."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if _field(int(path.name), 3) == self._popen.pid:
                    found.append(int(path.name))
            except OSError:
                continue  # it has just ended
        return found

    def kill(self) -> None:
        """Ends them all at once, as a power cut does."""
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)
        self._popen.wait()


class RunOnRay:
    """The run, its nodes, and the faults so far."""

    def __init__(self, folder: pathlib.Path, cores: int, minutes: float):
        self._folder, self._cores, self._minutes = folder, cores, minutes
        self.run = WatchedRun(folder / "run")
        self.faults: list[dict[str, Any]] = []
        self.nodes: list[Node] = []
        self._driver: subprocess.Popen | None = None

    def start(self) -> None:
        """Starts two nodes and the run, and returns when it learns."""
        self._add_node(
            "--head", "--port=6390", "--include-dashboard=false", f"--temp-dir={self._folder}/ray"
        )
        time.sleep(15)
        self.add_node()
        time.sleep(10)
        self._driver = subprocess.Popen(
            [
                *(sys.executable, "-m", _SOAK.module, f"--flagfile={_ROOT / _SOAK.flagfile}"),
                *("--role=ray", f"--ray_address={_ADDRESS}", "--actor_processes=2"),
                *(f"--workdir={self.run.workdir}", f"--max_minutes={self._minutes}"),
                "--checkpoint_seconds=20",
            ],
            cwd=_ROOT,
            env={**os.environ, TOKEN_VARIABLE: TOKEN},
        )
        self._wait(lambda: self.run.learner("learner_steps") > 0, "the first updates")

    def add_node(self) -> None:
        """Starts one more node, which joins."""
        self._add_node(f"--address={_ADDRESS}")

    def _add_node(self, *options: str) -> None:
        number = len(self.nodes)
        log = self._folder / f"node_{number}.log"
        self.nodes.append(Node(f"127.0.0.{number + 2}", self._cores, log, *options))

    def places(self) -> dict[str, int]:
        """Returns the node of each role's process, by its number."""
        nodes = [set(node.pids()) for node in self.nodes]
        return {
            task: number
            for task, pid in self.run.pids().items()
            for number, pids in enumerate(nodes)
            if _parent(pid) in pids
        }

    def rate(self) -> float:
        """Returns the learner's updates a second."""
        before = [self.run.learner(name) for name in _COLUMNS[:2]]
        time.sleep(_RATE_SECONDS)
        wall, steps = (self.run.learner(name) - old for name, old in zip(_COLUMNS, before))
        return steps / wall

    def attack(self, name: str, fault, tasks: list[str]) -> None:
        """Causes a fault and returns when these tasks run anew and the learner makes updates.

        Args:
          name: of the fault.
          fault: function that causes it.
          tasks: that it ends, such as "actor-0".
        """
        pids = self.run.pids()
        before, wall = self.run.learner("learner_steps"), self.run.learner("wall_seconds")
        lost = {task: pids[task] for task in tasks}
        began = time.monotonic()
        fault()

        def is_back() -> bool:
            now = self.run.pids()
            return all(now.get(task, pid) != pid for task, pid in lost.items())

        self._wait(is_back, f"{name}: {', '.join(tasks)}")
        processes = time.monotonic() - began
        self._wait(lambda: self.run.learner("learner_steps") > before, f"{name}: learning")
        self.faults.append(
            {
                "fault": name,
                "wall_seconds": wall,
                "learner_steps": before,
                "ended": tasks,
                "processes_again_after_seconds": round(processes, 1),
                "beyond_these_steps_after_seconds": round(time.monotonic() - began, 1),
                "places": self.places(),
            }
        )
        print(self.faults[-1], flush=True)

    def end(self) -> int:
        """Waits for the end of the run and returns its exit code."""
        assert self._driver is not None
        return self._driver.wait(self._minutes * 60 + _START_SECONDS)

    def kill(self) -> None:
        """Ends what is left."""
        if self._driver is not None:
            self._driver.kill()
            self._driver.wait()
        for node in self.nodes:
            node.kill()

    def _wait(self, condition, what: str) -> None:
        def is_so() -> bool:
            assert self._driver is not None
            assert self._driver.poll() is None, f"the run has ended{self.run.logs()}"
            return condition()

        self.run.wait_for(is_so, _START_SECONDS, what, poll_seconds=0.2)


def _train(one: RunOnRay) -> dict[str, Any]:
    """Trains through the faults and returns the record."""
    one.start()
    one.run.wait_for(
        lambda: {"actor-0", "actor-1", "evaluator-0"} <= {*one.places()}, _START_SECONDS, "roles"
    )
    places = one.places()
    print(places, flush=True)
    assert places["actor-0"] != places["actor-1"], f"both actors are on one node: {places}"
    before = one.rate()
    pids = one.run.pids()
    one.attack("actor killed", lambda: os.kill(pids["actor-0"], signal.SIGKILL), ["actor-0"])
    worker = _parent(pids["actor-1"])
    one.attack("Ray worker killed", lambda: os.kill(worker, signal.SIGKILL), ["actor-1"])
    lost = [task for task, node in one.places().items() if node == 1]
    began = time.monotonic()
    one.attack("node killed", one.nodes[1].kill, lost)
    time.sleep(max(0.0, began + _JOIN_SECONDS - time.monotonic()))
    one.add_node()
    after = one.rate()
    code = one.end()
    one.run.check_files()
    rows = read_rows(one.run.workdir / "evaluator.csv")
    starts = RunDirectory(one.run.workdir).read_starts()
    last = one.faults[-1]["learner_steps"]
    return {
        "program": _SOAK.module,
        "flags": pathlib.Path(_SOAK.flagfile).name,
        "places": places,
        "updates_per_second": {"before": round(before, 1), "after": round(after, 1)},
        "faults": one.faults,
        "end": {
            "exit_code": code,
            "outcome": starts[-1]["outcome"],
            "starts_of_learner": len(starts),
            "return": statistics.fmean(rows["episode_return_mean"][rows["learner_steps"] > last]),
            "least_return": _SOAK.least_return,
        },
        "curve": [dict(zip(_COLUMNS, row)) for row in rows[[*_COLUMNS]].values.tolist()],
    }


def _arguments() -> argparse.Namespace:
    parser = Parser(prog="python tests/roles/ray_nodes.py", description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="length of the run, default 8")
    parser.add_argument("--cores", type=int, default=8, help="of each node, default 8")
    parser.add_argument(
        "--workdir", type=pathlib.Path, help="gets run and logs; a temporary directory by default"
    )
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="gets what came out")
    arguments = parser.parse_args()
    if arguments.json is not None:
        check_writable("--json", arguments.json)
    return arguments


def main() -> None:
    """Runs, attacks, checks, prints and writes the JSON file."""
    arguments = _arguments()
    folder = (arguments.workdir or pathlib.Path(tempfile.mkdtemp(prefix="ray_"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    one = RunOnRay(folder, arguments.cores, arguments.minutes)
    try:
        record = _train(one)
    finally:
        one.kill()
    print(json.dumps({**record, "curve": f"{len(record['curve'])} rows"}, indent=2))
    print(f"run and logs are in {folder}")
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")
    end = record["end"]
    if end["exit_code"] or end["outcome"] != "finished" or end["return"] < end["least_return"]:
        sys.exit(f"error: the run did not come through: {end}")


if __name__ == "__main__":
    main()
