"""Tests of common.reporting.progress."""

import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import types

import pytest

from common.reporting import csv_rows, progress
from common.reporting import progress as progress_lib
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvRows
from common.reporting.progress import ProgressLine
from common.reporting.run_directory import RunDirectory
from common.user_error import UserError

LEARNER = {
    "learner_steps": 120_000,
    "actor_steps": 2_400_000,
    "learner_steps_per_second": 305.4,
    "actor_steps_per_second": 4213.7,
    "samples_per_insert": 18.53,
    "replay_size": 1_000_000,
}
EVALUATOR = {"episode_return_mean": 812.34, "episode_return_std": 34.2, "wall_seconds": 1700.0}


def _progress(minutes=60.0, *, min_replay_size=0, **limits) -> ProgressLine:
    return ProgressLine(Budget(minutes, **limits), min_replay_size, io.StringIO())


def test_a_line_leaves_out_what_does_not_fit():
    progress = _progress()
    progress.update(LEARNER, EVALUATOR, 1830.0)
    left, speeds, ratio, evaluation = (
        "29:30 left",
        "4,214 actor and 305 learner steps/s",
        "18.5 samples per insert",
        "return 812 ± 34.2, 2:10 ago",
    )
    wide = progress.line(140)
    assert len(wide) <= 140 and wide.endswith(f"  {left} · {speeds} · {ratio} · {evaluation}")
    assert progress.line(79) == f"{left} · {speeds} · {evaluation}"
    assert progress.line(60).endswith(f"  {left} · {evaluation}")
    progress.update(LEARNER, EVALUATOR, 1830.0, "starting")
    assert progress.line(60).endswith(f"{left} · {evaluation} · starting")


@pytest.mark.parametrize("width", [1, 20, 60, 79, 100, 200])
@pytest.mark.parametrize("note", ["", "actor 1 restarted", "x" * 300])
def test_no_line_is_wider_than_asked(width, note):
    progress = _progress()
    for rows in ((None, None), (LEARNER, None), (LEARNER, EVALUATOR)):
        progress.update(*rows, 1830.0, note)
        assert len(progress.line(width)) <= width


def test_before_data_it_says_what_it_waits_for():
    progress = _progress(min_replay_size=10_000)
    progress.update(None, None, 3.0, note="starting")
    assert progress.line(120).endswith("  59:57 left · starting")
    progress.update({"learner_steps": 0, "replay_size": 1200}, None, 9.0)
    assert "filling replay 1,200/10,000" in progress.line(80)
    progress.update(LEARNER, None, 60.0, note="actor 1 restarted")
    assert progress.line(120).endswith("actor 1 restarted")
    assert "filling" not in progress.line(120)
    progress.update({**LEARNER, "replay_size": None}, None, 70.0)  # the replay was killed
    assert "filling replay 0/10,000" in progress.line(120)
    progress.update({"learner_steps": 0, "replay_size": 10_000}, None, 9.0)
    assert "no update yet" in progress.line(80)
    without_replay = _progress()
    without_replay.update({"learner_steps": 0, "replay_size": 0}, None, 9.0)
    assert "no update yet" in without_replay.line(80)


def test_nearest_limit_is_shown():
    progress = _progress(600.0, learner_steps=150_000)
    progress.update(LEARNER, None, 1800.0)
    assert "30,000 learner steps left" in progress.line(120)
    progress.update(LEARNER, None, 35_000.0)
    assert "16:40 left" in progress.line(120)
    endless = _progress(None)
    endless.update(LEARNER, None, 3723.0)
    assert endless.line(120).startswith("1:02:03 elapsed")


def test_bar_grows():
    progress = _progress(100 / 60)
    full = []
    for elapsed in (0.0, 50.0, 100.0, 130.0):
        progress.update(None, None, elapsed)
        line = progress.line(80)
        full.append(line.count("━") / (line.count("━") + line.count("╌")))
    assert full == [0.0, 0.5, 1.0, 1.0]


def test_without_a_terminal_whole_lines_come_now_and_then(monkeypatch):
    now, stream = 1000.0, io.StringIO()
    monkeypatch.setattr(progress_lib, "time", types.SimpleNamespace(monotonic=lambda: now))
    with ProgressLine(Budget(minutes=10), stream=stream) as progress:
        for second in range(61):
            progress.update(LEARNER, EVALUATOR, float(max(30, second)))  # the run starts late
            now += 1.0
    lines = stream.getvalue().splitlines()
    assert len(lines) == 5
    assert all("learner steps/s" in line and "━" not in line for line in lines)
    assert "\x1b" not in stream.getvalue() and "\r" not in stream.getvalue()


def test_terminal_shows_one_line_redrawn():
    code = f"""
from common.reporting.budget import Budget
from common.reporting.progress import ProgressLine
with ProgressLine(Budget(minutes=60)) as progress:
    for second in (1800.0, 1830.0, 1860.0):
        progress.update({LEARNER}, {EVALUATOR}, second)
    progress.print("actor 1 ended")
"""
    ours, theirs = pty.openpty()
    environment = dict(os.environ, TERM="xterm", COLUMNS="80", LINES="24")
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # how a closed pseudo-terminal ends on Linux
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert child.wait(timeout=30) == 0
    text = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", shown.decode())
    lines = [line for line in re.split(r"[\r\n]+", text) if line]
    assert "29:30 left" in text and "29:00 left" in text and "actor 1 ended" in text
    assert all(len(line) < 80 for line in lines)
    assert text.count("\n") <= 3  # the line itself is redrawn, not repeated


def test_a_terminal_that_is_closed_ends_no_run(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    stream, output = open(theirs, "w"), sys.stdout
    progress = ProgressLine(Budget(minutes=60), stream=stream)
    assert progress.is_live and sys.stdout is not output
    os.close(ours)
    progress.update(LEARNER, EVALUATOR, 1830.0)
    progress.print("actor 1 ended")
    progress.close()
    assert not progress.is_live and sys.stdout is output
    with contextlib.suppress(OSError):
        stream.close()  # what was not shown is in its buffer


def test_a_log_on_a_full_disk_ends_no_run():
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    progress = ProgressLine(Budget(minutes=60), stream=Full())
    progress.update(LEARNER, EVALUATOR, 1830.0)
    progress.print("actor 1 ended")


def test_a_run_that_has_made_no_update_has_learnt_nothing(tmp_path):
    run = RunDirectory(tmp_path)
    progress.require_updates(run)  # of a layout without a learner
    rows = CsvRows(run.learner_csv, csv_rows.PROGRESS)
    rows.append({"wall_seconds": 31.0, "actor_steps": 1200, "learner_steps": 0})
    with pytest.raises(UserError, match="made no updates: .* after 31 s and 1,200 actor steps"):
        progress.require_updates(run)
    rows.append({"wall_seconds": 32.0, "actor_steps": 1200, "learner_steps": 1})
    progress.require_updates(run)


@pytest.mark.parametrize(
    "evaluated, learnt, limit, is_over",
    [
        (300, 300, 300, True),
        (300, None, 300, True),  # a kept run without learner.csv
        (200, 300, 300, False),
        (200, 300, 150, False),  # stopped at 300, which is not evaluated yet
        (300, 300, 400, False),
    ],
)
def test_a_run_is_over_once_its_last_update_is_evaluated(
    tmp_path, evaluated, learnt, limit, is_over
):
    run = RunDirectory(tmp_path)
    for path, names, steps in (
        (run.evaluator_csv, csv_rows.EVALUATOR, evaluated),
        (run.learner_csv, csv_rows.LEARNER, learnt),
    ):
        if steps is not None:
            row = dict.fromkeys(names, 1) | {"learner_steps": steps}
            CsvRows(path, list(names)).append(row)
    assert progress.is_over(run, Budget(learner_steps=limit)) == is_over


def test_a_run_that_stopped_at_a_return_is_over_whatever_its_last_evaluation_found(tmp_path):
    run, limits = RunDirectory(tmp_path), Budget(learner_steps=100, episode_return=5.0)
    run.open({})
    row = dict.fromkeys(csv_rows.EVALUATOR, 1) | {"learner_steps": 30}
    CsvRows(run.evaluator_csv, list(csv_rows.EVALUATOR)).append(row)
    run.write_run_record(seed=0, scale="laptop", budget=limits)
    assert not progress.is_over(run, limits)
    run.close_run_record("finished")
    assert progress.is_over(run, limits)
    assert not progress.is_over(run, Budget(learner_steps=100, episode_return=6.0))


def test_a_finished_run_whose_evaluator_has_written_no_row_is_not_over(tmp_path):
    run, limits = RunDirectory(tmp_path), Budget(learner_steps=100)
    run.open({})
    run.write_run_record(seed=0, scale="laptop", budget=limits)
    run.close_run_record("finished")
    assert progress.is_over(run, limits)
    CsvRows(run.evaluator_csv, list(csv_rows.EVALUATOR))
    assert not progress.is_over(run, limits)
