"""Claims about medians over games and about speeds."""

import pytest

from common.experiments.atari_scores import MedianReached, final_scores
from common.experiments.claims import Evidence, Verdict
from common.experiments import registry
from common.experiments.registry import RESULTS, Returns
from common.experiments.reported_numbers import ReportedNumbers
from common.experiments.runs import KeptRuns
from common.experiments.scaling import Proportional
from common.reporting import reported
from planted_curves import plant_run

APEX = registry.paper("apex")
GAMES = APEX.experiment("table 2").environments
TEST = MedianReached("dqn", "table 1", "Ape-X DQN", "Median (no-op starts)")


@pytest.fixture(name="evidence")
def _evidence(tmp_path):
    return Evidence(KeptRuns(tmp_path, pytest.fail), None, ReportedNumbers(pytest.fail),
                    RESULTS / "benchmarks", pytest.fail)


def plant(root, games, factor):
    """A run a game whose human-normalised score is `factor`."""
    table = reported.atari_scores()
    for game in games:
        low, high = table.loc[game.removeprefix("atari:")]
        plant_run(root, "dqn", game, 0, [low + factor * (high - low)] * 2, paper="apex",
                  scale="paper", steps=1000, frames_per_step=4)


@pytest.mark.parametrize("factor, verdict", [(4.5, Verdict.HOLDS), (1.0, Verdict.FAILS)])
def test_the_median_turns_the_verdict(tmp_path, evidence, factor, verdict):
    plant(tmp_path, GAMES, factor)
    finding = TEST.find(APEX, APEX.experiment("table 1"), evidence)
    assert finding.verdict is verdict
    assert f"Our median is {100 * factor:.0f} %" in finding.evidence


def test_some_games_are_not_enough(tmp_path, evidence):
    plant(tmp_path, GAMES[:3], 9.0)
    finding = TEST.find(APEX, APEX.experiment("table 1"), evidence)
    assert finding.verdict is Verdict.OPEN and "3 of 57 games" in finding.evidence


def test_final_scores_are_means_over_seeds(tmp_path):
    for seed, score in enumerate((10.0, 20.0)):
        plant_run(tmp_path, "dqn", "atari:pong", seed, [0.0, score, score], paper="apex",
                  steps=1000, frames_per_step=4)
    runs = KeptRuns(tmp_path, pytest.fail).of("apex", "two_cores")
    frame = final_scores(runs, "dqn", Returns.EVALUATOR)
    assert frame.loc["pong"].tolist() == [15.0, 2, 4000]
    assert final_scores(runs, "other", Returns.EVALUATOR).empty


@pytest.mark.parametrize("power, verdict", [(1.0, Verdict.HOLDS), (0.5, Verdict.FAILS)])
def test_speed_in_proportion_to_the_actors(tmp_path, evidence, power, verdict):
    experiment = APEX.experiment("figure 13")
    sizes = dict(zip(experiment.settings, (8, 16, 32, 64, 128, 256)))
    for setting, actors in sizes.items():
        plant_run(tmp_path, setting, experiment.environments[0], 0, [1.0] * 3, paper="apex",
                  scale="paper", num_actors=actors, speed=30.0 * actors**power)
    finding = Proportional(sizes).find(APEX, experiment, evidence)
    assert finding.verdict is verdict and f"power {power:.2f}" in finding.evidence
