"""kubernetes.yaml: its StatefulSets, and its start script run by bash as each pod would."""

import os
import signal
import time

from kubernetes_file import PROCESS_BYTES, KubernetesFile
import pytest

from common.environments.spec import EnvironmentSpec
from common.program import layouts
from common.replay import footprint
from reproductions.d4pg.config import D4PGConfig

FILE = KubernetesFile("d4pg")
SETS = FILE.sets
PODS = [f"{name}-{i}" for name, spec in SETS.items() for i in range(spec["replicas"])]


@pytest.mark.parametrize("pod", PODS)
def test_each_pod_gets_its_place(pod, tmp_path):
    FILE.check_place(pod, layouts.DISTRIBUTED.roles, tmp_path)


def test_what_has_finished_is_not_started_again(tmp_path):
    with FILE.start("learner-0", tmp_path) as process:
        process.stdout.readline()
        assert process.stdout.readline() == "learner-0 has finished\n"
        time.sleep(0.3)
        assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=60) is not None


def test_what_failed_ends_so_that_it_is_started_again(tmp_path):
    with FILE.start("actor-1", tmp_path, CODE="2") as process:
        assert process.wait(timeout=60) == 2


def test_sigterm_reaches_the_role_and_is_waited_for(tmp_path):
    with FILE.start("learner-0", tmp_path, SECONDS_TO_RUN="60") as process:
        process.stdout.readline()
        process.terminate()
        out, _ = process.communicate(timeout=60)
        assert out == "checkpoint\n"


def test_it_waits_for_names_that_are_not_known_yet(tmp_path):
    assert FILE.hosts == ["learner-0.d4pg", "replay-0.d4pg"]
    with FILE.start("actor-0", tmp_path, is_resolvable=False) as process:
        time.sleep(0.5)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout.read() == ""


def test_the_flags_are_flags_of_the_program(tmp_path):
    FILE.check_flags("control:no:no", tmp_path)


def test_the_flags_fit_the_sets():
    processes, actors = (int(FILE.flags[name]) for name in ("actor_processes", "num_actors"))
    assert processes == SETS["actor"]["replicas"] <= actors
    assert FILE.flags["workdir"].startswith(mounts("learner")["runs"] + "/")


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
    assert FILE.item("Service", spec["serviceName"])["spec"]["selector"].items() <= labels.items()
    for variable, volume in (("REPLAY_RL_TOKEN_FILE", "token"), ("RUN_FLAGS", "settings")):
        assert FILE.variables(f"{role}-0")[variable].startswith(mounts(role)[volume] + "/")
    (secret,) = [one["secret"] for one in spec["template"]["spec"]["volumes"] if "secret" in one]
    assert secret["defaultMode"] == 0o440


def test_only_pods_of_the_run_reach_the_roles_at_their_port():
    """A podSelector without a namespaceSelector means pods of the policy's own namespace."""
    policy = FILE.item("NetworkPolicy", "d4pg")["spec"]
    run = {"podSelector": {"matchLabels": {"app": "d4pg"}}}
    port = FILE.item("Service", "d4pg")["spec"]["ports"][0]["port"]
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
    request, limit = FILE.memory(role)
    assert PROCESS_BYTES < request <= limit


def test_the_memory_holds_the_replay():
    assert FILE.flags["environment"] == "control:humanoid:run"
    bytes_per_step = footprint.control_bytes_per_step(None, EnvironmentSpec(67, 21), None)
    need = PROCESS_BYTES + D4PGConfig().replay_capacity * bytes_per_step
    request, limit = FILE.memory("replay")
    assert need <= request <= limit < 3 * need
