"""Tests of lists of runs with a program that only pretends: order, resumption, what is kept."""

import dataclasses
import functools
import io
import itertools
import json
import operator
import os
import pathlib
import re
import signal
import sys

import campaign_driver
from launched import ROOT, launched, wait_for
from planted import TASKS, plant, plant_kept
import pytest

from binaries import experiment
from common.cluster.processes import StopRequest
from common.evidence import execute, keep
from common.evidence.execute import COLUMNS, read_list
from common.evidence.paper import RESULTS, Returns, run_path
from common.evidence.plan import State, make_plan
from common.evidence.runs import KeptRuns
from common.reporting.records import replace_file
from common.user_error import UserError
import reproductions

HERE = pathlib.Path(__file__).parent
SHORT = [task.partition(":")[2] for task in TASKS]


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(ROOT)]))
    monkeypatch.setattr(reproductions, "paper", reproductions.paper)
    monkeypatch.setattr(execute, "RETRY_SECONDS", execute.RETRY_SECONDS)
    monkeypatch.setattr(os, "sync", os.sync)
    monkeypatch.setattr(StopRequest, "install", lambda self: self)
    campaign_driver.patch()


class Campaign:
    """A campaign in a directory of its own."""

    def __init__(self, root, *lines):
        self.root = root
        self.runs, self.kept = root / "runs", root / "kept"
        self.list = root / "list.csv"
        self.write(*lines)

    def write(self, *lines):
        """Lines are cells after the paper, the scale and the experiment, or whole lines."""
        text = [line if line.count(",") > 4 else f"fake,small,figure 1,{line}" for line in lines]
        self.list.write_text("\n".join([",".join(COLUMNS), *text]) + "\n")

    @property
    def flags(self):
        return [f"--list={self.list}", f"--runs={self.runs}", f"--kept={self.kept}"]

    def __call__(self, *flags):
        return experiment.main([*self.flags, *flags])

    def directory(self, setting, seed=0, task=TASKS[0]):
        return self.runs / run_path("fake", "small", setting, task, seed)

    def run(self, setting, seed=0, task=TASKS[0]):
        """The kept run; None if there is none."""
        return KeptRuns(self.kept).find("fake", "small", (setting, task, seed))

    def seeds(self, setting):
        return [run.seed for run in self.every_run() if run.setting == setting]

    def every_run(self):
        return KeptRuns(self.kept).of("fake", "small")

    def starts(self, setting, seed=0):
        return self.run(setting, seed).starts


@pytest.fixture
def start():
    """Starts campaign_driver.py."""
    with launched() as program:
        yield functools.partial(program, HERE / "campaign_driver.py")


def test_runs_are_made_in_order_of_lines_seeds_tasks_and_settings(tmp_path, capsys):
    campaign = Campaign(
        tmp_path, f"better,{SHORT[1]},1,b", f"good better,{SHORT[0]} {SHORT[1]},1,a b"
    )
    assert campaign("--cores=1") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("run")]
    begun = [re.search(r"· (\S+) on (\S+), seed 0", line).groups() for line in lines]
    assert begun == [
        ("better", TASKS[1]),
        ("good", TASKS[0]),
        ("better", TASKS[0]),
        ("good", TASKS[1]),
    ]
    assert lines[0].startswith("run 1 of 4 · ") and lines[-1].startswith("run 4 of 4 · ")
    assert lines[0].endswith("for b, a") and lines[1].endswith("for a, b")
    assert "time left unknown" in lines[0] and "about" in lines[-1]
    assert campaign("--cores=1") == 0
    assert capsys.readouterr().err == "4 of 4 runs are finished\n"


def test_a_finished_run_is_kept_with_all_that_made_it_and_its_directory_is_removed(tmp_path):
    campaign = Campaign(tmp_path, f"good,{SHORT[0]},2,")
    notes = campaign.directory("good").with_name("seed_0.removed") / "notes"
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    assert campaign("--cores=2") == 0
    assert [path for path in notes.parents[1].iterdir()] == [notes.parent] and notes.exists()
    assert campaign.seeds("good") == [0, 1]
    (start,) = campaign.starts("good", seed=1)
    assert start["outcome"] == "finished" and start["machine"]["usable_cores"] == 1
    assert "numpy" in start["versions"] and len(start["git"]["commit"]) == 40
    assert not campaign.directory("good").exists() and not any(campaign.runs.rglob("config.json"))
    for run in campaign.every_run():
        assert run.has_ended and run.cores == 1 and run.config["config"]["sizes"] == [4, 4]
        assert run.progress.learner_steps == 10 and run.config["seed"] == run.seed
        points = run.points("learner_steps", "episode_return_mean", Returns.EVALUATOR)
        assert points.to_numpy().tolist() == [[10, run.seed]]
        points = run.points("actor_steps", "learner_steps", Returns.EVALUATOR)
        assert points["learner_steps"].tolist() == [*range(1, 11), 10]
        assert points["actor_steps"].tolist() == [*range(1, 11), 10]
    assert sum(file.stat().st_size for file in campaign.kept.glob("*/*.csv")) / 2 < 2500


def test_two_at_once_each_on_a_core_of_its_own(tmp_path, monkeypatch):
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("one core")
    monkeypatch.setattr("common.evidence.execute._remove", lambda planned: None)
    campaign = Campaign(tmp_path, f"steady,{SHORT[0]},2,")
    assert campaign("--cores=2") == 0
    logs = [execute.log_of(run) for run in planned(campaign)]
    found = [re.search(r"cores \[(\d+)\], niceness (\d+)", log.read_text()) for log in logs]
    assert sorted(int(match[1]) for match in found) == cores[-2:]
    assert {match[2] for match in found} == {str(min(19, os.nice(0) + 10))}
    starts = [
        json.loads((campaign.directory("steady", seed) / "run.json").read_text()) for seed in (0, 1)
    ]
    begins, ends = zip(
        *((it["starts"][0]["start_time"], it["starts"][0]["end_time"]) for it in starts)
    )
    assert max(begins) <= min(ends)


def planned(campaign):
    return [run for listed in listed_runs(campaign) for run in listed.plan.runs]


def listed_runs(campaign):
    lines, _ = read_list(campaign.list, campaign.runs, KeptRuns(campaign.kept), reproductions.paper)
    return lines


def test_wrong_lines_are_named_and_the_rest_goes_on(tmp_path, capsys):
    campaign = Campaign(
        tmp_path,
        "nothing,a:easy,1,",
        "good,c,1,",
        "fake,small,figure 9,good,,1,",
        "nobody,small,figure 1,good,,1,",
        "fake,small,figure 2,good,,1,",
        "refer,two_cores,figure 7,,,1,",
        "good,a:easy,many,",
        "good,a:easy,1,a",
    )
    assert campaign() == 0
    err = capsys.readouterr().err.splitlines()
    expected = [
        'no setting "nothing": there are good, ',
        'no task "c": there are a:easy, ',
        "no figure 9",
        'unknown paper "nobody"',
        "figure 2 of Fake has no runs at the scale small",
        "use the scale small",
        "seeds is 'many'",
    ]
    for number, (line, words) in enumerate(zip(err, expected), start=2):
        assert line.startswith(f"{campaign.list}:{number}: ") and re.search(words, line), line
    assert campaign.seeds("good") == [0]
    (tmp_path / "list.csv").write_text("paper,settings\n")
    with pytest.raises(UserError, match="list.csv:1: the header has no column scale"):
        campaign()


def test_a_run_that_dies_is_tried_once_more_and_one_that_fails_is_named(tmp_path, capsys):
    campaign = Campaign(tmp_path, f"broken mortal good,{SHORT[0]},1,")
    assert campaign("--cores=1") == 1
    err = capsys.readouterr().err
    assert "failed: mortal on suite:a:easy, seed 0: it ended with exit code -9" in err
    assert err.count("failed: mortal") == 1
    assert [
        line.endswith("tried once more") for line in err.splitlines() if "failed: broken" in line
    ] == [True, False, False]  # each attempt, and at the end
    assert err.splitlines()[-2:] == ["2 of 3 runs are finished", err.splitlines()[-1]]
    assert [len(campaign.starts(setting)) for setting in ("mortal", "good")] == [2, 1]
    assert "error: broken" in err.splitlines()[-1]


def test_kill_9_costs_what_was_not_saved(tmp_path, start, monkeypatch):
    monkeypatch.setenv("FAKE_GO", str(tmp_path / "go"))
    campaign = Campaign(tmp_path, f"held,{SHORT[0]},2,")
    runs = planned(campaign)
    process = start(*campaign.flags, "--cores=2")
    wait_for(lambda: [run.read_status().progress.learner_steps for run in runs] == [5, 5])
    process.send_signal(signal.SIGSTOP)
    for run in runs:
        pid = int(re.search(r"pid (\d+)", execute.log_of(run).read_text())[1])
        os.kill(pid, signal.SIGKILL)
    process.kill()
    process.communicate(timeout=60)
    assert [starts_of(run)[-1]["outcome"] for run in runs] == [None, None]
    (tmp_path / "go").touch()
    assert campaign("--cores=2") == 0
    assert [len(campaign.starts("held", seed)) for seed in (0, 1)] == [2, 2]
    assert [run.progress.learner_steps for run in campaign.every_run()] == [10, 10]


def starts_of(run):
    path = run.directory / "run.json"
    return json.loads(path.read_text())["starts"] if path.exists() else []


def test_a_signal_stops_the_runs_in_order(tmp_path, start):
    campaign = Campaign(tmp_path, f"slow,{SHORT[0]},2,")
    process = start(*campaign.flags, "--cores=2")
    paths = [campaign.directory("slow", seed) / "run.json" for seed in (0, 1)]
    wait_for(lambda: all(path.exists() for path in paths))
    with pytest.raises(UserError, match="another campaign uses "):
        campaign()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    for run in planned(campaign):
        assert starts_of(run)[-1]["outcome"] == "stopped"
        # A second signal would be taken for impatience.
        assert "signals [15]" in execute.log_of(run).read_text()
    assert "0 of 2 runs are finished\nstopped; the same command continues\n" in err


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_a_run_ends_in_order_when_its_campaign_is_killed(tmp_path, start):
    campaign = Campaign(tmp_path, f"slow,{SHORT[0]},1,")
    process = start(*campaign.flags)
    (run,) = planned(campaign)
    wait_for(lambda: starts_of(run))
    process.kill()
    wait_for(lambda: starts_of(run)[-1]["outcome"] == "stopped")


def test_a_cut_run_goes_on_and_another_run_in_a_directory_is_named(tmp_path, capsys):
    campaign = Campaign(tmp_path, f"good better,{SHORT[0]},1,")
    plant(campaign.directory("good"), learner_steps=4, outcome=None)
    plant(campaign.directory("better"), num_actors=5)
    assert campaign("--cores=1") == 1
    err = capsys.readouterr().err
    assert f"run 1 of 2 · good on {TASKS[0]}, seed 0 40%" in err
    assert f"failed: better on {TASKS[0]}, seed 0: " in err and "num_actors is 5, not 2" in err
    assert "tried once more" not in err  # nor is the time of a retry lost for each such run
    (killed, last) = campaign.starts("good")
    assert (killed["outcome"], last["outcome"]) == (None, "finished")
    assert last["scale"] == "small"
    assert last["scale_changes"].endswith(
        "; num_actors 2 instead of 32; config.sizes (4,4) instead of (8, 8)"
    )
    rows = campaign.run("good").points("actor_steps", "learner_steps", Returns.EVALUATOR)
    assert rows["learner_steps"].tolist() == [5, 6, 7, 8, 9, 10, 10, 4]


def test_status_says_what_is_there_and_starts_nothing(tmp_path, capsys):
    lines = [f"good,{SHORT[0]},2,a b", f"good better,{SHORT[0]},2,c"]
    campaign = Campaign(tmp_path, lines[0])
    assert campaign("--status") == 0
    assert not campaign.runs.exists()
    assert campaign() == 0
    campaign.write(*lines)
    capsys.readouterr()
    assert campaign("--status") == 0
    lines = [re.split(r" {2,}", line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0][1:] == ["runs", "finished", "cut", "running", "missing", "spent", "left"]
    assert lines[1][:6] == ["2: Fake, figure 1, small", "2", "2", "0", "0", "0"]
    assert lines[1][-2:] == ["-", "a b"]
    assert lines[2][:6] == ["3: Fake, figure 1, small", "2", "0", "0", "0", "2"]
    assert lines[2][-1] == "c"
    assert lines[3][:6] == ["all", "4", "2", "0", "0", "2"]


def test_a_full_disk_is_a_line_and_the_rest_goes_on(tmp_path, capsys, monkeypatch):
    real = execute.start
    full = OSError(28, "No space left on device", "seed_0.log")

    def start(planned, slot):
        if planned.run.setting == "good":
            raise full
        return real(planned, slot)

    def replace(path, text):
        if "better" in text:
            raise full
        replace_file(path, text)

    campaign = Campaign(tmp_path, f"good better steady,{SHORT[0]},1,")
    with monkeypatch.context() as patch:
        patch.setattr(execute, "start", start)
        patch.setattr(keep, "replace_file", replace)
        assert campaign() == 1
    err = capsys.readouterr().err
    words = "[Errno 28] No space left on device: 'seed_0.log'"
    assert f"failed: good on {TASKS[0]}, seed 0: it cannot be started: {words}" in err
    assert f"not kept: better on {TASKS[0]}, seed 0: {words}" in err
    assert campaign.seeds("steady") == [0] and not campaign.seeds("better")
    assert campaign.directory("better").exists()
    assert campaign() == 0
    assert campaign.seeds("better") == [0] and not campaign.directory("better").exists()


def test_a_log_on_a_full_disk_starts_no_further_runs(tmp_path, monkeypatch):
    """Each line that could not be printed freed the place of a run that went on."""

    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    real, begun, at_once = execute.start, [], []

    def start(planned, slot):
        begun.append(real(planned, slot))
        at_once.append(sum(process.poll() is None for process in begun))
        return begun[-1]

    monkeypatch.setattr(execute, "start", start)
    session = Campaign(tmp_path, f"good,{SHORT[0]},3,")
    lines, _ = read_list(session.list, session.runs, KeptRuns(session.kept), reproductions.paper)
    with execute.Session(lines, kept=session.kept, stream=Full()) as made:
        assert made.execute(StopRequest()) == []
    assert at_once == [1, 1, 1] and session.seeds("good") == [0, 1, 2]


def test_a_run_that_others_keep_meanwhile_is_not_made(tmp_path, capsys, monkeypatch):
    campaign, real = Campaign(tmp_path, f"good steady,{SHORT[0]},1,"), execute.start

    def start(planned, slot):
        plant_kept(campaign.kept, "steady")  # by somebody else
        return real(planned, slot)

    monkeypatch.setattr(execute, "start", start)
    assert campaign("--cores=1") == 0, capsys.readouterr().err
    assert "2 of 2 runs are finished" in capsys.readouterr().err
    assert campaign.seeds("good") == campaign.seeds("steady") == [0]
    assert not campaign.directory("steady").exists()


@pytest.mark.parametrize("paper", reproductions.papers(), ids=operator.attrgetter("name"))
def test_more_seeds_of_every_kept_curve_can_be_made_and_kept(paper):
    """A default that has changed must not exclude what was kept before."""
    kept, compared = KeptRuns(RESULTS / "runs"), 0
    for each, scale in itertools.product(paper.experiments, paper.scales):
        curves = {run.key[:2] for run in kept.of(paper.name, scale.name)}
        if curves and not each.at(scale.name).unavailable:
            plan = make_plan(paper, each, scale, pathlib.Path("none"), kept, num_seeds=1)
            for run in (run for run in plan.runs if run.key[:2] in curves):
                status = dataclasses.replace(run, seed=999).read_kept_status()
                assert status.state is State.MISSING, (each.name, status.note)
                compared += 1
    assert compared > 10


def test_a_line_of_this_repository_and_those_above_it_complete_its_claims():
    nowhere = pathlib.Path("none")
    lines, notes = read_list(
        RESULTS / "campaign.csv", nowhere, KeptRuns(nowhere), reproductions.paper
    )
    # The scale small comes paper by paper.
    assert all("has no scale small" in note for note in notes), notes
    listed, budgets = set(), {}
    for line in lines:
        paper, scale = line.plan.paper, line.plan.scale.name
        assert line.plan.runs, line.name
        for run in line.plan.runs:
            assert budgets.setdefault(run.directory, run.budget) == run.budget
            listed.add((paper.name, scale, run.run.setting, run.run.environment))
        claims = {claim.name: claim for claim in reproductions.claims(paper.name)}
        for claim in (claims[name] for name in line.claims):
            test = claim.test.at_scale(scale)
            tasks = test.tasks(paper.experiment(claim.experiment), scale)
            needed = itertools.product([paper.name], [scale], test.settings, tasks)
            lacks = set(needed) - listed
            assert tasks and not lacks, (line.name, claim.name, sorted(lacks))


def test_the_line_fits_its_width(tmp_path):
    campaign = Campaign(tmp_path, f"steady,{SHORT[0]},2,a_claim")
    watched = execute.Session(listed_runs(campaign), 2 * (frozenset({0}),), kept=campaign.kept)
    watched._running = list(watched._jobs)
    plant(campaign.directory("steady", 1), learner_steps=4, outcome=None)
    forms = [watched.line(width) for width in (None, *range(200, 5, -1))]
    assert all(len(form) <= width for form, width in zip(forms[1:], range(200, 5, -1)))
    names = [f"steady on {TASKS[0]}, seed {seed} {part}%" for seed, part in ((0, 0), (1, 40))]
    fullest = ["run 1 and 2 of 2", *names, "time left unknown", "for a_claim"]
    assert forms[0] == forms[1] == " · ".join(fullest)
    assert "run 1 and 2 of 2 · 0% · 40% · time left unknown" in forms
    watched._running.pop().is_finished = True
    assert watched.line(None).startswith("run 1 of 2 · steady")
