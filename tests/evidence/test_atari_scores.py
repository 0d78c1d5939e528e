"""Human-normalised scores, mean rank and Elo by hand and closed forms; final scores of runs."""

import dataclasses

import numpy as np
import pandas
from planted_curves import plant_run
import pytest

from common.evidence import atari_scores
from common.evidence.atari_scores import final_scores, finals
from common.evidence.reported import human_normalised
from common.evidence.runs import KeptRuns

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


def test_final_scores_are_means_over_seeds(tmp_path):
    run = {"paper": "apex", "steps": 1000}
    for seed, score in enumerate((10.0, 20.0)):
        plant_run(tmp_path, "dqn", "atari:pong", seed, [0.0, score, score], **run)
    runs = KeptRuns(tmp_path).of("apex", "two_cores")
    frame = final_scores(runs, ("dqn", "other"))
    pong = {"score": 15.0, "episodes": 10, "frames": 4000, "seeds": 2, "setting": "dqn"}
    assert pong.items() <= frame.loc["pong"].to_dict().items()
    assert final_scores(runs, ("other",)).empty


def test_final_scores_are_of_the_final_parameters_of_the_best_setting(tmp_path):
    plant_run(tmp_path, "dqn", "atari:pong", 0, [0.0, 30, 10], paper="apex")
    plant_run(tmp_path, "other", "atari:pong", 0, [0.0, 10, 20], paper="apex")
    frame = final_scores(KeptRuns(tmp_path).of("apex", "two_cores"), ("dqn", "other"))
    assert tuple(frame.loc["pong", ["score", "setting"]]) == (20, "other")


def test_a_run_whose_last_evaluation_was_cut_off_has_no_score(tmp_path):
    plant_run(tmp_path, "dqn", "atari:pong", 0, [0.0, 10, 20], paper="apex")
    (run,) = KeptRuns(tmp_path).of("apex", "two_cores")
    assert run.final_evaluation.episode_return_mean == 20
    cut = dataclasses.replace(run, evaluations=run.evaluations.iloc[:-1])
    killed = dataclasses.replace(run, starts=({"outcome": None},))
    assert cut.final_evaluation is killed.final_evaluation is None
    assert len(finals([run, cut, killed], ["dqn"])) == 1
