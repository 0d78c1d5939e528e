"""`replay-rl PROGRAM`, the command of an installed wheel, which `python -m binaries` is, too."""

import subprocess
import sys

from test_help import NAMES, ROOT


def run(*arguments):
    command = [sys.executable, "-m", "binaries", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_lists_the_programs():
    done = run()
    assert done.returncode == 0
    assert {line.split()[0] for line in done.stdout.splitlines()[2:]} == NAMES


def test_it_runs_one():
    done = run("d4pg", "--environment=control:cartpole:swingup", "--setting=d5pg")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown --setting=d5pg: did you mean")


def test_an_unknown_one_is_one_line():
    done = run("evalute", "--workdir=runs/one")
    assert done.returncode == 2
    assert done.stderr == 'error: there is no program "evalute": did you mean evaluate?\n'
