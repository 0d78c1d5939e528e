"""Verdicts follow the runs: planted ones that say the opposite turn them."""

import dataclasses
import json
import shutil

from planted_curves import plant_run
import pytest

from common.experiments.claims import Basis, Evidence, Verdict
from common.experiments.comparison import Comparison, Expected, nothing
from common.experiments.paper import RESULTS
from common.experiments.runs import KeptRuns
from common.experiments.shares import EACH, MANY, MOST, SOME
from common.reporting import reported
from common.reporting.budget import Budget
from common.reporting.reported import Reported
from common.reporting.user_error import UserError
import reproductions
from reproductions.d4pg import settings
from reproductions.d4pg.experiments import CONTROL_SUITE

CARTPOLE, FINGER = "control:cartpole:swingup", "control:finger:turn_hard"
FULL = "d4pg_prioritized_n5"
SOAK = "soak_apex_dqn.json"


@pytest.fixture(name="evidence")
def _evidence(tmp_path):
    """Of planted runs, and of this repository's benchmarks and reported numbers."""
    return Evidence(KeptRuns(tmp_path), None, Reported(), RESULTS / "benchmarks")


def judge(paper, name, evidence):
    (claim,) = [claim for claim in reproductions.claims(paper) if claim.name == name]
    return claim.judge(reproductions.paper(paper), evidence)


def plant(root, setting, task, levels, rise=0.0, start=0.0, **kwargs):
    """A run a level: from `start` on nine evaluations at it, the last third higher by `rise`."""
    for seed, level in enumerate(levels):
        plant_run(root, setting, task, seed, [start] + [level] * 6 + [level + rise] * 3, **kwargs)


def again(evidence, **changes):
    """The evidence of the same folder, read anew."""
    changes = {"kept": KeptRuns(evidence.kept.root)} | changes
    return dataclasses.replace(evidence, **changes)


@pytest.mark.parametrize(
    "levels, verdict",
    [((400, 420), Verdict.HOLDS), ((990, 1000), Verdict.FAILS), ((790, 830), Verdict.OPEN)],
)
def test_a_claim_turns_with_its_runs(tmp_path, evidence, levels, verdict):
    plant(tmp_path, FULL, FINGER, (800, 820, 810))
    plant(tmp_path, "ddpg", FINGER, levels)
    finding = judge("d4pg", "distributed", evidence)
    assert finding.verdict is verdict
    assert "Scale two_cores, 5 minutes a run: 1 of 15 tasks" in finding.evidence
    assert "finger turn hard 810 (3 seeds)" in finding.evidence


def test_all_pairs_must_hold_and_one_that_does_not_is_enough(tmp_path, evidence):
    plant(tmp_path, "d3pg_uniform_n1", FINGER, (300, 310))
    plant(tmp_path, FULL, FINGER, (600, 610))
    others = [setting for setting in settings.FIGURE_2 if setting not in ("d3pg_uniform_n1", FULL)]
    finding = judge("d4pg", "full_best", evidence)
    assert finding.verdict is Verdict.OPEN and "1 of 8 pairs" in finding.evidence
    for setting in others:
        plant(tmp_path, setting, FINGER, (300, 310))
    assert judge("d4pg", "full_best", again(evidence)).verdict is Verdict.HOLDS
    shutil.rmtree(tmp_path / "d4pg/two_cores" / others[0])
    plant(tmp_path, others[0], FINGER, (900, 905))
    finding = judge("d4pg", "full_best", again(evidence))
    assert finding.verdict is Verdict.FAILS and "8 of 8 pairs" in finding.evidence


def test_several_pairs_are_corrected_for_being_several(tmp_path, evidence):
    experiment = reproductions.paper("d4pg").experiment("figure 2")
    plant(tmp_path, FULL, FINGER, (600, 640))
    plant(tmp_path, "ddpg", FINGER, (400, 440))  # p = 0.02 alone
    others = [setting for setting in settings.FIGURE_2 if setting not in ("ddpg", FULL)]
    for setting in others:
        plant(tmp_path, setting, FINGER, (400, 440))

    def find(names):
        test = Comparison(tuple((FULL, name) for name in names))
        return test.find(reproductions.paper("d4pg"), experiment, evidence)

    assert find(["ddpg"]).verdict is Verdict.HOLDS
    several = find(["ddpg", *others])
    assert several.verdict is Verdict.OPEN and "after Holm" in several.evidence


def test_only_the_claims_own_tasks_count(tmp_path, evidence):
    plant(tmp_path, FULL, CARTPOLE, (600, 610))
    plant(tmp_path, "ddpg", CARTPOLE, (300, 310))
    finding = judge("d4pg", "distributed", evidence)
    assert finding.verdict is Verdict.OPEN and "No runs" in finding.evidence


TASKS = CONTROL_SUITE[:4]


@pytest.mark.parametrize(
    "share, better, worse, verdict",
    [
        (EACH, 4, 0, Verdict.HOLDS),
        (EACH, 3, 1, Verdict.FAILS),
        (EACH, 3, 0, Verdict.OPEN),
        (MOST, 3, 1, Verdict.HOLDS),
        (MOST, 2, 1, Verdict.OPEN),
        (MOST, 2, 2, Verdict.FAILS),
        (MANY, 2, 2, Verdict.HOLDS),
        (MANY, 1, 2, Verdict.OPEN),
        (MANY, 1, 3, Verdict.FAILS),
        (SOME, 1, 3, Verdict.HOLDS),
        (SOME, 0, 4, Verdict.FAILS),
        (None, 3, 1, Verdict.HOLDS),
    ],
)
def test_a_share_of_the_tasks_is_counted(tmp_path, evidence, share, better, worse, verdict):
    for number, task in enumerate(TASKS):
        level = 900 if number < better else 100 if number >= len(TASKS) - worse else 500
        plant(tmp_path, "a", task, (level, level + 4) if share else (5000, 5004))
        plant(tmp_path, "b", task, (500, 504))
    test = Comparison((("a", "b"),), environments=TASKS, share=share)
    paper = reproductions.paper("d4pg")
    finding = test.find(paper, paper.experiment("figure 2"), evidence)
    assert finding.verdict is verdict
    if share:
        assert f"holds on {better}, does not on {worse} of 4 tasks" in finding.evidence


@pytest.mark.parametrize(
    "expected, level, verdict",
    [
        (Expected.CLEARLY_AHEAD, 600, Verdict.HOLDS),
        (Expected.CLEARLY_AHEAD, 530, Verdict.FAILS),
        (Expected.CLEARLY_AHEAD, 400, Verdict.FAILS),
        (Expected.AHEAD, 530, Verdict.HOLDS),
        (Expected.SLIGHTLY_AHEAD, 530, Verdict.HOLDS),
        (Expected.SLIGHTLY_AHEAD, 700, Verdict.FAILS),
        (Expected.SLIGHTLY_AHEAD, 470, Verdict.FAILS),
        (Expected.NOT_BEHIND, 470, Verdict.HOLDS),
        (Expected.LEVEL, 600, Verdict.FAILS),
    ],
)
def test_how_far_ahead(tmp_path, evidence, expected, level, verdict):
    plant(tmp_path, "a", FINGER, (level, level + 1))
    plant(tmp_path, "b", FINGER, (500, 501))
    paper = reproductions.paper("d4pg")
    test = Comparison((("a", "b"),), expected, environments=(FINGER,))
    assert test.find(paper, paper.experiment("figure 2"), evidence).verdict is verdict


@pytest.mark.parametrize("expected", list(Expected))
def test_two_that_do_not_learn_decide_nothing(tmp_path, evidence, expected):
    paper = reproductions.paper("d4pg")
    test = Comparison((("a", "b"),), expected, environments=(FINGER, CARTPOLE))
    for setting, level in (("a", 300), ("b", 100)):
        plant(tmp_path, setting, FINGER, (level, level + 1), start=level)
    finding = test.find(paper, paper.experiment("figure 2"), evidence)
    assert finding.verdict is Verdict.OPEN and "where neither learns" in finding.evidence
    # Beside a task that one of them learns they are left out of the mean.
    for setting, level in (("a", 530), ("b", 500)):
        plant(tmp_path, setting, CARTPOLE, (level, level + 1))
    finding = test.find(paper, paper.experiment("figure 2"), again(evidence))
    assert "a - b = +30 " in finding.evidence and "1 of 2 tasks" in finding.evidence


@pytest.mark.parametrize(
    "others, rise, verdict",
    [
        ((840, 842), 0, Verdict.HOLDS),
        ((500, 502), 0, Verdict.FAILS),
        ((500, 502), 200, Verdict.OPEN),
        ((700, 900), 0, Verdict.OPEN),
    ],
)
def test_failing_needs_runs_that_have_levelled_off(tmp_path, evidence, others, rise, verdict):
    for n in (1, 5):
        plant(tmp_path, f"d4pg_prioritized_n{n}", CARTPOLE, (850, 851))
        plant(tmp_path, f"d4pg_uniform_n{n}", CARTPOLE, others, rise)
    finding = judge("d4pg", "priority_d4pg", evidence)
    assert finding.verdict is verdict
    assert ("still learning" in finding.evidence) == bool(rise)


def test_no_method_is_as_good_as_another_before_it_has_learnt(tmp_path, evidence):
    for n in (1, 5):
        for replay in ("uniform", "prioritized"):
            plant(tmp_path, f"d4pg_{replay}_n{n}", CARTPOLE, (60, 61), rise=60)
    finding = judge("d4pg", "priority_d4pg", evidence)
    assert finding.verdict is Verdict.OPEN and "still learning" in finding.evidence


@pytest.mark.parametrize("ours, verdict", [(600, Verdict.HOLDS), (100, Verdict.OPEN)])
def test_a_lead_may_hold_early_and_fails_late(tmp_path, evidence, ours, verdict):
    plant(tmp_path, FULL, FINGER, (ours, ours + 1), rise=60)
    plant(tmp_path, "ddpg", FINGER, (300, 301), rise=60)
    assert judge("d4pg", "distributed", evidence).verdict is verdict


def test_runs_that_end_milliseconds_apart_keep_their_last_evaluation(tmp_path, evidence):
    for seed in range(2):
        plant_run(
            tmp_path,
            FULL,
            FINGER,
            seed,
            [0.0, 100, 100, 800 + seed],
            seconds=300.07,
            budget=Budget(minutes=5),
        )
    plant(tmp_path, "ddpg", FINGER, (300, 301), budget=Budget(minutes=5))
    finding = judge("d4pg", "distributed", evidence)
    assert "finger turn hard 450.2 (2 seeds) - 300.5 (2 seeds)" in finding.evidence


def test_at_the_papers_scale_a_longer_run_counts_up_to_the_end(tmp_path, evidence):
    task = "atari:seaquest"
    for setting, minutes, levels in (
        ("dqn", 7200, [0] + [9000] * 4 + [20_000] * 15),
        ("dqn_lr3.125e-05", 2100, [0] + [9000] * 9),
    ):
        for seed in range(2):
            plant_run(
                tmp_path,
                setting,
                task,
                seed,
                [level + seed for level in levels],
                paper="apex",
                scale="paper",
                seconds=60 * minutes,
                budget=Budget(minutes),
            )
    finding = judge("apex", "learning_rate", evidence)
    assert finding.verdict is Verdict.HOLDS and "35 hours a run: 1 of 6 tasks" in finding.evidence


def test_instability_is_the_largest_fall(tmp_path, evidence):
    task = "control:cheetah:walk"
    for seed in range(2):
        for setting in settings.FIGURE_2:
            low = 200 if setting.endswith("n1") else 880
            plant_run(tmp_path, setting, task, seed, [100, 900, low + seed, 900, 900])
    assert judge("d4pg", "n_1_unstable", evidence).verdict is Verdict.HOLDS


def test_methods_are_compared_at_the_time_that_all_reach(tmp_path, evidence):
    # What was evaluated for longer is ahead in the end only.
    budget = Budget(minutes=10)
    for seed in range(2):
        plant_run(
            tmp_path,
            FULL,
            FINGER,
            seed,
            [0] + [100 + seed] * 9 + [900] * 10,
            seconds=600,
            budget=budget,
        )
    plant(tmp_path, "ddpg", FINGER, (300, 301), budget=budget)
    finding = judge("d4pg", "distributed", evidence)
    assert finding.verdict is Verdict.FAILS and "after 5 minutes" in finding.evidence


def test_budgets_do_not_mix(tmp_path, evidence):
    plant(tmp_path, FULL, FINGER, (800, 820))
    plant(tmp_path, "ddpg", FINGER, (400, 410), seconds=600)
    finding = judge("d4pg", "distributed", evidence)
    assert finding.verdict is Verdict.OPEN and "Runs of different budgets" in finding.evidence
    assert finding.evidence.endswith("2 runs of other budgets are left out.")
    # Other tasks with another budget stay out of the mean as well.
    plant(tmp_path, FULL, CARTPOLE, (300, 310))
    plant(tmp_path, "d3pg_uniform_n5", CARTPOLE, (200, 210))
    plant(tmp_path, FULL, "control:fish:swim", (300, 310), seconds=600)
    plant(tmp_path, "d3pg_uniform_n5", "control:fish:swim", (400, 410), seconds=600)
    finding = judge("d4pg", "full_best", again(evidence))
    assert finding.verdict is Verdict.FAILS
    assert "fish swim" in finding.evidence and "cartpole" not in finding.evidence
    assert "Scale two_cores, 10 minutes a run" in finding.evidence


@pytest.mark.parametrize(
    "kwargs, words",
    [
        ({"outcome": None}, "No runs: python -m binaries.experiment --paper=d4pg --figure=2."),
        ({}, "too few seeds: two of each are needed"),
    ],
)
def test_killed_runs_and_single_seeds_decide_nothing(tmp_path, evidence, kwargs, words):
    plant(tmp_path, FULL, FINGER, (800, 820))
    plant(tmp_path, "ddpg", FINGER, (400,), **kwargs)
    finding = judge("d4pg", "distributed", evidence)
    assert finding.verdict is Verdict.OPEN and words in finding.evidence


def test_scales_do_not_mix_and_the_nearest_with_enough_seeds_counts(tmp_path, evidence):
    plant(tmp_path, FULL, FINGER, (800, 820))
    plant(tmp_path, "ddpg", FINGER, (400, 410), scale="quickstart")
    assert judge("d4pg", "distributed", evidence).verdict is Verdict.OPEN
    plant(tmp_path, FULL, FINGER, (300, 310), scale="quickstart")
    plant(tmp_path, "ddpg", FINGER, (200,), scale="workstation")
    finding = judge("d4pg", "distributed", again(evidence))
    assert finding.verdict is Verdict.FAILS and "Scale quickstart" in finding.evidence
    assert judge("d4pg", "distributed", again(evidence, scale="two_cores")).verdict is Verdict.OPEN


def test_smoke_runs_decide_only_if_they_are_asked(tmp_path, evidence):
    plant(tmp_path, FULL, FINGER, (800, 820), scale="smoke")
    plant(tmp_path, "ddpg", FINGER, (400, 410), scale="smoke")
    finding = judge("d4pg", "distributed", evidence)
    assert finding.verdict is Verdict.OPEN and "No runs" in finding.evidence
    finding = judge("d4pg", "distributed", again(evidence, scale="smoke"))
    assert finding.verdict is Verdict.HOLDS
    assert "Scale smoke (shows that it works: no evidence)" in finding.evidence


def test_without_runs_all_that_are_needed_are_named(evidence):
    finding = judge("d4pg", "n_step", evidence)
    assert finding.evidence == "No runs: python -m binaries.experiment --paper=d4pg --figure=2."
    paper = reproductions.paper("d4pg")
    words = nothing(paper, paper.experiment("section 4"), [f"{FULL}_ou", "ddpg"])
    assert "--section=4; python" in words and words.endswith("--figure=2.")


def test_atari_is_compared_in_percent_of_a_human(tmp_path, evidence):
    # Pong goes from -20.7 (random) to 14.6 (human): 3.53 points are 10 %.
    experiment = dataclasses.replace(reproductions.paper("apex").experiment("figure 2"), runs=())
    for setting, level in (("dqn", 14.6), ("other", 11.07)):
        plant(tmp_path, setting, "atari:pong", (level, level), paper="apex", frames_per_step=4)
    test = Comparison((("dqn", "other"),), environments=("atari:pong",))
    finding = test.find(reproductions.paper("apex"), experiment, evidence)
    assert "dqn - other = +10 % of a human" in finding.evidence
    # Where the human has twice as far to go, a point is half as much.
    shutil.copytree(reported.DIRECTORY, tmp_path / "reported")
    file = tmp_path / "reported/atari_scores.csv"
    assert "pong,-20.7,14.6" in file.read_text()
    file.write_text(file.read_text().replace("pong,-20.7,14.6", "pong,-20.7,49.9"))
    numbers = Reported(tmp_path / "reported")
    finding = test.find(reproductions.paper("apex"), experiment, again(evidence, reported=numbers))
    assert "dqn - other = +5 % of a human" in finding.evidence


def test_elsewhere_in_percent_of_the_larger_value(tmp_path, evidence):
    paper, task = reproductions.paper("refer"), "gym:Ant-v4"
    for setting, level in (("a", 4000.0), ("b", 3000.0)):
        for seed in range(2):
            plant_run(
                tmp_path,
                setting,
                task,
                seed,
                [0.0] * 10,
                paper="refer",
                steps=10_000,
                num_actors=1,
                episodes=[(30.0 * i, 0, level * (i > 1)) for i in range(1, 11)],
            )
    test = Comparison((("a", "b"),), Expected.NOT_BEHIND, (task,))
    finding = test.find(paper, paper.experiment("figure 1"), evidence)
    assert finding.verdict is Verdict.HOLDS and "a - b = +25 %" in finding.evidence


@pytest.mark.parametrize(
    "paper, name, change, turned",
    [
        (
            "apex",
            "median",
            ("table 2,alien,No-op starts,40804.9", "table 2,alien,No-op starts,1"),
            Verdict.FAILS,
        ),
        (
            "reactor",
            "medians",
            ("table 2,Duel,Normalized scores,1.51", "table 2,Duel,Normalized scores,1.52"),
            Verdict.FAILS,
        ),
        (
            "reactor",
            "ranks",
            ("table 2,Duel,Mean rank,5.19", "table 2,Duel,Mean rank,5.99"),
            Verdict.FAILS,
        ),
        ("reactor", "elo", ("table 2,Random,Elo,-673", "table 2,Random,Elo,-685"), Verdict.HOLDS),
        (
            "reactor",
            "no_op",
            ("table 2,ACER 500m,Normalized scores,1.9", "table 2,ACER 500m,Normalized scores,1.8"),
            Verdict.HOLDS,
        ),
        (
            "d4pg",
            "observations",
            ("greatest observation dimensions,60", "greatest observation dimensions,67"),
            Verdict.FAILS,
        ),
        (
            "refer",
            "divergence_bound",
            ("Humanoid,greatest D_KL,850", "Humanoid,greatest D_KL,750"),
            Verdict.FAILS,
        ),
        (
            "aql",
            "action_set",
            ("large action set,actions,3528", "large action set,actions,3529"),
            Verdict.FAILS,
        ),
    ],
)
def test_rederived_claims_turn_with_the_tables(tmp_path, evidence, paper, name, change, turned):
    directory = tmp_path / "reported"
    shutil.copytree(reported.DIRECTORY, directory)
    before = judge(paper, name, evidence).verdict
    assert before is not Verdict.OPEN
    file = directory / f"{paper}.csv"
    assert change[0] in file.read_text()
    file.write_text(file.read_text().replace(*change))
    evidence = dataclasses.replace(evidence, reported=Reported(directory))
    after = judge(paper, name, evidence)
    assert after.verdict is turned and (before is not turned or name == "observations")


def test_the_soak_decides_what_appendix_f_promises(tmp_path, evidence):
    names = ("actors_fail", "replay_fails", "learner_waits", "learner_fails")
    assert [judge("apex", name, evidence).verdict for name in names] == [Verdict.HOLDS] * 4
    soak = json.loads((RESULTS / "benchmarks" / SOAK).read_text())
    soak["end"]["accepted_from_all_lives"] -= 1
    for kill in soak["kills"]:
        if kill["role"] != "actor":
            kill["note"] = "gone"
    (tmp_path / SOAK).write_text(json.dumps(soak))
    other = dataclasses.replace(evidence, benchmarks=tmp_path)
    assert [judge("apex", name, other).verdict for name in names] == [Verdict.FAILS] * 4
    soak = json.loads((RESULTS / "benchmarks" / SOAK).read_text())
    (tmp_path / SOAK).write_text(json.dumps({**soak, "wrong": ["files: one is torn"]}))
    for name in names:
        finding = judge("apex", name, other)
        assert finding.verdict is Verdict.FAILS and "went wrong: files: one" in finding.evidence


@pytest.mark.parametrize(
    "name, recovered, note, least, verdict",
    [
        ("replay_fails", 9.0, "28,100 items, 2,300 when learning went on", 2000, Verdict.HOLDS),
        ("replay_fails", 61.0, "28,100 items, 2,300 when learning went on", 2000, Verdict.FAILS),
        ("replay_fails", None, "28,100 items, 2,300 when learning went on", 2000, Verdict.FAILS),
        ("replay_fails", 9.0, "28,100 items, 28,100 when learning went on", 2000, Verdict.FAILS),
        ("learner_waits", 9.0, "28,100 items, 2,300 when learning went on", 2000, Verdict.HOLDS),
        ("learner_waits", 9.0, "28,100 items, 1,900 when learning went on", 2000, Verdict.FAILS),
        ("learner_waits", 9.0, "28,100 items, 2,300 when learning went on", None, Verdict.OPEN),
    ],
)
def test_a_replay_that_dies(tmp_path, evidence, name, recovered, note, least, verdict):
    (tmp_path / SOAK).write_text(
        json.dumps(
            {
                "kills": [{"role": "replay", "recovered": recovered, "note": note}],
                "end": {} if least is None else {"min_replay_size": least},
            }
        )
    )
    evidence = dataclasses.replace(evidence, benchmarks=tmp_path)
    assert judge("apex", name, evidence).verdict is verdict


def test_a_damaged_record_is_an_error(tmp_path, evidence):
    evidence = dataclasses.replace(evidence, benchmarks=tmp_path)
    finding = judge("apex", "actors_fail", evidence)
    assert finding.verdict is Verdict.OPEN and "No record" in finding.evidence
    soak = json.loads((RESULTS / "benchmarks" / SOAK).read_text())
    del soak["end"]["accepted_from_all_lives"]
    for text, words in (
        ('{"kills": [\n', f"{SOAK}:2: is not JSON"),
        (json.dumps(soak), f"{SOAK}: is no record of a soak .'accepted_from_all_lives'."),
    ):
        (tmp_path / SOAK).write_text(text)
        with pytest.raises(UserError, match=words):
            judge("apex", "actors_fail", evidence)


def test_a_missing_number_is_an_error(tmp_path, evidence):
    shutil.copytree(reported.DIRECTORY, tmp_path / "reported")
    file = tmp_path / "reported/reactor.csv"
    lines = file.read_text().splitlines(keepends=True)
    name = "reactor,table 1,Reactor 500m,Elo,"
    file.write_text("".join(line for line in lines if not line.startswith(name)))
    evidence = again(evidence, reported=Reported(tmp_path / "reported"))
    with pytest.raises(UserError, match="no number for Reactor 500m | Elo"):
        judge("reactor", "all_metrics_500m", evidence)
    assert judge("apex", "above_baselines", evidence).verdict is Verdict.HOLDS


@pytest.mark.parametrize("paper", reproductions.PAPERS)
def test_claims_are_about_experiments_that_there_are(paper):
    of = reproductions.paper(paper)
    claims = reproductions.claims(paper)
    assert len({claim.name for claim in claims}) == len(claims) >= 10
    for claim in claims:
        experiment = of.experiment(claim.experiment) if claim.experiment else None
        if isinstance(claim.test, Comparison):
            named = {setting for pair in claim.test.pairs for setting in pair}
            listed = {setting for one in of.experiments for setting in one.settings}
            assert named <= listed, claim.name
            assert set(claim.test.environments) <= set(experiment.environments), claim.name
        assert claim.test.rule and claim.text.endswith(".") and claim.source
        assert claim.test.basis in Basis


def test_no_verdict_of_runs_without_runs(evidence):
    for paper in reproductions.PAPERS:
        for claim in reproductions.claims(paper):
            if isinstance(claim.test, Comparison):
                finding = claim.judge(reproductions.paper(paper), evidence)
                assert finding.verdict is Verdict.OPEN
