"""Verdicts follow the runs: planted ones that say the opposite turn them."""

import dataclasses
import itertools
import json
import math

from planted_curves import planting
import pytest

from common.evidence.claims import (
    Basis,
    Check,
    Evidence,
    Finding,
    GameMedian,
    MainEffects,
    MissingRuns,
    missing_runs,
    planned_budget,
)
from common.evidence.effects import AHEAD, LEVEL, NOT_BEHIND, EffectPart, Outcome, Over, Verdict
from common.evidence.paper import RESULTS, Scale, Substitute
from common.evidence.reported import Reported
from common.evidence.runs import KeptRun, KeptRuns
from common.reporting.budget import Budget
import reproductions
from reproductions.d4pg import config as settings

CARTPOLE, FINGER = "control:cartpole:swingup", "control:finger:turn_easy"
FULL = "d4pg_prioritized_n5"
D4PG = reproductions.paper("d4pg")
FIGURE_2 = D4PG.experiment("figure 2")
CONTROL_SUITE, TASKS = FIGURE_2.environments, FIGURE_2.at("small").environments
SMALL_HIGH = reproductions.paper("aql").experiment("figure 8").at("small").environments
SOAK = "soak_apex_dqn.json"


@pytest.fixture(name="evidence")
def _evidence(tmp_path):
    """Of planted runs, and of this repository's benchmarks and reported numbers."""
    return Evidence(KeptRuns(tmp_path), None, Reported(), RESULTS / "benchmarks")


def judge(paper, name, evidence):
    (claim,) = [claim for claim in reproductions.claims(paper) if claim.name == name]
    return claim.judge(reproductions.paper(paper), evidence)


AT_SMALL = {"scale": "small", "budget": planned_budget(D4PG, FIGURE_2, "small")}


def plant(root, levels, tasks=TASKS, *, spread=2.0, seeds=3, rise=0.0, start=0.0, **kwargs):
    """Runs of settings around a level each, which they have on nine evaluations after `start`.

    spread: between neighbouring seeds. rise: in the middle of the last third. By default they are
    of the scale small of D4PG.
    """
    run = AT_SMALL | kwargs
    with planting(root, run.pop("paper", "d4pg"), run.pop("scale")) as plant_one:
        for setting, task, seed in itertools.product(levels, tasks, range(seeds)):
            level = levels[setting] + spread * (seed - (seeds - 1) / 2)
            values = [start] + [level - rise] * 7 + [level] * 2
            plant_one(setting, task, seed, values, **run)


def again(evidence, **changes):
    """The evidence of the same folder, read anew."""
    changes = {"kept": KeptRuns(evidence.kept.root)} | changes
    return dataclasses.replace(evidence, **changes)


def compare(evidence, *parts, **fields):
    return MainEffects(parts, **fields).find(D4PG, FIGURE_2, evidence)


FIRST, SECOND = FULL, "ddpg"
REPLAYS = ("uniform", "prioritized")
PAIR = {FIRST: 1.0, SECOND: -1.0}


def ahead_of(first, second, name=""):
    return EffectPart(name, {first: 1.0, second: -1.0})


# Parts and bounds


@pytest.mark.parametrize(
    "bounds, lead, rise, verdict",
    [
        (AHEAD, 30, 300, Verdict.HOLDS),
        (AHEAD, 0, 0, Verdict.FAILS),
        (AHEAD, 0, 300, Verdict.OPEN),  # any two methods agree before they have learnt
        (AHEAD, -30, 300, Verdict.FAILS),
        (NOT_BEHIND, 100, 300, Verdict.HOLDS),
        (NOT_BEHIND, -30, 0, Verdict.HOLDS),
        (NOT_BEHIND, -30, 300, Verdict.OPEN),
        (NOT_BEHIND, -100, 300, Verdict.FAILS),
        (LEVEL, 30, 0, Verdict.HOLDS),
        (LEVEL, 0, 300, Verdict.OPEN),
        ((0.1, 1.0), 200, 300, Verdict.HOLDS),
        ((0.1, 1.0), 50, 300, Verdict.FAILS),
        ((0.1, 0.3), 400, 300, Verdict.FAILS),
    ],
)
def test_a_part_holds_if_its_effect_surely_lies_within_its_bounds(
    tmp_path, evidence, bounds, lead, rise, verdict
):
    plant(tmp_path, {FIRST: 500 + lead, SECOND: 500}, rise=rise)
    finding = compare(evidence, EffectPart("", PAIR, bounds))
    assert finding.verdict is verdict
    assert finding.effects[0].effect.estimate == pytest.approx(lead / 1000)


def test_all_parts_must_hold_and_one_that_does_not_is_enough(tmp_path, evidence):
    levels = {"d4pg_uniform_n5": 700, "d4pg_uniform_n1": 500, "ddpg": 300}
    plant(tmp_path, levels | {FULL: 600})
    good, bad = (ahead_of(FULL, name) for name in ("d4pg_uniform_n1", "d4pg_uniform_n5"))
    assert compare(evidence, good).verdict is Verdict.HOLDS
    finding = compare(evidence, good, bad)
    assert finding.verdict is Verdict.FAILS and finding.scale == "small"
    # Ahead of the mean of both, and behind one of them.
    mean = EffectPart("mean", {FULL: 1.0, "ddpg": -0.5, "d4pg_uniform_n5": -0.5})
    finding = compare(evidence, mean, dataclasses.replace(bad, bounds=NOT_BEHIND))
    of_parts = {judged.part.name: judged for judged in finding.effects}
    assert of_parts["mean"].effect.outcome is Outcome.AHEAD
    assert finding.verdict is Verdict.FAILS
    # The deciding part stands first.
    assert next(iter(of_parts)) == "" and of_parts[""].verdict is Verdict.FAILS


def test_one_of_several_parts_needs_more_to_fail(tmp_path, evidence):
    """Behind with 99 % is enough for one part; each of eight needs a hundredth of an eighth."""
    names = [name for name in settings.FIGURE_2 if name != FULL]
    plant(tmp_path, dict.fromkeys(names, 590) | {FULL: 500}, spread=60, seeds=5)
    parts = [ahead_of(FULL, name, name) for name in names]
    assert compare(evidence, parts[0]).verdict is Verdict.FAILS
    assert compare(evidence, *parts).verdict is Verdict.OPEN


@pytest.mark.parametrize(
    "leads, some, uniform, mean",
    [
        ((100, 100, 100, 100), Verdict.HOLDS, Verdict.HOLDS, Verdict.HOLDS),
        ((400, 0, 0, 0), Verdict.HOLDS, Verdict.HOLDS, Verdict.HOLDS),
        ((400, 400, 0, -300), Verdict.HOLDS, Verdict.FAILS, Verdict.MIXED),
        ((-300, -300, -300, -300), Verdict.FAILS, Verdict.FAILS, Verdict.FAILS),
    ],
)
def test_over_tasks(tmp_path, evidence, leads, some, uniform, mean):
    for task, lead in zip(TASKS, leads):
        plant(tmp_path, {FIRST: 500 + lead, SECOND: 500}, [task])
    for over, verdict in ((Over.SOME, some), (Over.UNIFORM, uniform), (Over.MEAN, mean)):
        finding = compare(evidence, EffectPart("", PAIR, over=over))
        assert finding.verdict is verdict
        by_task = finding.effects[0].by_task
        assert {task: round(1000 * of.estimate) for task, of in by_task.items()} == dict(
            zip(TASKS, leads)
        )


def test_on_one_of_many_tasks_chance_is_corrected_for(tmp_path, evidence):
    plant(tmp_path, {FIRST: 725, SECOND: 500}, TASKS[:1], spread=60, seeds=5)
    plant(tmp_path, {FIRST: 500, SECOND: 500}, TASKS[1:], spread=60, seeds=5)
    part = EffectPart("", PAIR, over=Over.SOME)
    assert compare(evidence, part, environments=TASKS[:1]).verdict is Verdict.HOLDS
    assert compare(evidence, part).verdict is Verdict.OPEN


def test_no_task_may_lack(tmp_path, evidence):
    plant(tmp_path, {FIRST: 900})
    plant(tmp_path, {SECOND: 500}, TASKS[1:])
    finding = compare(evidence, EffectPart("", PAIR))
    assert finding.verdict is Verdict.OPEN and not finding.effects
    plant(tmp_path, {SECOND: 500}, TASKS[:1])
    finding = compare(again(evidence), EffectPart("", PAIR))
    assert finding.verdict is Verdict.HOLDS and finding.coverage == (4, 16, 0, 3)


def test_an_ahead_claim_fails_by_level_and_says_the_seeds_it_needs_if_open(tmp_path, evidence):
    for n, spread in ((5, 2), (1, 300)):
        levels = {
            f"{agent}_{replay}_n{n}": 400 + (agent == "d4pg")
            for agent in ("d3pg", "d4pg")
            for replay in REPLAYS
        }
        plant(tmp_path, levels, spread=spread)
    finding = judge("d4pg", "distributional_n_5", evidence)
    assert finding.effects[0].effect.outcome is Outcome.LEVEL
    assert finding.verdict is Verdict.FAILS
    finding = judge("d4pg", "distributional_n_1", evidence)
    needed = finding.effects[0].effect.seeds_needed
    assert finding.verdict is Verdict.OPEN and finding.seeds_needed == needed > 1


# Trends


@pytest.mark.parametrize(
    "levels, verdict",
    [
        ((300, 400, 500), Verdict.HOLDS),
        ((400, 380, 500), Verdict.HOLDS),  # not each step, but a trend
        ((500, 400, 300), Verdict.FAILS),
        ((400, 400, 400), Verdict.FAILS),  # level
    ],
)
def test_more_actors(tmp_path, evidence, levels, verdict):
    apex = reproductions.paper("apex")
    figure = apex.experiment("figure 3")
    budget = planned_budget(apex, figure, "small")
    levels = {f"dpg_{actors}_actors": level for actors, level in zip((8, 16, 64), levels)}
    run = {"paper": "apex", "budget": budget, "steps": 4 * budget.learner_steps}
    plant(tmp_path, levels, figure.at("small").environments, agent_setting="dpg", **run)
    finding = judge("apex", "dpg_actors", evidence)
    assert finding.verdict is verdict and finding.coverage == (0, 4, 3, 3)


@pytest.mark.parametrize(
    "power, verdict", [(1.0, Verdict.HOLDS), (0.5, Verdict.FAILS), (0.92, Verdict.HOLDS)]
)
def test_speed_in_proportion_to_the_actors(tmp_path, evidence, power, verdict):
    figure = reproductions.paper("apex").experiment("figure 13")
    with planting(tmp_path, "apex", "paper") as plant_one:
        for actors, seed in itertools.product((8, 16, 32, 64, 128, 256), range(3)):
            plant_one(
                *(f"dqn_{actors}_actors_replay_1m", *figure.environments, seed, [1.0] * 3),
                agent_setting="dqn_replay_1m",
                num_actors=actors,
                speed=30.0 * actors**power * (1 + seed / 1000),
                budget=figure.budget,
            )
    finding = judge("apex", "linear", evidence)
    assert finding.verdict is verdict
    assert finding.effects[0].effect.estimate == pytest.approx(power)
    at_two_cores = dataclasses.replace(evidence, scale="two_cores")
    assert judge("apex", "linear", at_two_cores).verdict is Verdict.OPEN


# Measures and clocks


def test_instability_is_the_largest_fall(tmp_path, evidence):
    tasks = ("control:cheetah:walk", "control:cartpole:swingup_sparse")
    with planting(tmp_path, scale="small") as plant_one:
        for task, seed, setting in itertools.product(tasks, range(3), settings.FIGURE_2):
            low = 200 if setting.endswith("n1") else 880
            returns = [100, 900, low + seed, 900, 900, 900, 900, 900]
            plant_one(setting, task, seed, returns, budget=AT_SMALL["budget"])
    finding = judge("d4pg", "n_1_unstable", evidence)
    assert finding.verdict is Verdict.HOLDS and finding.coverage == (2, 2, 0, 3)


def test_at_equal_steps_runs_count_up_to_the_end_of_the_shortest(tmp_path, evidence):
    plant(tmp_path, {FIRST: 500}, steps=60_000)
    plant(tmp_path, {SECOND: 900}, rise=500, steps=120_000)
    assert compare(evidence, EffectPart("", PAIR)).verdict is Verdict.FAILS
    by_steps = compare(evidence, EffectPart("", PAIR), clock="actor_steps")
    assert by_steps.verdict is Verdict.HOLDS


@pytest.mark.parametrize("at, verdict", [({}, Verdict.HOLDS), ({"small": None}, Verdict.OPEN)])
def test_a_claim_may_leave_out_a_scale(tmp_path, evidence, at, verdict):
    plant(tmp_path, {FIRST: 900, SECOND: 500})
    finding = compare(evidence, EffectPart("", PAIR), at=at)
    assert finding.verdict is verdict and bool(finding.effects) == (at == {})
    assert finding.missing is None or finding.missing.scale != "small"


def figure_on(task):
    """Figure 2, of another task."""
    runs = tuple(dataclasses.replace(run, environment=task) for run in FIGURE_2.runs)
    small = dataclasses.replace(FIGURE_2.substitute("small"), runs=runs)
    return dataclasses.replace(FIGURE_2, substitutes={"small": small})


@pytest.mark.parametrize("task, scale", [("gym:Ant-v4", 5116.4), ("atari:pong", 14.6 + 20.7)])
def test_elsewhere_in_parts_of_a_published_score(tmp_path, evidence, task, scale):
    for setting, level in ((FIRST, -200), (SECOND, -400)):
        plant(tmp_path, {setting: level}, [task], start=level - 10)
    finding = MainEffects((ahead_of(FIRST, SECOND),)).find(D4PG, figure_on(task), evidence)
    assert finding.effects[0].effect.estimate == pytest.approx(200 / scale)


def test_a_claim_on_a_task_without_a_scale_says_that_it_lacks_one(tmp_path, evidence):
    plant(tmp_path, {FIRST: 1, SECOND: 2}, ["gym:New-v0"])
    finding = MainEffects((ahead_of(FIRST, SECOND),)).find(D4PG, figure_on("gym:New-v0"), evidence)
    assert finding.verdict is Verdict.OPEN and finding.lacks == "task_scales.csv: gym:New-v0"
    assert evidence.reported.without_scale(["gym:New-v0", *TASKS]) == ["gym:New-v0"]


def plant_by_rule(root, seeds):
    """Runs with thirty evaluations, of which the first method's are ahead."""
    with planting(root, scale="small") as plant_one:
        for setting, task, seed in itertools.product(PAIR, TASKS, seeds):
            returns = [(700 if setting == FIRST else 500) + seed] * 30
            plant_one(setting, task, seed, returns, budget=AT_SMALL["budget"])


@pytest.mark.parametrize("since, is_confirmed", [("", True), ("2026-11-27", False)])
def test_runs_of_before_a_test_was_changed_confirm_nothing(tmp_path, evidence, since, is_confirmed):
    plant_by_rule(tmp_path, range(5))
    finding = compare(evidence, EffectPart("", PAIR), since=since)
    assert finding.verdict is Verdict.HOLDS
    assert finding.effects[0].effect.is_confirmed is is_confirmed


@pytest.mark.parametrize("seeds", [4, 5])
def test_fewer_than_five_runs_by_the_rule_confirm_nothing(tmp_path, evidence, seeds):
    plant_by_rule(tmp_path, range(seeds))
    finding = compare(evidence, EffectPart("", PAIR))
    assert finding.verdict is Verdict.HOLDS and finding.coverage.seeds == seeds
    assert finding.is_exploratory is (seeds < 5)


def test_runs_by_the_rule_alone_decide_and_confirm(tmp_path, evidence):
    plant(tmp_path, {FIRST: 300, SECOND: 500})
    assert not compare(evidence, EffectPart("", PAIR)).effects[0].effect.is_confirmed
    plant_by_rule(tmp_path, range(3, 8))
    finding = compare(again(evidence), EffectPart("", PAIR))
    assert finding.verdict is Verdict.HOLDS and finding.effects[0].effect.is_confirmed
    assert finding.coverage == (4, 16, 0, 5)


# Medians over games

APEX = reproductions.paper("apex")
GAMES = APEX.experiment("table 2").environments
MEDIAN = GameMedian("dqn", "table 1", "Ape-X DQN", "Median (no-op starts)", is_percent=True)


def plant_games(root, games, factors):
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
    plant_games(tmp_path, GAMES, factors)
    finding = MEDIAN.find(APEX, APEX.experiment("table 1"), evidence)
    assert finding.verdict is verdict
    numbers = finding.numbers
    assert numbers["median %"] == pytest.approx(100 * sum(factors) / 3)
    assert numbers["median %, low"] < numbers["median %"] < numbers["median %, high"]
    assert numbers["reported %"] == 434 and numbers["games"] == 57


def test_one_seed_and_some_games_decide_no_median(tmp_path, evidence):
    plant_games(tmp_path, GAMES[:3], (9.0, 9.0))
    plant_games(tmp_path, GAMES[3:], (9.0,))
    finding = MEDIAN.find(APEX, APEX.experiment("table 1"), evidence)
    assert finding.verdict is Verdict.OPEN
    assert finding.numbers == {"reported %": 434, "games": 57, "games with two runs": 3}
    assert finding.missing.missing == 3 * 57 - 60  # three seeds are planned


@pytest.mark.parametrize("paper", ["apex", "reactor"])
def test_the_planned_seeds_can_decide_a_median(paper):
    planned = reproductions.paper(paper)
    tables = (table for table in planned.of_kind("table") if table.ours and table.runs)
    assert all(table.seeds_at("paper") >= 2 for table in tables)


# Which runs count, and what lacks


@pytest.mark.parametrize(
    "kwargs",
    [
        {"outcome": None},
        {"seeds": 1},
        {"budget": Budget(learner_steps=100)},
        {"scale": "smoke"},
        {"scale": "small_earlier"},
        {"scale": "two_cores", "budget": Budget(minutes=5)},
    ],
)
def test_runs_that_decide_nothing(tmp_path, evidence, kwargs):
    """Killed ones, single seeds, other budgets, smoke, replaced ones, and limits in minutes."""
    plant(tmp_path, {FIRST: 800, SECOND: 400}, CONTROL_SUITE, **kwargs)
    assert compare(evidence, EffectPart("", PAIR)).verdict is Verdict.OPEN


SMALL_2 = dataclasses.replace(
    FIGURE_2,
    substitutes={
        "small": Substitute(
            tuple(run for run in FIGURE_2.runs if run.environment in (FINGER, CONTROL_SUITE[3])),
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


def on(tasks, *settings):
    """What a claim about settings on tasks needs at each scale."""
    return {scale.name: set(itertools.product(settings, tasks)) for scale in WITH_SMALL.scales}


def test_what_is_missing_is_named_with_its_command_and_hours(evidence):
    finding = judge("d4pg", "manipulator", evidence)  # not a task of the scale small
    command = (
        ".venv/bin/python -m binaries.experiment --paper=d4pg --figure=2 --scale=paper --settings "
        + " ".join(sorted(name for name in settings.FIGURE_2 if name != "ddpg"))
        + " --tasks manipulator:bring_ball"
    )
    assert finding.missing[:3] == ("paper", 0, 24) and round(finding.missing.hours) == 288
    assert finding.missing.commands == (command,)
    # A substitute is the smallest scale that decides. Its hours are not known before a run.
    needed = on(SMALL_2.at("small").environments, "ddpg", FULL)
    assert missing_runs(WITH_SMALL, SMALL_2, evidence, needed) == MissingRuns(
        *("small", 0, 20, math.inf),
        (
            ".venv/bin/python -m binaries.experiment --paper=d4pg --figure=2 --scale=small "
            f"--settings {FULL} ddpg",
        ),
    )


def test_hours_in_steps_are_those_of_finished_runs(tmp_path, evidence):
    runs = {"seeds": 5, "seconds": 360, "budget": Budget(learner_steps=7500)}
    plant(tmp_path, {FULL: 800}, [FINGER], **runs)
    found = missing_runs(WITH_SMALL, SMALL_2, evidence, on([FINGER], "ddpg", FULL))
    assert found[:3] == ("small", 5, 5) and found.hours == pytest.approx(0.5, abs=0.05)
    (command,) = found.commands
    assert command.endswith("--scale=small --settings ddpg --tasks finger:turn_easy")
    plant(tmp_path, {"ddpg": 800}, [FINGER], **runs)
    found = missing_runs(WITH_SMALL, SMALL_2, again(evidence), on([FINGER], "ddpg", FULL))
    assert found == MissingRuns("small", 10, 0, 0.0, ())
    effect = compare(again(evidence), EffectPart("", PAIR)).effects
    assert not effect and not Finding(Verdict.OPEN, missing=found).is_complete


def test_settings_of_other_experiments_are_found(evidence):
    section_4 = D4PG.experiment("section 4")
    needed = {"paper": set(itertools.product([f"{FULL}_ou", "ddpg"], CONTROL_SUITE[:1]))}
    first, second = missing_runs(D4PG, section_4, evidence, needed).commands
    assert "--section=4 " in first and "--figure=2 " in second
    assert missing_runs(D4PG, section_4, evidence, {"paper": {("nobody", FINGER)}}) is None


def test_each_run_is_read_once_for_all_claims_of_a_clock(tmp_path, evidence, monkeypatch):
    reads, points = [], KeptRun.points
    monkeypatch.setattr(KeptRun, "points", lambda *a: reads.append(a[0]) or points(*a))
    plant(tmp_path, dict.fromkeys(settings.FIGURE_2, 500), seeds=2)
    for claim in reproductions.claims("d4pg"):
        claim.judge(D4PG, evidence)
    num_runs = 2 * len(TASKS) * len(settings.FIGURE_2)
    assert len(reads) == 2 * num_runs  # claims by steps, and by time


def test_the_soak_decides_what_appendix_f_promises(tmp_path, evidence):
    names = ("actors_fail", "replay_fails", "learner_waits", "learner_fails")
    other = dataclasses.replace(evidence, benchmarks=tmp_path)
    finding = judge("apex", names[0], other)
    assert finding.verdict is Verdict.OPEN and finding.lacks == SOAK
    assert [judge("apex", name, evidence).verdict for name in names] == [Verdict.HOLDS] * 4
    soak = json.loads((RESULTS / "benchmarks" / SOAK).read_text())
    soak["end"]["accepted_from_all_lives"] -= 1
    for kill in soak["kills"]:
        if kill["role"] != "actor":
            kill["note"] = "gone"
    (tmp_path / SOAK).write_text(json.dumps(soak))
    assert [judge("apex", name, other).verdict for name in names] == [Verdict.FAILS] * 4
    soak = json.loads((RESULTS / "benchmarks" / SOAK).read_text())
    (tmp_path / SOAK).write_text(json.dumps({**soak, "wrong": ["files: one is torn"]}))
    for name in names:
        finding = judge("apex", name, other)
        assert finding.verdict is Verdict.FAILS and finding.numbers["faults of the run"] == 1


@pytest.mark.parametrize(
    "resumed, end, verdict",
    [(90, 200, Verdict.HOLDS), (110, 200, Verdict.HOLDS), (0, 200, Verdict.FAILS)]
    + [(110, 105, Verdict.FAILS)],
)
def test_a_learner_may_resume_later_than_its_last_row(tmp_path, evidence, resumed, end, verdict):
    """It was killed "at step 100 or later"."""
    note = f"at step 100 or later, resumed at step {resumed}"
    kills = [{"role": "learner", "recovered": 9.0, "note": note}]
    record = {"kills": kills, "end": {"learner_steps": end}}
    (tmp_path / SOAK).write_text(json.dumps(record))
    evidence = dataclasses.replace(evidence, benchmarks=tmp_path)
    assert judge("apex", "learner_fails", evidence).verdict is verdict


@pytest.mark.parametrize(
    "name, recovered, note, least, verdict",
    [
        ("replay_fails", 9.0, "28,100 items, 2,300 when learning went on", 2000, Verdict.HOLDS),
        ("replay_fails", 61.0, "28,100 items, 2,300 when learning went on", 2000, Verdict.FAILS),
        ("replay_fails", 9.0, "28,100 items, 28,100 when learning went on", 2000, Verdict.FAILS),
        ("learner_waits", 9.0, "28,100 items, 2,300 when learning went on", 2000, Verdict.HOLDS),
        ("learner_waits", 9.0, "28,100 items, 1,900 when learning went on", 2000, Verdict.FAILS),
        ("learner_waits", 9.0, "28,100 items, 2,300 when learning went on", None, Verdict.OPEN),
    ],
)
def test_a_replay_that_dies(tmp_path, evidence, name, recovered, note, least, verdict):
    kills = [{"role": "replay", "recovered": recovered, "note": note}]
    end = {} if least is None else {"min_replay_size": least}
    (tmp_path / SOAK).write_text(json.dumps({"kills": kills, "end": end}))
    evidence = dataclasses.replace(evidence, benchmarks=tmp_path)
    assert judge("apex", name, evidence).verdict is verdict


@pytest.mark.parametrize(
    "value, verdict", [(100.0, Verdict.HOLDS), (3.0, Verdict.FAILS), (None, Verdict.OPEN)]
)
def test_costs_are_decided_by_a_record(tmp_path, evidence, value, verdict):
    number = "learner/acer_cost_over_vracer"
    record = [{"name": number, "value": value}] if value else []
    (tmp_path / "refer.json").write_text(json.dumps(record))
    finding = judge("refer", "vracer_cost", dataclasses.replace(evidence, benchmarks=tmp_path))
    assert finding.verdict is verdict
    assert finding.lacks == ("" if value else f"refer.json: {number}")
    assert finding.numbers == ({number: value} if value else {})


@pytest.mark.parametrize("paper", reproductions.PAPERS)
def test_claims_are_about_experiments_that_there_are(paper):
    of = reproductions.paper(paper)
    claims = reproductions.claims(paper)
    assert len({claim.name for claim in claims}) == len(claims) >= 10
    for claim in claims:
        experiment = of.experiment(claim.experiment) if claim.experiment else None
        if isinstance(claim.test, MainEffects):
            assert set(claim.test.environments) <= set(experiment.environments), claim.name
            assert claim.test.tasks(experiment, "paper"), claim.name
        assert claim.says.endswith(".") and claim.source and claim.test.basis in Basis
        assert bool(claim.rule) == isinstance(claim.test, Check)


def test_no_verdict_of_runs_without_runs(evidence):
    for paper in reproductions.PAPERS:
        for claim in reproductions.claims(paper):
            if isinstance(claim.test, MainEffects):
                finding = claim.judge(reproductions.paper(paper), evidence)
                assert finding.verdict is Verdict.OPEN
