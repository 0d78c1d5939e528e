"""Tests of common.program.local: a local run, its temporary files, and the resources it needs."""

import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types

from launched import wait_for
import pytest

from common.cluster.errors import ClusterError
from common.cluster.launcher import LocalCluster
from common.cluster.local_process import Process
from common.cluster.processes import StopRequest
from common.program import layouts, local, resources
from common.program.local import LaunchedRun, temporary_directory
from common.program.resources import Need, check_resources
from common.reporting.budget import Budget
from common.reporting.progress import ProgressLine
from common.reporting.run_directory import RunDirectory

# What a run says and does while roles are down, with small programs in their places.

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


def launched(directory, limits=Budget(1), min_replay_size=0):
    """A run of three roles, in the place of a `ProgramRun`."""
    return types.SimpleNamespace(
        directory=directory,
        layout=layouts.DISTRIBUTED,
        limits=limits,
        min_replay_size=min_replay_size,
        title="test",
    )


SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """run(*ends, ...) -> the lines that were shown, also those that a terminal redraws.

    An end waits, by `until(words)`, for what is shown; `until(words, news)` adds rows meanwhile.
    """
    lines = []
    (tmp_path / "shown").touch()

    class Recorded(ProgressLine):
        def update(self, *arguments, **keywords):
            super().update(*arguments, **keywords)
            lines.append(self.line(None))
            (tmp_path / "shown").write_text("\n".join(lines))

        def print(self, text):
            super().print(text)
            lines.append(text)

    monkeypatch.setattr(local, "ProgressLine", Recorded)
    monkeypatch.setattr(local, "_NEWS_SECONDS", 1.0)

    def run_one(*ends, limits=None, others=(), **fields):
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
        LaunchedRun(launched(directory, limits, **fields), StopRequest()).run(cluster)
        assert not any(state.running for state in cluster.states().values())
        return lines

    return run_one


def test_a_learner_that_is_down_is_seen_and_its_speed_is_not(run):
    lines = run("until('777'); os.kill(os.getpid(), 9)", "until('restarted 1x'); sys.exit(0)")
    assert "learner 0 ended with signal 9 (Killed): restart in 3 s" in lines
    down = [line for line in lines if "learner 0 down" in line]
    assert down and not any("777" in line for line in down)
    (first, *_) = [line for line in lines if "777" in line]
    assert "learner 0" not in first
    assert "actor 0" not in "".join(lines)


READY = "from common.cluster.processes import report_ready; report_ready()"


def test_a_silent_learner_is_told_and_its_speed_is_not(run):
    update = "until('777'); row['learner_steps'] += 1; news()"
    lines = run(f"{READY}; {update}; until('no news from the learner for'); sys.exit(0)")
    silent = [line for line in lines if "no news" in line]
    assert silent and not any("777" in line for line in silent)


def test_actors_that_do_not_act_are_told_but_not_after_a_learner_was_busy(run, monkeypatch):
    monkeypatch.setattr(local, "_IDLE_SECONDS", 2.0)
    busy = f"{READY}; time.sleep(3); row['learner_steps_per_second'] = 888.0; news()"
    lines = run(f"{busy}; until('888'); until('no actor step for', news); sys.exit(0)")
    first = next(line for line in lines if "888" in line)
    assert "no actor step" not in first


def test_a_learner_without_an_update_compiles_it(run):
    end = f"{READY}; until('filling replay 1/2'); until('the learner compiles its first update (')"
    lines = run(f"{end}; sys.exit(0)", min_replay_size=2)
    assert not any("no news" in line for line in lines)
    assert not any("filling" in line for line in lines if "compiles" in line)


def test_a_resumed_run_starts_before_its_learner_is_silent(run):
    run("sys.exit(0)")
    ready = f"time.sleep(2); {READY}; time.sleep(1); row['learner_steps_per_second'] = 888.0"
    lines = run("", f"until('starting'); {ready}; until('888', news); sys.exit(0)")
    assert not any("no news" in line for line in lines)
    assert "starting" not in [line for line in lines if "888" in line][-1]


def test_a_damaged_last_row_is_passed_over_until_the_next(run):
    spoil = "open(run / 'learner.csv', 'a').write('1,many\\n'); time.sleep(1.5)"
    go_on = "row['learner_steps_per_second'] = 888.0; until('888', news); sys.exit(0)"
    assert any("888" in line for line in run(f"until('777'); {spoil}; {go_on}"))


def test_a_full_disk_is_seen(run, monkeypatch):
    monkeypatch.setattr(local, "available_disk", lambda path: 0)
    run("until('disk full'); sys.exit(0)")


def test_a_file_system_that_does_not_answer_for_a_while_does_not_end_the_run(run, monkeypatch):
    def fail(path):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(local, "available_disk", fail)
    run("until('777'); sys.exit(0)")


def test_starting_ends_where_there_is_no_learner_csv(run):
    lines = run(f"(run / 'learner.csv').unlink(); until('starting'); {READY}; until('')")
    assert "starting" in lines[1] and "starting" not in lines[-1]


def test_a_run_that_goes_on_without_a_checkpoint_says_so(run, tmp_path):
    words = "the run has CSV rows but no checkpoint: learning restarts at step 0"
    checkpoints = RunDirectory(tmp_path / "run").checkpoints
    assert words not in run("sys.exit(0)")
    assert words in run("", "sys.exit(0)")
    checkpoints.mkdir(exist_ok=True)
    (checkpoints / "checkpoint").touch()
    assert run("", "", "sys.exit(0)").count(words) == 1  # that of before


def test_a_learner_that_a_signal_stopped_has_not_finished_the_run(run):
    lines = run("sys.exit(143)", "until('learner 0 restarted 1x'); sys.exit(0)")
    assert any("learner 0 ended with exit code 143" in line for line in lines)


@pytest.mark.parametrize("limits", [Budget(learner_steps=1), Budget(episode_return=1.0)])
def test_the_run_waits_for_the_last_evaluation_and_says_so(run, tmp_path, limits):
    shown = tmp_path / "shown"
    code = (
        f"import time\nwhile 'last evaluation' not in open({str(shown)!r}).read(): time.sleep(0.1)"
    )
    lines = run(
        "until('777'); sys.exit(0)",
        limits=limits,
        others=[("evaluator", [sys.executable, "-c", code])],
    )
    assert any("waiting for the last evaluation" in line for line in lines)
    assert not any("no news" in line for line in lines)


def test_a_long_last_evaluation_is_not_cut(run, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "_LAST_EVALUATION_SECONDS", 0.0)
    begun, evaluated = tmp_path / "run/starts", tmp_path / "evaluated"
    code = f"""
import pathlib, time
while not pathlib.Path({str(begun)!r}).exists():
    time.sleep(0.1)
time.sleep(2.0)
pathlib.Path({str(evaluated)!r}).touch()
"""
    run("sys.exit(0)", others=[("evaluator", [sys.executable, "-c", code])])
    assert evaluated.exists()


def test_an_evaluator_that_is_down_is_not_waited_for_without_end(run, monkeypatch):
    monkeypatch.setattr(local, "_LAST_EVALUATION_SECONDS", 0.0)
    down = [("evaluator", [sys.executable, "-c", "import sys; sys.exit(1)"])]
    words = "last evaluation is missing: evaluator 0 is down .*logs/evaluator-0.log.; the same comm"
    with pytest.raises(ClusterError, match=words):
        run("sys.exit(0)", others=down)


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
    how = f"moved to {now} during" if now else "removed during"
    assert f"the run directory {tmp_path / 'run'} was {how} the run: the run has ended" in str(
        error.value
    )
    assert (f"--workdir={now} resumes" in str(error.value)) == bool(now)
    assert "\n" not in str(error.value)


def is_running(pid, argument):
    try:
        return argument.encode() in (pid / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False  # it has just ended


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_a_run_in_order_and_a_second_ctrl_c_at_once(tmp_path, number):
    ends = "signal.signal(signal.SIGTERM, signal.SIG_IGN)" if number == signal.SIGINT else ""
    role = f"import signal, time; {ends}; print('up', flush=True); time.sleep(600)"
    code = f"""
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and stays so
from test_local import LaunchedRun, LocalCluster, Process, StopRequest, launched, make_run
stop, directory = StopRequest().install(), make_run({str(tmp_path / "run")!r})
processes = [Process("learner", 0, [sys.executable, "-c", {role!r}, {str(tmp_path)!r}], {{}}, True)]
try:
    LaunchedRun(launched(directory), stop).run(LocalCluster(processes, directory.logs))
except KeyboardInterrupt as interrupt:
    print(interrupt)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert "test; run directory" in process.stderr.readline()
    log = tmp_path / "run" / "logs" / "learner-0.log"
    wait_for(lambda: log.exists() and log.read_text())
    process.send_signal(number)
    while "stopping: the learner saves what it has learnt" not in process.stderr.readline():
        assert process.poll() is None
    begin = time.monotonic()
    if number == signal.SIGINT:
        time.sleep(0.6)  # what comes sooner belongs to the first
        process.send_signal(number)
    out, err = process.communicate(timeout=50)
    assert ("interrupted twice" in out) == (number == signal.SIGINT) and not err
    assert "; to resume: " in out and "python -c " in out
    assert process.returncode == 0
    # The learner is deaf to the first one, and is given a minute.
    assert number != signal.SIGINT or time.monotonic() - begin < local._STOP_SECONDS
    proc = pathlib.Path("/proc")
    wait_for(lambda: not any(is_running(pid, str(tmp_path)) for pid in proc.glob("[0-9]*")))


def test_a_stop_takes_longer_with_a_large_replay_and_says_whose_save_was_cut(
    tmp_path, monkeypatch, capsys
):
    directory = make_run(tmp_path / "run")
    directory.replay.mkdir()
    (directory.replay / "replay_0.replay").write_bytes(bytes(100))
    monkeypatch.setattr(local, "_STOP_SECONDS", 0.2)
    monkeypatch.setattr(local, "_SAVED_BYTES_PER_SECOND", 100.0)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    deaf = [sys.executable, "-c", f"{deaf}; print('deaf', flush=True); time.sleep(600)"]
    found = [Process("learner", 0, SLEEP), Process("replay", 0, deaf)]
    stop, log = StopRequest(), directory.logs / "replay-0.log"
    stop.wait = lambda seconds: wait_for(log.read_text) or stop.request() or True
    LaunchedRun(launched(directory), stop).run(LocalCluster(found, directory.logs))
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "killed" in line]
    assert line.startswith(
        "replay 0 did not end within 1 s and was killed: its unsaved data is lost"
    )


# A start removes what earlier starts of its run have left behind.


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The machine's temporary folder."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def make_run(path):
    run = RunDirectory(path)
    run.open({})
    return run


def start_and_end(run):
    """Starts the run, and ends it in order; returns the directory that it had."""
    with temporary_directory(run) as directory:
        assert directory.stat().st_mode & 0o777 == 0o700 and not list(directory.iterdir())
    assert not directory.exists()
    return directory


def test_a_start_removes_what_a_killed_one_left_also_after_the_run_has_moved(tmp_path, temporary):
    run = make_run(tmp_path / "run")
    left = start_and_end(run)
    (left / "folder").mkdir(parents=True)
    (left / "folder/learner-0").write_text("socket")
    run.path.rename(tmp_path / "moved")
    assert start_and_end(RunDirectory(tmp_path / "moved")) == left
    assert not list(temporary.iterdir())


def test_a_copy_of_a_run_has_another_directory(tmp_path, temporary):
    run = make_run(tmp_path / "run")
    with temporary_directory(run) as directory:
        shutil.copytree(run.path, tmp_path / "copy")
        assert start_and_end(RunDirectory(tmp_path / "copy")) != directory
        assert directory.is_dir()


def test_what_somebody_else_has_put_in_its_place_is_neither_used_nor_removed(tmp_path, temporary):
    run, mine = make_run(tmp_path / "run"), tmp_path / "mine"
    mine.mkdir()
    (mine / "notes").write_text("mine")
    start_and_end(run).symlink_to(mine)
    with pytest.raises(FileExistsError), temporary_directory(run):
        pass
    assert [path.name for path in mine.iterdir()] == ["notes"]


# What a machine has left.

MEMINFO = """MemTotal:       16000000 kB
MemFree:         1000000 kB
MemAvailable:    8000000 kB
"""


def control_group(folder, limit, usage, cache):
    """Returns the files of a control group of version 2, {path: text}."""
    return {
        f"{folder}/memory.max": f"{limit}\n",
        f"{folder}/memory.current": f"{usage}\n",
        f"{folder}/memory.stat": f"anon 5\ninactive_file {cache}\nactive_file 7\n",
    }


def old_control_group(limit, usage, cache):
    """Returns the files of a control group of version 1."""
    return {
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{limit}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{usage}\n",
        "sys/fs/cgroup/memory/memory.stat": f"inactive_file 1\ntotal_inactive_file {cache}\n",
    }


LEVELS = {
    **control_group("sys/fs/cgroup/user.slice/job_7/step", "max", 9_000, 0),
    **control_group("sys/fs/cgroup/user.slice/job_7", 4_000_000, 1_500_000, 500_000),
    **control_group("sys/fs/cgroup/user.slice", 9_000_000, 1_000_000, 0),
}
TOP = control_group("sys/fs/cgroup", 2_000_000, 400_000, 100_000)
OVER = control_group("sys/fs/cgroup/a", 1_000, 2_000, 0)
OLD, OLD_FREE = (old_control_group(most, 10**6, 250_000) for most in (3_000_000, 2**63 - 4096))


@pytest.mark.parametrize(
    "group, files, available",
    [
        ("", {}, 8_000_000 * 1024),
        ("0::/user.slice/job_7/step", LEVELS, 3_000_000),
        ("0::/../../kubepods/pod1/abc", TOP, 1_700_000),  # in a container
        ("12:cpu,cpuacct:/docker/abc\n7:hugetlb,memory:/docker/abc\n0::/", OLD, 2_250_000),
        ("7:memory:/", OLD_FREE, 8_000_000 * 1024),
        ("0::/a", OVER, 0),
    ],
    ids=["no group", "levels", "container", "version 1", "version 1 without a limit", "over it"],
)
def test_memory_is_what_the_machine_and_its_control_groups_leave(group, files, available, tmp_path):
    groups = {"proc/self/cgroup": f"{group}\n"} if group else {}
    for path, text in {"proc/meminfo": MEMINFO, **groups, **files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert resources.available_memory(tmp_path) == available


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_memory_of_this_machine():
    total = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert 0 < resources.available_memory() <= total


def test_the_disk_of_a_directory_that_is_not_there_yet(tmp_path):
    assert resources.available_disk(tmp_path / "not" / "yet") == pytest.approx(
        resources.available_disk(tmp_path), rel=0.1
    )
    assert resources.available_disk(tmp_path) > 0


# What a run needs of that.

GB = 10**9
WORKDIR = pathlib.Path("runs/humanoid")


def check(replay_bytes, ignore=False, saves=None):
    """`resources.check_resources` in this directory."""
    return check_resources(Need(replay_bytes), WORKDIR, ignore, saves)


@pytest.fixture
def machine(monkeypatch):
    """Sets what this machine has left."""

    def has(memory, disk=100 * GB):
        monkeypatch.setattr(resources, "available_memory", lambda: memory)
        monkeypatch.setattr(resources, "available_disk", lambda path: disk)

    return has


def test_a_replay_that_fits(machine):
    machine(12 * GB)
    said = (
        "replay needs about 3.1 GB of memory when full (12 GB available), and 6.2 GB of disk "
        "(100 GB free) to save the replay"
    )
    assert check(3_100_000_000) == (said, True)
    assert check(3_100_000_000, saves=True) == (said, True)
    assert check(3_100_000_000, saves=False) == (said.partition(", and")[0], False)
    assert check(12 * GB)


def test_a_replay_that_does_not_fit(machine):
    machine(12 * GB)
    with pytest.raises(ClusterError) as caught:
        check(12 * GB + 1)
    line = str(caught.value)
    assert "not enough memory" in line and "\n" not in line
    assert "replay needs about 12 GB when full, but 12 GB are" in line
    assert "--config.replay_capacity" in line and "--ignore_resources" in line
    assert check(13 * GB, ignore=True)[0].endswith("(ignored)")


def test_hardly_any_disk(machine):
    machine(12 * GB, disk=40_000_000)
    with pytest.raises(ClusterError, match="not enough disk: 40 MB free at runs/humanoid.*workdir"):
        check(0)
    assert check(0, ignore=True)[0].endswith("(ignored)")


def test_a_disk_without_room_for_the_contents_twice(machine):
    machine(12 * GB, disk=6 * GB)
    line, is_saved = check(3 * GB)
    assert not is_saved
    assert line.endswith(
        "a stop loses the replay: saving it needs 6.0 GB of disk (6.0 GB free) and "
        "--checkpoint_replay"
    )
    with pytest.raises(ClusterError, match="--checkpoint_replay needs 6.0 GB, 6.0 GB are free"):
        check(3 * GB, saves=True)
    assert check(3 * GB, ignore=True, saves=True)[1]
    assert check(2 * GB)[1]


def test_what_an_earlier_start_has_saved_is_counted(machine, tmp_path, monkeypatch):
    machine(12 * GB, disk=4 * GB)
    monkeypatch.chdir(tmp_path)
    assert not check(3 * GB)[1]
    (WORKDIR / "replay").mkdir(parents=True)
    with open(WORKDIR / "replay/replay_0.replay", "wb") as file:
        file.truncate(3 * GB)
    assert check(3 * GB)[1] and check(3 * GB, saves=True)[1]
    machine(12 * GB, disk=2 * GB)  # others have filled the disk: what is there is loaded
    assert check(3 * GB)[1] and not check(3 * GB, saves=False)[1]


def test_engines_and_a_queue_are_counted_beside_the_replay_but_not_saved(machine):
    def check_need(*need):
        return check_resources(Need(*need), WORKDIR, ignore=False, saves=None)[0]

    machine(12 * GB)
    said = "replay, engines, queue need about 11 GB of memory when full (12 GB available), and 16 "
    assert check_need(8 * GB, 2 * GB, GB).startswith(said)
    assert check_need(0, 2 * GB).startswith("engines need about 2.0 GB of memory")
    assert not check_resources(Need(0, GB), WORKDIR, ignore=False, saves=True)[1]
    with pytest.raises(ClusterError, match="engines need about 13 GB.*: lower the number of"):
        check_need(6 * GB, 7 * GB)


@pytest.mark.parametrize(
    "share, max_actor_steps, steps",
    [
        (1, None, 1000),
        (0.5, None, 500),
        (4, None, 4000),
        (1, 800, 1000),
        (0.5, 300, 300),
        (4, 300, 600),  # four replays hold the steps of a single one
    ],
)
def test_a_short_run_does_not_fill_its_replays(share, max_actor_steps, steps):
    assert resources.replay_steps(share, 1000, 2, max_actor_steps) == steps
