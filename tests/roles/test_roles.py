"""Roles as programs of their own, started by hand through TF_CONFIG, and as the pages say.

One of two actor processes of D4PG is never started: the run goes on without it.
"""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys

from launched import ROOT, forked, run_light
import pytest
from watched_run import TOKEN, RunByHand

from common.cluster.topology import Topology
from common.evidence.claims import Evidence, MainEffects
from common.evidence.effects import EffectPart
from common.evidence.keep import keep
from common.evidence.paper import Run, run_path
from common.evidence.plan import make_plan
from common.evidence.reported import Reported
from common.evidence.runs import KeptRuns
from common.program.layouts import DISTRIBUTED, WORKERS
from common.reporting.budget import Budget
from common.reporting.csv_rows import last_row, read_rows
import reproductions

BATCH, RATIO, MIN_SIZE, UPDATES_PER_CALL, SEND_BATCH, STEPS = 32, 4, 200, 4, 50, 500
OPEN_ELEMENTS = 5  # transitions of an actor whose n = 5 steps are not complete
ENVIRONMENT = "python:reproductions.d4pg.own_environment:make"
FLAGS = (
    f"--environment={ENVIRONMENT}",
    "--num_actors=2",
    "--actor_processes=2",
    "--learner_threads=1",
    "--evaluation_episodes=2",
    "--evaluation_seconds=1",
    f"--max_learner_steps={STEPS}",
    "--scale=paper",
    "--scale_changes=2 actors",
    "--config.policy_sizes=(16,16)",
    "--config.critic_sizes=(16,16)",
    f"--config.batch_size={BATCH}",
    f"--config.min_replay_size={MIN_SIZE}",
    f"--config.samples_per_insert={RATIO}",
    f"--config.updates_per_call={UPDATES_PER_CALL}",
    f"--config.send_batch={SEND_BATCH}",
)
ROLES = ("learner", "replay", "actor", "evaluator")
SECONDS = 600
"""Patience with a busy machine."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """A run after its end, and its programs by role."""
    workdir = tmp_path_factory.mktemp("roles") / "run"
    with forked() as start:
        run = RunByHand(start, workdir, "binaries.d4pg", FLAGS, learner=1, replay=1)
        programs = {role: run.start(role) for role in ROLES}
        run.ends(programs.values(), SECONDS)
        yield run, programs


def test_the_evaluator_prints_the_result_and_the_learner_records_the_run(ended):
    run, programs = ended
    output = programs["evaluator"].output
    assert re.search(rf"^finished: evaluator return .* {STEPS} learner steps$", output, re.M), (
        output
    )
    evaluated = last_row(run.workdir / "evaluator.csv")["learner_steps"]
    assert evaluated == run.learner("learner_steps") == STEPS
    (start,) = json.loads((run.workdir / "run.json").read_text())["starts"]
    assert start["outcome"] == "finished" and start["changed"]["evaluation_episodes"] == 2
    assert (start["scale"], start["scale_changes"]) == ("paper", "2 actors")
    assert not any(TOKEN in program.output for program in programs.values())


def test_a_claim_counts_the_run(ended, tmp_path):
    """Kept as the run of two curves that are compared."""
    run, _ = ended
    paper = reproductions.paper("d4pg")
    runs = tuple(Run(paper.agents[0], curve, ENVIRONMENT, ()) for curve in ("first", "second"))
    budget = Budget(learner_steps=STEPS)
    experiment = dataclasses.replace(
        paper.experiment("figure 2"), runs=runs, substitutes={}, budget=budget
    )
    for curve in ("first", "second"):
        path = tmp_path / "runs" / run_path("d4pg", "paper", curve, ENVIRONMENT, seed=0)
        shutil.copytree(run.workdir, path)
    plan = make_plan(paper, experiment, paper.scale("paper"), tmp_path / "runs", num_seeds=1)
    assert len(keep(plan, tmp_path)) == 2
    kept = KeptRuns(tmp_path)
    assert all(kept_run.has_ended for kept_run in kept.of("d4pg", "paper"))
    evidence = Evidence(kept, None, Reported(), tmp_path)
    part = EffectPart("", {"first": 1.0, "second": -1.0})
    finding = MainEffects((part,)).find(paper, experiment, evidence)
    (judged,) = finding.effects
    assert finding.coverage == (1, 1, 0, 1) and judged.effect.estimate == pytest.approx(0, abs=1e-9)


def test_actor_steps_are_the_transitions_inserted(ended):
    run, programs = ended
    assert run.learner("actor_steps") == run.learner("replay_size") >= MIN_SIZE
    said = re.search(r"acted for (\d+) steps, (\d+) accepted", programs["actor"].output)
    acted, accepted = map(int, said.groups())
    assert accepted == run.learner("actor_steps")
    assert 0 <= acted - accepted <= OPEN_ELEMENTS
    assert set(read_rows(run.workdir / "acting.csv")["actor"]) == {0}
    run.check_files()
    run.check_accounts(in_order=1)


def test_the_samples_per_insert_are_kept(ended):
    """The learner is the faster one here, but while it compiles the actor has to wait for it."""
    run, _ = ended
    tolerance = 2 * max(BATCH * UPDATES_PER_CALL, RATIO * SEND_BATCH)
    on_its_way = RATIO * 12 * SEND_BATCH
    rows = read_rows(run.workdir / "learner.csv")
    for inserted, steps in zip(rows["actor_steps"], rows["learner_steps"], strict=True):
        paid, sampled = RATIO * max(0, inserted - MIN_SIZE), BATCH * steps
        assert paid - tolerance - on_its_way <= sampled <= paid + tolerance
    assert sampled / paid == pytest.approx(1, abs=0.2)


# The examples of pages, run by a shell; a program that shows its arguments is Python.

CLUSTERS = (ROOT / "docs/clusters.md").read_text()
APEX = (ROOT / "reproductions/apex/README.md").read_text()
REACTOR = (ROOT / "reproductions/reactor/REFERENCE.md").read_text()
TOKEN_FILE = ".config/replay_rl/token"
OWN_TOKEN = f"{{home}}/{TOKEN_FILE}"
EXPORT = f'export REPLAY_RL_TOKEN_FILE="$HOME/{TOKEN_FILE}"'
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


MACHINES = "export REPLAY_RL_TOKEN_FILE=/shared/token REPLAY"
D4PG_TASKS = ["learner", "actor", "evaluator"]
APEX_TASKS = ["learner 0", "replay 0", "replay 1", "evaluator 0", "actor 0", "actor 44"]
REACTOR_TASKS = ["parameter_server 0", "evaluator 0", "worker 0", "worker 9"]


@pytest.mark.parametrize(
    "text, first_line, token, layout, program, tasks",
    [
        (CLUSTERS, f"{EXPORT}\n    cluster=", OWN_TOKEN, DISTRIBUTED, "binaries.d4pg", D4PG_TASKS),
        (APEX, MACHINES, "/shared/token", DISTRIBUTED, "binaries.apex_dqn", APEX_TASKS),
        (REACTOR, MACHINES, "/shared/token", WORKERS, "binaries.reactor", REACTOR_TASKS),
    ],
    ids=["d4pg", "apex", "reactor"],
)
def test_roles_by_hand(text, first_line, token, layout, program, tasks, tmp_path):
    script, commands = block(first_line, text), set()
    for task in tasks:
        arguments, variables = json.loads(shell(tmp_path, f"{script}\nrole {task}"))
        place = Topology.from_environment(layout.roles, variables)
        assert task in (place.job, f"{place.job} {place.index}")
        assert variables["REPLAY_RL_TOKEN_FILE"] == token.format(home=tmp_path)
        assert arguments[:3] == ["-m", program, f"--role={place.job}"]
        commands.add(tuple(arguments[3:]))
    (command,) = commands  # the same flags for all
    check_flags(command, tmp_path, program)


def test_the_token_is_one_that_only_its_owner_can_read(tmp_path):
    shell(tmp_path, block(f"{EXPORT}\n    (umask 077"))
    assert (tmp_path / TOKEN_FILE).stat().st_mode & 0o077 == 0
    assert len((tmp_path / TOKEN_FILE).read_text().strip()) == 64


@pytest.mark.parametrize(
    "text, tasks, token, before, program",
    [
        (CLUSTERS, 8, OWN_TOKEN, [], "binaries.d4pg"),
        (APEX, 45 + 2 + 1 + 1, "/shared/token", ["--replay_shards=2"], "binaries.apex_dqn"),
        (REACTOR, 10 + 1 + 1, "/shared/token", ["--num_workers=10"], "binaries.reactor"),
    ],
    ids=["d4pg", "apex", "reactor"],
)
def test_the_slurm_job(text, tasks, token, before, program, tmp_path):
    script = block("#!/bin/bash\n    #SBATCH", text)
    assert re.search(r"--ntasks=(\d+)", script)[1] == str(tasks)
    # Of srun there is what it does for one task: to run the command after -c N, which it would not
    # take from sbatch.
    (tmp_path / "srun").write_text('#!/bin/bash\n[ "$1" = -c ] && shift 2 && exec "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    arguments, variables = json.loads(
        shell(tmp_path, script, PATH=f"{tmp_path}:{os.environ['PATH']}")
    )
    assert variables["REPLAY_RL_TOKEN_FILE"] == token.format(home=tmp_path)
    begin = ["-m", program, "--role=slurm", *before]
    assert arguments[: len(begin)] == begin
    check_flags(arguments[len(begin) :], tmp_path, program)


def check_flags(arguments, folder, program):
    """The real program reads them all: it complains of nothing but the task that is put last."""
    own = (f"--workdir={folder}/run", "--environment=control:no:no", "--role=local")
    code, output = run_light(program, [*arguments, *own])
    (line,) = output.splitlines()
    assert code == 2 and "control:no:no" in line
