"""Claims about medians over games."""

import dataclasses

from planted_curves import plant_run, planting
import pytest

from common.evidence.atari_scores import final_scores, finals
from common.evidence.claims import Evidence, GameMedian
from common.evidence.effects import Verdict
from common.evidence.paper import RESULTS
from common.evidence.reported import Reported
from common.evidence.runs import KeptRuns
from common.reporting.budget import Budget
import reproductions

APEX = reproductions.paper("apex")
GAMES = APEX.experiment("table 2").environments
TEST = GameMedian("dqn", "table 1", "Ape-X DQN", "Median (no-op starts)", is_percent=True)


@pytest.fixture(name="evidence")
def _evidence(tmp_path):
    return Evidence(KeptRuns(tmp_path), None, Reported(), RESULTS / "benchmarks")


def plant(root, games, factors):
    """Runs whose human-normalised scores are `factors`, a seed each."""
    run = {"steps": 1000, "budget": Budget(minutes=5 * 24 * 60)}
    table = Reported().atari_scores()
    with planting(root, "apex", "paper") as plant_one:
        for game in games:
            low, high = table.loc[game.removeprefix("atari:")]
            for seed, factor in enumerate(factors):
                plant_one("dqn", game, seed, [low + factor * (high - low)] * 2, **run)


@pytest.mark.parametrize(
    "factors, verdict",
    [
        ((4.4, 4.5, 4.6), Verdict.HOLDS),
        ((0.9, 1.0, 1.1), Verdict.FAILS),
        ((2.0, 6.0, 4.0), Verdict.OPEN),
    ],
)
def test_the_median_turns_the_verdict(tmp_path, evidence, factors, verdict):
    plant(tmp_path, GAMES, factors)
    finding = TEST.find(APEX, APEX.experiment("table 1"), evidence)
    assert finding.verdict is verdict
    numbers = finding.numbers
    assert numbers["median %"] == pytest.approx(100 * sum(factors) / 3)
    assert numbers["median %, low"] < numbers["median %"] < numbers["median %, high"]
    assert numbers["reported %"] == 434 and numbers["games"] == 57


def test_one_seed_and_some_games_decide_no_median(tmp_path, evidence):
    plant(tmp_path, GAMES[:3], (9.0, 9.0))
    plant(tmp_path, GAMES[3:], (9.0,))
    finding = TEST.find(APEX, APEX.experiment("table 1"), evidence)
    assert finding.verdict is Verdict.OPEN
    assert finding.numbers == {"reported %": 434, "games": 57, "games with two runs": 3}
    assert finding.missing.missing == 3 * 57 - 60  # three seeds are planned


@pytest.mark.parametrize("paper", ["apex", "reactor"])
def test_the_planned_seeds_can_decide_a_median(paper):
    planned = reproductions.paper(paper)
    tables = (table for table in planned.of_kind("table") if table.ours and table.ours.is_of_runs)
    assert all(table.seeds_at("paper") >= 2 for table in tables)


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
