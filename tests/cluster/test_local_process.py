"""Forks of a template, with small modules in the places of roles."""

import json
import os
import signal
import subprocess
import sys
import textwrap

from launched import is_alive, wait_for
import pytest

from common.cluster.launcher import LocalCluster
from common.cluster.local_process import Process, Template

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
    process = Process("learner", 0, command, {"VARIABLE": "a value", "TMPDIR": str(folder)})
    return LocalCluster([process], folder, preload=preload, pause_seconds=0.01, **options)


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
        "variable": "a value",
        "temporary": str(folder),
    }


def test_a_fork_killed_by_a_signal_is_restarted_from_the_template(folder):
    write(folder, "role", f"import preloaded; print(preloaded.PID, flush=True)\n{SLEEP}")
    with cluster_of(folder, "role") as cluster:
        log = cluster.log_path("learner", 0)
        wait_for(lambda: log.exists() and "up" in log.read_text())
        first = cluster.states()["learner", 0].pid
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: log.read_text().count("up") == 2)
        wait_for(
            lambda: cluster.states()["learner", 0].running
        )  # it may write before that is noted
        state = cluster.states()["learner", 0]
        assert state.restarts == 1 and state.exit_code == -signal.SIGKILL and state.pid != first
    assert not is_alive(first) and not is_alive(state.pid)
    templates = [line for line in log.read_text().splitlines() if line.isdigit()]
    assert len(templates) == 2 and len(set(templates)) == 1


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
        wait_for(lambda: log.exists() and "up" in log.read_text())
        assert cluster.failure() is None


def test_a_dead_template_is_not_missed(folder):
    write(folder, "role", f"import preloaded; print(preloaded.PID, flush=True)\n{SLEEP}")
    with cluster_of(folder, "role") as cluster:
        log = cluster.log_path("learner", 0)
        wait_for(lambda: log.exists() and "up" in log.read_text())
        os.kill(int(log.read_text().splitlines()[0]), signal.SIGKILL)
        os.kill(cluster.states()["learner", 0].pid, signal.SIGKILL)
        wait_for(lambda: log.read_text().count("up") == 2)


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


def test_a_large_environment_is_no_reason_to_fail(folder, monkeypatch):
    monkeypatch.setenv("LARGE", "x" * 100_000)
    write(folder, "role", f"import os; assert len(os.environ['LARGE']) == 100_000\n{SLEEP}")
    with cluster_of(folder, "role") as cluster:
        log = cluster.log_path("learner", 0)
        wait_for(lambda: log.exists() and "up" in log.read_text())


def test_fork_fails_once_the_template_has_ended(folder):
    template = Template(["preloaded"])
    template.kill()
    try:
        with pytest.raises(OSError):
            template.fork(["role"], {}, 1, 1)
    finally:
        template.close()
