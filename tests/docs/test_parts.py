"""The scripts of docs/parts.md run as they stand, and learn what the page says."""

import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

PAGE = pathlib.Path(__file__).parents[2] / "docs/parts.md"


def run(title):
    """The variables that the script of a section leaves."""
    section = re.search(rf"^## {title}.*?(?=^## |\Z)", PAGE.read_text(), re.M | re.S)[0]
    code = re.search(r"\n\n((?: {4}.*\n|\n)+)", section)[1]
    variables = {}
    exec(compile(re.sub(r"^ {4}", "", code, flags=re.M), PAGE, "exec"), variables)
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
