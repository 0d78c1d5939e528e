"""The pages' examples of roles, run by a shell; a program that shows its arguments is Python."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from common.cluster.topology import Topology
from common.program.layouts import DISTRIBUTED, WORKERS

ROOT = pathlib.Path(__file__).parents[2]
CLUSTERS = (ROOT / "docs/clusters.md").read_text()
APEX = (ROOT / "reproductions/apex/README.md").read_text()
REACTOR = (ROOT / "reproductions/reactor/README.md").read_text()
TOKEN = ".config/replay_rl/token"
EXPORT = f'export REPLAY_RL_TOKEN_FILE="$HOME/{TOKEN}"'
SHOW = f"""#!{sys.executable}
import json, os, sys
names = ("TF_CONFIG", "REPLAY_RL_TOKEN_FILE")
print(json.dumps([sys.argv[1:], {{name: os.environ.get(name) for name in names}}]))
"""


def block(first_line, text=CLUSTERS):
    """The indented block of a page that begins with this line."""
    (start,) = [match.start() for match in re.finditer(re.escape(f"    {first_line}"), text)]
    lines = []
    for line in text[start:].splitlines():
        if not line.startswith("    "):
            break
        lines.append(line[4:])
    return "\n".join(lines) + "\n"


def shell(folder, script, **variables):
    """Runs a script in a directory whose .venv/bin/python shows what it is given."""
    python = folder / ".venv/bin/python"
    if not python.exists():
        python.parent.mkdir(parents=True)
        python.write_text(SHOW)
        python.chmod(0o755)
    result = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={**os.environ, "HOME": str(folder), **variables},
    )
    return result.stdout


def test_roles_by_hand(tmp_path):
    script = block(f"{EXPORT}\n    cluster=")
    places, commands = set(), set()
    for role in ("learner", "actor", "evaluator"):
        arguments, variables = json.loads(shell(tmp_path, f"{script}\nrole {role}"))
        place = Topology.from_environment(DISTRIBUTED.roles, variables)
        places.add((place.job, place.own_address))
        assert variables["REPLAY_RL_TOKEN_FILE"] == str(tmp_path / TOKEN)
        assert arguments[:3] == ["-m", "binaries.d4pg", f"--role={role}"]
        commands.add(tuple(arguments[3:]))
    assert len(places) == 3 and len(commands) == 1  # the same flags for all
    (command,) = commands
    assert {"--config.samples_per_insert=64", "--config.min_replay_size=2000"} <= set(command)
    check_flags(command, tmp_path)


@pytest.mark.parametrize(
    "text, layout, program, tasks",
    [
        (
            APEX,
            DISTRIBUTED,
            "binaries.apex_dqn",
            ["learner 0", "replay 0", "replay 1", "evaluator 0", "actor 0", "actor 44"],
        ),
        (
            REACTOR,
            WORKERS,
            "binaries.reactor",
            ["parameter_server 0", "evaluator 0", "worker 0", "worker 9"],
        ),
    ],
    ids=["apex", "reactor"],
)
def test_roles_on_many_machines(text, layout, program, tasks, tmp_path):
    script = block("export REPLAY_RL_TOKEN_FILE=/shared/token REPLAY", text)
    places, commands = set(), set()
    for task in tasks:
        arguments, variables = json.loads(shell(tmp_path, f"{script}\nrole {task}"))
        place = Topology.from_environment(layout.roles, variables)
        places.add(f"{place.job} {place.index}")
        assert variables["REPLAY_RL_TOKEN_FILE"] == "/shared/token"
        assert arguments[:3] == ["-m", program, f"--role={place.job}"]
        commands.add(tuple(arguments[3:]))
    assert places == set(tasks) and len(commands) == 1
    check_flags(commands.pop(), tmp_path, program)


def test_the_token_is_one_that_only_its_owner_can_read(tmp_path):
    shell(tmp_path, block(f"{EXPORT}\n    (umask 077"))
    assert (tmp_path / TOKEN).stat().st_mode & 0o077 == 0
    assert len((tmp_path / TOKEN).read_text().strip()) == 64


@pytest.mark.parametrize(
    "text, tasks, token, before, program",
    [
        (CLUSTERS, 8, f"{{home}}/{TOKEN}", [], "binaries.d4pg"),
        (APEX, 45 + 2 + 1 + 1, "/shared/token", ["--replay_shards=2"], "binaries.apex_dqn"),
        (REACTOR, 10 + 1 + 1, "/shared/token", ["--num_workers=10"], "binaries.reactor"),
    ],
    ids=["d4pg", "apex", "reactor"],
)
def test_the_slurm_job(text, tasks, token, before, program, tmp_path):
    script = block("#!/bin/bash\n    #SBATCH", text)
    assert re.search(r"--ntasks=(\d+)", script)[1] == str(tasks)
    # Of srun there is what it does for one task: to run the command.
    (tmp_path / "srun").write_text('#!/bin/bash\nexec "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    arguments, variables = json.loads(
        shell(tmp_path, script, PATH=f"{tmp_path}:{os.environ['PATH']}")
    )
    assert variables["REPLAY_RL_TOKEN_FILE"] == token.format(home=tmp_path)
    begin = ["-m", program, "--role=slurm", *before]
    assert arguments[: len(begin)] == begin
    check_flags(arguments[len(begin) :], tmp_path, program)


def check_flags(arguments, folder, program="binaries.d4pg"):
    """The real program reads them all: it complains of nothing but the task that is put last."""
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            program,
            *arguments,
            f"--workdir={folder}/run",
            "--environment=control:no:no",
            "--role=local",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (line,) = result.stderr.splitlines()
    assert result.returncode == 2 and "control:no:no" in line
