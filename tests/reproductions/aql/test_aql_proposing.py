"""What `evaluate --proposals` draws of AQL's search (figure 4)."""

import dataclasses

import numpy as np
import pytest

from binaries import evaluate
from common import environments
from common.acting.policy import require_proposals
from common.environments.spec import EnvironmentSpec
from common.learning.checkpoint import Checkpoints
from common.networks import packing
from common.reporting.run_directory import RunDirectory
from reproductions.aql.agent import AQL
from reproductions.aql.config import SETTINGS

SPEC = EnvironmentSpec(observation_size=4, action_size=3)
SMALL = {"state_size": 6, "action_size": 7, "joint_sizes": (8,), "proposal_sizes": (9,)}
OWN = "python:reproductions.d4pg.own_environment:make"


def make_agent(name, **values):
    config = SETTINGS.configuration(name)
    for field, value in {**SMALL, **values}.items():
        setattr(config, field, value)
    return AQL(config, name), config


@pytest.mark.parametrize("name", ["aql", "aql_independent", "aql_shared_rmsprop"])
def test_probabilities_are_those_of_the_learners_proposal_along_the_best_action(name):
    agent, _ = make_agent(name)
    learner = agent.make_learner(SPEC, seed=3)
    generator = np.random.default_rng(0)
    for variable in learner.actor_variables:
        variable.assign(0.3 * generator.standard_normal(variable.shape))
    policy = agent.make_evaluator(SPEC, 1)
    policy.load(packing.to_numpy(learner.actor_variables))
    require_proposals(policy)
    observation = generator.standard_normal(4).astype(np.float32)
    found = policy.propose(observation)
    assert found.values.shape == (100,) and found.chosen.shape == (3,)
    for probabilities in found.probabilities:
        assert probabilities.shape == (5,) and probabilities.sum() == pytest.approx(1)
    best = found.chosen[np.newaxis].astype(np.float32)
    features = learner.value.shared(observation[np.newaxis])
    log_prob = learner.proposal.proposal.log_prob(learner.proposal.trunk(features), best)
    along = [p[k] for p, k in zip(found.probabilities, found.chosen)]
    assert np.log(along).sum() == pytest.approx(float(log_prob[0]), rel=1e-4)
    # 125 actions are no more than the candidates, of which nearly all are drawn.
    every = policy.space.all_actions()[np.newaxis]
    value = learner.value(observation[np.newaxis], best[np.newaxis]).numpy()[0, 0]
    values = learner.value(observation[np.newaxis], every).numpy()[0]
    assert value >= np.sort(values)[-5] and found.values.max() <= values.max() + 1e-5


@pytest.mark.parametrize(
    "name, words",
    [
        ("aql_gaussian", "continuous"),
        ("uniform_q", "no proposal"),
        ("qt_opt", "no proposal"),
        ("d3pg", "samples no actions"),
    ],
)
def test_methods_without_probabilities_say_so(name, words):
    agent, _ = make_agent(name)
    with pytest.raises(ValueError, match=words):
        require_proposals(agent.make_evaluator(SPEC, 1))


def test_four_moments_of_an_episode_are_drawn(tmp_path, capsys):
    agent, config = make_agent("aql")
    run = RunDirectory(tmp_path / "run")
    run.open(
        {"paper": "aql", "setting": "aql", "environment": OWN, "config": dataclasses.asdict(config)}
    )
    learner = agent.make_learner(EnvironmentSpec.of(environments.make(OWN, 0)), seed=0)
    Checkpoints(run.checkpoints, {"learner": learner}).save()
    flags = [f"--workdir={run.path}", "--episodes=1"]
    arguments = evaluate._arguments([*flags, f"--proposals={tmp_path}/moments.png"])
    evaluate._evaluate(arguments, evaluate._trusted_agent(arguments))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"proposals {tmp_path}/moments.png"
    assert (tmp_path / "moments.png").stat().st_size > 10_000
