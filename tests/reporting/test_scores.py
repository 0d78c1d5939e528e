"""Human-normalised scores and their summary by hand."""

import pandas
import pytest

from common.reporting import scores

TABLE = pandas.DataFrame(
    {"Random": [-20.0, 0.0, 100.0], "Human": [20.0, 10.0, 300.0], "agent": [0.0, 20.0, 100.0]},
    index=["pong", "breakout", "alien"],
)


def test_random_play_is_0_and_a_human_is_1():
    normalised = scores.human_normalised(TABLE, TABLE["Random"], TABLE["Human"])
    assert normalised["Random"].tolist() == [0, 0, 0]
    assert normalised["Human"].tolist() == [1, 1, 1]
    assert normalised["agent"].tolist() == [0.5, 2, 0]


def test_references_of_other_games_do_not_matter_but_missing_ones_do():
    one_game = TABLE.loc[["breakout"], ["agent"]]
    normalised = scores.human_normalised(one_game, TABLE["Random"], TABLE["Human"])
    assert normalised.to_dict() == {"agent": {"breakout": 2.0}}
    with pytest.raises(ValueError, match="no random or human score of breakout"):
        scores.human_normalised(one_game, TABLE["Random"].drop("breakout"), TABLE["Human"])


def test_summary():
    summary = scores.summary(TABLE)
    assert summary["games"].tolist() == [3, 3, 3]
    assert summary.loc["agent", ["median", "mean"]].tolist() == pytest.approx([0.5, 2.5 / 3])
    assert summary.loc["agent", "mean_rank"] == pytest.approx((2 + 1 + 3) / 3)
    assert summary.loc["Human", "elo"] == 0
    assert summary.loc["Human", "elo"] > summary.loc["agent", "elo"] > summary.loc["Random", "elo"]
    # On two games random play loses all, so that no finite Elo separates it from the others.
    summary = scores.summary(TABLE.head(2))
    assert summary["elo"].isna().all() and summary.loc["agent", "mean"] == 1.25
