"""The example for Kubernetes: its start script, run by bash, starts each role with its flags."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from flag_file import check_flag_file
import pytest
import yaml

from common.cluster.topology import Topology
from common.program.layouts import DISTRIBUTED

ROOT = pathlib.Path(__file__).parents[2]
ITEMS = yaml.safe_load((ROOT / "docs/kubernetes_d4pg.yaml").read_text())["items"]
SETS = {each["metadata"]["name"]: each["spec"] for each in ITEMS if each["kind"] == "StatefulSet"}
(SETTINGS,) = [each["data"] for each in ITEMS if each["kind"] == "ConfigMap"]
HOSTS = r"for host in (.*);"

# In the place of the role's program: says what it was given, then does as it is told.
PROGRAM = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("checkpoint", flush=True), os._exit(0)))
print(json.dumps([sys.argv[1:], os.environ["TF_CONFIG"]]), flush=True)
time.sleep(float(os.environ.get("SECONDS_TO_RUN", 0)))
sys.exit(int(os.environ.get("CODE", 0)))
"""


@pytest.fixture
def start(tmp_path):
    """Starts a pod's script with `PROGRAM`, and kills it afterwards."""
    (tmp_path / "binaries").mkdir()
    (tmp_path / "binaries/__init__.py").touch()
    (tmp_path / "binaries/d4pg.py").write_text(PROGRAM)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    (tmp_path / "start.sh").write_text(
        re.sub(HOSTS, "for host in localhost;", SETTINGS["start.sh"])
    )
    started = []

    def start_pod(pod, **variables):
        variables = {
            **variables_of(pod),
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        } | variables
        process = subprocess.Popen(
            ["bash", "start.sh"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **variables},
        )
        started.append(process)
        return process

    yield start_pod
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def variables_of(pod):
    """The fixed variables of a pod's container, and its name."""
    (container,) = SETS[pod.rpartition("-")[0]]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one} | {
        "POD_NAME": pod
    }


@pytest.mark.parametrize("role", DISTRIBUTED.roles, ids=lambda role: role.name)
def test_each_pod_gets_its_place(role, start):
    pod = f"{role.name}-{SETS[role.name]['replicas'] - 1}"
    process = start(pod)
    arguments, tf_config = json.loads(process.stdout.readline())
    assert process.stdout.readline() == f"{pod} has finished\n"
    process.terminate()  # until then it idles, so that Kubernetes does not start it again
    assert process.wait(timeout=60) is not None
    assert arguments == ["--flagfile=/etc/d4pg/run.flags", f"--role={role.name}"]
    variables = {**variables_of(pod), "TF_CONFIG": tf_config}
    place = Topology.from_environment(DISTRIBUTED.roles, variables)
    assert f"{place.job}-{place.index}" == pod
    partners = {address.removesuffix(":7000") for address in place.partners}
    assert partners <= {*re.search(HOSTS, SETTINGS["start.sh"])[1].split()}
    if role.is_called:
        assert place.own_address == f"{pod}.{SETS[role.name]['serviceName']}:7000"
        assert place.bind_address == "0.0.0.0:7000"


def test_a_role_that_failed_ends_its_pod(start):
    assert start("actor-1", CODE="2").wait(timeout=60) == 2


def test_sigterm_reaches_the_role_and_is_waited_for(start):
    process = start("learner-0", SECONDS_TO_RUN="60")
    process.stdout.readline()
    process.terminate()
    out, _ = process.communicate(timeout=60)
    assert out == "checkpoint\n"


def test_the_program_takes_the_flags(tmp_path):
    path = tmp_path / "run.flags"
    path.write_text(SETTINGS["run.flags"])
    check_flag_file("d4pg", path, "control:no_such:task")
    assert f"--actor_processes={SETS['actor']['replicas']}\n" in SETTINGS["run.flags"]
