"""Tests of golf, the task of hybrid actions."""

import pickle

import numpy as np
import pytest

from common.environments.spec import EnvironmentSpec, HybridArray, actions_of
from reproductions.aql import golf
from reproductions.aql.agent import AQL
from reproductions.aql.config import AGENT, SETTINGS


def shortest_club(distance):
    """The shortest club that reaches the hole, and the strength for it."""
    club = max(index for index, reach in enumerate(golf.REACHES) if reach >= abs(distance))
    return np.array([club, -distance / golf.REACHES[club]], np.float32)


def play(act, num_episodes):
    """Mean return and its standard error."""
    environment, returns = golf.Golf(seed=0), []
    for _ in range(num_episodes):
        timestep, total = environment.reset(), 0.0
        while not timestep.last():
            timestep = environment.step(act(environment._distance))
            total += timestep.reward
        returns.append(total)
    return np.mean(returns), np.std(returns) / num_episodes**0.5


def best_return():
    """Value iteration on a grid of distances, strengths and errors."""
    grid = np.linspace(-1.2, 1.2, 2401)
    strengths, errors = np.linspace(-1, 1, 81), np.linspace(-0.2, 0.2, 41)[::2]
    value = np.zeros_like(grid)
    for _ in range(golf.MOST_STROKES):
        kept = np.where(np.abs(grid) <= golf.HOLE + 1e-9, 0.0, value)
        found = []
        for reach in golf.REACHES:
            landed = np.zeros_like(grid)
            for error in errors:  # the mean over errors, of the ball's place
                landed += np.interp(grid + reach * error, grid, kept) / len(errors)
            aims = grid[:, None] + reach * strengths
            found.append(np.interp(aims, grid, landed).max(axis=1))
        value = -1 + np.max(found, axis=0)
    starts = (np.abs(grid) >= 0.5) & (np.abs(grid) <= 1)
    return value[starts].mean()


def test_the_best_return_is_the_one_that_is_printed():
    assert best_return() == pytest.approx(golf.BEST_RETURN, abs=0.03)
    mean, error = play(shortest_club, 2000)
    assert mean == pytest.approx(-2.55, abs=4 * error)  # 1 + 0.2 + 0.75 * 1.8 strokes
    assert play(lambda d: np.array([0, -d]), 300)[0] < -10


def test_it_is_a_hybrid_environment():
    environment = golf.make(seed=1)
    spec = EnvironmentSpec.of(environment)
    assert spec.is_hybrid and actions_of(spec) == "hybrid actions of 2 elements"
    assert environment.action_spec() == HybridArray((3, 0))
    same = pickle.loads(pickle.dumps(environment.action_spec()))
    assert same == environment.action_spec() and same.choices == (3, 0)
    environment.reset()
    for _ in range(golf.MOST_STROKES):
        timestep = environment.step(np.array([2, 1], np.float32))
    assert timestep.last() and timestep.discount == 1  # a time limit


@pytest.mark.parametrize("choices", [(), (3, 2), (0, 0), (3, -1)])
def test_a_hybrid_spec_has_elements_of_both_kinds(choices):
    with pytest.raises(ValueError, match="^choices must contain 0 and numbers"):
        HybridArray(choices)


def test_proposals_that_allow_it():
    spec = EnvironmentSpec(3, 2, action_choices=(3, 0))
    observation = np.zeros((4, 3), np.float32)
    for name in ("aql", "aql_gaussian", "aql_independent", "uniform_q", "exact_q", "impala"):
        config = SETTINGS.configuration(name)
        AGENT.require_spec(config, spec)
        actor = AQL(config, name).make_actor(spec, range(4), 4, seed=0)
        action, _, _ = actor(observation, actor.initial_state(4))
        assert action.shape == (4, 2) and set(action[:, 0]) <= {0, 1, 2}
        assert np.all(np.abs(action[:, 1]) <= 1)
        if name == "aql_gaussian":  # the second is no level
            assert not set(action[:, 1]) <= {-1, -0.5, 0, 0.5, 1}
    for name in ("qt_opt", "d3pg"):
        message = "has hybrid actions of 2 elements, but this setting needs continuous actions"
        with pytest.raises(ValueError, match=message):
            AGENT.require_spec(SETTINGS.configuration(name), spec)
