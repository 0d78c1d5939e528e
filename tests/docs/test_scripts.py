"""The code of docs/ runs: notebook, parts.md, own_environment.md, read_policy.py, Kubernetes."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from launched import forked, run_light
import matplotlib
from matplotlib import pyplot
import numpy as np
import pytest
import tensorflow as tf
import yaml

from common import environments
from common.cluster.topology import Topology, free_ports
from common.learning import checkpoint
from common.networks import numpy_twins
from common.networks.control import ControlPolicy
from common.program.layouts import DISTRIBUTED

ROOT = pathlib.Path(__file__).parents[2]
CELLS = json.loads((ROOT / "docs/notebook.ipynb").read_text())["cells"]


def test_the_notebook_trains_and_draws(monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    code = "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code")
    variables = {}
    for found, shorter in (
        ("agent.train(4_000)", "agent.train(200)"),
        ("evaluation_steps=500", "evaluation_steps=100"),
        ("min_replay_size=1_000", "min_replay_size=200"),
    ):
        assert code.count(found) == 1
        code = code.replace(found, shorter)
    exec(code, variables)
    assert len(variables["rows"]) >= 3  # evaluations: at the start, half-way, at the end
    assert len(variables["observations"]) >= 8 and np.isfinite(variables["angle"]).all()
    assert len(variables["figure"].axes[0].lines) == 2  # the last picture: cart and pole


PARTS = ROOT / "docs/parts.md"


def code_of(page, title):
    """The code of a section: its first indented block."""
    section = re.search(rf"^## {title}.*?(?=^## |\Z)", page.read_text(), re.M | re.S)[0]
    code = re.search(r"\n\n((?: {4}.*\n|\n)+)", section)[1]
    return re.sub(r"^ {4}", "", code, flags=re.M)


def run(title):
    """The variables that the script of a section leaves."""
    variables = {}
    exec(compile(code_of(PARTS, title), PARTS, "exec"), variables)
    return variables


def test_the_memory_learns_the_random_walk(capsys):
    left = run("The memory by example")
    np.testing.assert_allclose(left["values"][1:6], np.arange(1, 6) / 6, atol=0.08)
    assert left["memory"].statistics().removed > 0  # its capacity was used
    assert "Statistics(" in capsys.readouterr().out


def test_three_processes_share_a_memory(tmp_path):
    (tmp_path / "service.py").write_text(code_of(PARTS, "The memory as a service"))
    address = f"127.0.0.1:{free_ports(1)[0]}"
    variables = {"PYTHONPATH": str(tmp_path), "REPLAY_RL_TOKEN": "of a test of the docs"}
    with forked() as start:
        programs = {
            role: start(tmp_path / f"{role}.log", "service", role, address, **variables)
            for role in ("replay", "actor", "learner")
        }
        assert [program.wait(200) for program in programs.values()] == [0, 0, 0]
    counters = r"^Counters\(items=1000, inserted=1000, sampled=5120, dupl"
    assert re.search(counters, programs["replay"].output, re.M)
    assert 0 < float(programs["learner"].output.splitlines()[-1]) < 1


def test_the_values_learn_the_other_policy_and_the_distribution():
    left = run("The values by example")
    assert left["q"][1:6] == pytest.approx(exact_q(0.9), abs=0.06)
    probabilities = tf.nn.softmax(left["logits"]).numpy()[0]
    within = np.abs(left["atoms"].numpy()) <= 2
    assert probabilities[within].sum() > 0.93
    assert probabilities[within][1:-1] == pytest.approx(1 / 16, abs=0.03)


def exact_q(right):
    """The chance to end at 6 after an action in each of the states 1 to 5, of {left, right}."""
    step = np.zeros([7, 7])
    step[0, 0] = step[6, 6] = 1
    for state in range(1, 6):
        step[state, state - 1], step[state, state + 1] = 1 - right, right
    ends = np.linalg.matrix_power(step, 10_000)[:, 6]
    return np.stack([ends[0:5], ends[2:7]], axis=1)


def test_the_environment_of_the_tutorial_can_be_learnt_from(tmp_path, monkeypatch):
    code = code_of(ROOT / "docs/own_environment.md", "1. ")
    (tmp_path / "my_environment.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    environment = environments.make("python:my_environment:Rail", seed=0)
    starts, rewards = set(), []
    for _ in range(8):
        timestep = environment.reset()
        starts.add(float(timestep.observation[0]))
        for _ in range(100):
            timestep = environment.step(np.ones(1, np.float32))
            rewards.append(timestep.reward)
        assert timestep.last() and timestep.discount == 1  # a time limit
    assert starts == {-1, 1} and min(rewards) == -1 and max(rewards) > 0.95


def test_read_policy_acts_as_the_network_without_tensorflow(tmp_path):
    """With layers that no agent of tests/agents/test_exported.py has."""
    tf.random.set_seed(0)
    network = ControlPolicy(2, (16, 8), layer_norm=True, unit_norm=True)
    network(tf.zeros([1, 3]))
    generator = np.random.default_rng(0)
    for variable in network.trainable_variables:
        variable.assign(generator.normal(size=variable.shape))
    path = tmp_path / "policy.npz"
    checkpoint.export_policy(path, numpy_twins.twin(network).layers())
    observation = generator.normal(size=3).astype(np.float32)
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')")
    done = subprocess.run(
        [sys.executable, ROOT / "docs/read_policy.py", path, *map(str, observation)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    action = np.array(done.stdout.split(), float)
    np.testing.assert_allclose(action, network(observation[np.newaxis])[0], rtol=1e-4, atol=1e-5)
    assert np.abs(action).max() > 0.01


def test_read_policy_is_short():
    assert len((ROOT / "docs/read_policy.py").read_text().splitlines()) <= 52


# The example for Kubernetes: its start script, run by bash, starts each role with its flags.

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
    return {
        variable["name"]: variable["value"] for variable in container["env"] if "value" in variable
    } | {"POD_NAME": pod}


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
    unknown = "control:no_such:task"
    ended = run_light("binaries.d4pg", [f"--flagfile={path}", f"--environment={unknown}"])
    assert unknown in ended.output, ended.output  # nothing else was wrong
    assert f"--actor_processes={SETS['actor']['replicas']}\n" in SETTINGS["run.flags"]
