"""A step of Slurm, as its variables describe it."""

import json
import os
import sys
import types

import pytest

from common.cluster.errors import ClusterError
from common.cluster.layout import LayoutError
from common.cluster.topology import Topology
from common.program import main, slurm
from common.program.layouts import ACTORS_WITH_REPLAY, DISTRIBUTED, ONE_PROCESS, WORKERS
from reproductions.d4pg.config import AGENT

VALUES = {
    "actor_processes": None,
    "learner_threads": None,
    "replay": "process",
    "replay_shards": 1,
    "evaluation_steps": None,
}


def variables(node, local, rank, nodes="gpu1,n[9-10]", per_node="1,3(x2)", tasks=7, job=123456):
    return {
        "SLURM_JOB_ID": str(job),
        "SLURM_STEP_NUM_TASKS": str(tasks),
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURMD_NODENAME": node,
        "SLURM_LOCALID": str(local),
        "SLURM_PROCID": str(rank),
    }


# Slurm counts in the order of its list, n9 before n10.
STEP = [("gpu1", 0), ("n9", 0), ("n9", 1), ("n9", 2), ("n10", 0), ("n10", 1), ("n10", 2)]


def topology(monkeypatch, node, local, rank, layout=DISTRIBUTED, replay_shards=1, **others):
    for name, value in variables(node, local, rank, **others).items():
        monkeypatch.setenv(name, value)
    return slurm.topology(layout, VALUES | {"replay_shards": replay_shards})


def test_every_task_has_a_place_of_its_own_where_it_runs(monkeypatch):
    places = [topology(monkeypatch, *place, rank) for rank, place in enumerate(STEP)]
    assert len({json.dumps(place.cluster, sort_keys=True) for place in places}) == 1
    assert {job: len(addresses) for job, addresses in places[0].cluster.items()} == {
        "learner": 1,
        "replay": 1,
        "evaluator": 1,
        "actor": 4,
    }
    assert len({(place.job, place.index) for place in places}) == 7
    for (node, _), place in zip(STEP, places, strict=True):
        assert place.own_address.rpartition(":")[0] == node


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


def test_several_tasks_share_the_replay(monkeypatch):
    places = [
        topology(monkeypatch, *place, rank, replay_shards=2) for rank, place in enumerate(STEP)
    ]
    assert {job: len(addresses) for job, addresses in places[0].cluster.items()} == {
        "learner": 1,
        "replay": 2,
        "evaluator": 1,
        "actor": 3,
    }
    assert sorted(place.service_index("replay") for place in places if place.job == "replay") == [
        0,
        1,
    ]


def test_jobs_have_ports_of_their_own(monkeypatch):
    ports = set()
    for job in (1, 2, 3):
        place = topology(monkeypatch, "n9", 0, 1, job=job)
        ports |= {
            address.rpartition(":")[2]
            for addresses in place.cluster.values()
            for address in addresses
        }
    assert len(ports) == 3 * 3
    assert all(20_000 <= int(port) < 32_768 for port in ports)


def test_the_process_becomes_its_role(monkeypatch):
    for name, value in variables("n10", 2, 6).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TF_CONFIG", "")
    monkeypatch.setattr(sys, "argv", ["program", "--role=slurm", "--seed=3"])
    started = []
    monkeypatch.setattr(os, "execv", lambda *arguments: started.append(arguments))
    main._run_slurm(types.SimpleNamespace(agent=AGENT, layout=DISTRIBUTED, values=VALUES))
    place = Topology.from_environment(DISTRIBUTED.roles)
    assert place.own_address.startswith("n10:") and len(place.service("replay")) == 1
    python, module = sys.executable, ["-m", "binaries.d4pg"]
    flags = ["--role=slurm", "--seed=3", f"--role={place.job}"]  # the last one counts
    assert started == [(python, [python, *module, *flags])]


def test_outside_of_a_step_is_one_line(monkeypatch):
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS", raising=False)
    with pytest.raises(ClusterError, match="SLURM_STEP_NUM_TASKS is '',.* srun"):
        slurm.topology(DISTRIBUTED, VALUES)


def test_a_layout_of_one_process_has_one_task_that_acts(monkeypatch):
    step = {"nodes": "n9", "per_node": "2", "tasks": 2}
    places = [topology(monkeypatch, "n9", k, k, layout=ONE_PROCESS, **step) for k in range(2)]
    assert [place.job for place in places] == ["evaluator", "learner"]
    with pytest.raises(ClusterError, match="--ntasks=2, for 1 x evaluator and learner$"):
        topology(monkeypatch, "n9", 0, 0, layout=ONE_PROCESS, **step | {"tasks": 3})


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"tasks": 3, "per_node": "1(x3)"}, "--ntasks=4"),
        ({"replay_shards": 6}, "--ntasks=9"),
        ({"replay_shards": 3}, "3 replay"),
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
