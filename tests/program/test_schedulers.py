"""Starts by Slurm, as the variables of a step describe it, and on a Ray cluster."""

import builtins
import itertools
import json
import math
import os
import signal
import socket
import sys
import tempfile
import types

from launched import is_alive, wait_for
import pytest
from ray_node import two_nodes

from common.cluster.errors import ClusterError
from common.cluster.layout import LayoutError
from common.cluster.local_process import Process
from common.cluster.topology import Topology
from common.program import ray_cluster, slurm
from common.program.layouts import ACTORS_WITH_REPLAY, DISTRIBUTED, ONE_PROCESS, WORKERS
from reproductions.d4pg.config import AGENT

# A step of Slurm, as its variables describe it.

VALUES = {
    "actor_processes": None,
    "learner_threads": None,
    "replay": "process",
    "replay_shards": 1,
    "evaluation_steps": None,
}


def variables(
    node, local, rank, nodes="gpu1,n[9-10]", per_node="1,3(x2)", tasks=7, job=123456, step=0
):
    return {
        "SLURM_JOB_ID": str(job),
        "SLURM_STEP_ID": str(step),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURMD_NODENAME": node,
        "SLURM_LOCALID": str(local),
        "SLURM_PROCID": str(rank),
    }


# Slurm counts in the order of its list, n9 before n10.
STEP = [("gpu1", 0), ("n9", 0), ("n9", 1), ("n9", 2), ("n10", 0), ("n10", 1), ("n10", 2)]


def topology(monkeypatch, node, local, rank, layout=DISTRIBUTED, values=VALUES, **others):
    for name, value in variables(node, local, rank, **others).items():
        monkeypatch.setenv(name, value)
    return slurm.topology(layout, VALUES | values, 1000)


@pytest.mark.parametrize("replays", [1, 2])
def test_every_task_has_a_place_of_its_own_where_it_runs(monkeypatch, replays):
    places = [
        topology(monkeypatch, *place, rank, values={"replay_shards": replays})
        for rank, place in enumerate(STEP)
    ]
    assert len({json.dumps(place.cluster, sort_keys=True) for place in places}) == 1
    counts = {job: len(addresses) for job, addresses in places[0].cluster.items()}
    assert counts == {"learner": 1, "replay": replays, "evaluator": 1, "actor": 5 - replays}
    assert len({(place.job, place.index) for place in places}) == 7
    for (node, _), place in zip(STEP, places, strict=True):
        assert place.own_address.rpartition(":")[0] == node
    shards = [place.service_index("replay") for place in places if place.job == "replay"]
    assert sorted(shards) == [*range(replays)]


@pytest.mark.parametrize(
    "layout, roles",
    [
        (DISTRIBUTED, ["actor"] * 4 + ["evaluator", "learner", "replay"]),
        (WORKERS, ["evaluator", "parameter_server"] + ["worker"] * 5),
        (ACTORS_WITH_REPLAY, ["actor"] * 5 + ["evaluator", "learner"]),
    ],
    ids=["distributed", "workers", "actors with replay"],
)
def test_roles_go_by_their_names_over_nodes_by_theirs(monkeypatch, layout, roles):
    """As docs/clusters.md says: TensorFlow's resolver sorts both."""
    places = [topology(monkeypatch, *place, 0, layout) for place in sorted(STEP)]
    assert [place.job for place in places] == roles


def test_jobs_and_their_steps_have_ports_of_their_own(monkeypatch):
    ports = set()
    for job, step in itertools.product((1, 2, 3), (0, 1, 2)):
        cluster = topology(monkeypatch, "n9", 0, 1, job=job, step=step).cluster
        addresses = itertools.chain.from_iterable(cluster.values())
        ports |= {address.rpartition(":")[2] for address in addresses}
    assert len(ports) == 3 * 3 * 3
    assert all(20_000 <= int(port) < 32_768 for port in ports)


def test_the_process_becomes_its_role(monkeypatch):
    for name, value in variables("n10", 2, 6).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TF_CONFIG", "")
    monkeypatch.setattr(sys, "argv", ["program", "--role=slurm", "--seed=3"])
    started = []
    monkeypatch.setattr(os, "execv", lambda *arguments: started.append(arguments))
    slurm.run_task(
        types.SimpleNamespace(agent=AGENT, layout=DISTRIBUTED, values=VALUES, num_actors=64)
    )
    place = Topology.from_environment(DISTRIBUTED.roles)
    assert place.own_address.startswith("n10:") and len(place.service("replay")) == 1
    python, module = sys.executable, ["-m", "binaries.d4pg"]
    flags = ["--role=slurm", "--seed=3", f"--role={place.job}"]  # the last one counts
    assert started == [(python, [python, *module, *flags])]


def test_a_layout_of_one_process_has_one_task_that_acts(monkeypatch):
    step = {"nodes": "n9", "per_node": "2", "tasks": 2}
    places = [topology(monkeypatch, "n9", k, k, layout=ONE_PROCESS, **step) for k in range(2)]
    assert [place.job for place in places] == ["evaluator", "learner"]
    with pytest.raises(ClusterError, match="--ntasks=2, for 1 x evaluator and 1 x learner$"):
        topology(monkeypatch, "n9", 0, 0, layout=ONE_PROCESS, **step | {"tasks": 3})


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"tasks": 3, "per_node": "1(x3)"}, "--ntasks=4"),
        ({"values": {"replay_shards": 6}}, "--ntasks=9"),
        ({"values": {"replay_shards": 3}}, "3 replay"),
        ({"values": {"replay": "learner", "replay_shards": 2}}, "--replay_shards is 2, but --rep"),
        ({"tasks": 8}, "8 tasks"),
        ({"nodes": "n[9-"}, "n\\[9-"),
        ({"per_node": "many"}, "many"),
        ({"node": "n11"}, "n11:"),
    ],
)
def test_a_step_that_cannot_be_is_one_line(changes, word, monkeypatch):
    with pytest.raises((ClusterError, LayoutError), match=word) as caught:
        topology(monkeypatch, **{"node": "n9", "local": 0, "rank": 1, **changes})
    assert "\n" not in str(caught.value)


# A run on a Ray cluster: as far as it needs no Ray, and on two nodes if Ray is installed.

RAY_VALUES = {"actor_processes": 2, "learner_threads": 3, "replay": "process", "replay_shards": 1}
COUNTS = {"learner": 1, "replay": 1, "actor": 2, "evaluator": 1}
CORES = {("learner", 0): 3, ("replay", 0): 2, ("actor", 0): 1, ("actor", 1): 1, ("evaluator", 0): 1}


def test_a_task_needs_a_core_for_each_thread():
    assert ray_cluster.cores_of(DISTRIBUTED, RAY_VALUES, COUNTS, 4) == CORES
    counts = {"parameter_server": 1, "worker": 2, "evaluator": 1}
    cores = ray_cluster.cores_of(WORKERS, {"worker_threads": None}, counts, 6)
    assert cores["worker", 1] == 6 and cores["parameter_server", 0] == 2


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
        return all(state.ready_at < math.inf and state.restarts >= restarts for state in states)

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
            assert events[-1].endswith("moved to another node: all roles restart"), events
            assert any("was lost with its node or worker" in event for event in events)
            for name, index in CORES:
                assert starts(name, index)[-1][1].startswith("127.0.0.2:")
            assert cluster.failure() is None
        assert not any(state.running for state in cluster.states().values())
    for name, index in CORES:
        assert cluster.log_path(name, index).read_text().endswith("stopped\n")
        assert not is_alive(int(starts(name, index)[-1][0]))
