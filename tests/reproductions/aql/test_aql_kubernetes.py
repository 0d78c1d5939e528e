"""kubernetes.yaml: D4PG's, which its own tests run, but for what is checked here."""

import copy
import json
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from common.cluster.topology import Topology
from common.environments.spec import EnvironmentSpec
from common.program import layouts
from common.replay import footprint
from reproductions.aql.config import NUM_ACTORS, AQLConfig

ROOT = pathlib.Path(__file__).parents[3]
PROCESS_BYTES = 760 * 10**6  # TensorFlow's
HUMANOID = EnvironmentSpec(67, 21)


def items_of(paper):
    return yaml.safe_load((ROOT / f"reproductions/{paper}/kubernetes.yaml").read_text())["items"]


ITEMS = items_of("aql")
SETS = {item["metadata"]["name"]: item["spec"] for item in ITEMS if item["kind"] == "StatefulSet"}
DATA = ITEMS[0]["data"]


def container(spec):
    return spec["template"]["spec"]["containers"][0]


def run_flags():
    lines = DATA["run.flags"].splitlines()
    return dict(line.removeprefix("--").split("=") for line in lines if line.startswith("--"))


def test_all_else_is_as_for_d4pg():
    """What differs is taken out of both, and one's name is the other's."""

    def without_its_own(items):
        items = [copy.deepcopy(item) for item in items if item["metadata"]["name"] != "replay"]
        for item in items:
            if item["kind"] == "ConfigMap":
                script = re.sub(r"cluster='.*?'", "", item["data"]["start.sh"], flags=re.S)
                item["data"] = {"start.sh": re.sub(r"for host in .*;", "", script)}
            if item["kind"] == "StatefulSet":
                del item["spec"]["replicas"], container(item["spec"])["resources"]
        return json.dumps(items)

    assert without_its_own(ITEMS).replace("aql", "d4pg") == without_its_own(items_of("d4pg"))


@pytest.mark.parametrize("role", SETS)
def test_a_pods_place_is_one_of_the_layout(role):
    """The script that makes TF_CONFIG of these is run by D4PG's tests."""
    cluster = json.loads(re.search(r"cluster='(.*?)'", DATA["start.sh"], re.S)[1])
    assert DATA["start.sh"].count("for host in learner-0.aql;") == 1
    index = SETS[role]["replicas"] - 1
    tf_config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
    place = Topology.from_environment(
        layouts.ACTORS_WITH_REPLAY.roles, {"TF_CONFIG": tf_config, "REPLAY_RL_BIND_HOST": "0.0.0.0"}
    )
    assert (place.job, place.index) == (role, index)
    assert place.keeper_address == "learner-0.aql:7000"
    if role != "actor":
        assert place.own_address == f"{role}-0.aql:7000"


def test_the_flags_are_the_papers_and_fit_the_sets(tmp_path):
    given = run_flags()
    assert int(given["num_actors"]) == NUM_ACTORS
    assert int(given["actor_processes"]) == SETS["actor"]["replicas"]
    assert SETS["learner"]["replicas"] == SETS["evaluator"]["replicas"] == 1
    path = tmp_path / "run.flags"
    path.write_text(DATA["run.flags"])
    result = subprocess.run(
        [
            *(sys.executable, "-m", "binaries.aql", f"--flagfile={path}"),
            "--environment=control:no:no",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "control:no:no" in result.stderr, result.stderr  # nothing else was wrong


def bytes_of(text):
    return int(text[:-2]) * {"Mi": 2**20, "Gi": 2**30}[text[-2:]]


@pytest.mark.parametrize("role", SETS)
def test_the_memory_of_each_role_suffices(role):
    given = container(SETS[role])["resources"]
    request, limit = (bytes_of(given[kind]["memory"]) for kind in ("requests", "limits"))
    config = AQLConfig()
    replay = config.replay_capacity * footprint.unroll_bytes_per_step(config, HUMANOID, None)
    need = PROCESS_BYTES + (replay if role == "actor" else 0)
    assert need <= request <= limit < 3 * need
