"""The agent: what it stores, what its settings refuse, a run in one process, and that it learns."""

import dataclasses

from agent_loops import make_loop
import numpy as np
from one_process import OneProcessRun
import pytest
from small_agents import check_one_call, make_agent

from common.environments import registry
from common.environments.spec import EnvironmentSpec
from common.roles.evaluator import run_episodes
from reproductions.aql import match
from reproductions.aql.agent import AQL
from reproductions.aql.config import SETTINGS

T, ACTORS = 5, 2
CONTROL = EnvironmentSpec(observation_size=5, action_size=1)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", ["aql", "qt_opt", "d3pg", "impala_shared_rmsprop"])
def test_acts_stores_and_learns_on_the_control_suite(name):
    environments = registry.make_batch("control:cartpole:swingup", range(ACTORS))
    check_one_call(make_agent(name), environments)


def test_what_is_stored_is_what_the_policy_found():
    """The action that was taken and a*, also at the last timestep of an unroll."""
    agent = make_agent(epsilon=1.0, high_epsilon=1.0, replayed_unrolls=0)
    environments = registry.make_batch("control:cartpole:swingup", range(ACTORS))
    spec = EnvironmentSpec.of(environments)
    policy, found = agent.make_actor(spec, range(ACTORS), ACTORS, seed=2), []

    class Recorded:
        initial_state, with_reward = policy.initial_state, policy.with_reward

        def __call__(self, observation, state):
            action, state, extras = policy(observation, state)
            np.testing.assert_array_equal(action, policy.space.values(extras["action_index"]))
            found.append((observation.copy(), extras["action_index"], extras["best_index"]))
            return action, state, extras

    _, loop = make_loop(agent, Recorded(), environments, seed=1)
    *_, ((stored, _),) = (loop.step() for _ in range(T + 1))
    columns = stored.observation, stored.extras["action_index"], stored.extras["best_index"]
    for column, seen in zip(columns, zip(*found), strict=True):
        np.testing.assert_array_equal(column, np.stack(seen[:T], axis=1))
    assert np.any(stored.extras["action_index"] != stored.extras["best_index"])


def test_actors_of_a_process_have_the_epsilons_of_their_places():
    agent = make_agent()
    policy = agent.make_actor(CONTROL, range(8, 12), 100, seed=0)
    np.testing.assert_array_equal(policy._epsilons, [0.5, 0.5, 0.05, 0.05])
    evaluator = agent.make_evaluator(CONTROL, 3)
    np.testing.assert_array_equal(evaluator._epsilons, [0, 0, 0])


HUMANOID = EnvironmentSpec(observation_size=67, action_size=21)
INTEGERS = EnvironmentSpec(observation_size=5, action_size=3, action_choices=(7, 7, 3))
DISCRETE = EnvironmentSpec(observation_size=5, action_size=4, is_discrete=True)
PONG = EnvironmentSpec(84 * 84 * 4, 6, (84, 84, 4), is_discrete=True)
LAB = EnvironmentSpec(
    observation_size=9 * 9 * 3,
    action_size=7,
    image_shape=(9, 9, 3),
    action_choices=(1025, 1025, 3, 3, 2, 2, 2),
)
WIDE = EnvironmentSpec(observation_size=5, action_size=2, action_choices=(3, 2**31 - 1))
MANY = EnvironmentSpec(observation_size=5, action_size=10_001, is_discrete=True)
NO_SET = {"action_set": "own"}


@pytest.mark.parametrize(
    "name, changed, spec, words",
    [
        (
            "aql",
            {},
            LAB,
            r"has images of \[9, 9, 3\], but this setting needs flat observations: .*",
        ),
        (
            "exact_q",
            {},
            HUMANOID,
            r"has 5\^21 = 476,837,158,203,125 actions, but .* at most 10,000: .*",
        ),
        ("qt_opt", {}, INTEGERS, r"has actions of 7\^2 \* 3 = 147 choices, but .*"),
        ("d3pg", {}, INTEGERS, r"has actions of 7\^2 \* 3 = 147 choices, but .*"),
        ("aql_gaussian", {}, DISCRETE, r"has actions of 4 choices, but .*"),
        (
            "uniform_q",
            {},
            WIDE,
            r"has a sub-action of 2,147,483,647 choices, .* at most 10,000: .*",
        ),
        ("aql", {}, MANY, r"has a sub-action of 10,001 choices, but .* at most 10,000: .*"),
        ("aql_11_actions", {}, CONTROL, r"has flat observations, but this setting needs images .*"),
        ("aql_3528_actions", {}, PONG, r"has 6 discrete actions, but action_set=structured .*"),
        (
            "impala_11_actions",
            NO_SET,
            LAB,
            r"has DeepMind Lab's seven integers, but .* no set of .*",
        ),
        (
            "impala_3528_actions",
            {"channels": (), **NO_SET},
            HUMANOID,
            r"has 5\^21 = 476,837,158,203,125 actions, but flat_policy=True .* at most 10,000: .*",
        ),
    ],
)
def test_an_environment_that_does_not_suit_is_refused_in_one_line(name, changed, spec, words):
    config = dataclasses.replace(SETTINGS.configuration(name), **changed)
    with pytest.raises(ValueError, match=f"^--environment {words}$"):
        AQL.declaration.require_spec(config, spec)


def test_what_suits_is_not_refused():
    most = EnvironmentSpec(observation_size=1, action_size=1, action_choices=(100, 100))
    own = {"aql", "aql_independent", "uniform_q", "exact_q"}
    images = {name for name in SETTINGS.names if name.endswith("_actions")}
    for spec, names in (
        (CONTROL, {*SETTINGS.names} - images),
        (INTEGERS, own),
        (DISCRETE, own),
        (most, {"exact_q"}),
        (LAB, images),
    ):
        for name in names:
            AQL.declaration.require_spec(SETTINGS.configuration(name), spec)
    atari = dataclasses.replace(SETTINGS.configuration("aql_11_actions"), **NO_SET)
    AQL.declaration.require_spec(atari, PONG)


MATCH = "python:reproductions.aql.match:make_5"


def test_aql_learns_to_match_better_than_uniform_search():
    """Either has 30 samples an action; of AQL's, 15 are from the proposal."""
    sizes = {"state_size": 32, "action_size": 32, "joint_sizes": (32, 32), "proposal_sizes": (32,)}
    samples = {"num_proposal_samples": 15, "num_uniform_samples": 15, "replayed_unrolls": 0}
    learning = {"discount": 0.0, "learning_rate": 1e-2, "batch_size": 16, "unroll_length": 8}
    agent = make_agent(**sizes, **samples, **learning)
    agent.jit_compile = False
    run = OneProcessRun(agent, registry.make_batch(MATCH, range(16)))

    def mean_return():
        return run_episodes(registry.make_batch(MATCH, range(100, 104)), run.evaluator(4), 4).mean()

    uniform = match.uniform_return(5, 30)
    assert mean_return() < uniform
    run.train(80)
    assert mean_return() > uniform + 10
