"""The launcher, with small programs in the places of roles."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time

from launched import is_alive, wait_for
import pytest

from common.cluster import launcher
from common.cluster.errors import ClusterError
from common.cluster.launcher import FINAL_CODE, GIVE_UP_CODE, LocalCluster
from common.cluster.local_process import Process
from common.cluster.processes import READY_VARIABLE


def python(code):
    """A command that runs code of the standard library, without the time of all other imports."""
    return [sys.executable, "-S", "-c", textwrap.dedent(code)]


SLEEP = python("import time; print('up', flush=True); time.sleep(600)")
READY = f"import os; os.write(int(os.environ.pop('{READY_VARIABLE}')), b'1')\n"
DEAF = python(
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('up', flush=True); time.sleep(600)"
)


def cluster_of(folder, *processes, pause_seconds=0.01, **options):
    """A cluster of (name, command) or (name, command, keeps_run), an index 0 each."""
    made = [Process(name, 0, command, {}, *keeps) for name, command, *keeps in processes]
    return LocalCluster(made, folder, pause_seconds=pause_seconds, **options)


def test_processes_run_log_and_stop(tmp_path):
    code = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
        print("out", flush=True)
        print("err", file=sys.stderr, flush=True)
        time.sleep(600)
    """
    cluster = LocalCluster(
        [Process("learner", 0, python(code)), Process("actor", 3, SLEEP)], tmp_path
    )
    with cluster:
        log = cluster.log_path("learner", 0)
        wait_for(lambda: log.read_text() == "out\nerr\n")
        states = cluster.states()
        assert set(states) == {("learner", 0), ("actor", 3)}
        assert all(state.running and is_alive(state.pid) for state in states.values())
        assert states["learner", 0].exit_code is None
    states = cluster.states()
    assert not any(state.running or is_alive(state.pid) for state in states.values())
    assert states["learner", 0].exit_code == 0
    assert states["actor", 3].exit_code == -signal.SIGTERM
    assert log.read_text() == "out\nerr\nsaved\n"
    assert cluster.failure() is None and cluster.take_events() == []
    cluster.stop()  # once more does no harm


def test_a_killed_process_starts_again_and_its_log_goes_on(tmp_path):
    with cluster_of(tmp_path, ("actor", SLEEP), ("other", SLEEP)) as cluster:
        log = cluster.log_path("actor", 0)
        wait_for(lambda: log.read_text() == "up\n")
        first, other = (cluster.states()[name, 0].pid for name in ("actor", "other"))
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: log.read_text() == "up\nup\n")
        state = cluster.states()["actor", 0]
        assert state.running and state.restarts == 1 and state.pid != first
        assert state.exit_code == -signal.SIGKILL
        assert cluster.states()["other", 0].pid == other
        assert cluster.failure() is None
        (event,) = cluster.take_events()
        assert event == "actor 0 ended with signal 9 (Killed): restart in 0.01 s"


@pytest.mark.parametrize(
    "end, reason",
    [
        ("raise ValueError('a bug\\nin two lines')", "ValueError: a bug (<string>, line 1); "),
        ("import json; json.loads('{')", "json.decoder.JSONDecodeError: Expecting property name "),
        ("print('error: no room'); raise SystemExit(3)", "no room; "),
        ("print('an Error is near'); raise SystemExit(3)", ""),
        ("print('error: no room'); print('a warning'); raise SystemExit(3)", "no room; "),
    ],
)
def test_a_restart_says_why_the_process_ended(tmp_path, end, reason):
    with cluster_of(tmp_path, ("actor", python(end)), ("other", SLEEP)) as cluster:
        events = []
        wait_for(lambda: events.extend(cluster.take_events()) or events)
        said = events[0].partition(" with exit code ")[2][3:]
        log = cluster.log_path("actor", 0)
        assert said.startswith(reason) and f"log: {log}): restart in " in said


def test_logs_that_somebody_removes_are_made_anew(tmp_path):
    folder = tmp_path / "run" / "logs"
    with cluster_of(folder, ("actor", SLEEP)) as cluster:
        log = cluster.log_path("actor", 0)
        wait_for(lambda: log.read_text() == "up\n")
        shutil.rmtree(folder)
        os.kill(cluster.states()["actor", 0].pid, signal.SIGKILL)
        wait_for(lambda: log.exists() and log.read_text() == "up\n")
        assert cluster.failure() is None


def test_logs_are_not_made_anew_where_the_run_was_moved(tmp_path):
    folder = tmp_path / "run" / "logs"
    with cluster_of(folder, ("actor", SLEEP)) as cluster:
        wait_for(lambda: cluster.log_path("actor", 0).read_text() == "up\n")
        (tmp_path / "run").rename(tmp_path / "moved")
        os.kill(cluster.states()["actor", 0].pid, signal.SIGKILL)
        wait_for(cluster.failure)
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]


def test_a_log_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "mine").touch()
    (tmp_path / "actor-0.log").symlink_to(tmp_path / "mine")
    with pytest.raises(ClusterError, match="actor 0 cannot be started: .*Too many levels of symb"):
        cluster_of(tmp_path, ("actor", SLEEP)).start()
    assert not (tmp_path / "mine").read_text()


def test_exit_code_zero_is_the_end_once_the_run_is_over(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "_GRACE_SECONDS", 0.2)
    end = tmp_path / "end"
    code = f"import os, time\nwhile not os.path.exists({str(end)!r}): time.sleep(0.02)"
    with cluster_of(
        tmp_path, ("learner", python(code), True), ("actor", python("pass"))
    ) as cluster:
        wait_for(lambda: cluster.states()["actor", 0].restarts >= 2)  # the run goes on
        end.touch()
        wait_for(lambda: cluster.states()["learner", 0].exit_code == 0)
        wait_for(lambda: cluster.states()["actor", 0].restart_at is None)
        wait_for(lambda: not cluster.states()["actor", 0].running)
        restarts = cluster.states()["actor", 0].restarts
        time.sleep(0.5)
        assert cluster.states()["actor", 0].restarts == restarts
        assert cluster.states()["learner", 0].restarts == 0
        assert cluster.failure() is None
        assert all("although the run is not over" in event for event in cluster.take_events())


def test_a_process_that_is_never_ready_is_given_up(tmp_path):
    code = "import sys; print('no such environment'); sys.exit(3)"
    with cluster_of(tmp_path, ("actor", python(code)), give_up_after=3) as cluster:
        wait_for(lambda: cluster.failure() is not None)
        text = cluster.failure()
        assert "actor 0 ended with exit code 3 after 2 restarts" in text and "given up" in text
        assert "no such environment" in text
        time.sleep(0.2)
        assert cluster.states()["actor", 0].restarts == 2
        assert cluster.log_path("actor", 0).read_text() == "no such environment\n" * 3


@pytest.mark.parametrize("keeps_run", [False, True], ids=["actor", "learner"])
def test_a_process_that_was_ready_each_time_may_die_as_often_as_it_likes(tmp_path, keeps_run):
    command = python(READY + "raise SystemExit(1)")
    with cluster_of(tmp_path, ("role", command, keeps_run), give_up_after=2) as cluster:
        wait_for(lambda: cluster.states()["role", 0].restarts >= 3)
        assert cluster.failure() is None
        log = cluster.log_path("role", 0)
        said = cluster.take_events()[0]
        assert said.startswith(f"role 0 ended with exit code 1 (log: {log}): restart")


@pytest.mark.parametrize("name, code", [("learner", 1), ("actor", GIVE_UP_CODE)])
def test_only_the_process_that_keeps_the_run_ends_it_by_failing_later(tmp_path, name, code):
    marker = str(tmp_path / "was_ready")
    script = f"import os, sys\nif os.path.exists({marker!r}): sys.exit({code})\n"
    script += f"open({marker!r}, 'w').close()\n{READY}sys.exit(1)"
    keeps_run = name == "learner"
    with cluster_of(tmp_path, (name, python(script), keeps_run), give_up_after=2) as cluster:
        if keeps_run:
            wait_for(lambda: cluster.failure() is not None)
            assert f"learner 0 ended with exit code {code}" in cluster.failure()
        else:
            wait_for(lambda: cluster.states()["actor", 0].restarts >= 3)
            assert cluster.failure() is None


def test_pauses_grow_with_short_runs(tmp_path):
    command = python(READY + "raise SystemExit(1)")
    with cluster_of(tmp_path, ("actor", command), pause_seconds=0.001) as cluster:
        wait_for(lambda: cluster.states()["actor", 0].restarts >= 5)
        pauses = [event.partition(": restart in ")[2] for event in cluster.take_events()]
    assert pauses[:5] == ["0.001 s", "0.002 s", "0.004 s", "0.008 s", "0.016 s"]
    with cluster_of(tmp_path, ("actor", command), pause_seconds=1e-9) as cluster:
        wait_for(lambda: cluster.states()["actor", 0].restarts >= 1)
        cluster._supervised["actor", 0].short_runs = 2_000  # beyond the powers of a float
        wait_for(lambda: cluster.states()["actor", 0].short_runs > 2_000)
        wait_for(lambda: cluster.states()["actor", 0].restart_at)
        assert cluster.failure() is None
    options = {"pause_seconds": 0.001, "steady_seconds": 0.0}
    with cluster_of(tmp_path, ("actor", command), **options) as cluster:
        wait_for(lambda: cluster.states()["actor", 0].restarts >= 2)
        assert all(event.endswith(" 0.001 s") for event in cluster.take_events())


def test_an_interrupt_that_does_not_wake_the_waiting_thread_ends_a_stop(tmp_path):
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    cluster = cluster_of(tmp_path, ("actor", DEAF))
    cluster.start()
    try:
        wait_for(lambda: cluster.log_path("actor", 0).read_text() == "up\n")
        # To another thread: the effect of one that comes just before the wait begins.
        interrupt = threading.Timer(
            0.3, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        )
        interrupt.start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            cluster.stop(60.0)
        cluster.stop(0.0)
        assert time.monotonic() - begin < 20
        assert cluster.states()["actor", 0].exit_code == -signal.SIGKILL
    finally:
        cluster.stop(0.0)
        signal.signal(signal.SIGINT, handler)


def test_a_stop_while_a_process_waits_for_its_restart(tmp_path):
    with cluster_of(tmp_path, ("actor", SLEEP), pause_seconds=30.0) as cluster:
        log = cluster.log_path("actor", 0)
        wait_for(lambda: log.read_text() == "up\n")
        os.kill(cluster.states()["actor", 0].pid, signal.SIGKILL)
        wait_for(lambda: not cluster.states()["actor", 0].running)
        wait_for(lambda: cluster.states()["actor", 0].restart_at is not None)
        assert 0 < cluster.states()["actor", 0].restart_at - time.monotonic() <= 30.0
    state = cluster.states()["actor", 0]
    assert not state.running and state.restarts == 0 and log.read_text() == "up\n"
    assert state.restart_at is None


@pytest.mark.parametrize(
    "end, text",
    [
        (f"sys.exit({GIVE_UP_CODE})", "exit code 2"),
        ("os.kill(os.getpid(), 11)", "signal 11 (Segmentation fault)"),
    ],
)
def test_a_failure_is_readable(tmp_path, end, text):
    code = f"import os, sys\nfor i in range(1000): print('line', i, flush=True)\n{end}"
    with cluster_of(
        tmp_path, ("learner", python(code), True), ("actor", SLEEP), give_up_after=1
    ) as cluster:
        wait_for(lambda: cluster.failure() is not None)
        lines = cluster.failure().splitlines()
        assert "learner 0" in lines[0] and text in lines[0]
        assert str(cluster.log_path("learner", 0)) in lines[0]
        assert lines[1:] == [f"line {i}" for i in range(985, 1000)]
        assert cluster.states()["actor", 0].running


@pytest.mark.parametrize(
    "ready, code", [("", GIVE_UP_CODE), (READY, FINAL_CODE)], ids=["at first", "also later"]
)
def test_an_error_that_a_restart_would_repeat_ends_the_run_in_one_line(tmp_path, ready, code):
    end = f"print('much before'); print('error: x is damaged'); raise SystemExit({code})"
    command = python(ready + end)
    with cluster_of(tmp_path, ("actor", command), ("learner", SLEEP, True)) as cluster:
        wait_for(lambda: cluster.failure() is not None)
        path, state = cluster.log_path("actor", 0), cluster.states()["actor", 0]
        assert cluster.failure() == f"actor 0: x is damaged (its log is {path})"
        assert state.has_been_ready == bool(ready) and state.restarts == 0


RAISES = """
import json, sys
sys.path.insert(0, {folder!r})
{ready}
import environment
environment.step({text})
"""


def bug_of(folder):
    (folder / "environment.py").write_text("import json\n\ndef step(x):\n    json.loads(x)\n")


def test_the_same_exception_three_times_in_a_row_ends_the_run_with_its_place(tmp_path):
    """Its message may differ. The place is the user's, not that in the library."""
    bug_of(tmp_path)
    text = "'{' + ' ' * __import__('os').getpid()"
    code = RAISES.format(folder=str(tmp_path), ready=READY, text=text)
    with cluster_of(tmp_path, ("actor", python(code)), ("learner", SLEEP, True)) as cluster:
        wait_for(lambda: cluster.failure() is not None)
        said, state = cluster.failure(), cluster.states()["actor", 0]
        place, path = f"{tmp_path}/environment.py, line 4", cluster.log_path("actor", 0)
        assert said.startswith(
            "actor 0 has ended 3 times in a row with json.decoder.JSONDecodeError: Expecting "
            "property"
        )
        assert f"({place}): correct the error" in said and said.endswith(f"(its log is {path})")
        assert "\n" not in said and state.has_been_ready and state.restarts == 2


@pytest.mark.parametrize("why", ["another place", "worked long"])
def test_other_exceptions_are_not_the_same(tmp_path, monkeypatch, why):
    bug_of(tmp_path)
    ready, marker = READY, str(tmp_path / "marker")
    if why == "worked long":
        monkeypatch.setattr(launcher, "_REPEAT_SECONDS", 0.0)
    else:
        ready += f"if os.path.exists({marker!r}): os.remove({marker!r}); 1 / 0\n"
        ready += f"open({marker!r}, 'w')\n"
    code = RAISES.format(folder=str(tmp_path), ready=ready, text="'{'")
    with cluster_of(tmp_path, ("actor", python(code))) as cluster:
        wait_for(lambda: cluster.states()["actor", 0].restarts >= 4)
        assert cluster.failure() is None


def test_a_command_that_does_not_exist_fails_the_start(tmp_path):
    cluster = cluster_of(tmp_path, ("actor", SLEEP), ("learner", ["no-such-program"]))
    with pytest.raises(ClusterError, match="learner 0 cannot be started.*no-such-program"):
        cluster.start()
    assert not cluster.states()["actor", 0].running


STARTER = """
import os, signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)"
sleepers = [[sys.executable, "-c", deaf + "; time.sleep(600)"], ["sleep", "600"]]
started = [subprocess.Popen(one, stdout=subprocess.PIPE) for one in sleepers]
started[0].stdout.readline()
{before}
print(*[one.pid for one in started], flush=True)
{after}
"""
"""A role that starts two processes, one of them deaf to SIGTERM, and prints their ids."""


def started_by(log, start=-1):
    """The ids that a start of `STARTER` has printed."""
    return [int(pid) for pid in log.read_text().splitlines()[start].split()]


@pytest.mark.parametrize(
    "after",
    ["time.sleep(600)", "os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(7)", "sys.exit(0)"],
    ids=["stopped", "killed", "failed", "done"],
)
def test_what_a_process_starts_ends_with_it(tmp_path, after):
    command = python(STARTER.format(before=READY, after=after))
    is_last = after == "sys.exit(0)"
    with cluster_of(tmp_path, ("role", command, is_last), ("other", SLEEP)) as cluster:
        log = cluster.log_path("role", 0)
        if after == "time.sleep(600)" or is_last:
            wait_for(lambda: log.exists() and log.read_text().endswith("\n"))
            assert is_last or all(is_alive(pid) for pid in started_by(log))
        else:
            wait_for(lambda: log.exists() and log.read_text().count("\n") >= 2)
            wait_for(lambda: not any(is_alive(pid) for pid in started_by(log, 0)))  # at its restart
    wait_for(lambda: not any(is_alive(pid) for pid in started_by(log)))


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_killing_the_launcher_leaves_nothing(tmp_path):
    launcher_code = textwrap.dedent(f"""
        import sys, time
        from common.cluster.launcher import LocalCluster
        from common.cluster.local_process import Process
        deaf, sleep = {DEAF!r}, {SLEEP!r}
        starter = {python(STARTER.format(before="", after="time.sleep(600)"))!r}
        with LocalCluster([Process("learner", 0, deaf), Process("actor", 0, sleep),
                           Process("worker", 0, starter)], {str(tmp_path)!r}) as cluster:
            assert "tensorflow" not in sys.modules
            print(*[state.pid for state in cluster.states().values()], flush=True)
            time.sleep(600)
    """)
    launched = subprocess.Popen([sys.executable, "-c", launcher_code], stdout=subprocess.PIPE)
    pids = [int(pid) for pid in launched.stdout.readline().split()]
    assert len(pids) == 3
    wait_for(lambda: (tmp_path / "learner-0.log").read_text() == "up\n")
    wait_for(lambda: (tmp_path / "worker-0.log").read_text().endswith("\n"))
    pids += started_by(tmp_path / "worker-0.log")
    assert len(pids) == 5 and all(is_alive(pid) for pid in pids)
    launched.kill()
    launched.wait()
    launched.stdout.close()
    wait_for(lambda: not any(is_alive(pid) for pid in pids))
