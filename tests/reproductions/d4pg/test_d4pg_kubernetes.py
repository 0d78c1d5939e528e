"""kubernetes.yaml: its StatefulSets, and its start script run by bash as each pod would."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import yaml

from common.cluster.topology import Topology
from common.environments.spec import EnvironmentSpec
from common.program import layouts
from common.replay import footprint
from reproductions.d4pg.config import D4PGConfig

ROOT = pathlib.Path(__file__).parents[3]
PROCESS_BYTES = 760 * 10**6  # TensorFlow's
FILE = ROOT / "reproductions/d4pg/kubernetes.yaml"
ITEMS = yaml.safe_load(FILE.read_text())["items"]
SETS = {item["metadata"]["name"]: item["spec"] for item in ITEMS if item["kind"] == "StatefulSet"}
PODS = [f"{name}-{i}" for name, spec in SETS.items() for i in range(spec["replicas"])]

NAMES = "for host in learner-0.d4pg replay-0.d4pg"

# In the place of the role's program: says what it was given, then does as it is told.
PROGRAM = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("checkpoint", flush=True), os._exit(0)))
print(json.dumps([sys.argv[1:], os.environ["TF_CONFIG"]]), flush=True)
time.sleep(float(os.environ.get("SECONDS_TO_RUN", 0)))
sys.exit(int(os.environ.get("CODE", 0)))
"""


def item(kind, name):
    (found,) = [one for one in ITEMS if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def variables(pod):
    """What the container of a pod gets: those that are written down, and its name."""
    container = SETS[pod.rpartition("-")[0]]["template"]["spec"]["containers"][0]
    fixed = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    named = [one["name"] for one in container["env"] if "valueFrom" in one]
    assert named == ["POD_NAME"]
    assert fixed.pop("PATH").startswith(container["workingDir"])
    return {**fixed, "POD_NAME": pod}


@pytest.fixture
def start(tmp_path):
    """Starts a pod's script with a program of ours; all end with the test."""
    (tmp_path / "binaries").mkdir()
    (tmp_path / "binaries/d4pg.py").write_text(PROGRAM)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    processes = []

    def start_one(pod, resolvable=True, **others):
        script = item("ConfigMap", "d4pg")["data"]["start.sh"]
        assert script.count(NAMES) == 1
        if resolvable:
            script = script.replace(NAMES, "for host in localhost")
        (tmp_path / "start.sh").write_text(script)
        processes.append(
            subprocess.Popen(
                ["bash", tmp_path / "start.sh"],
                cwd=tmp_path,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
                env={
                    **os.environ,
                    **variables(pod),
                    "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
                    **others,
                },
            )
        )
        return processes[-1]

    yield start_one
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("pod", PODS)
def test_each_pod_gets_its_place(pod, start):
    arguments, tf_config = json.loads(start(pod).stdout.readline())
    place = Topology.from_environment(
        layouts.DISTRIBUTED.roles, {**variables(pod), "TF_CONFIG": tf_config}
    )
    role, _, index = pod.rpartition("-")
    assert (place.job, place.index) == (role, int(index))
    assert arguments == ["--flagfile=/etc/d4pg/run.flags", f"--role={role}"]
    if role != "actor":  # the addresses are those of the pods
        service = SETS[role]["serviceName"]
        assert place.own_address == f"{pod}.{service}:7000"
        assert place.bind_address == "0.0.0.0:7000"
        assert item("Service", service)["spec"]["ports"][0]["port"] == 7000


def test_what_has_finished_is_not_started_again(start):
    process = start("learner-0")
    process.stdout.readline()
    assert process.stdout.readline() == "learner-0 has finished\n"
    time.sleep(0.3)
    assert process.poll() is None
    process.terminate()
    assert process.wait(timeout=60) is not None


def test_what_failed_ends_so_that_it_is_started_again(start):
    assert start("actor-1", CODE="2").wait(timeout=60) == 2


def test_sigterm_reaches_the_role_and_is_waited_for(start):
    process = start("learner-0", SECONDS_TO_RUN="60")
    process.stdout.readline()
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert out == "checkpoint\n"


def test_it_waits_for_names_that_are_not_known_yet(start):
    process = start("actor-0", resolvable=False)
    time.sleep(0.5)
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    assert process.stdout.read() == ""


def test_the_flags_are_flags_of_the_program(tmp_path):
    path = tmp_path / "run.flags"
    path.write_text(item("ConfigMap", "d4pg")["data"]["run.flags"])
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "binaries.d4pg",
            f"--flagfile={path}",
            "--environment=control:no:no",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "control:no:no" in result.stderr, result.stderr  # nothing else was wrong


def test_the_flags_fit_the_sets():
    given = run_flags()
    assert int(given["actor_processes"]) == SETS["actor"]["replicas"] <= int(given["num_actors"])
    assert given["workdir"].startswith(mounts("learner")["runs"] + "/")


def run_flags():
    lines = item("ConfigMap", "d4pg")["data"]["run.flags"].splitlines()
    return dict(line.removeprefix("--").split("=") for line in lines if line.startswith("--"))


def mounts(role):
    pod = SETS[role]["template"]["spec"]
    there = {one["name"]: one["mountPath"] for one in pod["containers"][0]["volumeMounts"]}
    assert set(there) == {volume["name"] for volume in pod["volumes"]}
    return there


@pytest.mark.parametrize("role", SETS)
def test_the_parts_fit_together(role):
    spec = SETS[role]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == {"app": "d4pg", "role": role}
    assert item("Service", spec["serviceName"])["spec"]["selector"].items() <= labels.items()
    for variable, volume in (("REPLAY_RL_TOKEN_FILE", "token"), ("RUN_FLAGS", "settings")):
        assert variables(f"{role}-0")[variable].startswith(mounts(role)[volume] + "/")
    (secret,) = [one["secret"] for one in spec["template"]["spec"]["volumes"] if "secret" in one]
    assert secret["defaultMode"] == 0o440


def test_only_pods_of_the_run_reach_the_roles_at_their_port():
    """A podSelector without a namespaceSelector means pods of the policy's own namespace."""
    policy = item("NetworkPolicy", "d4pg")["spec"]
    run = {"podSelector": {"matchLabels": {"app": "d4pg"}}}
    port = item("Service", "d4pg")["spec"]["ports"][0]["port"]
    assert policy == {
        **run,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [run], "ports": [{"protocol": "TCP", "port": port}]}],
    }
    for spec in SETS.values():
        assert spec["template"]["metadata"]["labels"].items() >= {("app", "d4pg")}


@pytest.mark.parametrize("role", SETS)
def test_each_role_has_a_memory_limit(role):
    """A call from a stranger can then end the role at most, not its machine."""
    for container in SETS[role]["template"]["spec"]["containers"]:
        given = container["resources"]
        request, limit = (bytes_of(given[kind]["memory"]) for kind in ("requests", "limits"))
        assert PROCESS_BYTES < request <= limit


def bytes_of(text):
    return int(text[:-2]) * {"Mi": 2**20, "Gi": 2**30}[text[-2:]]


def test_the_memory_holds_the_replay():
    assert run_flags()["environment"] == "control:humanoid:run"
    bytes_per_step = footprint.control_bytes_per_step(None, EnvironmentSpec(67, 21), None)
    need = PROCESS_BYTES + D4PGConfig().replay_capacity * bytes_per_step
    given = SETS["replay"]["template"]["spec"]["containers"][0]["resources"]
    request, limit = (bytes_of(given[kind]["memory"]) for kind in ("requests", "limits"))
    assert need <= request <= limit < 3 * need
