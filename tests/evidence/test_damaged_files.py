"""Whatever is wrong with a file, its readers name it in one line, or do without what is wrong."""

import contextlib
import dataclasses
import json
import shutil
import warnings

from campaign_driver import PAPER
import damages
import numpy as np
from planted import TASKS
import pytest

from common.acting import loop
from common.cluster import credentials
from common.cluster.errors import ClusterError
from common.cluster.topology import Job, Topology
from common.evidence.atari_scores import final_scores
from common.evidence.claims import Evidence
from common.evidence.execute import COLUMNS, read_list, table
from common.evidence.keep import TableWriter, keep_run
from common.evidence.paper import EPISODE_RETURN, RESULTS, Returns, Run, Scale, run_path
from common.evidence.plan import PlannedRun, State
from common.evidence.reported import Reported
from common.evidence.runs import KeptRuns
from common.reporting import csv_rows
from common.reporting import progress as progress_lib
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvRows
from common.reporting.run_directory import RunDirectory
from common.user_error import UserError
import reproductions

PONG, TIMES = "atari:pong", (*csv_rows.PROGRESS, "environment_frames")


@contextlib.contextmanager
def errors_of(names, damage):
    """Allows an error of one line that has one of the names, and no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            yield
        except (UserError, ClusterError) as error:
            message = str(error)
            assert any(name in message for name in names), f"{names}, {damage}: {message}"
            assert "\n" not in message and len(message) < 2000, f"{names}, {damage}: {message}"
        except Exception as error:
            raise AssertionError(f"{names}, {damage}: {error!r}") from error


def damages_of(path):
    """The damages of a file."""
    of = {".json": damages.of_json, ".jsonl": damages.of_json, ".csv": damages.of_csv}
    return list(of[path.suffix](path.read_bytes()))


def damage_of(path):
    """Yields each damage of a file, with the file in that state."""
    for damage, damaged in damages_of(path):
        path.write_bytes(damaged)
        yield damage


def check_finite(*values):
    assert np.isfinite(np.concatenate([np.ravel(value) for value in values])).all()


def read_kept(root, paper, scale):
    """What figures, tables and claims read of kept runs."""
    runs = KeptRuns(root).of(paper, scale)
    for run in runs:
        check_finite([run.cores, *run.progress])
        assert str(run.budget) and run.has_ended in (True, False)
        for returns, x in zip(Returns, TIMES):
            check_finite(run.points(x, EPISODE_RETURN, returns))
        check_finite(run.points("learner_steps", "actor_steps_per_second", Returns.EVALUATOR))
    scores = final_scores(runs, ("dqn",))
    check_finite(scores[["score", "frames"]].to_numpy(float))
    return runs


@pytest.fixture
def planted(tmp_path):
    """The directory of a run."""
    path = tmp_path / "runs" / run_path("apex", "two_cores", "dqn", PONG, 0)
    path.mkdir(parents=True)
    identity = {"paper": "apex", "setting": "dqn", "environment": PONG, "seed": 0}
    for number, mean in enumerate((0.5, 1.5, 2.5), 1):
        progress = dict(zip(csv_rows.PROGRESS, (100.0 * number, 10_000 * number, 2500 * number)))
        CsvRows(path / "evaluator.csv", csv_rows.EVALUATOR).append(
            {**identity, **progress, "environment_frames": 40_000 * number, "episodes": 10}
            | {"episode_return_mean": mean, "episode_return_std": 1.0}
        )
        rows = CsvRows(path / "learner.csv", csv_rows.LEARNER)
        rows.append(dict.fromkeys(csv_rows.LEARNER, 1.0) | progress)
        rows = CsvRows(path / "acting.csv", csv_rows.ACTING)
        rows.append(dict.fromkeys(csv_rows.ACTING, 7) | {"wall_seconds": 100.0 * number - 1})
    (path / "evaluation.json").write_text('{"episode_return_mean": 30.5, "episodes": 200}\n')
    CsvRows(path / "lives.csv", csv_rows.LIVES).append({"first_actor": 0, "last_actor": 3})
    config = {**identity, "agent": "apex_dqn", "num_actors": 8, "config": {"batch_size": 256}}
    (path / "config.json").write_text(json.dumps(config))
    start = {
        **{"start_time": "then", "end_time": "now", "outcome": "finished", "seed": 0},
        **{"scale": "two_cores", "changed": {}, "versions": {"numpy": "2"}},
        "budget": Budget(minutes=5, learner_steps=20).to_json(),
        "git": {"commit": "c0", "dirty": True, "status": [" M a.py"], "diff": "+1"},
        "machine": {"cpu": "one", "usable_cores": 2},
    }
    (path / "run.json").write_text(json.dumps({"starts": [start]}))
    return path


def planned_run(planted):
    """The run of `planted`, as a plan has it."""
    flags = ("--seed=0", "--config.batch_size=256", "--final_episodes=200")
    run = Run(reproductions.paper("apex").agents[0], "dqn", PONG, ())
    scale, budget = Scale("two_cores", ""), Budget(minutes=5)
    return PlannedRun(run, 0, planted, "apex", scale, budget, flags, (), None)


@pytest.mark.parametrize("name", ["runs.jsonl", "configs.jsonl", "evaluations.csv", "training.csv"])
def test_kept_runs(planted, tmp_path, name):
    kept = tmp_path / "kept"
    assert keep_run(planned_run(planted), kept)
    path = kept / "apex" / f"two_cores.{name}"
    assert len(read_kept(kept, "apex", "two_cores")) == 1
    for damage in damage_of(path):
        with errors_of(["two_cores."], damage):
            read_kept(kept, "apex", "two_cores")
        with errors_of(["two_cores."], damage):
            TableWriter(kept, "apex", "two_cores")


@pytest.mark.parametrize(
    "name",
    ["config.json", "run.json", "evaluation.json", "learner.csv", "acting.csv", "evaluator.csv"],
)
def test_a_run_that_is_kept(planted, tmp_path, name):
    run = planned_run(planted)
    for damage in damage_of(planted / name):
        status = run.read_status()
        assert "\n" not in status.note
        assert status.state is not State.UNUSABLE or name in status.note
        shutil.rmtree(tmp_path / "kept", ignore_errors=True)
        # What a config lacks is noticed at the rows.
        names = [name, "evaluator.csv"] if name == "config.json" else [name]
        with errors_of(names, damage):
            keep_run(run, tmp_path / "kept")


@pytest.mark.parametrize(
    "name", ["config.json", "run.json", "learner.csv", "acting.csv", "lives.csv", "evaluator.csv"]
)
def test_a_run_that_is_continued(planted, name):
    run = RunDirectory(planted)
    config = run.read_config()
    for folder in (run.checkpoints, run.logs):
        folder.mkdir(exist_ok=True)
    others = {path: path.read_bytes() for path in planted.iterdir() if path.is_file()}
    # The error of a config names its directory if other files disagree with it.
    names = [name, str(planted)] if name == "config.json" else [name]
    for damage in damage_of(planted / name):
        with errors_of(names, damage):
            run.open(config)
            run.read_starts()
            assert loop.record_start(run, range(2)) in (0, 1, 2)
            for path in (run.learner_csv, run.evaluator_csv):
                row = csv_rows.last_row(path, csv_rows.PROGRESS) or dict.fromkeys(TIMES, 0)
                check_finite([int(row[column]) for column in csv_rows.PROGRESS])
            CsvRows(run.acting_csv, csv_rows.ACTING)
            assert progress_lib.is_over(run, Budget(minutes=1)) in (True, False)
        with errors_of(names, damage):
            assert reproductions.agent_of(planted)
        for path, content in others.items():
            if path.name != name:
                path.write_bytes(content)


def test_the_result_of_a_run_whose_evaluations_are_damaged(planted):
    """It is a view of a run that has ended: it never makes a failure of it."""
    run = RunDirectory(planted)
    content = run.evaluator_csv.read_bytes()
    for damaged in (
        content * 2,
        content.replace(b",1.5,", b",,"),
        content.replace(b",1.5,", b",one,"),
        content.replace(b",2.5,", b",nan,"),
        content.replace(b"wall", b"\0\0\0\0"),
        content.replace(b"\n", b"\r"),
    ):
        run.evaluator_csv.write_bytes(damaged)
        words = progress_lib.result_of(run, "title", finished=True)
        assert words.startswith("finished: ") and "\n" not in words
        assert "evaluator.csv" in words or "no evaluation" in words
    run.evaluator_csv.write_bytes(content)
    assert progress_lib.result_of(run, "title", finished=True).startswith(
        "finished: evaluator return 2.5 +- "
    )


@pytest.mark.parametrize(
    "name, paper, names",
    [
        (
            *("benchmarks/soak_apex_dqn.json", "apex"),
            ("actors_fail", "replay_fails", "learner_waits", "learner_fails"),
        ),
        ("benchmarks/refer.json", "refer", ("vracer_cost",)),
    ],
)
def test_results_that_decide_claims(tmp_path, name, paper, names):
    (tmp_path / "runs").mkdir()
    for folder in ("reported", "benchmarks"):
        shutil.copytree(RESULTS / folder, tmp_path / folder)
    path, of = tmp_path / name, reproductions.paper(paper)
    evidence = Evidence(KeptRuns(tmp_path / "runs"), None, Reported(), tmp_path / "benchmarks")
    claims = [claim for claim in reproductions.claims(paper) if claim.name in names]
    assert len(claims) == len(names)
    lines = path.read_bytes().splitlines(keepends=True)
    cut = [(f"{n} lines", b"".join(lines[:n])) for n in (1, 2, len(lines) // 2)]
    every = damages_of(path)
    for damage, damaged in [*cut, *every[:: 1 + len(every) // 30]]:
        path.write_bytes(damaged)
        reported = Reported(tmp_path / "reported")
        for claim in claims:
            with errors_of((path.name, str(path.parent)), damage):
                claim.judge(of, dataclasses.replace(evidence, reported=reported))


def test_a_list_of_runs(tmp_path):
    path, short = tmp_path / "list.csv", TASKS[0].partition(":")[2]
    rows = [f"fake,small,figure 1,{setting},{short},2,c" for setting in ("good", "better", "slow")]
    path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")

    def paper(name):
        if name != "fake":
            raise UserError(f"unknown paper {name}")
        return PAPER

    for damage in damage_of(path):
        with errors_of(["list.csv"], damage):
            lines, notes = read_list(path, tmp_path, KeptRuns(tmp_path), paper)
            assert table([(line.name, line.plan.runs, "") for line in lines]) and all(
                "list.csv:" in note for note in notes
            )


def test_tf_config():
    jobs = (Job("learner", ()), Job("actor", ("learner",)))
    text = {"cluster": {"learner": ["a:1"], "actor": ["unix:/b", "c:2"]}}
    text |= {"task": {"type": "actor", "index": "1"}}
    for damage, damaged in damages.of_json(json.dumps(text).encode(), len(damages.VALUES)):
        with errors_of(["TF_CONFIG"], damage):
            found = {"TF_CONFIG": damaged.decode(errors="surrogateescape")}
            Topology.from_environment(jobs, found)


def test_a_token(tmp_path):
    path = tmp_path / "token"
    path.touch(0o600)
    for damage, damaged in damages.of_bytes(b"0123456789abcdef0123456789abcdef\n"):
        path.write_bytes(damaged)
        with errors_of(["token"], damage):
            found = credentials.load_token({credentials.TOKEN_FILE_VARIABLE: str(path)})
            assert found.isprintable() and len(found) >= credentials.MIN_TOKEN_LENGTH
