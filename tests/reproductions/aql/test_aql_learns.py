"""Learner and policy find the known optimum of a bandit that their samples do not contain."""

from bandit import learn, optimum, rewards
import numpy as np
import pytest

from reproductions.aql.actions import ActionSpace

LARGE = ActionSpace((5,) * 10)  # 9.8 million actions; 30 uniform ones match 4.6 of 10 at best


def test_aql_finds_the_best_of_ten_sub_actions():
    best = learn(LARGE, num_updates=350)
    np.testing.assert_array_equal(best, optimum(LARGE))


def test_uniform_samples_do_not():
    """What the proposal is for."""
    best = learn(LARGE, num_updates=200, search="uniform")
    assert rewards(LARGE, np.arange(2), best).max() <= 0.7


@pytest.mark.parametrize("autoregressive", [True, False])
def test_aql_learns_in_a_hybrid_space(autoregressive):
    """Of softmax and Gaussian sub-actions."""
    space = ActionSpace((4, 0, 3, 3, 0, 4))
    best = learn(space, num_updates=300, autoregressive=autoregressive)
    is_choice = np.array(space.choices) > 0
    np.testing.assert_array_equal(best[:, is_choice], optimum(space)[:, is_choice])
    np.testing.assert_allclose(best[:, ~is_choice], optimum(space)[:, ~is_choice], atol=0.3)


def test_d3pg_learns_what_is_best():
    """Actions within [-1, 1] and near its ends."""
    space = ActionSpace((0,) * 3)
    best = learn(space, num_updates=400, search="policy", num_levels=0)
    np.testing.assert_allclose(best, optimum(space), atol=0.3)
