"""A step of Slurm, as its variables describe it."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from common.cluster.errors import ClusterError
from common.cluster.topology import Topology
from common.program import slurm

ROOT = pathlib.Path(__file__).parents[2]


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


def topology(monkeypatch, node, local, rank, replay_shards=1, **others):
    for name, value in variables(node, local, rank, **others).items():
        monkeypatch.setenv(name, value)
    return slurm.topology(replay_shards)


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
    assert sorted(place.shard for place in places if place.job == "replay") == [0, 1]


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


def test_the_command_gets_its_role_and_tf_config():
    show = (
        "import json, os, sys; "
        "print(json.dumps([sys.argv[1:], os.environ['TF_CONFIG'], os.getpid()]))"
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "common.program.slurm",
            "--replay_shards=2",
            sys.executable,
            "-c",
            show,
            "--seed=3",
        ],
        cwd=ROOT,
        env={**os.environ, **variables("n10", 2, 6)},
        stdout=subprocess.PIPE,
        text=True,
    )
    out, _ = process.communicate(timeout=60)
    arguments, tf_config, pid = json.loads(out)
    place = Topology.from_environment({"TF_CONFIG": tf_config})
    assert arguments == ["--seed=3", f"--role={place.job}"]
    assert place.own_address.startswith("n10:") and len(place.replay_addresses) == 2
    assert pid == process.pid  # so that Slurm's signals reach the role


def run(*command, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SLURM")}
    return subprocess.run(
        [sys.executable, "-m", "common.program.slurm", *command],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_outside_of_a_step_is_one_line():
    for command, word in (
        (("true",), "srun"),
        ((), "COMMAND"),
        (("--replay_shards=33", "true"), "[1, 32], is 33"),
        (("--replay_shards=",), "--replay_shards"),
    ):
        result = run(*command)
        (line,) = result.stderr.splitlines()[-1:]
        assert result.returncode == 2 and line.startswith("error: ") and word in line


@pytest.mark.parametrize(
    "changes, word",
    [
        ({"tasks": 3, "per_node": "1(x3)"}, "--ntasks=4"),
        ({"replay_shards": 3}, "--ntasks=8"),
        ({"tasks": 8}, "8 tasks"),
        ({"nodes": "n[9-"}, "n\\[9-"),
        ({"per_node": "many"}, "many"),
        ({"node": "n11"}, "n11:"),
    ],
)
def test_a_step_that_cannot_be_is_one_line(changes, word, monkeypatch):
    with pytest.raises(ClusterError, match=word) as caught:
        topology(monkeypatch, **{"node": "n9", "local": 0, "rank": 1, **changes})
    assert "\n" not in str(caught.value)
