"""What a local run says and does while roles are down, with small programs in their places."""

import pathlib
import signal
import subprocess
import sys
import time

import pytest

from common.cluster.errors import ClusterError
from common.cluster.launcher import LocalCluster
from common.cluster.local_process import Process
from common.cluster.processes import StopRequest
from common.program import layouts
from common.program import local as local_run
from common.program.local import LocalRun
from common.reporting.budget import Budget
from common.reporting.progress import ProgressLine
from common.reporting.run_directory import RunDirectory

# Writes a row, then ends as its start of that number does; starts are counted in a file.
LEARNER = """
import os, pathlib, sys, time
from common.reporting.csv_rows import CsvRows
from common.reporting.csv_rows import LEARNER
run, ends = pathlib.Path(sys.argv[1]), sys.argv[2:]
with open(run / "starts", "a+") as starts:
    starts.write("x")
start = len((run / "starts").read_text())
row = dict.fromkeys(LEARNER, 1) | {"wall_seconds": start, "learner_steps_per_second": 777.0}
rows = CsvRows(run / "learner.csv", LEARNER)
rows.append(row)
exec(ends[start - 1])
"""
UNTIL = """
def news():
    row["wall_seconds"] += 0.01
    rows.append(row)
def until(words, meanwhile=lambda: None):
    while words not in open({!r}).read():
        meanwhile()
        time.sleep(0.05)
"""
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(*ends, ...) -> the lines that were shown, also those that a terminal redraws.

    An end waits, by `until(words)`, for what is shown; `until(words, news)` adds rows meanwhile.
    """
    lines, stop, stop_words = [], StopRequest(), []
    (tmp_path / "shown").touch()

    class Recorded(ProgressLine):
        def update(self, *arguments, **keywords):
            super().update(*arguments, **keywords)
            lines.append(self.line(None))
            (tmp_path / "shown").write_text("\n".join(lines))
            if any(words in lines[-1] for words in stop_words):
                stop.request()

        def print(self, text):
            super().print(text)
            lines.append(text)

    monkeypatch.setattr(local_run, "ProgressLine", Recorded)
    monkeypatch.setattr(local_run, "_NEWS_SECONDS", 1.0)

    def run_one(*ends, limits=None, checkpoint_seconds=60.0, others=(), stop_at=()):
        stop_words.extend(stop_at)
        directory = RunDirectory(tmp_path / "run")
        directory.open({})
        ends = [UNTIL.format(str(tmp_path / "shown")) + end for end in ends]
        learner = [sys.executable, "-c", LEARNER, str(directory.path), *ends]
        processes = [
            Process("learner", 0, learner, keeps_run=True),
            *(Process(name, 0, command) for name, command in others or [("actor", SLEEP)]),
        ]
        cluster = LocalCluster(processes, directory.logs, pause_seconds=3.0)
        limits = limits or Budget(minutes=1)
        one = LocalRun(directory, layouts.DISTRIBUTED, limits, 0, checkpoint_seconds, "test", stop)
        one.run(cluster)
        assert not any(state.running for state in cluster.states().values())
        return lines

    return run_one


def test_a_learner_that_is_down_is_seen_and_its_speed_is_not(run):
    lines = run("until('777'); os.kill(os.getpid(), 9)", "until('restarted 1x'); sys.exit(0)")
    assert "learner 0 ended with signal 9 (Killed): restart in 3 s" in lines
    down = [line for line in lines if "learner 0 down" in line]
    assert down and not any("777" in line for line in down)
    (first, *_) = [line for line in lines if "777" in line]
    assert "learner" not in first.split(" learner steps/s")[1]
    assert "actor 0" not in "".join(lines)


def test_a_silent_learner_is_told_and_its_speed_is_not(run):
    lines = run("until('no news from the learner for'); sys.exit(0)")
    silent = [line for line in lines if "no news" in line]
    assert silent and not any("777" in line for line in silent)


def test_a_damaged_last_row_is_passed_over_until_the_next(run):
    spoil = "open(run / 'learner.csv', 'a').write('1,many\\n'); time.sleep(1.5)"
    go_on = "row['learner_steps_per_second'] = 888.0; until('888', news); sys.exit(0)"
    assert any("888" in line for line in run(f"until('777'); {spoil}; {go_on}"))


def test_a_run_that_saves_nothing_says_so(run, monkeypatch):
    monkeypatch.setattr(local_run, "_NEWS_SECONDS", 5.0)
    monkeypatch.setattr(local_run.available, "disk", lambda path: 0)
    lines = run("until('no checkpoint for', news); sys.exit(0)", checkpoint_seconds=0.0)
    assert any("disk full" in line for line in lines)


def test_starting_ends_where_there_is_no_learner_csv(run):
    ready = "from common.cluster.processes import report_ready; report_ready()"
    lines = run(f"(run / 'learner.csv').unlink(); until('starting'); {ready}; until('')")
    assert "starting" in lines[1] and "starting" not in lines[-1]


def test_a_run_that_goes_on_without_a_checkpoint_says_so(run, tmp_path):
    words = "the run has rows but no checkpoint: learning begins again at step 0"
    checkpoints = RunDirectory(tmp_path / "run").checkpoints
    assert words not in run("sys.exit(0)")
    assert words in run("", "sys.exit(0)")
    checkpoints.mkdir(exist_ok=True)
    (checkpoints / "checkpoint").touch()
    assert run("", "", "sys.exit(0)").count(words) == 1  # that of before


def test_a_learner_that_a_signal_stopped_has_not_finished_the_run(run):
    lines = run("sys.exit(143)", "until('learner 0 restarted 1x'); sys.exit(0)")
    assert any("learner 0 ended with exit code 143" in line for line in lines)


def test_the_run_waits_for_the_last_evaluation_and_says_so(run, tmp_path):
    shown = tmp_path / "shown"
    code = (
        f"import time\nwhile 'last evaluation' not in open({str(shown)!r}).read(): time.sleep(0.1)"
    )
    lines = run(
        "until('777'); sys.exit(0)",
        limits=Budget(learner_steps=1),
        others=[("evaluator", [sys.executable, "-c", code])],
    )
    assert any("waiting for the last evaluation" in line for line in lines)
    assert not any("no news" in line for line in lines)


def test_a_stop_while_the_last_evaluation_is_waited_for_says_that_nothing_is_lost(run):
    lines = run(
        "until('777'); sys.exit(0)",
        limits=Budget(learner_steps=1),
        others=[("evaluator", SLEEP)],
        stop_at=["waiting for the last evaluation"],
    )
    assert (
        "stopping: everything is learnt and saved, the last evaluation is not waited for" in lines
    )


@pytest.mark.parametrize("end", ["moved", "removed", "replaced"])
def test_a_run_directory_that_is_moved_or_removed_ends_the_run_with_a_line(run, tmp_path, end):
    away = {
        "moved": "run.rename(run.parent / 'away')",
        "removed": "import shutil; shutil.rmtree(run)",
        "replaced": "run.rename(run.parent / 'copy'); run.mkdir()",
    }[end]
    sleep = "time.sleep(600)"
    with pytest.raises(ClusterError) as error:
        run(f"import signal; signal.signal(15, signal.SIG_IGN); {away}; {sleep}")
    now = {"moved": tmp_path / "away", "replaced": tmp_path / "copy"}.get(end)
    how = f"moved to {now} while" if now else "removed while"
    assert f"the run directory {tmp_path / 'run'} was {how} the run went on" in str(error.value)
    assert (f"--workdir={now} goes on" in str(error.value)) == bool(now)
    assert "\n" not in str(error.value)


def test_an_interrupt_before_the_stop_ends_deaf_roles_at_once(tmp_path):
    class Interrupted(StopRequest):
        def wait(self, seconds):
            while not log.exists() or not log.read_text():
                time.sleep(0.05)
            raise KeyboardInterrupt

    directory = RunDirectory(tmp_path / "run")
    directory.open({})
    log = directory.logs / "learner-0.log"
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    command = [sys.executable, "-c", f"{deaf}; print('up', flush=True); time.sleep(600)"]
    cluster = LocalCluster([Process("learner", 0, command, keeps_run=True)], directory.logs)
    one = LocalRun(directory, layouts.DISTRIBUTED, Budget(1), 0, 60.0, "test", Interrupted())
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        one.run(cluster)
    assert time.monotonic() - begin < local_run._STOP_SECONDS / 2
    assert not any(state.running for state in cluster.states().values())


def is_running(pid, argument):
    try:
        return argument.encode() in (pid / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False  # it has just ended


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_a_run_in_order_and_a_second_ctrl_c_at_once(tmp_path, number):
    ends = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if number == signal.SIGINT else ""
    role = f"import signal, time; {ends}; print('up', flush=True); time.sleep(600)"
    code = f"""
import sys
from common.cluster.errors import ClusterError
from common.cluster.launcher import LocalCluster
from common.cluster.local_process import Process
from common.cluster.processes import StopRequest
from common.program import layouts
from common.program.local import LocalRun
from common.reporting.budget import Budget
from common.reporting.run_directory import RunDirectory
stop = StopRequest().install()
directory = RunDirectory({str(tmp_path / "run")!r})
directory.open({{}})
processes = [Process("learner", 0, [sys.executable, "-c", {role!r}, {str(tmp_path)!r}], {{}}, True)]
run = LocalRun(directory, layouts.DISTRIBUTED, Budget(1), 0, 60.0, "test", stop)
try:
    run.run(LocalCluster(processes, directory.logs))
except KeyboardInterrupt as interrupt:
    print(interrupt)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert "test; run directory" in process.stderr.readline()
    log = tmp_path / "run" / "logs" / "learner-0.log"
    while not (log.exists() and log.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    while "stopping: the learner has not begun to learn" not in process.stderr.readline():
        assert process.poll() is None
    begin = time.monotonic()
    if number == signal.SIGINT:
        time.sleep(0.6)  # what comes sooner belongs to the first
        process.send_signal(number)
    out, err = process.communicate(timeout=50)
    assert ("interrupted twice" in out) == (number == signal.SIGINT) and not err
    assert "; to go on: " in out and "python -c " in out
    assert process.returncode == 0
    # The learner is deaf to the first one, and is given a minute.
    assert number != signal.SIGINT or time.monotonic() - begin < local_run._STOP_SECONDS
    deadline = time.monotonic() + 30
    while any(is_running(pid, str(tmp_path)) for pid in pathlib.Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
