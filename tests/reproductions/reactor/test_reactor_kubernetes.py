"""kubernetes.yaml: D4PG's, which its own tests run, but for what is checked here."""

import copy
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import yaml

from common.cluster.topology import Topology
from common.environments.spec import EnvironmentSpec
from common.program import layouts
from common.replay import footprint
from reproductions.reactor.config import NUM_WORKERS, ReactorConfig

ROOT = pathlib.Path(__file__).parents[3]
PROCESS_BYTES = 760 * 10**6  # TensorFlow's
PONG = EnvironmentSpec(84 * 84, 18, image_shape=(84, 84, 1), is_discrete=True)
THEIRS = {"reactor": "d4pg", "parameter-server": "learner", "worker": "actor"}
"""D4PG's name for each of Reactor's."""
PROGRAM = """
import json, os, sys
print(json.dumps([sys.argv[1:], os.environ["TF_CONFIG"]]), flush=True)
"""


def items_of(paper):
    return yaml.safe_load((ROOT / f"reproductions/{paper}/kubernetes.yaml").read_text())["items"]


ITEMS = items_of("reactor")
SETS = {item["metadata"]["name"]: item["spec"] for item in ITEMS if item["kind"] == "StatefulSet"}
DATA = ITEMS[0]["data"]
NAMES = "for host in parameter-server-0.reactor;"


def container(spec):
    return spec["template"]["spec"]["containers"][0]


def run_flags():
    lines = DATA["run.flags"].splitlines()
    return dict(line.removeprefix("--").split("=") for line in lines if line.startswith("--"))


def test_all_else_is_as_for_d4pg():
    """What differs is taken out of both, and one's names are the other's."""

    def without_its_own(items):
        items = [copy.deepcopy(item) for item in items if item["metadata"]["name"] != "replay"]
        for item in items:
            if item["kind"] == "ConfigMap":
                script = re.sub(r"^#.*\n|^role=.*\n", "", item["data"]["start.sh"], flags=re.M)
                script = re.sub(r"cluster='.*?'", "", script, flags=re.S)
                item["data"] = {"start.sh": re.sub(r"for host in .*;", "", script)}
            if item["kind"] == "StatefulSet":
                del item["spec"]["replicas"], container(item["spec"])["resources"]
        return json.dumps(items)

    ours = without_its_own(ITEMS)
    for own, theirs in THEIRS.items():
        ours = ours.replace(own, theirs)
    assert ours == without_its_own(items_of("d4pg"))


@pytest.mark.parametrize("pod", ["parameter-server-0", "worker-0", "worker-9", "evaluator-0"])
def test_each_pod_gets_its_place(pod, tmp_path):
    (tmp_path / "binaries").mkdir()
    (tmp_path / "binaries/reactor.py").write_text(PROGRAM)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    assert DATA["start.sh"].count(NAMES) == 1
    script = DATA["start.sh"].replace(NAMES, "for host in localhost;")
    fixed = {
        one["name"]: one["value"]
        for one in container(SETS[pod.rpartition("-")[0]])["env"]
        if "value" in one
    }
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **fixed, "POD_NAME": pod, "PATH": path},
    )
    try:
        arguments, tf_config = json.loads(process.stdout.readline())
        assert process.stdout.readline() == f"{pod} has finished\n"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    place = Topology.from_environment(layouts.WORKERS.roles, {**fixed, "TF_CONFIG": tf_config})
    name, _, index = pod.rpartition("-")
    role = name.replace("-", "_")
    assert (place.job, place.index) == (role, int(index))
    assert arguments == ["--flagfile=/etc/reactor/run.flags", f"--role={role}"]
    assert place.keeper_address == "parameter-server-0.reactor:7000"
    if role != "worker":
        assert place.own_address == f"{pod}.reactor:7000"


def test_the_flags_are_the_papers_and_fit_the_sets(tmp_path):
    given = run_flags()
    assert int(given["num_workers"]) == NUM_WORKERS == SETS["worker"]["replicas"]
    assert SETS["parameter-server"]["replicas"] == SETS["evaluator"]["replicas"] == 1
    path = tmp_path / "run.flags"
    path.write_text(DATA["run.flags"])
    result = subprocess.run(
        [
            *(sys.executable, "-m", "binaries.reactor", f"--flagfile={path}"),
            "--environment=atari:no_such_game",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "atari:no_such_game" in result.stderr, result.stderr  # nothing else was wrong


def bytes_of(text):
    return int(text[:-2]) * {"Mi": 2**20, "Gi": 2**30}[text[-2:]]


def limits(name):
    given = container(SETS[name])["resources"]
    return tuple(bytes_of(given[kind]["memory"]) for kind in ("requests", "limits"))


@pytest.mark.parametrize("name", SETS)
def test_each_role_has_a_memory_limit(name):
    request, limit = limits(name)
    assert PROCESS_BYTES < request <= limit


def test_the_memory_of_a_worker_holds_its_replay():
    config = ReactorConfig()
    stored = config.replay_capacity * footprint.sequence_bytes_per_step(config, PONG, None)
    request, limit = limits("worker")
    assert PROCESS_BYTES + stored <= request <= limit < 3 * (PROCESS_BYTES + stored)
