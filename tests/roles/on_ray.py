"""Trains D4PG on Ray through faults, on two nodes that are processes of this machine.

    .venv/bin/python tests/roles/on_ray.py --json=results/benchmarks/on_ray.json

The flags are those of the soak. While the agent learns, an actor is killed with -9, then the Ray
worker of another actor, then the whole second node, with the learner or the replay. Ends with exit
code 1 if a role does not come back, learning does not go on, the run does not reach its end, or its
last return is no higher than the one before the last fault. No test: takes minutes, and needs Ray.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from ray_node import RayNode, two_nodes
from soaks import SOAKS
from watched_run import TOKEN, WatchedRun, parse

from common.cluster.credentials import TOKEN_VARIABLE
from common.reporting.command_line import Parser
from common.reporting.csv_rows import read_rows
from common.reporting.run_directory import RunDirectory

_ROOT = pathlib.Path(__file__).parents[2]
_SOAK = SOAKS["d4pg"]
_START_SECONDS = 600.0
_RATE_SECONDS = 30.0
_COLUMNS = ("wall_seconds", "learner_steps", "actor_steps", "episode_return_mean")


def _parent(pid: int) -> int:
    """Returns the parent of a process."""
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return int(text.rpartition(")")[2].split()[1])


class RunOnRay:
    """The run, its nodes, and the faults so far."""

    def __init__(self, workdir: pathlib.Path, address: str, nodes: list[RayNode], minutes: float):
        self.nodes = nodes
        self.run = WatchedRun(workdir)
        self.faults: list[dict[str, Any]] = []
        self._minutes = minutes
        self._driver = subprocess.Popen(
            [
                *(sys.executable, "-m", _SOAK.module, f"--flagfile={_ROOT / _SOAK.flagfile}"),
                *("--role=ray", f"--ray_address={address}", "--actor_processes=2"),
                *(f"--workdir={workdir}", f"--max_minutes={minutes}", "--checkpoint_seconds=20"),
            ],
            cwd=_ROOT,
            env={**os.environ, TOKEN_VARIABLE: TOKEN},
        )

    def start(self) -> None:
        """Returns when the run learns."""
        self._wait(lambda: self.run.learner("learner_steps") > 0, "the first updates")

    def places(self) -> dict[str, int]:
        """Returns the node of each role's process, by its number."""
        nodes = [node.pids() for node in self.nodes]
        return {
            task: number
            for task, pid in self.run.pids().items()
            for number, pids in enumerate(nodes)
            if _parent(pid) in pids
        }

    def rate(self) -> float:
        """Returns the learner's updates a second."""
        before = [self.run.learner(name) for name in _COLUMNS[:2]]
        end = before[0] + _RATE_SECONDS
        self._wait(lambda: self.run.learner("wall_seconds") >= end, "rows of learner.csv")
        wall, steps = (self.run.learner(name) - old for name, old in zip(_COLUMNS, before))
        return steps / wall

    def attack(self, name: str, fault, tasks: list[str]) -> None:
        """Causes a fault and returns when these tasks run anew and the learner makes updates.

        Args:
          name: the fault's name.
          fault: function that causes it.
          tasks: the tasks that start again, such as "actor-0".
        """
        pids = self.run.pids()
        before = {name: self.run.learner(name) for name in _COLUMNS[:2]}
        began = time.monotonic()
        fault()

        def is_back() -> bool:
            now = self.run.pids()
            return all(now.get(task, pids[task]) != pids[task] for task in tasks)

        self._wait(is_back, f"{name}: {', '.join(tasks)}")
        processes = time.monotonic() - began
        steps = self.run.learner("learner_steps")
        self._wait(lambda: self.run.learner("learner_steps") > steps, f"{name}: learning")
        self.faults.append(
            {
                "fault": name,
                **before,
                "started_again": sorted(tasks),
                "processes_after_seconds": round(processes, 1),
                "updates_after_seconds": round(time.monotonic() - began, 1),
                "places": self.places(),
            }
        )
        print(self.faults[-1], flush=True)

    def end(self) -> int:
        """Waits for the end of the run and returns its exit code."""
        return self._driver.wait(self._minutes * 60 + _START_SECONDS)

    def kill(self) -> None:
        """Ends what is left."""
        self._driver.kill()
        self._driver.wait()

    def _wait(self, condition, what: str) -> None:
        def is_so() -> bool:
            assert self._driver.poll() is None, f"the run has ended{self.run.logs()}"
            return condition()

        self.run.wait_for(is_so, _START_SECONDS, what)


def _train(ray_run: RunOnRay) -> dict[str, Any]:
    """Trains through the faults and returns the record."""
    ray_run.start()
    places = ray_run.places()
    print(places, flush=True)
    # A node without the learner or the replay could die and leave the others as they are.
    for first, second in (("actor-0", "actor-1"), ("learner-0", "replay-0")):
        assert places[first] != places[second], f"{first} and {second} are on one node: {places}"
    before = ray_run.rate()
    pids = ray_run.run.pids()
    ray_run.attack("actor killed", lambda: os.kill(pids["actor-0"], signal.SIGKILL), ["actor-0"])
    worker = _parent(pids["actor-1"])
    ray_run.attack("Ray worker killed", lambda: os.kill(worker, signal.SIGKILL), ["actor-1"])
    ray_run.attack("node killed", ray_run.nodes[1].kill, [*places])
    after = ray_run.rate()
    code = ray_run.end()
    ray_run.run.check_files()
    rows = read_rows(ray_run.run.workdir / "evaluator.csv")
    starts = RunDirectory(ray_run.run.workdir).read_starts()
    before_last = rows["episode_return_mean"][
        rows["wall_seconds"] <= ray_run.faults[-1]["wall_seconds"]
    ]
    return {
        "program": _SOAK.module,
        "flags": pathlib.Path(_SOAK.flagfile).name,
        "places": places,
        "updates_per_second": {"before": round(before, 1), "after": round(after, 1)},
        "faults": ray_run.faults,
        "end": {
            "exit_code": code,
            "outcome": starts[-1]["outcome"],
            "starts_of_learner": len(starts),
            "return_before_last_fault": before_last.iloc[-1],
            "return": rows["episode_return_mean"].iloc[-1],
            "learner_steps": ray_run.run.learner("learner_steps"),
        },
        "curve": [dict(zip(_COLUMNS, row)) for row in rows[[*_COLUMNS]].values.tolist()],
    }


def _arguments() -> argparse.Namespace:
    parser = Parser(prog="python tests/roles/on_ray.py", description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="length of the run, default 8")
    parser.add_argument("--cores", type=int, default=8, help="of each node, default 8")
    return parse(parser)


def main() -> None:
    """Runs, attacks, checks, prints and writes the JSON file."""
    arguments = _arguments()
    folder = (arguments.workdir or pathlib.Path(tempfile.mkdtemp(prefix="ray_"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with two_nodes(folder, arguments.cores) as (address, nodes):
        ray_run = RunOnRay(folder / "run", address, nodes, arguments.minutes)
        try:
            record = _train(ray_run)
        finally:
            ray_run.kill()
    print(json.dumps({**record, "curve": f"{len(record['curve'])} rows"}, indent=2))
    print(f"run and logs are in {folder}")
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")
    end = record["end"]
    has_learnt = end["return"] > end["return_before_last_fault"]
    if end["exit_code"] or end["outcome"] != "finished" or not has_learnt:
        sys.exit(f"error: the run did not come through: {end}")


if __name__ == "__main__":
    main()
