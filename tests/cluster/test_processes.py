"""Tests of common.cluster.processes and local_process, with small modules in place of roles."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import types

from launched import is_alive, wait_for
import pytest

from common.cluster import processes
from common.cluster.errors import ClusterError
from common.cluster.launcher import LocalCluster
from common.cluster.local_process import Process

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="the signal is Linux's")


def run(code):
    """Runs a program to its end; returns its exit code and its output."""
    ended = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    return ended.returncode, ended.stdout


CHILD = """
import os, time
from common.cluster.processes import set_parent_death_signal
set_parent_death_signal(os.getppid())
print(os.getpid(), flush=True)
time.sleep(60)
"""


@linux_only
def test_a_child_dies_with_its_parent():
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])",
            CHILD,
        ],
        stdout=subprocess.PIPE,
    )
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not is_alive(child))


@linux_only
def test_a_child_whose_parent_has_died_already_ends_at_once():
    code = (
        "from common.cluster.processes import set_parent_death_signal as s\n"
        f"s({os.getpid()})\nprint('mine', flush=True)\ns(999999999)\nprint('other')"
    )
    assert run(code) == (-signal.SIGKILL, "mine\n")


def test_a_stop_request_is_a_flag_and_the_second_interrupt_raises():
    code = """
import os, signal
from common.cluster.processes import StopRequest
stop = StopRequest().install()
assert not stop.requested and not stop.wait(0.01)
os.kill(os.getpid(), signal.SIGTERM)
assert stop.requested and stop.wait(60)
os.kill(os.getpid(), signal.SIGTERM)
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt as error:
    print(error)
"""
    assert run(code) == (0, "interrupted twice: ended without waiting\n")


def test_the_first_interrupt_only_asks_also_if_it_comes_twice():
    code = """
import os, signal
from common.cluster.processes import StopRequest
stop = StopRequest().install()
for _ in range(2):  # as from a terminal and from `timeout`, which passes it on
    os.kill(os.getpid(), signal.SIGINT)
print(stop.requested, stop.exit_code)
other = StopRequest()
other.request()
print(other.requested, other.exit_code)
"""
    assert run(code) == (0, "True 130\nTrue 0\n")


@pytest.mark.parametrize("handler, stops", [("SIG_IGN", False), ("SIG_DFL", True)])
def test_a_hangup_stops_what_was_not_started_with_nohup(handler, stops):
    code = f"""
import os, signal
from common.cluster.processes import StopRequest
signal.signal(signal.SIGHUP, signal.{handler})
stop = StopRequest().install()
os.kill(os.getpid(), signal.SIGHUP)
print(stop.requested)
"""
    assert run(code) == (0, f"{stops}\n")


def test_exit_codes_are_known_though_the_caller_ignored_those_of_its_children():
    code = """
import os, signal, subprocess, sys
from common.cluster.processes import StopRequest
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as after: trap '' CHLD
StopRequest().install()
print(subprocess.run([sys.executable, "-c", "raise SystemExit(7)"]).returncode)
"""
    assert run(code) == (0, "7\n")


END = """
import hashlib, os, signal, threading, time
from common.cluster.processes import StopRequest
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored, and stays so
stop = StopRequest().install()
{early}
stop.end_within({seconds}, lambda: print("last", flush=True))
{late}
"""


@pytest.mark.parametrize("name, is_early", [("SIGTERM", False), ("SIGINT", True)])
def test_a_signal_ends_a_process_that_is_held_up(name, is_early):
    kill = f"os.kill(os.getpid(), signal.{name})"
    early = kill if is_early else f"threading.Timer(0.2, lambda: {kill}).start()"
    # Python handles no signal during this call, of a quarter of an hour.
    held_up = "hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"
    code = END.format(early=early, seconds=0.1, late=held_up)
    assert run(code) == (128 + signal.Signals[name], "last\n")


def test_a_signal_that_the_environment_handles_ends_nothing():
    late = """
signal.signal(signal.SIGALRM, lambda *_: print("alarm", flush=True))
signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
time.sleep(1)
signal.setitimer(signal.ITIMER_REAL, 0)
print(stop.requested, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
"""
    code, output = run(END.format(early="", seconds=0.2, late=late))
    assert code == 128 + signal.SIGTERM and output.count("alarm\n") > 3
    assert output.replace("alarm\n", "") == "False\nlast\n"


def test_an_end_in_time_and_the_signal_of_a_forked_process_end_nothing():
    late = """
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGHUP)
    os._exit(stop.exit_code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), stop.requested, flush=True)
time.sleep(0.5)
stop.take_time()
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.5)
print(stop.requested)
"""
    assert run(END.format(early="", seconds=0.2, late=late)) == (0, "129 False\nTrue\n")


def test_threads_are_limited(monkeypatch):
    said = {}
    threading = types.SimpleNamespace(
        set_intra_op_parallelism_threads=lambda count: said.update(intra=count),
        set_inter_op_parallelism_threads=lambda count: said.update(inter=count),
    )
    tensorflow = types.SimpleNamespace(config=types.SimpleNamespace(threading=threading))
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    monkeypatch.setattr(os, "environ", {})
    processes.limit_threads(3)
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    assert os.environ == processes.thread_environment(3) == dict.fromkeys(names, "3")
    assert said == {"intra": 3, "inter": 3}


def test_patience_ends_only_without_answers(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(processes.Patience, "default_seconds", 60.0)
    patience = processes.Patience("no answer from the learner")
    for _ in range(4):
        now += 50.0
        patience.check()
        patience.renew()
    now += 61.0
    with pytest.raises(ClusterError, match="no answer from the learner for 1 minutes"):
        patience.check()


@pytest.mark.skipif(sys.platform != "linux", reason="malloc is glibc's")
def test_free_memory_between_objects_is_returned():
    code = """
import pathlib, re
from common.cluster.processes import return_free_memory
def held():
    rollup = pathlib.Path("/proc/self/smaps_rollup").read_text()
    return int(re.search(r"Anonymous: +(\\d+)", rollup)[1])
blocks = [bytearray(b"x" * 50_000) for _ in range(2_000)]
del blocks[::2]
before = held()
return_free_memory()
print(before - held())
"""
    assert int(run(code)[1]) > 30_000  # of 49,000 kB that are free


REPORT = """
    import json, os, sys, tempfile
    from common.cluster.processes import report_ready
    import preloaded

    if __name__ == "__main__":
        report_ready()
        print(json.dumps({"argv": sys.argv[1:], "command": sys.orig_argv, "parent": os.getppid(),
                          "leads": os.getsid(0) == os.getpid(), "input": sys.stdin.read(),
                          "variable": os.environ.get("VARIABLE"), "at": preloaded.PID,
                          "temporary": tempfile.gettempdir(),
                          "shown": open("/proc/self/cmdline").read().strip(chr(0)).split(chr(0))}))
        print("error", file=sys.stderr)
        sys.exit(7)
"""
LARGE = "x" * 100_000
"""The value of a variable, longer than a pipe takes at once."""
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with modules that can be imported: `write(name, code)`."""
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", ""), os.getcwd()])
    monkeypatch.setenv("PYTHONPATH", path)
    code = "import os, tempfile\nPID, FOLDER = os.getpid(), tempfile.gettempdir()"
    write(tmp_path, "preloaded", code)
    return tmp_path


def write(folder, name, code):
    (folder / f"{name}.py").write_text(textwrap.dedent(code))


def cluster_of(folder, module, preload=("preloaded",), **options):
    command = [sys.executable, "-m", module, "an argument", "--flag=1"]
    variables = {"VARIABLE": LARGE, "TMPDIR": str(folder)}
    process = Process("learner", 0, command, variables)
    return LocalCluster([process], folder, preload=preload, pause_seconds=0.01, **options)


def wait_for_up(log, times=1):
    """Returns when a role has written "up" so often."""
    wait_for(lambda: log.exists() and log.read_text().count("up") == times)


SAYS_TEMPLATE = f"import preloaded; print(preloaded.PID, flush=True)\n{SLEEP}"


@pytest.fixture
def forked_role(folder):
    """A cluster whose role was forked, its log, the ids of the template and of the role."""
    write(folder, "role", SAYS_TEMPLATE)
    with cluster_of(folder, "role") as cluster:
        log = cluster.log_path("learner", 0)
        wait_for_up(log)
        template, pid = int(log.read_text().splitlines()[0]), cluster.states()["learner", 0].pid
        assert template not in (pid, os.getpid())
        yield cluster, log, template, pid


def test_a_fork_is_a_program_and_a_child_of_the_launcher(folder):
    write(folder, "role", REPORT)
    with cluster_of(folder, "role") as cluster:
        log = cluster.log_path("learner", 0)
        wait_for(lambda: log.exists() and "error" in log.read_text())
        wait_for(lambda: cluster.states()["learner", 0].exit_code is not None)
        state = cluster.states()["learner", 0]
    assert state.has_been_ready and state.exit_code == 7
    said = json.loads(log.read_text().splitlines()[0])
    template = said.pop("at")
    assert template not in (os.getpid(), state.pid) and not is_alive(template)
    assert said.pop("shown") == said["command"]
    assert said == {
        "argv": ["an argument", "--flag=1"],
        "command": [sys.executable, "-m", "role", "an argument", "--flag=1"],
        "parent": os.getpid(),
        "leads": True,
        "input": "",
        "variable": LARGE,
        "temporary": str(folder),
    }


def test_a_fork_killed_by_a_signal_is_restarted_from_the_template(forked_role):
    cluster, log, template, first = forked_role
    os.kill(first, signal.SIGKILL)
    wait_for_up(log, 2)
    wait_for(lambda: cluster.states()["learner", 0].running)  # it may write before that is noted
    state = cluster.states()["learner", 0]
    assert state.restarts == 1 and state.exit_code == -signal.SIGKILL and state.pid != first
    cluster.stop()
    assert not is_alive(first) and not is_alive(state.pid)
    assert log.read_text().splitlines().count(str(template)) == 2


@pytest.mark.parametrize(
    "code",
    [
        "raise RuntimeError('broken')",
        "import threading, time; threading.Thread(target=time.sleep, args=[600]).start()",
    ],
    ids=["error", "thread"],
)
def test_without_a_template_each_process_imports_for_itself(folder, code):
    write(folder, "unsafe", f"import sys\nif sys.argv[1:2] != ['an argument']:\n    {code}")
    write(folder, "role", SLEEP)
    with cluster_of(folder, "role", preload=("unsafe",)) as cluster:
        log = cluster.log_path("learner", 0)
        wait_for_up(log)
        assert cluster.failure() is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["dead", "frozen"])
def test_a_dead_or_frozen_template_is_not_missed(forked_role, number):
    cluster, log, template, pid = forked_role
    cluster._template._socket.settimeout(3.0)  # the first fork may take longer
    os.kill(template, number)
    os.kill(pid, signal.SIGKILL)
    wait_for_up(log, 2)
    assert not is_alive(template)


def test_a_stop_does_not_wait_for_a_frozen_template(forked_role):
    cluster, _, template, pid = forked_role
    os.kill(template, signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: cluster.states()["learner", 0].restarts == 1)
    begin = time.monotonic()
    cluster.stop(20.0)
    assert time.monotonic() - begin < 30


def test_forks_and_template_die_with_the_launcher(folder):
    write(folder, "role", f"import os\nprint(os.getpid(), flush=True)\n{SLEEP}")
    write(
        folder,
        "launch",
        f"""
        import sys, time, preloaded
        from common.cluster.launcher import LocalCluster
        from common.cluster.local_process import Process

        command = [sys.executable, "-m", "role"]
        processes = [Process("actor", index, command) for index in range(3)]
        with LocalCluster(processes, {str(folder)!r}, preload=["preloaded", "role_of"]) as cluster:
            time.sleep(600)
        """,
    )
    write(
        folder,
        "role_of",
        f"import os\nopen({str(folder / 'template')!r}, 'w').write(str(os.getpid()))",
    )
    with subprocess.Popen([sys.executable, "-m", "launch"]) as launcher:
        logs = [folder / f"actor-{index}.log" for index in range(3)]
        wait_for(lambda: all(log.exists() and "up" in log.read_text() for log in logs))
        launcher.kill()
    pids = [int(log.read_text().splitlines()[0]) for log in logs]
    pids.append(int((folder / "template").read_text()))
    wait_for(lambda: not any(map(is_alive, pids)))
