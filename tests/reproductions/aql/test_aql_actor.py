"""Tests of the acting policies, and of what `evaluate --proposals` draws of them (figure 4)."""

import dataclasses
import functools

import numpy as np
import pytest
from small_agents import make_agent, randomize, values_at

from binaries import evaluate
from common import environments
from common.acting.policy import require_proposals
from common.environments.spec import EnvironmentSpec
from common.learning.checkpoint import Checkpoints
from common.networks import packing
from common.reporting.run_directory import RunDirectory
from reproductions.aql import aql, search

SPEC = EnvironmentSpec(observation_size=4, action_size=3)
SEARCHES = ("aql", "aql_gaussian", "uniform_q", "qt_opt", "exact_q")


def observations(rows=6):
    return np.random.default_rng(7).standard_normal((rows, 4)).astype(np.float32)


@functools.cache
def learner_of(name, spec=SPEC, scale=1.0):
    """A learner with parameters far from 0."""
    learner = make_agent(name).make_learner(spec, seed=3)
    randomize(learner.actor_variables, scale)
    return learner


def loaded(agent, policy, spec=SPEC):
    """The policy with the parameters of a learner, and the learner."""
    learner = learner_of(agent.setting, spec)
    policy.load(packing.to_numpy(learner.actor_variables))
    return policy, learner


@pytest.mark.parametrize(
    ("num_actors", "num_high"),
    [(1, 0), (2, 1), (5, 1), (14, 1), (15, 2), (24, 2), (25, 3), (100, 10)],
)
def test_a_tenth_of_the_actors_explores_much(num_actors, num_high):
    epsilons = aql.epsilons(num_actors)
    np.testing.assert_array_equal(epsilons, [0.5] * num_high + [0.05] * (num_actors - num_high))


@pytest.mark.parametrize("name", SEARCHES)
def test_the_greedy_policy_takes_its_best_candidate(name, monkeypatch):
    agent = make_agent(name)
    policy, learner = loaded(agent, agent.make_evaluator(SPEC, 6))
    seen = []
    original = policy.value.at

    def recorded(features):
        q = original(features)

        def values(candidates):
            seen.append(candidates)
            return q(candidates)

        return values

    monkeypatch.setattr(policy.value, "at", recorded)
    action, state, extras = policy(observations(), ())
    assert state == ()
    calls = 4 if name == "qt_opt" else 1
    number = {"qt_opt": 460, "exact_q": 125}.get(name, 17)
    if name == "exact_q":  # needs no candidates to look up
        seen.append(np.tile(policy.space.all_actions(), (6, 1, 1)))
    assert len(seen) == calls
    candidates = np.concatenate(seen, axis=1)
    assert candidates.shape == (6, number, 3)
    values = values_at(learner.value, observations(), candidates).numpy()
    expected = candidates[np.arange(6), values.argmax(axis=1)]
    np.testing.assert_array_equal(extras["best_index"], expected)
    np.testing.assert_array_equal(extras["action_index"], expected)
    np.testing.assert_array_equal(action, policy.space.values(expected))


@pytest.mark.parametrize("name", SEARCHES)
def test_exploring_takes_the_first_uniform_sample_and_keeps_the_best(name, monkeypatch):
    uniforms = []
    original = search.act

    def recorded(best, uniform, *arguments):
        uniforms.append(uniform)
        return original(best, uniform, *arguments)

    monkeypatch.setattr(search, "act", recorded)
    agent = make_agent(name, epsilon=0.0, high_epsilon=1.0)
    policy, _ = loaded(agent, agent.make_actor(SPEC, range(6), 40, seed=1))  # four explore
    action, _, extras = policy(observations(), ())
    greedy, _ = loaded(agent, agent.make_actor(SPEC, range(10, 16), 40, seed=1))
    _, _, expected = greedy(observations(), ())
    np.testing.assert_array_equal(extras["best_index"], expected["best_index"])
    np.testing.assert_array_equal(extras["action_index"][:4], uniforms[0][:4, 0])
    np.testing.assert_array_equal(extras["action_index"][4:], expected["best_index"][4:])
    np.testing.assert_array_equal(action, policy.space.values(extras["action_index"]))


@pytest.mark.parametrize("name", ["aql", "uniform_q"])
def test_proposals_are_searched_beside_uniform_samples(name):
    """Without uniform samples there are those of the proposal only; they explore all the same."""
    agent = make_agent(name, num_uniform_samples=0, epsilon=0.0, high_epsilon=1.0)
    policy, _ = loaded(agent, agent.make_actor(SPEC, range(2), 20, seed=1))
    actions = np.stack([policy(observations(2), ())[2]["action_index"][0] for _ in range(200)])
    assert len(np.unique(actions, axis=0)) > 80  # of 125


@pytest.mark.parametrize("name", ["aql", "aql_gaussian", "uniform_q", "qt_opt", "exact_q", "d3pg"])
def test_evaluation_repeats(name):
    agent = make_agent(name)
    first, _ = loaded(agent, agent.make_evaluator(SPEC, 6))
    second, _ = loaded(agent, agent.make_evaluator(SPEC, 6))
    for _ in range(3):
        for a, b in zip(first(observations(), ())[0], second(observations(), ())[0]):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", ["d3pg", "d3pg_shared_rmsprop"])
def test_d3pg_adds_its_noise_to_the_policy(name):
    agent = make_agent(name)
    policy, learner = loaded(agent, agent.make_actor(SPEC, range(6), 6, seed=1))
    features = learner.networks.critic.shared(observations())
    expected = learner.networks.policy(features).numpy()
    state = policy.initial_state(6)
    np.testing.assert_array_equal(state, np.zeros((6, 3)))
    action, state, extras = policy(observations(), state)
    np.testing.assert_allclose(extras["best_index"], expected, atol=1e-5)
    np.testing.assert_allclose(action, np.clip(expected + state, -1, 1), atol=1e-5)
    np.testing.assert_array_equal(extras["action_index"], action)
    before = state
    _, state, _ = policy(observations(), state)
    np.testing.assert_allclose((state - 0.85 * before).std(), 0.2, rtol=0.5)
    greedy, _ = loaded(agent, agent.make_evaluator(SPEC, 6))
    action, state, extras = greedy(observations(), greedy.initial_state(6))
    np.testing.assert_allclose(action, expected, atol=1e-5)
    assert state == ()


OWN = "python:reproductions.d4pg.own_environment:make"


@pytest.mark.parametrize("name", ["aql", "aql_independent", "aql_shared_rmsprop"])
def test_probabilities_are_those_of_the_learners_proposal_along_the_best_action(name):
    agent = make_agent(name, num_proposal_samples=100, num_uniform_samples=400)
    learner, policy = learner_of(name, scale=0.3), agent.make_evaluator(SPEC, 1)
    policy.load(packing.to_numpy(learner.actor_variables))
    require_proposals(policy)
    observation = observations()[0]
    found = policy.propose(observation)
    assert found.values.shape == (100,) and found.chosen.shape == (3,)
    for probabilities in found.probabilities:
        assert probabilities.shape == (5,) and probabilities.sum() == pytest.approx(1)
    best = found.chosen[np.newaxis].astype(np.float32)
    features = learner.value.shared(observation[np.newaxis])
    network = learner.proposal
    log_prob, _ = network.proposal.log_prob_and_entropy(network.trunk(features), best)
    along = [p[k] for p, k in zip(found.probabilities, found.chosen)]
    assert np.log(along).sum() == pytest.approx(float(log_prob[0]), rel=1e-4)
    # 125 actions are no more than the candidates, of which nearly all are drawn.
    every = policy.space.all_actions()[np.newaxis]
    value = values_at(learner.value, observation[np.newaxis], best[np.newaxis]).numpy()[0, 0]
    values = values_at(learner.value, observation[np.newaxis], every).numpy()[0]
    assert value >= np.sort(values)[-5] and found.values.max() <= values.max() + 1e-5


@pytest.mark.parametrize(
    "name, words",
    [
        ("aql_gaussian", "continuous"),
        ("uniform_q", "no proposal"),
        ("qt_opt", "no proposal"),
        ("d3pg", "the policy does not propose actions"),
    ],
)
def test_methods_without_probabilities_say_so(name, words):
    agent = make_agent(name)
    with pytest.raises(ValueError, match=words):
        require_proposals(agent.make_evaluator(SPEC, 1))


def test_four_moments_of_an_episode_are_drawn(tmp_path, capsys):
    agent = make_agent("aql", num_proposal_samples=100, num_uniform_samples=400)
    run = RunDirectory(tmp_path / "run")
    run.open(
        {
            "paper": "aql",
            "setting": "aql",
            "environment": OWN,
            "config": dataclasses.asdict(agent.config),
        }
    )
    learner = agent.make_learner(EnvironmentSpec.of(environments.make(OWN, 0)), seed=0)
    Checkpoints(run.checkpoints, {"learner": learner}).save()
    flags = [f"--workdir={run.path}", "--episodes=1"]
    arguments = evaluate._arguments([*flags, f"--proposals={tmp_path}/moments.png"])
    evaluate._evaluate(arguments, evaluate._trusted_agent(arguments))
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"proposals {tmp_path}/moments.png"
    assert (tmp_path / "moments.png").stat().st_size > 10_000
