"""docs/read_policy.py acts as the policy whose layers were exported, without TensorFlow."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from common.learning import checkpoint
from common.networks import numpy_twins
from common.networks.control import ControlPolicy, ReluMLP, SoftsignMLP

ROOT = pathlib.Path(__file__).parents[2]
NETWORKS = {
    "layer_norm": lambda: ControlPolicy(2, (16, 8), layer_norm=True),
    "plain": lambda: ControlPolicy(2, (16, 8), layer_norm=False),
    "softsign": lambda: SoftsignMLP(3, (8,), 2, tf.tanh),
    "relu": lambda: ReluMLP(3, (8, 2)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_it_acts_as_the_network(name, tmp_path):
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


def test_it_is_short():
    assert len((ROOT / "docs/read_policy.py").read_text().splitlines()) <= 50
