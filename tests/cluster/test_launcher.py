import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from common.cluster.errors import ClusterError
from common.cluster.launcher import GIVE_UP_CODE, LocalCluster, Role


def python(code):
    return [sys.executable, "-c", textwrap.dedent(code)]


SLEEP = python("import time; print('up', flush=True); time.sleep(60)")
DEAF = python(
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('up', flush=True); time.sleep(60)"
)


def wait_for(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_roles_run_log_and_stop(tmp_path):
    code = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("saved", flush=True), sys.exit(0)))
        print("out", flush=True)
        print("err", file=sys.stderr, flush=True)
        time.sleep(60)
    """
    cluster = LocalCluster([Role("learner", 0, python(code)), Role("actor", 3, SLEEP)], tmp_path)
    with cluster:
        log = cluster.log_path("learner", 0)
        assert wait_for(lambda: log.read_text() == "out\nerr\n")
        states = cluster.states()
        assert set(states) == {("learner", 0), ("actor", 3)}
        assert all(state.running and alive(state.pid) for state in states.values())
        assert states["learner", 0].exit_code is None
    states = cluster.states()
    assert not any(state.running or alive(state.pid) for state in states.values())
    assert states["learner", 0].exit_code == 0
    assert states["actor", 3].exit_code == -signal.SIGTERM
    assert log.read_text() == "out\nerr\nsaved\n"
    assert cluster.failure() is None
    cluster.stop()  # once more does no harm


def test_a_role_that_ignores_sigterm_is_killed(tmp_path):
    cluster = LocalCluster([Role("actor", 0, DEAF)], tmp_path)
    cluster.start()
    assert wait_for(lambda: cluster.log_path("actor", 0).read_text() == "up\n")
    begin = time.monotonic()
    cluster.stop(timeout_seconds=0.3)
    assert 0.25 < time.monotonic() - begin < 3.0
    assert cluster.states()["actor", 0].exit_code == -signal.SIGKILL


def test_a_killed_role_starts_again_and_its_log_goes_on(tmp_path):
    with LocalCluster(
        [Role("actor", 0, SLEEP, restart=True), Role("actor", 1, SLEEP)],
        tmp_path,
        restart_delay_seconds=0.05,
    ) as cluster:
        log = cluster.log_path("actor", 0)
        assert wait_for(lambda: log.read_text() == "up\n")
        first, other = (cluster.states()["actor", i].pid for i in range(2))
        os.kill(first, signal.SIGKILL)
        assert wait_for(lambda: log.read_text() == "up\nup\n")
        state = cluster.states()["actor", 0]
        assert state.running and state.restarts == 1 and state.pid != first
        assert state.exit_code == -signal.SIGKILL
        assert cluster.states()["actor", 1].pid == other
        assert cluster.failure() is None


def test_exit_code_zero_means_done(tmp_path):
    with LocalCluster(
        [Role("evaluator", 0, python("print('done')"), restart=True)], tmp_path
    ) as cluster:
        assert wait_for(lambda: cluster.states()["evaluator", 0].exit_code == 0)
        time.sleep(0.2)
        state = cluster.states()["evaluator", 0]
        assert not state.running and state.restarts == 0
        assert cluster.failure() is None


def test_a_role_that_dies_at_every_start_is_given_up(tmp_path):
    code = "import sys; print('no such environment'); sys.exit(3)"
    with LocalCluster(
        [Role("actor", 7, python(code), restart=True)],
        tmp_path,
        give_up_after=3,
        restart_delay_seconds=0.01,
    ) as cluster:
        assert wait_for(lambda: cluster.failure() is not None)
        text = cluster.failure()
        assert "actor 7" in text and "exit code 3" in text and "given up" in text
        assert "no such environment" in text
        time.sleep(0.2)
        assert cluster.states()["actor", 7].restarts == 2
        assert cluster.log_path("actor", 7).read_text() == "no such environment\n" * 3


def test_deaths_after_a_long_life_are_not_counted(tmp_path):
    code = "import sys, time; time.sleep(0.15); sys.exit(1)"
    with LocalCluster(
        [Role("actor", 0, python(code), restart=True)],
        tmp_path,
        give_up_after=2,
        life_seconds=0.1,
        restart_delay_seconds=0.01,
    ) as cluster:
        assert wait_for(lambda: cluster.states()["actor", 0].restarts >= 3)
        assert cluster.failure() is None


def test_many_kills_are_survived_by_who_runs_in_between(tmp_path):
    """More kills than lives, some close to each other; a crash at each start would be the end."""
    with LocalCluster(
        [Role("actor", 0, SLEEP, restart=True)],
        tmp_path,
        give_up_after=3,
        life_seconds=0.2,
        restart_delay_seconds=0.01,
    ) as cluster:
        for kill in range(8):
            assert wait_for(lambda: cluster.log_path("actor", 0).read_text() == "up\n" * (kill + 1))
            if kill % 2:
                time.sleep(0.4)
            os.kill(cluster.states()["actor", 0].pid, signal.SIGKILL)
            assert wait_for(lambda: cluster.states()["actor", 0].restarts == kill + 1)
        assert cluster.failure() is None


def test_a_stop_while_a_role_waits_for_its_restart(tmp_path):
    with LocalCluster(
        [Role("actor", 0, SLEEP, restart=True)], tmp_path, restart_delay_seconds=0.5
    ) as cluster:
        log = cluster.log_path("actor", 0)
        assert wait_for(lambda: log.read_text() == "up\n")
        os.kill(cluster.states()["actor", 0].pid, signal.SIGKILL)
        assert wait_for(lambda: not cluster.states()["actor", 0].running)
    time.sleep(0.8)
    state = cluster.states()["actor", 0]
    assert not state.running and state.restarts == 0 and log.read_text() == "up\n"


@pytest.mark.parametrize(
    "end, text",
    [
        ("sys.exit(2)", "exit code 2"),
        ("os.kill(os.getpid(), 11)", "signal 11 (Segmentation fault)"),
    ],
)
def test_the_failure_of_a_role_is_readable(tmp_path, end, text):
    code = f"import os, sys\nfor i in range(1000): print('line', i, flush=True)\n{end}"
    with LocalCluster(
        [Role("learner", 0, python(code)), Role("actor", 0, SLEEP)], tmp_path
    ) as cluster:
        assert wait_for(lambda: cluster.failure() is not None)
        lines = cluster.failure().splitlines()
        assert "learner 0" in lines[0] and text in lines[0]
        assert str(cluster.log_path("learner", 0)) in lines[0]
        assert lines[1:] == [f"line {i}" for i in range(985, 1000)]
        assert cluster.states()["actor", 0].running


def test_a_mistake_of_the_user_is_given_up_at_once_in_one_line(tmp_path):
    code = (
        f"import sys; print('much before'); print('error: the file x is damaged'); "
        f"sys.exit({GIVE_UP_CODE})"
    )
    with LocalCluster(
        [Role("learner", 0, python(code), restart=True)], tmp_path, restart_delay_seconds=0.01
    ) as cluster:
        assert wait_for(lambda: cluster.failure() is not None)
        path = cluster.log_path("learner", 0)
        assert cluster.failure() == f"learner 0: the file x is damaged (its log is {path})"
        time.sleep(0.2)
        assert cluster.states()["learner", 0].restarts == 0


def test_environment_and_arguments_arrive_as_they_are(tmp_path):
    odd = {
        "TF_CONFIG": json.dumps({"a": ["b c", "\"'%(here)s %% ; # $HOME\\"]}),
        "EMPTY": "",
        "LINES": "1\n2",
    }
    argument = "--x=%s; # \"' $HOME"
    code = (
        f"import json, os, sys\nprint(json.dumps([sys.argv[1], "
        f"{{name: os.environ[name] for name in {list(odd)}}}]))"
    )
    with LocalCluster([Role("actor", 0, [*python(code), argument], odd)], tmp_path) as cluster:
        assert wait_for(lambda: cluster.states()["actor", 0].exit_code == 0)
        assert json.loads(cluster.log_path("actor", 0).read_text()) == [argument, odd]


def test_a_command_that_does_not_exist_fails_the_start(tmp_path):
    cluster = LocalCluster(
        [Role("actor", 0, SLEEP), Role("learner", 0, ["no-such-program"])], tmp_path
    )
    with pytest.raises(ClusterError, match="learner 0 cannot be started.*no-such-program"):
        cluster.start()
    assert not cluster.states()["actor", 0].running


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_killing_the_launcher_leaves_nothing(tmp_path):
    launcher = subprocess.Popen(
        python(f"""
        import sys, time
        from common.cluster.launcher import LocalCluster, Role
        deaf, sleep = {DEAF!r}, {SLEEP!r}
        with LocalCluster([Role("learner", 0, deaf), Role("actor", 0, sleep, restart=True)],
                          {str(tmp_path)!r}) as cluster:
            assert "tensorflow" not in sys.modules
            print(*[state.pid for state in cluster.states().values()], flush=True)
            time.sleep(60)
    """),
        stdout=subprocess.PIPE,
    )
    pids = [int(pid) for pid in launcher.stdout.readline().split()]
    assert len(pids) == 2
    assert wait_for(lambda: (tmp_path / "learner-0.log").read_text() == "up\n")
    assert all(alive(pid) for pid in pids)
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    assert wait_for(lambda: not any(alive(pid) for pid in pids), 3.0)
