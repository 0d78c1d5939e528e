"""Claims about medians over games and about speeds."""

from planted_curves import plant_run
import pytest

from common.experiments.atari_scores import final_scores
from common.experiments.claims import Evidence, Verdict
from common.experiments.median_reached import MedianReached
from common.experiments.paper import RESULTS, Returns
from common.experiments.runs import KeptRuns
from common.experiments.scaling import ProportionalSpeed
from common.reporting.budget import Budget
from common.reporting.json_file import JsonError
from common.reporting.reported import Reported
import reproductions

APEX = reproductions.paper("apex")
GAMES = APEX.experiment("table 2").environments
TEST = MedianReached("dqn", "table 1", "Ape-X DQN", "Median (no-op starts)")


@pytest.fixture(name="evidence")
def _evidence(tmp_path):
    return Evidence(KeptRuns(tmp_path), None, Reported(), RESULTS / "benchmarks")


def plant(root, games, factors, days=5):
    """Runs whose human-normalised scores are `factors`, a seed each."""
    table = Reported().atari_scores()
    for game in games:
        low, high = table.loc[game.removeprefix("atari:")]
        for seed, factor in enumerate(factors):
            plant_run(
                root,
                "dqn",
                game,
                seed,
                [low + factor * (high - low)] * 2,
                paper="apex",
                scale="paper",
                steps=1000,
                frames_per_step=4,
                budget=Budget(minutes=days * 24 * 60),
            )


@pytest.mark.parametrize(
    "factors, days, verdict",
    [
        ((4.4, 4.6), 5, Verdict.HOLDS),
        ((0.9, 1.1), 5, Verdict.FAILS),
        ((4.4, 4.6), 1, Verdict.HOLDS),
        ((0.9, 1.1), 1, Verdict.OPEN),
    ],
)
def test_the_median_turns_the_verdict(tmp_path, evidence, factors, days, verdict):
    plant(tmp_path, GAMES, factors, days)
    finding = TEST.find(APEX, APEX.experiment("table 1"), evidence)
    assert finding.verdict is verdict
    assert f"Our median is {50 * sum(factors):.0f} %" in finding.evidence
    assert ("Not all runs had the paper's 5 days" in finding.evidence) == (
        factors[0] == 0.9 and days == 1
    )


def test_one_seed_decides_no_median(tmp_path, evidence):
    plant(tmp_path, GAMES, (4.5,))
    finding = TEST.find(APEX, APEX.experiment("table 1"), evidence)
    assert finding.verdict is Verdict.OPEN and "two seeds or more of 0" in finding.evidence


def test_some_games_are_not_enough(tmp_path, evidence):
    plant(tmp_path, GAMES[:3], (9.0, 9.0))
    finding = TEST.find(APEX, APEX.experiment("table 1"), evidence)
    assert finding.verdict is Verdict.OPEN and "3 of 57 games" in finding.evidence


def test_final_scores_are_means_over_seeds(tmp_path):
    for seed, score in enumerate((10.0, 20.0)):
        plant_run(
            tmp_path,
            "dqn",
            "atari:pong",
            seed,
            [0.0, score, score],
            paper="apex",
            steps=1000,
            frames_per_step=4,
        )
    runs = KeptRuns(tmp_path).of("apex", "two_cores")
    frame = final_scores(runs, ("dqn", "other"), Returns.EVALUATOR)
    pong = {"score": 15.0, "frames": 4000, "seeds": 2, "setting": "dqn"}
    assert frame.loc["pong"].to_dict() == pong
    assert final_scores(runs, ("other",), Returns.EVALUATOR).empty


def test_final_scores_are_of_the_best_setting_and_of_longer_evaluations(tmp_path):
    for setting, score in (("dqn", 10.0), ("other", 20.0)):
        plant_run(tmp_path, setting, "atari:pong", 0, [0.0, score, score], paper="apex")
    kept = KeptRuns(tmp_path)
    frame = final_scores(kept.of("apex", "two_cores"), ("dqn", "other"), Returns.EVALUATOR)
    assert tuple(frame.loc["pong", ["score", "setting"]]) == (20, "other")
    (worse, _) = kept.of("apex", "two_cores")
    (worse.path / "evaluation.json").write_text('{"episode_return_mean": 30.5}')
    frame = final_scores(kept.of("apex", "two_cores"), ("dqn", "other"), Returns.EVALUATOR)
    assert tuple(frame.loc["pong", ["score", "setting"]]) == (30.5, "dqn")
    (worse.path / "evaluation.json").write_text("[]")
    with pytest.raises(JsonError, match="evaluation.json: it is .., not an object"):
        final_scores(kept.of("apex", "two_cores"), ("dqn",), Returns.EVALUATOR)


@pytest.mark.parametrize(
    "power, cores, verdict",
    [(1.0, 2, Verdict.HOLDS), (0.5, 256, Verdict.FAILS), (0.5, 255, Verdict.OPEN)],
)
def test_speed_in_proportion_to_the_actors(tmp_path, evidence, power, cores, verdict):
    experiment = APEX.experiment("figure 13")
    sizes = dict(zip(experiment.settings, (8, 16, 32, 64, 128, 256)))
    for setting, actors in sizes.items():
        plant_run(
            tmp_path,
            setting,
            experiment.environments[0],
            0,
            [1.0] * 3,
            paper="apex",
            agent_setting="dqn_replay_1m",
            scale="paper",
            num_actors=actors,
            speed=30.0 * actors**power,
            cores=cores,
        )
    finding = ProportionalSpeed().find(APEX, experiment, evidence)
    assert finding.verdict is verdict and f"power {power:.2f}" in finding.evidence
    assert ("Up to 256 shared 255 cores" in finding.evidence) == (cores == 255)
