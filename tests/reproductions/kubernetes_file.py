"""A paper's kubernetes.yaml: what it says, and its start script run by bash as each pod would."""

import contextlib
import copy
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from flag_file import check_flag_file
import yaml

from common.cluster.topology import Topology

ROOT = pathlib.Path(__file__).parents[2]
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


def container(spec):
    """Returns the only container of a StatefulSet's pods."""
    (only,) = spec["template"]["spec"]["containers"]
    return only


def shared_text(items, of_script):
    """Returns items as text, without what differs between papers."""
    items = copy.deepcopy(items)
    for item in items:
        if item["kind"] == "ConfigMap":
            script = item["data"]["start.sh"]
            for pattern in (*of_script, r"(?s)cluster='.*?'", HOSTS):
                script = re.sub(pattern, "", script)
            item["data"] = {"start.sh": script}
        if item["kind"] == "StatefulSet":
            del item["spec"]["replicas"], container(item["spec"])["resources"]
    return json.dumps(items)


class KubernetesFile:
    """The kubernetes.yaml of a paper.

    Attributes:
      items: what the file lists.
      sets: the specifications of its StatefulSets, by name.
      script: start.sh, which every pod runs.
      hosts: the names that start.sh waits for.
      flags: the flags of run.flags, by name.
    """

    def __init__(self, paper, program=None):
        self.paper, self.program = paper, program or paper
        text = (ROOT / f"reproductions/{paper}/kubernetes.yaml").read_text()
        self.items = yaml.safe_load(text)["items"]
        self.sets = {
            item["metadata"]["name"]: item["spec"]
            for item in self.items
            if item["kind"] == "StatefulSet"
        }
        data = self.item("ConfigMap", paper)["data"]
        self.script, self._flag_file = data["start.sh"], data["run.flags"]
        (hosts,) = re.findall(HOSTS, self.script)
        self.hosts = hosts.split()
        lines = [line for line in self._flag_file.splitlines() if line.startswith("--")]
        self.flags = dict(line.removeprefix("--").split("=") for line in lines)

    def item(self, kind, name):
        """Returns the one item of a kind and name."""
        (found,) = [
            one for one in self.items if (one["kind"], one["metadata"]["name"]) == (kind, name)
        ]
        return found

    def memory(self, name):
        """Returns how many bytes a StatefulSet's pods request, and their limit."""
        resources = container(self.sets[name])["resources"]
        texts = [resources[kind]["memory"] for kind in ("requests", "limits")]
        return [int(text[:-2]) * {"Mi": 2**20, "Gi": 2**30}[text[-2:]] for text in texts]

    def variables(self, pod):
        """Returns what the container of a pod gets but for PATH: fixed values, and its name."""
        spec = container(self.sets[pod.rpartition("-")[0]])
        fixed = {one["name"]: one["value"] for one in spec["env"] if "value" in one}
        assert [one["name"] for one in spec["env"] if "valueFrom" in one] == ["POD_NAME"]
        assert fixed.pop("PATH").startswith(spec["workingDir"])
        return {**fixed, "POD_NAME": pod}

    @contextlib.contextmanager
    def start(self, pod, directory, is_resolvable=True, **variables):
        """Yields the process of a pod's script with a program of ours, and kills it afterwards."""
        (directory / "binaries").mkdir()
        (directory / f"binaries/{self.program}.py").write_text(PROGRAM)
        (directory / "bin").mkdir()
        (directory / "bin/python").symlink_to(sys.executable)
        script = re.sub(HOSTS, "for host in localhost;", self.script)
        (directory / "start.sh").write_text(script if is_resolvable else self.script)
        path = f"{directory}/bin:{os.environ['PATH']}"
        process = subprocess.Popen(
            ["bash", directory / "start.sh"],
            cwd=directory,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **self.variables(pod), "PATH": path, **variables},
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()

    def check_place(self, pod, roles, directory):
        """Asserts that start.sh gives a pod the role and the address of its name.

        Args:
          pod: the pod's name.
          roles: the roles of the paper's layout.
          directory: an empty one, to run in.

        Returns:
          The pod's `Topology`.
        """
        with self.start(pod, directory) as process:
            arguments, tf_config = json.loads(process.stdout.readline())
            assert process.stdout.readline() == f"{pod} has finished\n"
        place = Topology.from_environment(roles, {**self.variables(pod), "TF_CONFIG": tf_config})
        name, _, index = pod.rpartition("-")
        role = name.replace("-", "_")
        assert (place.job, place.index) == (role, int(index))
        assert arguments == [f"--flagfile=/etc/{self.paper}/run.flags", f"--role={role}"]
        if role not in ("actor", "worker"):  # the addresses are those of the pods
            service = self.sets[name]["serviceName"]
            assert place.own_address == f"{pod}.{service}:7000"
            assert place.bind_address == "0.0.0.0:7000"
            assert self.item("Service", service)["spec"]["ports"][0]["port"] == 7000
        return place

    def check_flags(self, unknown_environment, directory):
        """Asserts that the program takes run.flags, but for an environment that it cannot know."""
        path = directory / "run.flags"
        path.write_text(self._flag_file)
        check_flag_file(self.program, path, unknown_environment)

    def check_all_else_is_d4pgs(self, names, *of_script):
        """Asserts that the file is D4PG's but for flags, addresses, replicas and resources.

        Args:
          names: D4PG's name for each name of this paper.
          *of_script: patterns of what else differs in start.sh.
        """
        theirs = [
            item
            for item in KubernetesFile("d4pg").items
            if "replay" in self.sets or item["metadata"]["name"] != "replay"
        ]
        ours = shared_text(self.items, of_script)
        for name, of_d4pg in {f"binaries.{self.program}": "binaries.d4pg", **names}.items():
            ours = ours.replace(name, of_d4pg)
        assert ours == shared_text(theirs, of_script)
