"""kubernetes.yaml: D4PG's, which its own tests run, but for what is checked here."""

import copy
import json
import pathlib
import re
import subprocess
import sys

import yaml

from common import environments
from common.environments.spec import EnvironmentSpec
from common.replay import footprint
from reproductions.apex.dqn.config import NUM_ACTORS, DQNConfig

ROOT = pathlib.Path(__file__).parents[3]
PROCESS_BYTES = 760 * 10**6  # TensorFlow's
PONG = EnvironmentSpec(84 * 84 * 4, 18, image_shape=(84, 84, 4), is_discrete=True)


def items_of(paper):
    text = (ROOT / f"reproductions/{paper}/kubernetes.yaml").read_text()
    return yaml.safe_load(text.replace("binaries.apex_dqn", "binaries.apex"))["items"]


ITEMS = items_of("apex")
SETS = {item["metadata"]["name"]: item["spec"] for item in ITEMS if item["kind"] == "StatefulSet"}
DATA = ITEMS[0]["data"]


def container(spec):
    return spec["template"]["spec"]["containers"][0]


def run_flags():
    lines = DATA["run.flags"].splitlines()
    return dict(line.removeprefix("--").split("=") for line in lines if line.startswith("--"))


def cluster():
    return json.loads(re.search(r"cluster='(.*?)'", DATA["start.sh"], re.S)[1])


def test_all_else_is_as_for_d4pg():
    """What differs is taken out of both, and one's name is the other's."""

    def without_its_own(items):
        items = copy.deepcopy(items)
        for item in items:
            if item["kind"] == "ConfigMap":
                script = re.sub(r"cluster='.*?'", "", item["data"]["start.sh"], flags=re.S)
                item["data"] = {"start.sh": re.sub(r"for host in .*;", "", script)}
            if item["kind"] == "StatefulSet":
                del item["spec"]["replicas"], container(item["spec"])["resources"]
        return json.dumps(items)

    assert without_its_own(ITEMS).replace("apex", "d4pg") == without_its_own(items_of("d4pg"))


def test_the_addresses_are_those_of_the_pods():
    pods = {
        role: [f"{role}-{i}.apex" for i in range(SETS[role]["replicas"])]
        for role in ("learner", "replay", "evaluator")
    }
    assert cluster() == {role: [f"{pod}:7000" for pod in names] for role, names in pods.items()}
    assert len(pods["replay"]) == 2
    waits_for = re.search(r"for host in (.*);", DATA["start.sh"])[1].split()
    assert waits_for == pods["learner"] + pods["replay"]


def test_the_flags_are_the_papers_and_fit_the_sets(tmp_path):
    given = run_flags()
    assert int(given["num_actors"]) == NUM_ACTORS
    assert int(given["actor_processes"]) == SETS["actor"]["replicas"]
    path = tmp_path / "run.flags"
    path.write_text(DATA["run.flags"])
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "binaries.apex_dqn",
            f"--flagfile={path}",
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


def test_each_role_has_a_memory_limit():
    for spec in SETS.values():
        given = container(spec)["resources"]
        request, limit = (bytes_of(given[kind]["memory"]) for kind in ("requests", "limits"))
        assert PROCESS_BYTES < request <= limit


def test_the_memory_holds_the_replay():
    assert -(-NUM_ACTORS // SETS["actor"]["replicas"]) == 8
    environment = environments.make(run_flags()["environment"], 0)
    bytes_per_step = footprint.image_bytes_per_step(DQNConfig(), PONG, environment)
    environment.close()
    share = DQNConfig().replay_capacity / SETS["replay"]["replicas"]
    need = PROCESS_BYTES + share * bytes_per_step
    given = container(SETS["replay"])["resources"]
    request, limit = (bytes_of(given[kind]["memory"]) for kind in ("requests", "limits"))
    assert need <= request <= limit < 3 * need
    assert 2 * (need - PROCESS_BYTES) <= limit  # also while the learner, which removes, is away
