"""Runs in tables: kept once and whole, checked then, thinned, seen by plans, merged by git."""

from concurrent.futures import ThreadPoolExecutor
import contextlib
import dataclasses
import hashlib
import json
import subprocess

from campaign_driver import PAPER, SMALL
import planted
from planted import AGENT, SETTINGS, TASKS, contents, path, plan_figure, plant, plant_kept
import pytest

from common.config import Config, Settings, field
from common.evidence import keep as keep_lib
from common.evidence import runs as runs_lib
from common.evidence.keep import TableWriter, keep, keep_run, set_aside
from common.evidence.paper import EPISODE_RETURN, PAPER_SCALE, RESULTS, Returns
from common.evidence.plan import State, make_plan
from common.evidence.runs import KeptRuns, Tables
from common.reporting import csv_rows, run_directory
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectoryError, RunInUseError
from common.user_error import UserError


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
        roots[0],
        KeptRuns(roots[1]) if len(roots) > 1 else None,
        tasks=[TASKS[0]],
        settings=["good"],
        num_seeds=3,
    )


def states(roots, scale=SMALL):
    return [run.status.state for run in plan_of(roots, scale).runs]


def keys(runs):
    return [run.key for run in runs]


def key(seed):
    return ("good", TASKS[0], seed)


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
    assert keys(keep(plan_of(roots), roots[1])) == [key(0), key(2)]
    before = contents(roots[1])
    assert keep(plan_of(roots), roots[1]) == []
    plant_evaluated(roots, 1, value=1)
    assert keys(keep(plan_of(roots), roots[1])) == [key(1)]
    assert contents(roots[1]) != before
    assert returns(roots) == {0: [0], 1: [1], 2: [2]}
    others = [tmp_path / "runs", tmp_path / "at_once"]
    keep(plan_of(others), others[1])
    for file in (roots[1] / "fake").iterdir():
        assert file.read_text() == (others[1] / "fake" / file.name).read_text()


@pytest.mark.parametrize("outcome", ["finished", "stopped", None])
def test_a_run_is_finished_once_it_has_its_last_evaluation(roots, outcome):
    """Whatever ended it then: the program itself would not go on with it."""
    run = plant_evaluated(roots, 0, outcome=outcome)
    record = run.run_json.read_text()
    run.run_json.write_text(record.replace('"learner_steps": null', '"learner_steps": 10'))
    text = run.learner_csv.read_text()
    run.learner_csv.write_text(text[: text.index("\n") + 1])  # killed before the last row
    with run.hold():
        assert states(roots)[0] is (State.FINISHED if outcome else State.RUNNING)
    assert states(roots)[0] is State.FINISHED
    keep(plan_of(roots), roots[1])
    (kept,) = KeptRuns(roots[1]).of("fake", "small")
    assert kept.has_ended and kept.progress.learner_steps == 10
    assert kept.final_evaluation is not None and kept.budget == SMALL.budget


def test_several_that_keep_runs_at_once_wait_for_each_other(roots, monkeypatch, capsys):
    several = [[roots[0] / str(seed)] for seed in range(3)]
    for seed, pair in enumerate(several):
        plant_evaluated(pair, seed, value=seed)
    with ThreadPoolExecutor(3) as pool:
        kept = list(pool.map(lambda pair: keep(plan_of(pair), roots[1]), several))
    assert [len(places) for places in kept] == [1, 1, 1]
    assert returns(roots) == {0: [0], 1: [1], 2: [2]} and not capsys.readouterr().err

    plant_evaluated(several[2], 2, value=3, steps=20)
    monkeypatch.setattr(keep_lib, "_PATIENCE_SECONDS", 0.2)
    monkeypatch.setattr(run_directory, "_MOMENT_SECONDS", 0.0)
    with run_directory.hold(roots[1] / ".keep.lock", "", roots[1], ""):
        with pytest.raises(RunInUseError, match="another program that keeps runs uses ") as error:
            keep(plan_of(several[2]), roots[1])
    assert "\n" not in str(error.value)
    assert capsys.readouterr().err.endswith("waiting until it ends\n")
    assert len(keep(plan_of(several[2]), roots[1])) == 1


@pytest.mark.parametrize("value, is_kept", [(1, True), (2, False)])
def test_a_hyperparameter_that_is_newer_than_the_kept_runs(value, is_kept, roots, monkeypatch):
    """They had the value that its field says, whatever the default is."""

    @dataclasses.dataclass
    class Later(Config):
        sizes: tuple[int, ...] = field((4, 4))
        newer: int = field(5, earlier=1)
        single_process: bool = field(False)

    monkeypatch.setitem(vars(AGENT), "settings", Settings(Later, {"good": {}}, "good"))
    plant_evaluated(roots, 0)
    keep(plan_of(roots), roots[1])
    run = plant_evaluated(roots, 1, config={"sizes": [4, 4], "newer": value})
    for file in (run.config_json, run.evaluator_csv):  # the name of the setting tells it as well
        file.write_text(file.read_text().replace("good", f"good_newer{value}"))
    if is_kept:
        keep(plan_of(roots), roots[1])
    else:
        before = contents(roots[1])
        words = r'another config than .*seed 1 \(setting "good" -> .*2", config.newer 1 -> 2\)'
        with pytest.raises(RunDirectoryError, match=words):
            keep(plan_of(roots), roots[1])
        assert contents(roots[1]) == before
    assert returns(roots) == ({0: [1.5], 1: [1.5]} if is_kept else {0: [1.5]})


@pytest.mark.parametrize(
    "name, old, new, complaint",
    [
        ("evaluator.csv", ",1.5,", ",one,", "evaluator.csv:2: episode_return_mean is 'one', not"),
        ("evaluator.csv", "fake,good", "fake,bad", "evaluator.csv:2: setting is bad, not good"),
        (
            "config.json",
            '"paper": "fake"',
            '"paper": "real"',
            "config.json does not belong to good on ",
        ),
    ],
)
def test_what_is_wrong_with_a_run_is_named_and_nothing_of_it_is_kept(
    roots, name, old, new, complaint
):
    for steps, mean in ((5, 1.5), (10, 2.5)):
        run = plant_evaluated(roots, 0, value=mean, steps=steps)
    file = run.path / name
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(UserError) as error:
        keep(plan_of(roots), roots[1])
    assert complaint in str(error.value) and "\n" not in str(error.value)
    assert str(file.parent) in str(error.value) and returns(roots) == {}
    file.write_text(file.read_text().replace(new, old))
    assert len(keep(plan_of(roots), roots[1])) == 1
    (kept,) = KeptRuns(roots[1]).of("fake", "small")
    assert kept.final_evaluation.episode_return_mean == 2.5


def test_every_return_of_the_final_evaluation_is_kept_where_tables_need_it(roots):
    run = plant_evaluated(roots, 0, value=2.0)
    found = {"episode_return_mean": 2.0, "episodes": 2, "episode_returns": [1.0, 3.0]}
    run.evaluation_json.write_text(json.dumps(found))
    (planned,) = (planned for planned in plan_of(roots).runs if planned.seed == 0)
    tables = Tables.of(roots[1], "fake", "small")
    assert keep_run(planned, roots[1])
    assert "evaluation" not in tables.read_records()[planned.key][1]
    needing = dataclasses.replace(planned, flags=(*planned.flags, "--final_episodes=2"))
    assert needing.has_final_evaluation and keep_run(needing, roots[1])
    assert tables.read_records()[planned.key][1]["evaluation"] == found


def test_a_run_for_tables_is_finished_with_its_final_evaluation(roots):
    """One that was stopped before is resumed, which makes that evaluation."""
    scale = dataclasses.replace(SMALL, is_compact=False, flags=("--final_episodes=2",))
    run = plant_evaluated(roots, 0, steps=10)
    (planned,) = (planned for planned in plan_of(roots, scale).runs if planned.seed == 0)
    assert planned.status.state is State.FINISHED
    rows = run.evaluator_csv.read_text().splitlines(keepends=True)
    run.evaluator_csv.write_text("".join(rows[:-1]))
    assert planned.read_status().state is State.CUT
    assert dataclasses.replace(planned, flags=()).read_status().state is State.FINISHED


def test_a_reader_meanwhile_sees_the_runs_before_or_after(roots, monkeypatch):
    """The first run of a curve brings its config, which the reader did not see yet."""
    plant_evaluated(roots, 0)
    keep(plan_of(roots), roots[1])
    plant_evaluated(roots, 0, setting="better")
    figure, real = PAPER.experiment("figure 1"), runs_lib.read_rows
    todo = make_plan(PAPER, figure, SMALL, roots[0], tasks=[TASKS[0]], settings=["better"])

    def keeps_meanwhile(*arguments):
        monkeypatch.setattr(runs_lib, "read_rows", real)
        keep(todo, roots[1])
        return real(*arguments)

    monkeypatch.setattr(runs_lib, "read_rows", keeps_meanwhile)
    seen = KeptRuns(roots[1]).of("fake", "small")
    assert [(run.setting, len(run.evaluations)) for run in seen] == [("better", 1), ("good", 1)]


def test_the_record_says_what_made_the_run(roots):
    run = plant_evaluated(roots, 0, outcome="stopped")
    record = json.loads(run.run_json.read_text())
    record["starts"].insert(0, dict(record["starts"][0], start_time="before"))
    for start, commit in zip(record["starts"], ("c1", "c2")):
        start["git"] = {"commit": commit, "dirty": commit == "c2", "status": [], "diff": "+1"}
    run.run_json.write_text(json.dumps(record))
    keep(plan_of(roots), roots[1])
    (run,) = KeptRuns(roots[1]).of("fake", "small")
    for start in record["starts"]:
        del start["git"]["diff"]
        start["git"]["diff_sha256"] = hashlib.sha256(b"+1").hexdigest()
    assert run.starts == tuple(record["starts"])
    assert run.budget == Budget(minutes=1) and run.has_ended


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
    assert len(keep(plan_of(roots), roots[1])) == 1
    (kept,) = KeptRuns(roots[1]).of("fake", "small")
    sizes = kept.points("learner_steps", "replay_size", Returns.EVALUATOR)
    assert len(sizes) == 50 and sizes["replay_size"].iloc[-1] == 2 * 198.5
    assert list(kept.progress) == 3 * [1234567]
    greediest, every = (
        kept.points("learner_steps", "episode_return_mean", of)["episode_return_mean"]
        for of in (Returns.GREEDIEST_ACTOR, Returns.ALL_ACTORS)
    )
    assert len(every) == 50 and greediest.tolist()[1:] == sizes["learner_steps"].tolist()[1:]
    assert every.tolist() == [value / 2 for value in greediest]


def test_branches_that_both_keep_runs_are_merged(roots, tmp_path):
    def git(*words):
        options = ("-c", "user.name=one", "-c", "user.email=one@example.org")
        subprocess.run(["git", *options, *words], cwd=roots[1], check=True, capture_output=True)

    def keep_seed(seed, setting="good"):
        plant_evaluated([tmp_path / f"{setting}_{seed}"], seed, setting, value=seed)
        plan = plan_of([tmp_path / f"{setting}_{seed}"])
        assert len(keep(plan, roots[1])) == 1
        git("add", ".")
        git("commit", "-m", f"Seed {seed}")

    (roots[1] / "results").mkdir(parents=True)
    attributes = (RESULTS.parent / ".gitattributes").read_text()
    (roots[1] / ".gitattributes").write_text(attributes.replace("/results/runs/", "/fake/"))
    git("init", "--initial-branch=main")
    keep_seed(1)
    git("branch", "other")
    keep_seed(0)
    git("checkout", "other")
    keep_seed(2)
    git("merge", "--no-edit", "main")
    assert returns(roots) == {0: [0], 1: [1], 2: [2]}
    TableWriter(roots[1], "fake", "small").write()  # which checks the rows of each run
    assert returns(roots) == {0: [0], 1: [1], 2: [2]}


def test_the_kept_runs_of_this_repository_are_whole():
    kept = KeptRuns(RESULTS / "runs")
    scales = [(file.parent.name, file) for file in kept.root.glob("*/*.runs.jsonl")]
    for paper, file in scales:
        scale = file.name.removesuffix(".runs.jsonl")
        TableWriter(kept.root, paper, scale)  # which checks keys, configurations and hashes
        runs = kept.of(paper, scale)
        assert runs and all(run.has_ended for run in runs)
        evaluated = [run.points("wall_seconds", EPISODE_RETURN, Returns.EVALUATOR) for run in runs]
        assert all(len(points) for points in evaluated)
    tables = [file for file in kept.root.rglob("*") if file.is_file() and file.name != ".keep.lock"]
    assert len(tables) == 4 * len(scales) > 0


# What is killed, and runs that are set aside


def kept_runs(roots):
    """The learner steps of the kept runs of the scale small."""
    return [run.progress.learner_steps for run in KeptRuns(roots[1]).of("fake", "small")]


@contextlib.contextmanager
def killed_before_file(step, most, monkeypatch):
    """Kills what replaces at most `most` files before the file of the number `step`."""
    steps, real = iter(range(most)), keep_lib.replace_file

    def dies_before(*arguments):
        if next(steps) == step:
            raise KeyboardInterrupt
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(keep_lib, "replace_file", dies_before)
        yield


@pytest.mark.parametrize("step", range(6))
def test_keeping_a_run_again_that_is_killed_leaves_no_mixture(roots, monkeypatch, step):
    """The lines without the run, three files, all lines; before each, and after the last."""
    source = path(roots[0], "good", TASKS[0], 0)
    plant(source)
    plant_kept(roots[1], "better")
    keep(plan_figure(roots), roots[1])
    plant(source, learner_steps=20)
    with killed_before_file(step, 6, monkeypatch):
        with pytest.raises(KeyboardInterrupt) if step < 5 else contextlib.nullcontext():
            keep(plan_figure(roots), roots[1])
    assert kept_runs(roots) == [10, *([10] if step == 0 else [20] if step == 5 else [])]
    keep(plan_figure(roots), roots[1])
    assert kept_runs(roots) == [10, 20]
    TableWriter(roots[1], "fake", "small")  # which checks the rows of each run


@pytest.mark.parametrize("step", range(9))
def test_a_run_that_is_set_aside_is_in_one_of_the_scales_whatever_stops_that(
    roots, monkeypatch, step
):
    """Four files of the scale with the run, five of the one that loses it."""
    for setting in SETTINGS:
        plant_kept(roots[1], setting)
    plan = plan_figure(roots, settings=["good"])
    with killed_before_file(step, 9, monkeypatch), pytest.raises(KeyboardInterrupt):
        set_aside(plan, roots[1])

    def kept(scale):
        return [run.setting for run in KeptRuns(roots[1]).of("fake", scale)]

    assert "good" in kept("small") + kept("small_earlier") and "better" in kept("small")
    set_aside(plan, roots[1])
    assert (kept("small"), kept("small_earlier")) == (["better"], ["good"])


def begin_later(run, year=2031):
    """Makes it another run than one that was planted before."""
    record = json.loads(run.run_json.read_text())
    record["starts"][0]["start_time"] = f"{year}-02-03T04:05:06+00:00"
    run.run_json.write_text(json.dumps(record))


def test_another_run_of_a_kept_seed_is_refused_until_the_kept_one_is_set_aside(roots, tmp_path):
    plant(path(roots[0], "good", TASKS[0], 0))
    keep(plan_figure(roots), roots[1])
    others = [tmp_path / "again", roots[1]]
    begin_later(plant(path(others[0], "good", TASKS[0], 0), learner_steps=30))
    before = contents(roots[1])
    larger = dataclasses.replace(planted.SMALL, budget=Budget(learner_steps=30))
    words = "has another run of good on suite:a:easy, seed 0, started 2.*; this one started 2031"
    words += ".*set .* aside first$"
    with pytest.raises(RunDirectoryError, match=words) as error:
        keep(plan_figure(others, larger), roots[1])
    assert contents(roots[1]) == before and "\n" not in str(error.value)
    assert len(set_aside(plan_figure(others, larger), roots[1])) == 1
    assert not (roots[1] / "fake" / "small.runs.jsonl").exists()
    assert len(keep(plan_figure(others, larger), roots[1])) == 1
    kept = KeptRuns(roots[1])
    assert kept.scales("fake") == ("small", "small_earlier")
    steps = [kept.of("fake", scale)[0].progress.learner_steps for scale in kept.scales("fake")]
    assert steps == [30, 10] and set_aside(plan_figure(others, PAPER_SCALE), roots[1]) == {}
    (moved,) = set_aside(plan_figure(others, larger), roots[1]).values()  # the second of the seed
    assert moved == "small_earlier_earlier" and kept.scales("fake") == ("small_earlier", moved)
    assert KeptRuns(roots[1]).of("fake", moved)[0].progress.learner_steps == 30


def test_a_run_that_cannot_be_kept_does_not_keep_the_others_from_it(roots):
    plant(path(roots[0], "good", TASKS[0], 0))
    keep(plan_figure(roots), roots[1])
    again = [roots[0] / "again", roots[1]]
    begin_later(plant(path(again[0], "good", TASKS[0], 0)))
    plant(path(again[0], "better", TASKS[1], 0))
    with pytest.raises(RunDirectoryError, match="has another run of good") as error:
        keep(plan_figure(again), roots[1])
    assert "\n" not in str(error.value) and len(kept_runs(roots)) == 2


def test_tables_that_others_changed_are_refused(roots):
    plant(path(roots[0], "good", TASKS[0], 0))
    plant_kept(roots[1], "better")
    for name, old, new in (
        ("small.configs.jsonl", '"num_actors": 2', '"num_actors": 3'),
        ("small.runs.jsonl", '"rows": "', '"rows": "0'),
    ):
        file = roots[1] / "fake" / name
        text = file.read_text()
        file.write_text(text.replace(old, new))
        with pytest.raises(RunDirectoryError, match="the rows or the config of .* have changed"):
            keep(plan_figure(roots), roots[1])
        file.write_text(text)
    assert len(keep(plan_figure(roots), roots[1])) == 1
