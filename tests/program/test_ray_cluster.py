"""A run on a Ray cluster, as far as it needs no Ray; docs/clusters.md says how it was tried."""

import builtins
import json
import os
import signal
import socket
import sys
import threading
import time

import pytest

from common.cluster.errors import ClusterError
from common.cluster.topology import Topology
from common.program import ray_cluster
from common.program.layouts import DISTRIBUTED, WORKERS

VALUES = {"actor_processes": 2, "learner_threads": 3, "replay": "process", "replay_shards": 1}
COUNTS = {"learner": 1, "replay": 1, "actor": 2, "evaluator": 1}
CORES = {("learner", 0): 3, ("replay", 0): 2, ("actor", 0): 1, ("actor", 1): 1, ("evaluator", 0): 1}


def test_a_task_needs_a_core_for_each_thread():
    assert ray_cluster.cores_of(DISTRIBUTED, VALUES, COUNTS, 4) == CORES
    counts = {"parameter_server": 1, "worker": 2, "evaluator": 1}
    cores = ray_cluster.cores_of(WORKERS, {"worker_threads": None}, counts, 6)
    assert cores["worker", 1] == 6 and cores["parameter_server", 0] == 2


def test_each_task_gets_the_same_cluster_and_its_own_place():
    addresses = {task: f"10.0.0.{n % 2}:{7000 + n}" for n, task in enumerate(CORES)}
    made = ray_cluster.make_topology(DISTRIBUTED, addresses)
    for (name, index), address in addresses.items():
        variables = {"TF_CONFIG": made.to_tf_config(name, index)}
        found = Topology.from_environment(DISTRIBUTED.roles, variables)
        assert (found.job, found.index, found.own_address) == (name, index, address)
        assert found.cluster == made.cluster
        assert json.loads(variables["TF_CONFIG"])["cluster"]["actor"] == [
            "10.0.0.0:7002",
            "10.0.0.1:7003",
        ]


@pytest.mark.parametrize("nodes", [[8], [4, 4], [3, 3, 2]])
def test_enough_cores_are_enough(nodes):
    ray_cluster.check_cores(CORES, nodes, DISTRIBUTED.flags)


@pytest.mark.parametrize(
    "nodes, words",
    [
        ([7], "needs 8 cores (learner 3, replay 2, actor 2, evaluator 1), but .* has 7 on 1 nodes"),
        ([2, 2, 2, 2], "learner 0 needs 3 cores of one node, but .*, 2 on the largest"),
        ([], "learner 0 needs 3 cores of one node, but .* has 0 on 0 nodes"),
    ],
)
def test_too_few_cores_are_one_line(nodes, words):
    words = words.replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(ClusterError, match=f"{words}.*--learner_threads") as caught:
        ray_cluster.check_cores(CORES, nodes, DISTRIBUTED.flags)
    assert "\n" not in str(caught.value)


def test_without_ray_is_one_line(monkeypatch):
    real = builtins.__import__

    def without_ray(name, *rest):
        if name == "ray":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(ClusterError, match=r"Ray, which is not installed: .*\[ray\]"):
        ray_cluster.connect("127.0.0.1:6379")


def test_an_address_without_ray_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", object())  # never asked
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ClusterError, match=f"--ray_address=127.0.0.1:{port} .*refused"):
        ray_cluster.connect(f"127.0.0.1:{port}")
    with pytest.raises(ClusterError, match="'6379' is not an address"):
        ray_cluster.connect("6379")


def run(tmp_path, code):
    log = tmp_path / "log"
    command = [sys.executable, "-c", code]
    return ray_cluster._run(command, {"WORD": "hello"}, str(tmp_path), str(log)), log


def test_a_role_runs_where_it_is_placed(tmp_path):
    code, log = run(
        tmp_path, "import os; print(os.environ['WORD'], os.getcwd(), flush=True); os._exit(3)"
    )
    assert (code, log.read_text()) == (3, f"hello {tmp_path}\n")
    code, log = run(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert code == -signal.SIGKILL


def test_a_cancelled_role_ends_in_order(tmp_path):
    """Ray raises KeyboardInterrupt in the main thread, as `ray.cancel` says."""
    log = tmp_path / "log"

    def cancel():
        deadline = time.monotonic() + 30
        while not (log.exists() and log.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=cancel).start()
    code, _ = run(
        tmp_path,
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "print('there', flush=True); time.sleep(60)",
    )
    assert code == 143
