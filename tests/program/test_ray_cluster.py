"""A run on a Ray cluster: as far as it needs no Ray, and on two nodes if Ray is installed."""

import builtins
import json
import math
import os
import signal
import socket
import sys
import tempfile

from launched import is_alive, wait_for
import pytest
from ray_node import two_nodes

from common.cluster.errors import ClusterError
from common.cluster.local_process import Process
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


ROLE = """
import json, os, signal, sys, time
from common.cluster.processes import report_ready
def stop(*_):
    print("stopped", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print(os.getpid(), json.loads(os.environ["TF_CONFIG"])["cluster"]["replay"][0], flush=True)
report_ready()
time.sleep(600)
"""
"""Prints its process id and the replay's address."""


def test_roles_on_two_nodes_of_which_one_dies(tmp_path):
    """All roles are restarted as in a local run, and at new addresses once the replay has moved."""
    pytest.importorskip("ray")

    def processes(topology):
        return [
            Process(
                *(name, index, [sys.executable, "-c", ROLE]),
                {"TF_CONFIG": topology.to_tf_config(name, index)},
                keeps_run=name == "learner",
            )
            for name, addresses in topology.cluster.items()
            for index in range(len(addresses))
        ]

    def starts(name, index=0):
        lines = cluster.log_path(name, index).read_text().splitlines()
        return [line.split() for line in lines if line != "stopped"]

    def all_ready(restarts):
        states = cluster.states().values()
        return all(one.ready_at < math.inf and one.restarts >= restarts for one in states)

    with tempfile.TemporaryDirectory(prefix="ray_") as folder, two_nodes(folder, 8) as found:
        address, nodes = found
        ray = ray_cluster.connect(address)
        cluster = ray_cluster.RayCluster(ray, DISTRIBUTED, CORES, processes, tmp_path)
        with cluster:
            wait_for(lambda: all_ready(0))
            assert len({starts(name, index)[-1][1] for name, index in CORES}) == 1
            os.kill(int(starts("actor", 1)[-1][0]), signal.SIGKILL)
            wait_for(lambda: cluster.states()["actor", 1].restarts == 1 and all_ready(0))
            assert cluster.take_events() == ["actor 1 ended with signal 9 (Killed): restart in 2 s"]
            nodes[1].kill()
            wait_for(lambda: all_ready(1), 120)
            events = cluster.take_events()
            assert events[-1].endswith("moved to another node: all roles start again"), events
            assert any("was lost with its node or worker" in event for event in events)
            for name, index in CORES:
                assert starts(name, index)[-1][1].startswith("127.0.0.2:")
            assert cluster.failure() is None
        assert not any(one.running for one in cluster.states().values())
    for name, index in CORES:
        assert cluster.log_path(name, index).read_text().endswith("stopped\n")
        assert not is_alive(int(starts(name, index)[-1][0]))
