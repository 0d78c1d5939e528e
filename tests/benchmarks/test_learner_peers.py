"""Tests of common.benchmarks.learner_peers."""

import pathlib
import sys

import pytest

from common.benchmarks import learner_cases, learner_peers
from reproductions.d4pg.config import D4PGConfig

FAKE = """
import json, sys
print("Fake of", sys.argv[1], flush=True)
for line in sys.stdin:
    print(2 * int(line), flush=True)
"""


def test_the_sizes_are_those_of_the_learner_that_is_compared():
    config, peers, spec = D4PGConfig(), learner_peers, learner_cases.WALKER
    assert (spec.observation_size, spec.action_size) == (peers.OBSERVATION_SIZE, peers.ACTION_SIZE)
    assert (config.policy_sizes, config.critic_sizes) == (peers.POLICY_SIZES, peers.CRITIC_SIZES)
    support = config.num_atoms, config.v_min, config.v_max
    assert support == (peers.NUM_ATOMS, peers.V_MIN, peers.V_MAX)
    assert (config.batch_size, config.target_period) == (peers.BATCH_SIZE, peers.TARGET_PERIOD)
    assert config.learning_rate == peers.LEARNING_RATE
    assert config.updates_per_call == peers.UPDATES_PER_CALL


def test_each_peer_answers_each_number_and_ends_with_the_context(tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text(FAKE)
    monkeypatch.setattr(learner_peers, "PYTHON", pathlib.Path(sys.executable))
    monkeypatch.setattr(learner_peers, "__file__", str(program))
    with learner_peers.started() as peers:
        assert [title for title, _ in peers.values()] == [f"Fake of {name}" for name in peers]
        measures = [measure for _, measure in peers.values()]
        assert [measure(count) for count in (3, 4) for measure in measures] == [6] * 3 + [8] * 3
    with pytest.raises(ValueError, match="closed"):
        measures[0](1)


def test_a_peer_that_ends_early_is_an_error(tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text("import no_such_library")
    monkeypatch.setattr(learner_peers, "PYTHON", pathlib.Path(sys.executable))
    monkeypatch.setattr(learner_peers, "__file__", str(program))
    with pytest.raises(RuntimeError, match="the peer jax has ended"), learner_peers.started():
        pass


@pytest.mark.skipif(not learner_peers.PYTHON.exists(), reason="`make peers` was not called")
def test_the_peers_make_updates():
    with learner_peers.started() as peers:
        assert [title.split()[0] for title, _ in peers.values()] == ["JAX", "PyTorch", "TD3"]
        assert all(measure(2) > 0 for _, measure in peers.values())
