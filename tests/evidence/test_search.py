"""Tests of common.evidence.search, with a program that only pretends to learn."""

import dataclasses
import os
import pathlib
import threading
import time

from launched import ROOT
import planted
import pytest

from common.cluster.processes import StopRequest
from common.config import Config, field
from common.evidence import execute, search
from common.evidence.paper import Experiment, Run
from common.evidence.plan import make_plan
from common.evidence.search import Range
from common.evidence.sweep import SweepError

HERE = pathlib.Path(__file__).parent
RATE = "config.learning_rate"
TASK = planted.TASKS[0]


@dataclasses.dataclass
class Example(Config):
    learning_rate: float = field(1e-3, above=0)
    discount: float = field(0.9, minimum=0, below=1)
    n_step: int = field(5, minimum=1)
    layers: int = field(2, minimum=1, maximum=300)
    actors: int = field(2, minimum=0)
    noise: str = field("ou", choices=("ou", "gaussian"))
    is_dueling: bool = field(True)
    floor: float = field(0.0, minimum=0)
    sizes: tuple[int, ...] = field((4, 4))


@pytest.mark.parametrize(
    "text, wanted",
    [
        (RATE, Range((), 1e-4, 1e-2, is_log=True)),
        ("config.discount", Range((), 0.0, 0.999)),
        ("config.n_step", Range((), 1, 50, is_log=True, is_whole=True)),
        ("config.actors", Range((), 1, 20, is_log=True, is_whole=True)),
        ("config.layers", Range((), 1, 300, is_log=True, is_whole=True)),
        ("config.noise", Range(("ou", "gaussian"))),
        ("config.is_dueling", Range(("true", "false"))),
        ("config.n_step=1,3", Range(("1", "3"))),
        ("config.learning_rate=1e-5..2e-5", Range((), 1e-5, 2e-5)),
        ("--config.n_step=1..100", Range((), 1, 100, is_log=True, is_whole=True)),
        ("num_actors=1,2", Range(("1", "2"))),
    ],
)
def test_a_range_is_that_of_the_field_or_the_given_one(text, wanted):
    ((name, found),) = search.ranges([text], Example()).items()
    assert name == text.removeprefix("--").partition("=")[0]
    assert dataclasses.astuple(found)[:1] + (found.is_log, found.is_whole) == (
        (wanted.choices, wanted.is_log, wanted.is_whole)
    )
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


@pytest.mark.parametrize(
    "text, words",
    [
        ("config.floor", "no default range around 0.0: give one, config.floor=LOW..HIGH"),
        ("config.sizes", "no default range around"),
        ("seed", "only hyperparameters"),
        ("config.n_step=9..1", "a range is LOW..HIGH"),
        ("config.n_step=1..many", "a range is LOW..HIGH"),
    ],
)
def test_what_has_no_range_is_refused(text, words):
    with pytest.raises(SweepError, match=words):
        search.ranges([text], Example())


def test_without_optuna_the_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(SweepError, match="needs the package optuna: .*pip install optuna"):
        search.run(None, {}, 1, (), tmp_path / "study.sqlite", StopRequest())


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Searches in a folder."""
    pytest.importorskip("optuna")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(ROOT)]))

    def plan_of(values):
        flags = tuple(f"--{name}={value}" for name, value in values.items())
        run = Run(planted.AGENT, f"good_{values[RATE]}", TASK, ("--setting=good", *flags))
        experiment = Experiment("sweep", "", runs=(run,), x="environment_frames")
        paper = planted.paper(experiment)
        return make_plan(paper, experiment, planted.SMALL, tmp_path, num_seeds=1)

    def start(number, stop=None, slots=1, tried=Range((), 1e-5, 1e-1, is_log=True), is_quiet=True):
        tried = {RATE: tried}
        places = [frozenset(os.sched_getaffinity(0)) if is_quiet else None] * slots
        return search.run(
            plan_of, tried, number, places, tmp_path / "s.sqlite", stop or StopRequest()
        )

    return start


def test_a_search_is_continued_and_its_table_is_sorted(start, tmp_path):
    first = start(3)
    assert len(first) == 3 and first == sorted(first, key=lambda row: -row["late_mean"])
    rows = start(5, slots=2)
    assert len(rows) == 5 and all(row in rows for row in first)
    assert len(list(tmp_path.rglob("evaluator.csv"))) == 5
    assert start(4) == rows  # there are already more


def test_bad_trials_are_pruned_and_a_stopped_one_goes_on(start, tmp_path, monkeypatch):
    start(5)
    monkeypatch.setattr(execute, "_POLL_SECONDS", 0.05)
    monkeypatch.setenv("FAKE_STEP", "0.8")
    stop = StopRequest()

    def request():
        while len(list(tmp_path.rglob("evaluator.csv"))) < 6:
            time.sleep(0.05)
        time.sleep(1)
        stop.request()

    threading.Thread(target=request).start()
    assert len(start(9, stop)) in (5, 6)  # the sixth was cut, or pruned at once
    folders = {path.parent for path in tmp_path.rglob("evaluator.csv")}
    monkeypatch.setenv("FAKE_STEP", "0.5")
    rows = start(9)
    assert len(rows) == 9 and {row["state"] for row in rows} == {"complete", "pruned"}
    assert folders < {path.parent for path in tmp_path.rglob("evaluator.csv")}
    assert len(list(tmp_path.rglob("evaluator.csv"))) == 9  # so the sixth was no new run


def test_trials_of_equal_values_share_a_run_one_after_the_other(
    start, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("FAKE_STEP", "0.05")
    rows = start(4, slots=3, tried=Range(("1e-3", "1e-2")))
    assert len(rows) == 4 and "failed" not in capsys.readouterr().err
    assert len(list(tmp_path.rglob("evaluator.csv"))) <= 2


def test_a_trial_that_was_stopped_twice_goes_on_once(start, tmp_path):
    import optuna

    storage, fail = f"sqlite:///{tmp_path / 's.sqlite'}", optuna.trial.TrialState.FAIL
    study = optuna.create_study(storage=storage, study_name=RATE, direction="maximize")
    for _ in range(2):
        study.enqueue_trial({RATE: 1e-3})
        trial = study.ask()
        trial.suggest_float(RATE, 1e-5, 1e-1, log=True)
        study.tell(trial, state=fail)
    assert [row[RATE] for row in start(3)].count(1e-3) == 1


@pytest.mark.parametrize("is_quiet, where", [(True, "in /"), (False, "above")])
def test_a_trial_that_fails_says_where_its_output_is(start, capsys, monkeypatch, is_quiet, where):
    monkeypatch.setenv("FAKE_STEP", "no number")
    assert start(1, is_quiet=is_quiet) == []
    assert f"failed: the output of its run is {where}" in capsys.readouterr().err
