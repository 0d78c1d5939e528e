"""Runs that are thinned when they are kept: kept once and whole, read strictly, seen by plans."""

from concurrent.futures import ThreadPoolExecutor
import dataclasses
import json
from types import SimpleNamespace

from campaign_driver import PAPER, SMALL
from planted import AGENT, TASKS, contents, path, plant
import pytest

from common.experiments import keep as keep_lib
from common.experiments.keep import keep
from common.experiments.paper import Returns
from common.experiments.plan import make_plan
from common.experiments.runs import KeptRuns, frame
from common.experiments.status import State
from common.reporting import csv_rows, run_directory
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvRows, read_rows
from common.reporting.run_directory import RunDirectoryError, RunInUseError
from common.reporting.user_error import UserError


@pytest.fixture
def roots(tmp_path):
    return [tmp_path / "runs", tmp_path / "kept"]


def plant_evaluated(roots, seed, setting="good", value=1.5, steps=10, **kwargs):
    run = plant(path(roots[0], setting, TASKS[0], seed), learner_steps=steps, **kwargs)
    row = dict.fromkeys(csv_rows.EVALUATOR, steps) | {
        "paper": "fake",
        "setting": setting,
        "environment": TASKS[0],
        "seed": seed,
        "episode_return_mean": value,
    }
    CsvRows(run.evaluator_csv, csv_rows.EVALUATOR).append(row)
    return run


def plan_of(roots, scale=SMALL):
    return make_plan(
        PAPER,
        PAPER.experiment("figure 1"),
        scale,
        roots,
        tasks=[TASKS[0]],
        settings=["good"],
        num_seeds=3,
    )


def states(roots, scale=SMALL):
    return [run.status.state for run in plan_of(roots, scale).runs]


def folder(roots):
    return path(roots[1], "good", TASKS[0], 0).parent


def returns(roots):
    return {
        run.seed: run.points("learner_steps", "episode_return_mean", Returns.EVALUATOR)[
            "episode_return_mean"
        ].tolist()
        for run in KeptRuns(roots[1]).of("fake", "small")
    }


def test_keeping_twice_changes_nothing_and_the_order_of_seeds_does_not_matter(roots, tmp_path):
    for seed in (2, 0):
        plant_evaluated(roots, seed, value=seed)
    assert keep(plan_of(roots), roots[1]) == [
        path(roots[1], "good", TASKS[0], seed) for seed in (0, 2)
    ]
    before = contents(roots[1])
    assert keep(plan_of(roots), roots[1]) == []
    plant_evaluated(roots, 1, value=1)
    assert keep(plan_of(roots), roots[1]) == [path(roots[1], "good", TASKS[0], 1)]
    assert contents(roots[1]) != before
    assert returns(roots) == {0: [0], 1: [1], 2: [2]}
    others = [tmp_path / "runs", tmp_path / "at_once"]
    keep(plan_of(others), others[1])
    for file in folder(roots).glob("*/*"):
        other = folder(others) / file.relative_to(folder(roots))
        assert file.read_text() == other.read_text()


def test_a_kept_run_needs_no_directory(roots):
    plant_evaluated(roots, 0)
    keep(plan_of(roots), roots[1])
    only_kept = [roots[0] / "none", roots[1]]
    assert states(only_kept) == [State.FINISHED, State.MISSING, State.MISSING]
    assert plan_of(only_kept).runs[0].read_status().state is State.FINISHED
    assert plan_of(only_kept).runs[1].minutes == pytest.approx(1.5)  # the kept run's speed
    assert keep(plan_of(only_kept), roots[1]) == []
    larger = dataclasses.replace(SMALL, budget=Budget(learner_steps=11))
    assert states(only_kept, larger)[0] is State.MISSING
    other = dataclasses.replace(SMALL, changes=())
    assert states(only_kept, other)[0] is State.FINISHED  # what nobody asks for may be anything


def test_a_run_without_its_last_evaluation_is_not_finished(roots):
    plant(path(roots[0], "good", TASKS[0], 0))
    run = plant_evaluated(roots, 1, steps=4)
    plant(run.path)
    assert states(roots) == [State.CUT, State.CUT, State.MISSING]


@pytest.mark.parametrize("outcome", ["finished", "stopped", None])
def test_a_run_is_finished_once_it_has_its_last_evaluation(roots, outcome):
    """The program itself would not go on with it."""
    run = plant_evaluated(roots, 0, outcome=outcome)
    text = run.learner_csv.read_text()
    run.learner_csv.write_text(text[: text.index("\n") + 1])  # killed before the last row
    with run.hold():
        assert states(roots)[0] is (State.FINISHED if outcome else State.RUNNING)
    assert states(roots)[0] is State.FINISHED
    keep(plan_of(roots), roots[1])
    (kept,) = KeptRuns(roots[1]).of("fake", "small")
    assert kept.has_ended and kept.reached("learner_steps") == 10


def test_another_run_of_a_kept_seed_is_refused(roots):
    plant_evaluated(roots, 0)
    keep(plan_of(roots), roots[1])
    run = plant_evaluated([roots[0] / "again"], 0, value=9)
    record = json.loads(run.run_json.read_text())
    record["starts"][0]["start_time"] = "1999-01-01T00:00:00+00:00"
    run.run_json.write_text(json.dumps(record))
    with pytest.raises(RunDirectoryError, match="has another run of seed 0, begun 2") as error:
        keep(plan_of([roots[0] / "again"]), roots[1])
    words = str(error.value)
    assert (
        f"{run.path}, begun 1999" in words and f"first move {folder(roots) / 'seed_0'} to" in words
    )
    assert words.endswith("to a scale of its own, small_earlier in place of small")
    assert returns(roots) == {0: [1.5]}


def test_several_that_keep_runs_at_once_wait_for_each_other(roots, monkeypatch, capsys):
    several = [[roots[0] / str(seed)] for seed in range(3)]
    for seed, one in enumerate(several):
        plant_evaluated(one, seed, value=seed)
    with ThreadPoolExecutor(3) as pool:
        kept = list(pool.map(lambda one: keep(plan_of(one), roots[1]), several))
    assert [len(places) for places in kept] == [1, 1, 1]
    assert returns(roots) == {0: [0], 1: [1], 2: [2]} and not capsys.readouterr().err

    plant_evaluated(several[2], 2, value=3, steps=20)
    monkeypatch.setattr(keep_lib, "_PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(run_directory, "_MOMENT_SECONDS", 0.0)
    with run_directory.hold(roots[1] / ".keep.lock", "", roots[1], ""):
        with pytest.raises(RunInUseError, match="another program that keeps runs uses ") as error:
            keep(plan_of(several[2]), roots[1])
    assert "\n" not in str(error.value)
    assert capsys.readouterr().err.endswith("waiting for its end\n")
    assert len(keep(plan_of(several[2]), roots[1])) == 1


def test_seeds_of_another_config_are_refused(roots):
    plant_evaluated(roots, 0)
    keep(plan_of(roots), roots[1])
    plant_evaluated(roots, 1, extra=3)
    before = contents(roots[1])
    with pytest.raises(RunDirectoryError, match=r"another config than .*seed_1 \(extra .* -> 3\)"):
        keep(plan_of(roots), roots[1])
    assert contents(roots[1]) == before


@pytest.mark.parametrize("value, is_kept", [(1, True), (2, False)])
def test_a_hyperparameter_that_is_newer_than_the_kept_runs(value, is_kept, roots, monkeypatch):
    """They had its default."""
    config = SimpleNamespace(sizes=(4, 4), newer=1, single_process=False)
    settings = SimpleNamespace(
        default="good", config_class=lambda: config, configuration=lambda setting: config
    )
    monkeypatch.setitem(vars(AGENT), "settings", settings)
    plant_evaluated(roots, 0)
    keep(plan_of(roots), roots[1])
    plant_evaluated(roots, 1, config={"sizes": [4, 4], "newer": value})
    if is_kept:
        keep(plan_of(roots), roots[1])
    else:
        with pytest.raises(RunDirectoryError, match=r"\(config.newer 1 -> 2\)"):
            keep(plan_of(roots), roots[1])
    assert returns(roots) == ({0: [1.5], 1: [1.5]} if is_kept else {0: [1.5]})


@pytest.mark.parametrize(
    "name, old, new, complaint",
    [
        ("evaluator.csv", ",1.5,", ",one,", "evaluator.csv:2: episode_return_mean is 'one', not"),
        ("evaluator.csv", "fake,good", "fake,bad", "evaluator.csv:2: setting is bad, not good"),
        ("config.json", '"paper": "fake"', '"paper": "real"', "config.json: is of real, "),
        ("config.json", "{", "", "config.json:2: is not JSON"),
    ],
)
def test_a_damaged_file_is_named(roots, name, old, new, complaint):
    for seed in (0, 1):
        plant_evaluated(roots, seed)
    keep(plan_of(roots), roots[1])
    file = folder(roots) / "seed_0" / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(UserError) as error:
        returns(roots)
    assert complaint in str(error.value) and "\n" not in str(error.value)
    assert str(file.parent) in str(error.value)


def test_the_record_says_what_made_the_run(roots):
    run = plant_evaluated(roots, 0, outcome="stopped")
    record = json.loads(run.run_json.read_text())
    record["starts"].insert(0, dict(record["starts"][0], start_time="before"))
    for start, commit in zip(record["starts"], ("c1", "c2")):
        start["git"] = {"commit": commit, "dirty": commit == "c2", "status": [], "diff": "+1"}
    run.run_json.write_text(json.dumps(record))
    keep(plan_of(roots), roots[1])
    (run,) = KeptRuns(roots[1]).of("fake", "small")
    assert run.starts == (*record["starts"][:1], record["starts"][1] | {"outcome": "finished"})
    assert run.budget == Budget(minutes=1) and run.has_ended and run.size == "small"


def test_the_learners_rows_are_thinned_with_the_returns_of_training(roots):
    run = plant_evaluated(roots, 0, steps=1)
    for step in range(2, 201):
        row = {**dict.fromkeys(csv_rows.LEARNER), **dict.fromkeys(csv_rows.PROGRESS, step)}
        CsvRows(run.learner_csv, csv_rows.LEARNER).append(row | {"replay_size": 2 * step})
        for actor in (0, 1):
            row = dict.fromkeys(csv_rows.ACTING, 0) | {"wall_seconds": step, "actor": actor}
            CsvRows(run.acting_csv, csv_rows.ACTING).append(row | {"episode_return": actor * step})
    row = dict.fromkeys(csv_rows.EVALUATOR, 1) | dict.fromkeys(csv_rows.PROGRESS, 1234567)
    text = {"paper": "fake", "setting": "good", "environment": TASKS[0], "seed": 0}
    CsvRows(run.evaluator_csv, csv_rows.EVALUATOR).append(row | text)
    keep(plan_of(roots), roots[1])
    (kept,) = KeptRuns(roots[1]).of("fake", "small")
    assert sorted(path.name for path in kept.path.iterdir()) == [
        *("config.json", "evaluator.csv", "learner.csv", "run.json")
    ]
    rows = read_rows(kept.path / "learner.csv")
    assert len(rows) == 21 and rows["replay_size"].iloc[-2] == 2 * 195.5
    assert [kept.reached(name) for name in csv_rows.PROGRESS] == 3 * [1234567]
    greediest, every = (
        kept.points("learner_steps", "episode_return_mean", of)["episode_return_mean"]
        for of in (Returns.GREEDIEST_ACTOR, Returns.ALL_ACTORS)
    )
    assert len(every) == 20 and greediest.iloc[-1] == pytest.approx(195.5, abs=3)
    assert every.iloc[-1] == pytest.approx(greediest.iloc[-1] / 2, abs=1)


def test_runs_that_were_evaluated_at_other_positions_share_a_folder(roots):
    """As those of before and after a scale was evaluated more often."""
    for seed, count in ((0, 8), (1, 30)):
        run = plant(path(roots[0], "good", TASKS[0], seed))
        identity = {"paper": "fake", "setting": "good", "environment": TASKS[0], "seed": seed}
        for at in range(1, count + 1):
            row = dict.fromkeys(csv_rows.EVALUATOR, 10 * at / count) | identity
            CsvRows(run.evaluator_csv, csv_rows.EVALUATOR).append(row)
    assert len(keep(plan_of(roots), roots[1])) == 2 and states(roots)[:2] == 2 * [State.FINISHED]
    table = frame("fake", "small", roots[1])
    assert table.groupby("seed").size().tolist() == [8, 30]
    assert table.groupby("seed")["x"].max().tolist() == [10, 10]
    assert table.groupby("seed")["by_rule"].all().tolist() == [False, True]
