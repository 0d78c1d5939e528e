"""Verdicts follow the runs: planted ones that say the opposite turn them."""

import dataclasses
import json
import shutil

from planted_curves import plant_run
import pytest

from common.experiments.claims import Basis, Evidence, Verdict
from common.experiments.comparison import Comparison, Expected
from common.experiments.contrasts import gain_beyond, trend
from common.experiments.effects import Outcome
from common.experiments.lacking import lacking, planned_budget
from common.experiments.main_effects import MainEffects
from common.experiments.paper import RESULTS, Substitute
from common.experiments.runs import KeptRun, KeptRuns
from common.experiments.scales import Scale
from common.experiments.shares import EACH, MANY, MOST, SOME
from common.reporting import reported
from common.reporting.budget import Budget
from common.reporting.reported import Reported
from common.reporting.user_error import UserError
import reproductions
from reproductions.apex.experiments import SIX_GAMES
from reproductions.aql.experiments import SMALL_HIGH
from reproductions.d4pg import settings
from reproductions.d4pg.experiments import CONTROL_SUITE

CARTPOLE, FINGER = "control:cartpole:swingup", "control:finger:turn_hard"
FULL = "d4pg_prioritized_n5"
D4PG = reproductions.paper("d4pg")
FIGURE_2 = D4PG.experiment("figure 2")
TASKS = CONTROL_SUITE[:4]
SOAK = "soak_apex_dqn.json"


@pytest.fixture(name="evidence")
def _evidence(tmp_path):
    """Of planted runs, and of this repository's benchmarks and reported numbers."""
    return Evidence(KeptRuns(tmp_path), None, Reported(), RESULTS / "benchmarks")


def judge(paper, name, evidence):
    (claim,) = [claim for claim in reproductions.claims(paper) if claim.name == name]
    return claim.judge(reproductions.paper(paper), evidence)


STEPS = Budget(learner_steps=7500)
AT_SMALL = {"scale": "small", "budget": planned_budget(D4PG, FIGURE_2, "small")}


def plant(root, setting, tasks, level, *, spread=2.0, seeds=3, rise=0.0, start=0.0, **kwargs):
    """Runs of tasks around a level, which they have on nine evaluations after `start`.

    spread: between neighbouring seeds. rise: of the last third. By default they are limited in
    steps.
    """
    kwargs = {"budget": STEPS} | kwargs
    for task in [tasks] if isinstance(tasks, str) else tasks:
        for seed in range(seeds):
            own = level + spread * (seed - (seeds - 1) / 2)
            values = [start] + [own - rise] * 5 + [own] * 4
            plant_run(root, setting, task, seed, values, **kwargs)


def compare(evidence, test, paper=D4PG, experiment=FIGURE_2):
    return test.find(paper, experiment, evidence)


def of_tasks(*tasks, **kwargs):
    """A test of "a" against "b" on some tasks."""
    return Comparison((("a", "b"),), environments=tasks, **kwargs)


def again(evidence, **changes):
    """The evidence of the same folder, read anew."""
    changes = {"kept": KeptRuns(evidence.kept.root)} | changes
    return dataclasses.replace(evidence, **changes)


# Both ways


LEADS = [Expected.AHEAD, Expected.CLEARLY_AHEAD]


@pytest.mark.parametrize("expected", LEADS)
@pytest.mark.parametrize("share", [None, EACH])
@pytest.mark.parametrize("rises", [(0, 0), (200, 200), (200, 0)])
@pytest.mark.parametrize("size", [400, 30, 0])
def test_a_lead_fails_exactly_where_its_mirror_image_holds(
    tmp_path, evidence, expected, share, rises, size
):
    verdicts = []
    for first, second in (("b", "a"), ("a", "b")):
        root = tmp_path / first
        plant(root, first, TASKS[:2], 500 + size, rise=rises[0])
        plant(root, second, TASKS[:2], 500, rise=rises[1])
        kept = again(evidence, kept=KeptRuns(root))
        verdicts.append(compare(kept, of_tasks(*TASKS[:2], expected=expected, share=share)).verdict)
    is_lead = size >= (100 if expected is Expected.CLEARLY_AHEAD else 30)
    # That two are close says that there is no clear lead, but not while the lead changes.
    is_steady = rises[0] == rises[1]
    close = Verdict.FAILS if expected is Expected.CLEARLY_AHEAD and is_steady else Verdict.OPEN
    assert verdicts == ([Verdict.FAILS, Verdict.HOLDS] if is_lead else [close, close])


def test_ddpg_ahead_on_all_tasks_while_both_rise_fails_the_claim(tmp_path, evidence):
    tasks = [task for task in FIGURE_2.at("small").environments if task != CARTPOLE]
    plant(tmp_path, FULL, tasks, 300, rise=100, **AT_SMALL)
    plant(tmp_path, "ddpg", tasks, 700, rise=100, **AT_SMALL)
    finding = judge("d4pg", "distributed", again(evidence))
    assert finding.verdict is Verdict.FAILS and finding.coverage == "3 of 15 tasks, 3 seeds"
    (of_all,) = finding.effects
    assert of_all.effect.estimate == pytest.approx(-0.4)
    assert of_all.effect.outcome is Outcome.BEHIND and not of_all.effect.is_confirmed


@pytest.mark.parametrize(
    "expected, lead, changing, steady",
    [
        (Expected.CLEARLY_AHEAD, 100, Verdict.HOLDS, Verdict.HOLDS),
        (Expected.CLEARLY_AHEAD, 30, Verdict.OPEN, Verdict.FAILS),
        (Expected.CLEARLY_AHEAD, -30, Verdict.OPEN, Verdict.FAILS),
        (Expected.CLEARLY_AHEAD, -100, Verdict.FAILS, Verdict.FAILS),
        (Expected.AHEAD, 30, Verdict.HOLDS, Verdict.HOLDS),
        (Expected.AHEAD, -30, Verdict.FAILS, Verdict.FAILS),
        (Expected.SLIGHTLY_AHEAD, 30, Verdict.OPEN, Verdict.HOLDS),
        (Expected.SLIGHTLY_AHEAD, 200, Verdict.FAILS, Verdict.FAILS),
        (Expected.SLIGHTLY_AHEAD, -30, Verdict.OPEN, Verdict.FAILS),
        (Expected.SLIGHTLY_AHEAD, -200, Verdict.FAILS, Verdict.FAILS),
        (Expected.LEVEL, 30, Verdict.OPEN, Verdict.HOLDS),
        (Expected.LEVEL, -30, Verdict.OPEN, Verdict.HOLDS),
        (Expected.LEVEL, 100, Verdict.FAILS, Verdict.FAILS),
        (Expected.LEVEL, -100, Verdict.FAILS, Verdict.FAILS),
        (Expected.NOT_BEHIND, 100, Verdict.HOLDS, Verdict.HOLDS),
        (Expected.NOT_BEHIND, -30, Verdict.OPEN, Verdict.HOLDS),
        (Expected.NOT_BEHIND, -100, Verdict.FAILS, Verdict.FAILS),
    ],
)
def test_how_far_ahead(tmp_path, evidence, expected, lead, changing, steady):
    rises = ((200, 0), changing), ((0, 200), changing), ((200, 200), steady), ((0, 0), steady)
    for (own, other), verdict in rises:
        root = tmp_path / f"{own}_{other}"
        plant(root, "a", FINGER, 500 + lead, rise=own)
        plant(root, "b", FINGER, 500, rise=other)
        kept = again(evidence, kept=KeptRuns(root))
        assert compare(kept, of_tasks(FINGER, expected=expected)).verdict is verdict


@pytest.mark.parametrize("expected", list(Expected))
@pytest.mark.parametrize("share", [None, EACH, SOME])
def test_tasks_that_neither_learns_are_no_evidence(tmp_path, evidence, expected, share):
    for setting, level in (("a", 300), ("b", 100)):
        plant(tmp_path, setting, TASKS, level, start=level)
    finding = compare(evidence, of_tasks(*TASKS, expected=expected, share=share))
    assert finding.verdict is Verdict.OPEN and "on half of the tasks or more" in finding.evidence
    assert "on 4 none learns, which is no evidence" in finding.coverage


def test_a_task_that_neither_learns_counts_as_neither_held_nor_failed(tmp_path, evidence):
    *others, last = TASKS
    for setting, level in (("a", 600), ("b", 500)):
        plant(tmp_path, setting, others, level)
        plant(tmp_path, setting, last, 9)
    finding = compare(evidence, of_tasks(*TASKS))
    assert finding.verdict is Verdict.HOLDS and "a - b +1e+02" not in finding.evidence
    assert finding.numbers.startswith("a - b +100 ")
    assert finding.coverage == "4 of 4 tasks together; on 1 none learns, which is no evidence"
    for share, verdict in ((EACH, Verdict.OPEN), (MOST, Verdict.HOLDS)):
        finding = compare(evidence, of_tasks(*TASKS, share=share))
        assert finding.verdict is verdict
        assert finding.coverage.startswith("holds on 3 of 4 tasks; on 1 none learns")
    reverse = Comparison((("b", "a"),), environments=TASKS, share=EACH)
    assert compare(evidence, reverse).verdict is Verdict.FAILS


# The tasks are fixed in advance


@pytest.mark.parametrize("level", [980, 500], ids=["solved", "tie"])
@pytest.mark.parametrize("pair", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("expected", LEADS)
def test_another_task_does_not_undo_a_verdict(tmp_path, evidence, level, pair, expected):
    few, test = TASKS[:2], Comparison((pair,), expected)
    for setting, own in (("a", 700), ("b", 500)):
        plant(tmp_path, setting, few, own, spread=20)
    verdict = Verdict.HOLDS if pair == ("a", "b") else Verdict.FAILS
    own = dataclasses.replace(test, environments=few)
    assert compare(evidence, own).verdict is verdict
    for setting in "ab":  # both are at the level
        plant(tmp_path, setting, TASKS[2:], level, spread=20)
    own = dataclasses.replace(test, environments=TASKS)
    assert compare(again(evidence), own).verdict is verdict


@pytest.mark.parametrize("level", [980, 500])
def test_solved_tasks_leave_no_room_for_a_clear_lead(tmp_path, evidence, level):
    for setting, own in (("a", 600), ("b", 520)):
        plant(tmp_path, setting, TASKS[:2], own)
        plant(tmp_path, setting, TASKS[2:], level)
    finding = compare(evidence, of_tasks(*TASKS, expected=Expected.CLEARLY_AHEAD))
    is_solved = level == 980
    assert finding.verdict is (Verdict.HOLDS if is_solved else Verdict.FAILS)
    assert finding.numbers.startswith("a - b +80 " if is_solved else "a - b +40 ")
    assert ("on 2 all are at the maximum" in finding.coverage) == is_solved


def test_tasks_are_not_drawn(tmp_path, evidence):
    # Of four tasks, three are ties: a bootstrap over tasks could draw those alone.
    plant(tmp_path, "b", TASKS, 500)
    plant(tmp_path, "a", TASKS[0], 900)
    plant(tmp_path, "a", TASKS[1:], 500)
    finding = compare(evidence, of_tasks(*TASKS))
    assert finding.verdict is Verdict.HOLDS and finding.numbers.startswith("a - b +100 ")


@pytest.mark.parametrize("lead", [400, -400])
def test_across_all_tasks_needs_all_tasks_both_ways(tmp_path, evidence, lead):
    *most, last = TASKS
    verdict = Verdict.HOLDS if lead > 0 else Verdict.FAILS
    for setting, level in (("a", 500 + lead), ("b", 500)):
        plant(tmp_path, setting, most, level)
        plant(tmp_path, setting, last, level, seeds=2)
    finding = compare(evidence, of_tasks(*TASKS))
    assert finding.verdict is Verdict.OPEN
    assert "3 of 4 comparisons have the 3 seeds" in finding.evidence
    assert finding.coverage == "3 of 4 tasks together" and "2 of 3 seeds" in finding.evidence
    # One task is enough where each must hold and it does not.
    each = compare(evidence, of_tasks(*TASKS, share=EACH))
    assert each.verdict is (Verdict.OPEN if lead > 0 else Verdict.FAILS)
    for setting, level in (("a", 500 + lead), ("b", 500)):
        shutil.rmtree(tmp_path / "d4pg/two_cores" / setting / last.replace(":", "-"))
        plant(tmp_path, setting, last, level)
    finding = compare(again(evidence), of_tasks(*TASKS))
    assert finding.verdict is verdict and finding.coverage == "4 of 4 tasks together"
    finding = compare(again(evidence), of_tasks(*TASKS, share=EACH))
    assert finding.verdict is verdict


def test_one_task_of_fifteen_decides_nothing(tmp_path, evidence):
    plant(tmp_path, FULL, FINGER, 800)
    plant(tmp_path, "ddpg", FINGER, 400)
    tasks = [task for task in CONTROL_SUITE if task != CARTPOLE]
    finding = compare(evidence, Comparison(((FULL, "ddpg"),), environments=tuple(tasks)))
    assert finding.verdict is Verdict.OPEN and finding.coverage == "1 of 15 tasks together"
    assert "1 of 15 comparisons have the 3 seeds of each method" in finding.evidence


SMALL_2 = dataclasses.replace(
    FIGURE_2,
    substitutes={
        "small": Substitute(
            tuple(run for run in FIGURE_2.runs if run.environment in (FINGER, TASKS[3])),
            budget=Budget(learner_steps=7500),
            seeds=5,
        )
    },
)
WITH_SMALL = dataclasses.replace(
    D4PG,
    experiments=(SMALL_2,),
    scales=(*D4PG.scales, Scale("small", "a scale model", Budget(learner_steps=100))),
)


def test_at_small_the_tasks_and_seeds_are_the_substitutes(tmp_path, evidence):
    tasks = SMALL_2.at("small").environments
    run = {"scale": "small", "budget": Budget(learner_steps=7500)}
    for setting, level in (("a", 600), ("b", 500)):
        plant(tmp_path, setting, tasks, level, seeds=4, **run)
    test = Comparison((("a", "b"),), environments=CONTROL_SUITE[1:], share=EACH)
    finding = compare(evidence, test, experiment=SMALL_2)
    assert finding.verdict is Verdict.OPEN and "4 of 5 seeds" in finding.evidence
    for setting, level in (("a", 600), ("b", 500)):
        for task in tasks:
            plant_run(tmp_path, setting, task, 4, [0] + [level] * 9, **run)
    finding = compare(again(evidence), test, experiment=SMALL_2)
    assert finding.words == "holds at the scale small"
    assert finding.coverage == "holds on 2 of 2 tasks, of 15 that the claim names"
    assert "At the scale small, 5 seeds after 7,500 learner steps" in finding.evidence
    # A claim whose tasks are not among them has nothing to compare there.
    none = compare(again(evidence), of_tasks(CARTPOLE), experiment=SMALL_2)
    assert none.verdict is Verdict.OPEN and none.coverage == ""


def test_fields_are_replaced_at_a_scale(tmp_path, evidence):
    run = {"scale": "small", "budget": Budget(learner_steps=7500)}
    for setting, level in (("a", 600), ("c", 500)):
        plant(tmp_path, setting, FINGER, level, seeds=5, **run)
    at = {"small": {"pairs": (("a", "c"),), "environments": (FINGER,)}}
    test = Comparison((("a", "b"),), environments=(CARTPOLE,), at=at)
    finding = compare(evidence, test, experiment=SMALL_2)
    assert finding.verdict is Verdict.HOLDS and "a - c +100" in finding.evidence
    assert test.at_scale("paper") == Comparison((("a", "b"),), environments=(CARTPOLE,))


# Several pairs and tasks


def test_all_pairs_must_hold_and_one_that_does_not_is_enough(tmp_path, evidence):
    few, others = TASKS[:2], ("b", "c", "d")
    test = Comparison(tuple(("a", name) for name in others), environments=few)
    plant(tmp_path, "a", few, 600)
    plant(tmp_path, "b", few, 300)
    finding = compare(evidence, test)
    assert finding.verdict is Verdict.OPEN and "1 of 3 pairs" in finding.coverage
    for setting in ("c", "d"):
        plant(tmp_path, setting, few, 300)
    finding = compare(again(evidence), test)
    assert finding.words == "holds at the scale two_cores"
    assert finding.coverage == "2 of 2 tasks together"
    for setting in ("c", "d"):
        shutil.rmtree(tmp_path / "d4pg/two_cores" / setting)
    plant(tmp_path, "c", few, 900)
    finding = compare(again(evidence), test)
    assert finding.verdict is Verdict.FAILS and "2 of 3 pairs" in finding.coverage


@pytest.mark.parametrize("num", [1, 8])
def test_all_pairs_are_an_intersection_and_one_of_several_is_not(tmp_path, evidence, num):
    """Each pair at 95 % is enough to hold; to fail by one of eight needs more than that."""

    def judged(spread, lead):
        root = tmp_path / f"{spread}_{lead}"
        plant(root, "a", FINGER, 500 + lead, spread=spread, seeds=5)
        names = [f"b{number}" for number in range(num)]
        for name in names:
            plant(root, name, FINGER, 500, spread=spread, seeds=5)
        test = Comparison(tuple(("a", name) for name in names), environments=(FINGER,))
        return compare(again(evidence, kept=KeptRuns(root)), test).verdict

    # p = 0.019 and 0.0002 alone.
    assert judged(50, 150) is Verdict.HOLDS
    assert judged(50, -150) is (Verdict.FAILS if num == 1 else Verdict.OPEN)
    assert judged(20, -150) is Verdict.FAILS


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
    ],
)
def test_a_share_of_the_tasks_is_counted(tmp_path, evidence, share, better, worse, verdict):
    for number, task in enumerate(TASKS):
        level = 900 if number < better else 100 if number >= len(TASKS) - worse else 500
        plant(tmp_path, "a", task, level)
        plant(tmp_path, "b", task, 500)
    finding = compare(evidence, of_tasks(*TASKS, share=share))
    assert finding.verdict is verdict
    fails = f", does not on {worse}" if worse else ""
    assert finding.coverage == f"holds on {better} of 4 tasks{fails}"
    mirrored = Comparison((("b", "a"),), environments=TASKS, share=share)
    assert compare(evidence, mirrored).coverage.startswith(f"holds on {worse} of 4 tasks")


def test_on_one_of_many_tasks_chance_is_corrected_for(tmp_path, evidence):
    tasks = CONTROL_SUITE[:8]
    plant(tmp_path, "b", tasks, 500, spread=50, seeds=5)
    plant(tmp_path, "a", tasks[0], 650, spread=50, seeds=5)
    plant(tmp_path, "a", tasks[1:], 500, spread=50, seeds=5)
    finding = compare(evidence, of_tasks(*tasks, share=SOME))
    assert finding.verdict is Verdict.OPEN and finding.coverage == "holds on 1 of 8 tasks"
    assert compare(evidence, of_tasks(tasks[0], share=SOME)).verdict is Verdict.HOLDS


def test_on_a_task_all_pairs_must_hold(tmp_path, evidence):
    for number, task in enumerate(TASKS):
        plant(tmp_path, "a", task, 500)
        plant(tmp_path, "b", task, 300 if number < 3 else 700)
        plant(tmp_path, "c", task, 300 if number > 0 else 700)
    test = Comparison((("a", "b"), ("a", "c")), environments=TASKS, share=MOST)
    finding = compare(evidence, test)  # each pair holds on three tasks, both on two
    assert finding.verdict is Verdict.FAILS
    assert finding.coverage == "holds on 2 of 4 tasks, does not on 2"


def plant_n_steps(root, gain, tasks):
    for agent in ("d3pg", "d4pg"):
        for replay in ("uniform", "prioritized"):
            name = f"{agent}_{replay}_n"
            plant(root, f"{name}1", tasks, 400, spread=35, **AT_SMALL)
            plant(root, f"{name}5", tasks, 400 + gain, spread=35, **AT_SMALL)


def test_n_step_holds_as_a_main_effect(tmp_path, evidence):
    plant_n_steps(tmp_path, 125, FIGURE_2.at("small").environments)
    finding = judge("d4pg", "n_step", evidence)
    assert finding.verdict is Verdict.HOLDS and finding.coverage == "4 of 16 tasks, 3 seeds"
    assert [one.name for one in finding.effects] == ["all", "D3PG", "D4PG"]
    assert finding.numbers.startswith("all: +12.5 % (")


def test_n_step_is_not_uniform_if_it_is_surely_behind_on_a_task(tmp_path, evidence):
    first, *others = FIGURE_2.at("small").environments
    plant_n_steps(tmp_path, 300, others)
    plant_n_steps(tmp_path, -150, [first])
    finding = judge("d4pg", "n_step", evidence)
    assert finding.effects[0].effect.outcome is Outcome.AHEAD
    assert finding.verdict is Verdict.FAILS


def test_an_ahead_claim_fails_by_level_and_says_the_seeds_it_needs_if_open(tmp_path, evidence):
    tasks = FIGURE_2.at("small").environments
    for agent, level in (("d3pg", 400), ("d4pg", 401)):
        for replay in ("uniform", "prioritized"):
            plant(tmp_path, f"{agent}_{replay}_n5", tasks, level, **AT_SMALL)
            plant(tmp_path, f"{agent}_{replay}_n1", tasks, level, spread=300, **AT_SMALL)
    finding = judge("d4pg", "distributional_n_5", evidence)
    assert finding.effects[0].effect.outcome is Outcome.LEVEL
    assert finding.verdict is Verdict.FAILS
    finding = judge("d4pg", "distributional_n_1", again(evidence))
    needed = finding.effects[0].effect.seeds_needed
    assert finding.verdict is Verdict.OPEN and f"Power: {needed} seeds." in finding.evidence


def test_runs_of_another_budget_decide_no_main_effect(tmp_path, evidence):
    tasks = FIGURE_2.at("small").environments
    shorter = AT_SMALL | {"budget": Budget(learner_steps=100)}
    for setting, level in ((FULL, 500), (f"{FULL}_ou", 100)):
        plant(tmp_path, setting, tasks, level, **shorter)
    finding = judge("d4pg", "noise", evidence)
    assert finding.verdict is Verdict.OPEN and not finding.effects


# Trends


@pytest.mark.parametrize(
    "levels, verdict",
    [
        ((300, 400, 500), Verdict.HOLDS),
        ((400, 380, 500), Verdict.HOLDS),  # not each step, but a trend
        ((500, 400, 300), Verdict.FAILS),
        ((400, 400, 400), Verdict.OPEN),
    ],
)
def test_a_trend(tmp_path, evidence, levels, verdict):
    for size, level in zip((8, 32, 128), levels):
        plant(tmp_path, f"s{size}", TASKS, level, spread=20)
    test = Comparison((trend({"s8": 8, "s32": 32, "s128": 128}),), environments=TASKS)
    finding = compare(evidence, test)
    assert finding.verdict is verdict
    if levels[2] != levels[0]:
        assert f"s8 to s128 {levels[2] - levels[0]:+.0f} (" in finding.numbers
    assert "gain from 8 to 128, on a line fitted to 8, 32, 128 in their logarithm" in test.rule


@pytest.mark.parametrize(
    "gains, verdict",
    [((300, 100), Verdict.HOLDS), ((100, 300), Verdict.FAILS), ((200, 200), Verdict.OPEN)],
)
def test_an_interaction(tmp_path, evidence, gains, verdict):
    for setting, gain in zip("pu", gains):
        plant(tmp_path, f"{setting}8", TASKS, 400, spread=20)
        plant(tmp_path, f"{setting}128", TASKS, 400 + gain, spread=20)
    first, second = (trend({f"{one}8": 8, f"{one}128": 128}) for one in "pu")
    test = Comparison((gain_beyond(first, second),), environments=TASKS)
    finding = compare(evidence, test)
    assert finding.verdict is verdict
    assert f" {gains[0] - gains[1]:+.0f} (" in finding.evidence or gains[0] == gains[1]


# Budgets and clocks


def test_each_task_is_compared_at_its_own_common_budget(tmp_path, evidence):
    five, ten = Budget(minutes=5), Budget(minutes=10)
    first, second = TASKS[:2]
    plant(tmp_path, "a", first, 600, seconds=300, budget=five)
    plant(tmp_path, "b", first, 500, seconds=300, budget=five)
    plant(tmp_path, "a", second, 600, seconds=600, budget=ten)
    plant(tmp_path, "b", second, 500, seconds=600, budget=ten)
    finding = compare(evidence, of_tasks(first, second, clock="wall_seconds"))
    assert finding.verdict is Verdict.HOLDS and "2 tasks together" in finding.coverage


def test_a_longer_run_counts_up_to_the_common_budget(tmp_path, evidence):
    for seed in range(3):
        plant_run(
            tmp_path,
            "a",
            FINGER,
            seed,
            [0] + [100 + seed] * 9 + [900] * 10,
            seconds=600,
            budget=Budget(minutes=10),
        )
    plant(tmp_path, "b", FINGER, 300, budget=Budget(minutes=5))
    finding = compare(evidence, of_tasks(FINGER, clock="wall_seconds"))
    assert finding.verdict is Verdict.FAILS and "after 5 minutes" in finding.evidence
    # Below the paper's scale they decide claims about time alone.
    assert compare(again(evidence), of_tasks(FINGER)).verdict is Verdict.OPEN
    # Runs limited in steps have no budget in common with them.
    shutil.rmtree(tmp_path / "d4pg/two_cores/b")
    plant(tmp_path, "b", FINGER, 300)
    finding = compare(again(evidence), of_tasks(FINGER, clock="wall_seconds"))
    assert finding.verdict is Verdict.OPEN and "nothing to compare" not in finding.numbers


def test_runs_limited_in_steps_are_compared_by_steps(tmp_path, evidence):
    # On a machine of half the speed, "a" needs twice the time for the same updates.
    plant(tmp_path, "a", FINGER, 600, seconds=600)
    plant(tmp_path, "b", FINGER, 500, seconds=300)
    finding = compare(evidence, of_tasks(FINGER))
    assert finding.verdict is Verdict.HOLDS and "after 7,500 learner steps" in finding.evidence
    assert "600 - 500" in finding.evidence
    # They decide no claim about time.
    finding = compare(evidence, of_tasks(FINGER, clock="wall_seconds"))
    assert finding.verdict is Verdict.OPEN


def test_at_the_papers_scale_a_longer_run_counts_up_to_the_end(tmp_path, evidence):
    for setting, minutes, levels in (
        ("dqn", 7200, [0] + [9000] * 4 + [20_000] * 15),
        ("dqn_lr3.125e-05", 2100, [0] + [9000] * 9),
    ):
        for game in SIX_GAMES:
            for seed in range(3):
                plant_run(
                    tmp_path,
                    setting,
                    game,
                    seed,
                    [level + seed for level in levels],
                    paper="apex",
                    scale="paper",
                    seconds=60 * minutes,
                    budget=Budget(minutes),
                )
    finding = judge("apex", "learning_rate", evidence)
    assert finding.words == "holds at the paper's scale" and "35 hours" in finding.evidence
    assert "median over 6 of 6 games" in finding.coverage


def test_runs_that_end_milliseconds_apart_keep_their_last_evaluation(tmp_path, evidence):
    for seed in range(3):
        plant_run(
            tmp_path,
            "a",
            FINGER,
            seed,
            [0.0, 100, 100, 800 + seed],
            seconds=300.07,
            budget=Budget(minutes=5),
        )
    plant(tmp_path, "b", FINGER, 300, budget=Budget(minutes=5))
    finding = compare(evidence, of_tasks(FINGER, clock="wall_seconds"))
    assert "finger turn hard 450.5 - 300" in finding.evidence


# Measures and units


def test_instability_is_the_largest_fall(tmp_path, evidence):
    for task in ("control:cheetah:walk", "control:cartpole:swingup_sparse"):
        for seed in range(3):
            for setting in settings.FIGURE_2:
                low = 200 if setting.endswith("n1") else 880
                returns = [100, 900, low + seed, 900, 900]
                plant_run(tmp_path, setting, task, seed, returns, budget=STEPS)
    finding = judge("d4pg", "n_1_unstable", evidence)
    assert finding.verdict is Verdict.HOLDS and finding.coverage == "2 of 2 tasks together"


@pytest.mark.parametrize("low, verdict", [(700, Verdict.FAILS), (-4000, Verdict.HOLDS)])
def test_a_fall_must_be_clearly_larger_to_destabilise(tmp_path, evidence, low, verdict):
    # Surely more by 10 points, which are nothing on Q*bert.
    for game in SIX_GAMES:
        for seed in range(3):
            for setting, least in (("dqn", 710), ("dqn_lr0.00025", low)):
                if setting != "dqn" and game != "atari:qbert":
                    least = 710
                plant_run(
                    tmp_path,
                    setting,
                    game,
                    seed,
                    [100, 20_000, 20_000 + least - 900 + seed / 100, 20_000, 20_000],
                    paper="apex",
                    scale="paper",
                )
    finding = judge("apex", "high_learning_rate", evidence)
    assert finding.verdict is verdict


def test_atari_is_compared_in_percent_of_a_human(tmp_path, evidence):
    # Pong goes from -20.7 (random) to 14.6 (human): 3.53 points are 10 %.
    apex = reproductions.paper("apex")
    experiment = apex.experiment("figure 2")
    for setting, level in (("dqn", 14.6), ("other", 11.07)):
        plant(
            tmp_path,
            setting,
            "atari:pong",
            level,
            spread=0,
            start=-20,
            paper="apex",
            frames_per_step=4,
        )
    test = Comparison((("dqn", "other"),), environments=("atari:pong",))
    finding = compare(evidence, test, apex, experiment)
    assert "dqn - other +10 % of a human" in finding.evidence
    assert "interquartile means 100 - 90" in finding.evidence
    # Where the human has twice as far to go, a point is half as much.
    shutil.copytree(reported.DIRECTORY, tmp_path / "reported")
    file = tmp_path / "reported/atari_scores.csv"
    assert "pong,-20.7,14.6" in file.read_text()
    file.write_text(file.read_text().replace("pong,-20.7,14.6", "pong,-20.7,49.9"))
    numbers = Reported(tmp_path / "reported")
    finding = compare(again(evidence, reported=numbers), test, apex, experiment)
    assert "dqn - other +5 % of a human" in finding.evidence


@pytest.mark.parametrize("pair", [("dqn", "other"), ("other", "dqn")])
def test_over_games_the_median_counts(tmp_path, evidence, pair):
    # One game with a score of thousands of percent, and a large spread, outweighs no other.
    apex = reproductions.paper("apex")
    human = Reported().atari_scores()
    games = SIX_GAMES[:5]
    for number, game in enumerate(games):
        low, high = human.loc[game.removeprefix("atari:")]
        for setting, percent in (("dqn", 150 + number), ("other", 100 + number)):
            is_huge = number == 0
            huge = 5000 if setting == "other" else 4000
            level = low + (huge if is_huge else percent) / 100 * (high - low)
            spread = (2000 if is_huge else 2) / 100 * (high - low)
            plant(tmp_path, setting, game, level, spread=spread, paper="apex", start=low)
    test = Comparison((pair,), environments=games)
    finding = compare(evidence, test, apex, apex.experiment("figure 7"))
    sign = "+" if pair[0] == "dqn" else "-"
    assert f"{pair[0]} - {pair[1]} {sign}50 % of a human" in finding.evidence
    assert finding.verdict is (Verdict.HOLDS if sign == "+" else Verdict.FAILS)
    assert finding.coverage == "median over 5 of 5 games"


@pytest.mark.parametrize("task", ["gym:Ant-v4", "minatar:breakout"])
def test_elsewhere_in_percent_of_the_larger_value(tmp_path, evidence, task):
    paper = reproductions.paper("refer")
    experiment = paper.experiment("figure 1")
    runs = tuple(dataclasses.replace(run, environment=task) for run in experiment.runs[:1])
    experiment = dataclasses.replace(experiment, runs=runs)
    for setting, level in (("a", 4000.0), ("b", 3000.0)):
        for seed in range(5):
            plant_run(
                tmp_path,
                setting,
                task,
                seed,
                [0.0] * 10,
                paper="refer",
                steps=10_000,
                budget=Budget(actor_steps=10_000),
                num_actors=1,
                episodes=[(30.0 * i, 0, level * (i > 1)) for i in range(1, 11)],
            )
    finding = compare(evidence, of_tasks(task, expected=Expected.NOT_BEHIND), paper, experiment)
    assert finding.verdict is Verdict.HOLDS and "a - b +25 %" in finding.evidence


def test_a_small_benefit_is_more_than_none_and_less_than_twice_the_margin():
    (claim,) = [one for one in reproductions.claims("apex") if one.name == "capacity"]
    assert "holds if it surely lies between 0 and 10% of the scale" in claim.test.rule
    assert "small benefit" in claim.text


# Which runs count, and what lacks


@pytest.mark.parametrize("kwargs", [{"outcome": None}, {"seeds": 1}])
def test_killed_runs_and_single_seeds_decide_nothing(tmp_path, evidence, kwargs):
    plant(tmp_path, "a", FINGER, 800)
    plant(tmp_path, "b", FINGER, 400, **kwargs)
    finding = compare(evidence, of_tasks(FINGER))
    assert finding.verdict is Verdict.OPEN
    assert ("1 of 3 seeds" in finding.evidence) == ("seeds" in kwargs)


def test_scales_do_not_mix_and_the_nearest_that_decides_counts(tmp_path, evidence):
    plant(tmp_path, "a", FINGER, 800)
    plant(tmp_path, "b", FINGER, 400, scale="quickstart")
    assert compare(evidence, of_tasks(FINGER)).verdict is Verdict.OPEN
    plant(tmp_path, "a", FINGER, 300, scale="quickstart")
    plant(tmp_path, "b", FINGER, 200, seeds=1, scale="workstation")
    finding = compare(again(evidence), of_tasks(FINGER))
    assert finding.words == "does not hold at the scale quickstart"
    plant(tmp_path, "b", FINGER, 400)
    finding = compare(again(evidence), of_tasks(FINGER))
    assert finding.words == "holds at the scale two_cores"
    assert finding.evidence.endswith("At the scale quickstart: does not hold.")
    kept = again(evidence, scale="workstation")
    assert compare(kept, of_tasks(FINGER)).verdict is Verdict.OPEN


@pytest.mark.parametrize(
    "scale, words",
    [("smoke", "smoke (shows that it works: no evidence)"), ("small_earlier", "small_earlier")],
)
def test_runs_that_are_no_evidence_decide_only_if_they_are_asked(tmp_path, evidence, scale, words):
    plant(tmp_path, "a", FINGER, 800, scale=scale)
    plant(tmp_path, "b", FINGER, 400, scale=scale)
    assert compare(evidence, of_tasks(FINGER)).verdict is Verdict.OPEN
    finding = compare(again(evidence, scale=scale), of_tasks(FINGER))
    assert finding.verdict is Verdict.HOLDS
    assert f"the scale {words}" in finding.evidence


def test_what_lacks_is_named_with_its_command_and_hours(tmp_path, evidence):
    finding = judge("d4pg", "manipulator", evidence)  # not a task of the scale small
    assert finding.evidence == (
        "No runs at the scale paper: 24 decide it (288 hours): .venv/bin/python -m "
        "binaries.experiment --paper=d4pg --figure=2 --scale=paper --settings "
        + " ".join(sorted(name for name in settings.FIGURE_2 if name != "ddpg"))
        + " --tasks manipulator:bring_ball."
    )

    def needs(scale):
        return ["ddpg", FULL], SMALL_2.at(scale).environments

    # A substitute is the smallest scale that decides. Its hours are not known before a run.
    words = lacking(WITH_SMALL, SMALL_2, evidence, needs)
    assert words == (
        "No runs at the scale small: 20 decide it (hours not known yet): .venv/bin/python -m "
        f"binaries.experiment --paper=d4pg --figure=2 --scale=small --settings {FULL} ddpg."
    )


def test_hours_in_steps_are_those_of_finished_runs(tmp_path, evidence):
    limit = Budget(learner_steps=7500)
    plant(tmp_path, FULL, FINGER, 800, seeds=5, seconds=360, budget=limit, scale="small")

    def needs(scale):
        return ["ddpg", FULL], [FINGER]

    words = lacking(WITH_SMALL, SMALL_2, evidence, needs)
    assert words.startswith(
        "5 more runs at the scale small decide it (0.5 hours): .venv/bin/python"
    )
    assert words.endswith("--scale=small --settings ddpg --tasks finger:turn_hard.")


def test_a_claim_about_time_lacks_runs_that_are_limited_in_time(evidence):
    test = Comparison(((FULL, "ddpg"),), environments=(FINGER,))
    steps = test.find(WITH_SMALL, SMALL_2, evidence)
    assert "at the scale small: 10 decide it" in steps.evidence and not steps.is_complete
    time = dataclasses.replace(test, clock="wall_seconds").find(WITH_SMALL, SMALL_2, evidence)
    assert "at the scale two_cores: 6 decide it" in time.evidence


def test_runs_of_all_that_is_needed_lack_nothing(tmp_path, evidence):
    test = Comparison(((FULL, "ddpg"),), environments=(FINGER,), clock="wall_seconds")
    for setting, level in ((FULL, 500), ("ddpg", 490)):
        plant(tmp_path, setting, FINGER, level, spread=500, budget=Budget(minutes=5))
    finding = compare(evidence, test)
    assert finding.verdict is Verdict.OPEN and "python" not in finding.evidence
    assert "not sure with so many seeds" in finding.evidence and finding.is_complete


def test_settings_of_other_experiments_are_found(evidence):
    def needs(scale):
        return [f"{FULL}_ou", "ddpg"], CONTROL_SUITE[:1]

    words = lacking(D4PG, D4PG.experiment("section 4"), evidence, needs)
    assert "--section=4 " in words and "; .venv/bin/python" in words and "--figure=2 " in words


def test_each_run_is_read_once_for_all_claims(tmp_path, evidence, monkeypatch):
    reads, points = [], KeptRun.points
    monkeypatch.setattr(KeptRun, "points", lambda *a: reads.append(a[0]) or points(*a))
    for setting in settings.FIGURE_2:
        plant(tmp_path, setting, FINGER, 500, seeds=2)
    for claim in reproductions.claims("d4pg"):
        claim.judge(D4PG, evidence)
    assert len(reads) == 2 * len(settings.FIGURE_2)


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
            ("table 2,Duel,Normalized scores,1.51", "table 2,Duel,Normalized scores,1.91"),
            Verdict.FAILS,
        ),
        (
            "reactor",
            "sample_efficient",
            (
                "table 2,Prior. Duel.,Normalized scores,1.72",
                "table 2,Prior. Duel.,Normalized scores,1.9",
            ),
            Verdict.FAILS,
        ),
        (
            "reactor",
            "faster",
            ("figure 2,A3C,Training time,4", "figure 2,A3C,Training time,1"),
            Verdict.FAILS,
        ),
        (
            "reactor",
            "less_than_a_day",
            ("figure 2,Reactor*,Training time,< 1", "figure 2,Reactor*,Training time,< 2"),
            Verdict.FAILS,
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


@pytest.mark.parametrize(
    "paper, name, value, verdict",
    [
        ("aql", "exact_cost", 9.0, Verdict.HOLDS),
        ("aql", "exact_cost", 2.0, Verdict.FAILS),
        ("refer", "vracer_cost", 100.0, Verdict.HOLDS),
        ("refer", "vracer_cost", 3.0, Verdict.FAILS),
        ("refer", "vracer_cost", None, Verdict.OPEN),
    ],
)
def test_costs_are_decided_by_a_record(tmp_path, evidence, paper, name, value, verdict):
    number = {
        "exact_cost": "search/exact_q_3528_time_over_aql",
        "vracer_cost": "learner/acer_cost_over_vracer",
    }
    record = [{"name": number[name], "value": value}] if value else []
    (tmp_path / f"{paper}.json").write_text(json.dumps(record))
    finding = judge(paper, name, dataclasses.replace(evidence, benchmarks=tmp_path))
    assert finding.verdict is verdict
    assert ("No record" in finding.evidence) == (value is None)


@pytest.mark.parametrize("text", ['{"a": 1}', '[{"name": "x"}]', "[1]", "{"])
def test_a_damaged_record_of_costs_is_an_error(tmp_path, evidence, text):
    (tmp_path / "aql.json").write_text(text.replace("x", "search/exact_q_3528_time_over_aql"))
    with pytest.raises(UserError, match="aql.json.* is no"):
        judge("aql", "exact_cost", dataclasses.replace(evidence, benchmarks=tmp_path))


def test_figure_3_of_reactor_is_in_no_text(evidence):
    finding = judge("reactor", "acer", evidence)
    assert finding.verdict is Verdict.OPEN and "in no text" in finding.evidence


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
        if isinstance(claim.test, (Comparison, MainEffects)):
            listed = {setting for one in of.experiments for setting in one.settings}
            assert set(claim.test.settings) <= listed, claim.name
            assert set(claim.test.environments) <= set(experiment.environments), claim.name
            assert claim.test.tasks(experiment, "paper"), claim.name
        assert claim.test.rule and claim.text.endswith(".") and claim.source
        assert claim.test.basis in Basis


def test_apexs_settings_at_small_are_those_of_its_runs():
    """The names that figures 3 to 7 and 14 have at the scale small."""
    dqn = {f"dqn_{n}_actors_replay_1m" for n in (8, 32, 128)}
    uniform = {f"dqn_uniform_lr0.00025_{n}_actors_replay_1m" for n in (8, 32, 128)}
    most = "dqn_128_actors_replay_1m"
    at_small = {
        claim.name: set(claim.test.at_scale("small").settings)
        for claim in reproductions.claims("apex")
        if isinstance(claim.test, Comparison)
    }
    assert at_small["actors"] == dqn and at_small["prioritized_actors"] == dqn | uniform
    assert at_small["prioritized"] == {most, "dqn_uniform_lr0.00025_128_actors_replay_1m"}
    assert at_small["recency"] == {most, "dqn_16_actors_8_copies_replay_1m"}
    assert at_small["capacity"] == {f"dqn_128_actors_replay_{size}" for size in ("250k", "2m")}
    assert at_small["dpg_actors"] == {"dpg_8_actors", "dpg_16_actors", "dpg_64_actors"}
    assert at_small["epsilons"] == {"dqn_full_range", "dqn_six_epsilons"}


def test_no_verdict_of_runs_without_runs(evidence):
    for paper in reproductions.PAPERS:
        for claim in reproductions.claims(paper):
            if isinstance(claim.test, (Comparison, MainEffects)):
                finding = claim.judge(reproductions.paper(paper), evidence)
                assert finding.verdict is Verdict.OPEN


def test_a_claim_of_impala_names_the_runs_that_decide_it(evidence):
    for claim in ("best", "impala"):
        words = judge("aql", claim, evidence).evidence
        assert "--paper=aql --figure=1 --scale=small" in words and "Not yet" not in words


@pytest.mark.parametrize(
    "ours, theirs, verdict", [(800.0, 300.0, Verdict.HOLDS), (300.0, 800.0, Verdict.FAILS)]
)
def test_redundant_sub_actions_decide_what_the_paper_says_of_many(
    tmp_path, evidence, ours, theirs, verdict
):
    levels = {"aql": ours, "d3pg": ours, "uniform_q": theirs, "qt_opt": theirs}
    levels["aql_gaussian"] = theirs
    own = {"paper": "aql", "scale": "small", "steps": 100_000, "seeds": 5}
    for setting, level in levels.items():
        plant(tmp_path, setting, SMALL_HIGH, level, budget=Budget(actor_steps=100_000), **own)
    evidence = again(evidence)
    for name in ("learned_search", "gaussian_high"):
        assert judge("aql", name, evidence).verdict is verdict, name
    assert judge("aql", "humanoid", evidence).verdict is Verdict.OPEN
