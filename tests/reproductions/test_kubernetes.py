"""Each kubernetes.yaml: its parts fit, and its start script, run by bash, starts each role."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from flag_file import check_flag_file
import pytest
import yaml

from binaries.pages import REPRODUCTIONS
from common import environments
from common.cluster.topology import Topology
from common.environments.spec import EnvironmentSpec
from reproductions import declared

PROCESS_BYTES = 760 * 10**6  # TensorFlow's
HOSTS = r"for host in (.*);"

# In the place of the role's program: says what it was given, then does as it is told.
PROGRAM = """
import json, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("checkpoint", flush=True), os._exit(0)))
print(json.dumps([sys.argv[1:], os.environ["TF_CONFIG"]]), flush=True)
time.sleep(float(os.environ.get("SECONDS_TO_RUN", 0)))
sys.exit(int(os.environ.get("CODE", 0)))
"""


class KubernetesFile:
    """The kubernetes.yaml of a paper.

    Attributes:
      agent: the one that is run.
      environment: that of the run.
      layout: of the agent's default setting.
      sets: the specifications of the file's StatefulSets, by name.
      script: start.sh, which every pod runs.
      flags: the flag file.
    """

    def __init__(self, paper, deployment):
        self.agent = deployment.agent
        self.environment = deployment.environment
        self.config = self.agent.settings.configuration(self.agent.settings.default)
        self.layout = self.agent.layout(self.config)
        text = (REPRODUCTIONS / paper / "kubernetes.yaml").read_text()
        self._items = yaml.safe_load(text)["items"]
        self.sets = {
            item["metadata"]["name"]: item["spec"]
            for item in self._items
            if item["kind"] == "StatefulSet"
        }
        data = self.item("ConfigMap", paper)["data"]
        self.script, self.flags = data["start.sh"], data["run.flags"]

    def item(self, kind, name):
        """Returns the one item of a kind and name."""
        (found,) = [
            item for item in self._items if (item["kind"], item["metadata"]["name"]) == (kind, name)
        ]
        return found

    def container(self, name):
        """Returns the only container of a StatefulSet's pods."""
        (only,) = self.sets[name]["template"]["spec"]["containers"]
        return only

    def mounts(self, name):
        """Returns the paths of a StatefulSet's volumes, all of which its container mounts."""
        mounts = {each["name"]: each["mountPath"] for each in self.container(name)["volumeMounts"]}
        volumes = self.sets[name]["template"]["spec"]["volumes"]
        assert set(mounts) == {volume["name"] for volume in volumes}
        return mounts

    def variables(self, pod):
        """Returns what the container of a pod gets but for PATH: fixed values, and its name."""
        container = self.container(pod.rpartition("-")[0])
        fixed = {each["name"]: each["value"] for each in container["env"] if "value" in each}
        assert [each["name"] for each in container["env"] if "valueFrom" in each] == ["POD_NAME"]
        assert fixed.pop("PATH").startswith(container["workingDir"])
        return {**fixed, "POD_NAME": pod}

    def memory(self, name):
        """Returns how many bytes a StatefulSet's pods request, and their limit."""
        resources = self.container(name)["resources"]
        texts = [resources[kind]["memory"] for kind in ("requests", "limits")]
        return [int(text[:-2]) * {"Mi": 2**20, "Gi": 2**30}[text[-2:]] for text in texts]

    @contextlib.contextmanager
    def start(self, pod, directory, is_resolvable=True, **variables):
        """Yields the process of a pod's script with a program of ours, and kills it afterwards."""
        path = directory / (self.agent.module.replace(".", "/") + ".py")
        path.parent.mkdir()
        path.write_text(PROGRAM)
        (directory / "bin").mkdir()
        (directory / "bin/python").symlink_to(sys.executable)
        script = re.sub(HOSTS, "for host in localhost;", self.script)
        (directory / "start.sh").write_text(script if is_resolvable else self.script)
        process = subprocess.Popen(
            ["bash", directory / "start.sh"],
            cwd=directory,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={
                **os.environ,
                **self.variables(pod),
                "PATH": f"{directory}/bin:{os.environ['PATH']}",
                **variables,
            },
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()


FILES = {
    paper: KubernetesFile(paper, deployment)
    for paper, deployment in declared("deployment", "DEPLOYMENT").items()
}
SETS = [(paper, name) for paper, file in FILES.items() for name in file.sets]
D4PG = FILES["d4pg"]


@pytest.mark.parametrize("paper, name", SETS)
def test_each_pod_gets_its_place(paper, name, tmp_path):
    file = FILES[paper]
    pod = f"{name}-{file.sets[name]['replicas'] - 1}"
    with file.start(pod, tmp_path) as process:
        arguments, tf_config = json.loads(process.stdout.readline())
        assert process.stdout.readline() == f"{pod} has finished\n"
    role = file.layout.role(name.replace("-", "_"))
    variables = {**file.variables(pod), "TF_CONFIG": tf_config}
    place = Topology.from_environment(file.layout.roles, variables)
    assert f"{name}-{place.index}" == pod and place.job == role.name
    assert arguments == [f"--flagfile=/etc/{paper}/run.flags", f"--role={role.name}"]
    partners = {address.removesuffix(":7000") for address in place.partners}
    assert partners <= {*re.search(HOSTS, file.script)[1].split()}
    service = file.sets[name]["serviceName"]
    assert {host.partition(".")[2] for host in partners} <= {service}
    if role.is_called:  # the addresses are those of the pods
        assert place.own_address == f"{pod}.{service}:7000"
        assert place.bind_address == "0.0.0.0:7000"
        assert file.item("Service", service)["spec"]["ports"][0]["port"] == 7000


def test_what_has_finished_is_not_started_again(tmp_path):
    with D4PG.start("learner-0", tmp_path) as process:
        process.stdout.readline()
        assert process.stdout.readline() == "learner-0 has finished\n"
        time.sleep(0.3)
        assert process.poll() is None
        process.terminate()
        assert process.wait(timeout=60) is not None


def test_what_failed_ends_so_that_it_is_started_again(tmp_path):
    with D4PG.start("actor-1", tmp_path, CODE="2") as process:
        assert process.wait(timeout=60) == 2


def test_sigterm_reaches_the_role_and_is_waited_for(tmp_path):
    with D4PG.start("learner-0", tmp_path, SECONDS_TO_RUN="60") as process:
        process.stdout.readline()
        process.terminate()
        out, _ = process.communicate(timeout=60)
        assert out == "checkpoint\n"


def test_it_waits_for_names_that_are_not_known_yet(tmp_path):
    with D4PG.start("actor-0", tmp_path, is_resolvable=False) as process:
        time.sleep(0.5)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout.read() == ""


@pytest.mark.parametrize("paper", FILES)
def test_the_program_takes_the_flags(paper, tmp_path):
    file, path = FILES[paper], tmp_path / "run.flags"
    path.write_text(file.flags)
    suite = file.environment.partition(":")[0]
    check_flag_file(file.agent.name, path, f"{suite}:no_such:task")
    (workdir,) = re.findall(r"--workdir=(.*)", file.flags)
    assert pathlib.Path(workdir).parent == pathlib.Path(file.mounts([*file.sets][0])["runs"])


@pytest.mark.parametrize("paper, name", SETS)
def test_the_parts_fit_together(paper, name):
    file = FILES[paper]
    spec = file.sets[name]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == {"app": paper, "role": name}
    service = file.item("Service", spec["serviceName"])["spec"]
    assert service["selector"].items() <= labels.items()
    for variable, volume in (("REPLAY_RL_TOKEN_FILE", "token"), ("RUN_FLAGS", "settings")):
        assert file.variables(f"{name}-0")[variable].startswith(file.mounts(name)[volume] + "/")
    volumes = spec["template"]["spec"]["volumes"]
    (secret,) = [volume["secret"] for volume in volumes if "secret" in volume]
    assert secret["defaultMode"] == 0o440


@pytest.mark.parametrize("paper", FILES)
def test_only_pods_of_the_run_reach_the_roles_at_their_port(paper):
    """A podSelector without a namespaceSelector means pods of the policy's own namespace."""
    policy = FILES[paper].item("NetworkPolicy", paper)["spec"]
    run = {"podSelector": {"matchLabels": {"app": paper}}}
    port = FILES[paper].item("Service", paper)["spec"]["ports"][0]["port"]
    assert policy == {
        **run,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [run], "ports": [{"protocol": "TCP", "port": port}]}],
    }


@pytest.mark.parametrize("paper", FILES)
def test_the_memory_of_each_role_suffices(paper):
    """Each has a limit: a call from a stranger can then end the role at most, not its machine."""
    file = FILES[paper]
    agent, config = file.agent, file.config
    environment = environments.make(file.environment, 0, frames=agent.num_frames)
    bytes_per_step = agent.bytes_per_step(config, EnvironmentSpec.of(environment), environment)
    environment.close()
    cluster = json.loads(re.search(r"cluster='(.*?)'", file.script, re.S)[1])
    for role, (name, spec) in zip(file.layout.roles, file.sets.items()):
        actors = agent.num_actors(config, agent.settings.default) / spec["replicas"]
        share = role.replay_share(Topology(file.layout.roles, cluster, role.name, 0), actors)
        replay = share * config.replay_capacity * bytes_per_step
        request, limit = file.memory(name)
        assert PROCESS_BYTES + replay <= request <= limit, name
        if "nvidia.com/gpu" not in file.container(name)["resources"]["limits"]:
            assert limit < 3 * (PROCESS_BYTES + replay), name
        if hasattr(config, "removal_period"):  # while the learner, which removes, is away
            assert 2 * replay <= limit, name
