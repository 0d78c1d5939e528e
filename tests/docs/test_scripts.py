"""The code of docs/ runs: the notebook, the scripts of parts.md, and read_policy.py."""

import json
import pathlib
import re
import subprocess
import sys

import matplotlib
from matplotlib import pyplot
import numpy as np
import pytest
import tensorflow as tf

from common.learning import checkpoint
from common.networks import numpy_twins
from common.networks.control import ControlPolicy, ReluMLP, SoftsignMLP

ROOT = pathlib.Path(__file__).parents[2]
CELLS = json.loads((ROOT / "docs/notebook.ipynb").read_text())["cells"]


def test_the_notebook_trains_and_draws(monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    code = "\n".join("".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code")
    variables = {}
    assert code.count("agent.train(4_000)") == 1
    exec(code.replace("agent.train(4_000)", "agent.train(1_000)"), variables)
    assert len(variables["rows"]) >= 3  # evaluations: at the start, half-way, at the end
    assert len(variables["observations"]) >= 8 and np.isfinite(variables["angle"]).all()
    assert len(variables["figure"].axes[0].lines) == 2  # the last picture: cart and pole


PARTS = ROOT / "docs/parts.md"


def run(title):
    """The variables that the script of a section leaves."""
    section = re.search(rf"^## {title}.*?(?=^## |\Z)", PARTS.read_text(), re.M | re.S)[0]
    code = re.search(r"\n\n((?: {4}.*\n|\n)+)", section)[1]
    variables = {}
    exec(compile(re.sub(r"^ {4}", "", code, flags=re.M), PARTS, "exec"), variables)
    return variables


def test_the_memory_learns_the_random_walk(capsys):
    left = run("The memory")
    np.testing.assert_allclose(left["values"][1:6], np.arange(1, 6) / 6, atol=0.08)
    assert left["memory"].statistics().removed > 0  # its capacity was used
    assert "Statistics(" in capsys.readouterr().out


def test_the_values_learn_the_other_policy_and_the_distribution():
    left = run("The values")
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


NETWORKS = {
    "layer_norm": lambda: ControlPolicy(2, (16, 8), layer_norm=True),
    "plain": lambda: ControlPolicy(2, (16, 8), layer_norm=False),
    "softsign": lambda: SoftsignMLP(3, (8,), 2, tf.tanh),
    "relu": lambda: ReluMLP(3, (8, 2)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_read_policy_acts_as_the_network(name, tmp_path):
    tf.random.set_seed(0)
    network = NETWORKS[name]()
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
    assert len((ROOT / "docs/read_policy.py").read_text().splitlines()) <= 50
