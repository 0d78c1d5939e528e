"""Trains on a Ray cluster of two nodes, one of which dies with all that runs on it.

    python tests/roles/two_ray_nodes.py d4pg

The nodes are network namespaces with addresses of their own, as in two_machines.py. Once the
learner has made updates, every process of the second node is killed; a new second node joins later.
Ends with exit code 1 if learning does not go on, or the run does not end as one that is over. No
test: takes minutes, and needs root, `ip`, /dev/net/tun, and a Python that has Ray.
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

from network_link import NetworkLink
from soaks import SOAKS, layout_of
from watched_run import WatchedRun

from common.reporting.command_line import Parser, check_writable
from common.reporting.run_directory import RunDirectory

_ROOT = pathlib.Path(__file__).parents[2]
_PORT = 6379
_CORES = 7
_STEPS = 40
"""Updates after which the run is undisturbed enough to be disturbed."""
_WAIT_SECONDS = 1200.0


def _start_node(link: NetworkLink, side: str, folder: pathlib.Path) -> subprocess.Popen:
    host, head = link.hosts[side], link.hosts["a"]
    place = ["--head", f"--port={_PORT}"] if side == "a" else [f"--address={head}:{_PORT}"]
    if side == "a":
        place += ["--include-dashboard=false", f"--temp-dir={folder}/ray"]
    with open(folder / f"node_{side}.log", "ab") as log:
        return subprocess.Popen(
            [
                *link.command(side),
                *(sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *place),
                *(f"--node-ip-address={host}", f"--num-cpus={_CORES}", "--disable-usage-stats"),
                "--object-store-memory=100000000",
            ],
            stdout=log,
            stderr=log,
        )


def _arguments() -> argparse.Namespace:
    parser = Parser(prog="python tests/roles/two_ray_nodes.py", description=__doc__)
    parser.add_argument("agent", choices=SOAKS)
    parser.add_argument("--minutes", type=float, default=5.0, help="of the run, default 5")
    parser.add_argument(
        "--workdir", type=pathlib.Path, help="gets the run; a temporary directory by default"
    )
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="gets what came out")
    arguments = parser.parse_args()
    if arguments.json is not None:
        check_writable("--json", arguments.json)
    return arguments


def main() -> None:
    """Runs, kills, prints and writes the JSON file."""
    arguments = _arguments()
    soak, layout = SOAKS[arguments.agent], layout_of(SOAKS[arguments.agent])
    folder = (arguments.workdir or pathlib.Path(tempfile.mkdtemp(prefix="ray_"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    run, link = WatchedRun(folder / "run"), NetworkLink()
    command = [
        *link.command("a"),
        *(sys.executable, "-m", soak.module, f"--flagfile={_ROOT / soak.flagfile}"),
        *(f"--workdir={run.workdir}", f"--max_minutes={arguments.minutes:g}"),
        *("--role=ray", f"--ray_address={link.hosts['a']}:{_PORT}", "--checkpoint_seconds=10"),
        *([f"--{layout.acting_flag}=2"] if layout.acting_flag else []),
    ]
    with link.laid():
        try:
            for side in link.hosts:
                _start_node(link, side, folder)
                time.sleep(10)
            driver = subprocess.Popen(command, cwd=_ROOT)

            def step(more: float, what: str) -> float:
                before, began = run.learner("learner_steps"), time.monotonic()
                run.wait_for(
                    lambda: (
                        driver.poll() is not None or run.learner("learner_steps") >= before + more
                    ),
                    _WAIT_SECONDS,
                    what,
                )
                assert driver.poll() is None, f"the run has ended: {driver.returncode}"
                return time.monotonic() - began

            first = step(_STEPS, "the first updates")
            there = link.pids("b")
            died = sorted(name for name, pid in run.pids().items() if pid in there)
            for pid in there:
                os.kill(pid, signal.SIGKILL)
            killed_at = run.learner("learner_steps")
            _start_node(link, "b", folder)
            again = step(_STEPS, "updates after the death of a node")
            code = driver.wait(60 * arguments.minutes + _WAIT_SECONDS)
        finally:
            for side in link.hosts:
                for pid in link.pids(side):
                    os.kill(pid, signal.SIGKILL)
    assert code == 0, f"exit code {code}"
    run.check_files()
    record = {
        "program": soak.module,
        "flags": pathlib.Path(soak.flagfile).name,
        "seconds_to_first_updates": round(first, 1),
        "died_with_a_node": died,
        "learner_steps_then": killed_at,
        "seconds_to_further_updates": round(again, 1),
        "outcome": RunDirectory(run.workdir).read_starts()[-1]["outcome"],
        "learner_steps": run.learner("learner_steps"),
        "actor_steps": run.learner("actor_steps"),
    }
    print(json.dumps(record, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
