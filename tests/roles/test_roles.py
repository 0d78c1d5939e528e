"""The roles of D4PG as programs of their own, started by hand through TF_CONFIG.

One of two actor processes is never started: the run goes on without it.
"""

import dataclasses
import json
import re
import shutil

from by_hand import TOKEN, RunByHand
from forked import forked
import pytest

from common.evidence.claims import EffectPart, Evidence
from common.evidence.keep import keep
from common.evidence.main_effects import MainEffects
from common.evidence.paper import Run, run_path
from common.evidence.plan import make_plan
from common.evidence.reported import Reported
from common.evidence.runs import KeptRuns
from common.reporting import csv_rows
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
    (one,) = json.loads((run.workdir / "run.json").read_text())["starts"]
    assert one["outcome"] == "finished" and one["changed"]["evaluation_episodes"] == 2
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
    assert all(one.has_ended for one in kept.of("d4pg", "paper"))
    evidence = Evidence(kept, None, Reported(), tmp_path)
    part = EffectPart("", {"first": 1.0, "second": -1.0})
    finding = MainEffects((part,)).find(paper, experiment, evidence)
    (one,) = finding.effects
    assert finding.coverage == (1, 1, 0, 1) and one.effect.estimate == pytest.approx(0, abs=1e-9)


def test_the_csv_files_are_whole(ended):
    run, _ = ended
    wanted = {
        "learner.csv": csv_rows.LEARNER,
        "acting.csv": csv_rows.ACTING,
        "evaluator.csv": csv_rows.EVALUATOR,
    }
    for name, names in wanted.items():
        lines = (run.workdir / name).read_text().splitlines()
        header = lines[0].split(",")
        assert tuple(header[: len(names)]) == names
        assert len(lines) > 1
    assert set(read_rows(run.workdir / "acting.csv")["actor"]) == {0}
    run.check_files()
    run.check_accounts(in_order=1)


def test_the_last_evaluation_is_of_the_last_parameters(ended):
    run, _ = ended
    assert run.learner("learner_steps") == STEPS
    assert last_row(run.workdir / "evaluator.csv")["learner_steps"] == STEPS


def test_actor_steps_are_the_transitions_inserted(ended):
    run, programs = ended
    assert run.learner("actor_steps") == run.learner("replay_size") >= MIN_SIZE
    said = re.search(r"acted for (\d+) steps, (\d+) accepted", programs["actor"].output)
    acted, accepted = map(int, said.groups())
    assert accepted == run.learner("actor_steps")
    assert 0 <= acted - accepted <= OPEN_ELEMENTS


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
