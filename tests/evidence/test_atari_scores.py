"""Human-normalised scores, mean rank and Elo against counting by hand and closed forms."""

import numpy as np
import pandas
import pytest

from common.evidence import atari_scores
from common.evidence.reported import human_normalised

TABLE = pandas.DataFrame(
    {"Random": [-20.0, 0.0, 100.0], "Human": [20.0, 10.0, 300.0], "agent": [0.0, 20.0, 100.0]},
    index=["pong", "breakout", "alien"],
)


def test_random_play_is_0_and_a_human_is_1():
    references = TABLE.rename(columns=str.lower)
    normalised = TABLE.apply(human_normalised, references=references)
    assert normalised["Random"].tolist() == [0, 0, 0]
    assert normalised["Human"].tolist() == [1, 1, 1]
    assert normalised["agent"].tolist() == [0.5, 2, 0]
    assert human_normalised(20.0, references.loc["breakout"]) == 2.0


def test_summary():
    summary = atari_scores.summary(TABLE)
    assert summary["games"].tolist() == [3, 3, 3]
    assert summary.loc["agent", ["median", "mean"]].tolist() == pytest.approx([0.5, 2.5 / 3])
    assert summary.loc["agent", "mean_rank"] == pytest.approx((2 + 1 + 3) / 3)
    assert summary.loc["Human", "elo"] == 0
    assert summary.loc["Human", "elo"] > summary.loc["agent", "elo"] > summary.loc["Random", "elo"]
    # On two games random play loses all, so that no finite Elo separates it from the others.
    summary = atari_scores.summary(TABLE.head(2))
    assert summary["elo"].isna().all() and summary.loc["agent", "mean"] == 1.25


def test_mean_rank_and_wins_are_what_counting_gives():
    random = np.random.default_rng(0)
    scores = pandas.DataFrame(random.integers(0, 5, size=(30, 4)), columns=list("abcd"))
    ranks, won = atari_scores.mean_rank(scores), atari_scores.wins(scores)
    for agent in scores:
        at_least = sum(sum(scores[agent] <= scores[other]) for other in scores)
        assert ranks[agent] == pytest.approx(at_least / 30)
        for other in set(scores) - {agent}:
            better = sum(scores[agent] > scores[other]) + sum(scores[agent] == scores[other]) / 2
            assert won.loc[agent, other] == better


@pytest.mark.parametrize("wins, elo", [(10, 400.0), (1, 0.0), (1 / 10, -400.0)])
def test_odds_of_ten_are_400(wins, elo):
    names = ["human", "agent"]
    won = pandas.DataFrame([[0, 1], [wins, 0]], index=names, columns=names)
    scores = atari_scores.elo(won, "human")
    assert scores.tolist() == pytest.approx([0, elo], abs=0.01)


def test_elo_is_where_expected_wins_are_the_wins():
    random = np.random.default_rng(1)
    scores = pandas.DataFrame(random.normal(size=(40, 5)) + np.arange(5) / 2, columns=list("abcde"))
    won = atari_scores.wins(scores)
    elo = atari_scores.elo(won, "c").to_numpy()
    expected = 1 / (1 + 10 ** ((elo[np.newaxis, :] - elo[:, np.newaxis]) / 400))
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(40 * expected.sum(axis=1), won.sum(axis=1), atol=1e-4)
    assert elo[2] == 0


def test_who_never_wins_has_no_finite_elo():
    scores = pandas.DataFrame({"human": [1.0, 0.0], "agent": [0.0, 1.0], "random": [-1.0, -1.0]})
    assert atari_scores.elo(atari_scores.wins(scores), "human").isna().all()
