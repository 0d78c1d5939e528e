"""Tests of the small modules of common.reporting: budgets, command lines, records, curves."""

import errno
import functools
import os
import pty
import subprocess
import sys
import textwrap
import threading

from matplotlib.image import imread
import numpy as np
import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
import tensorflow as tf

from common.reporting import csv_rows, records, tensorboard
from common.reporting.budget import Budget
from common.reporting.command_line import native_output_only_on_failure
from common.reporting.csv_rows import CsvRows
from common.reporting.curves import learning_curve
from common.reporting.progress import result_of
from common.reporting.records import disk_full, usable_cores
from common.reporting.run_directory import RunDirectory
from common.reporting.tensorboard import Events
from common.user_error import UserError


def test_flags_and_words():
    budget = Budget(minutes=1.5, learner_steps=100)
    assert budget.flags == ("--max_minutes=1.5", "--max_learner_steps=100")
    assert str(budget) == "1.5 minutes or 100 learner steps"
    assert Budget(actor_steps=200_000_000).flags == ("--max_actor_steps=200000000",)
    assert [str(Budget(minutes)) for minutes in (1, 60, 2100, 7200, None)] == [
        "1 minute",
        "1 hour",
        "35 hours",
        "5 days",
        "no limit",
    ]


def test_reached():
    budget = Budget(minutes=1.5, learner_steps=100)
    assert budget.reached(90, 0, 0) and budget.reached(0, 0, 100)
    assert not budget.reached(89, 10**9, 99)
    assert not Budget().reached(1e9, 1e9, 1e9)
    solved = Budget(episode_return=-5.0)
    assert not solved.reached(1e9, 1e9, 1e9) and not budget.is_solved_by(1e9)
    assert solved.is_solved_by(-5.0) and not solved.is_solved_by(-5.1)
    assert solved.flags == ("--stop_at_return=-5",) and str(solved) == "a return of -5"
    row = {"wall_seconds": 90.0, "actor_steps": 0, "learner_steps": 0, "replay_size": None}
    assert budget.reached_by(row) and not budget.reached_by(row | {"wall_seconds": 89.0})


def test_json():
    budget = Budget(minutes=1.5, learner_steps=100)
    assert budget.to_json() == {"minutes": 1.5, "actor_steps": None, "learner_steps": 100}
    solved = Budget(episode_return=-3.0)
    assert solved.to_json()["episode_return"] == -3 and Budget(**solved.to_json()) == solved


PROGRAM = textwrap.dedent("""
    import os
    from common.reporting.command_line import exit_with
    def main():
        {body}
    exit_with(main)
""")


def run(body, reader="cat"):
    """Returns the exit code, what the reader printed, and standard error."""
    command = [sys.executable, "-c", PROGRAM.format(body=body)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        read = subprocess.run(
            reader.split(), stdin=program.stdout, stdout=subprocess.PIPE, check=False
        )
        program.stdout.close()
        error = program.stderr.read()
    return program.returncode, read.stdout.decode(), error.decode()


def test_a_reader_that_leaves_is_no_error():
    code, out, error = run("print(*range(200_000), sep=chr(10))", "head -n 2")
    assert (code, out, error) == (141, "0\n1\n", "")


def test_nor_is_one_that_leaves_before_the_end():
    # What little there is fits the buffer and is written at the end only.
    code, _, error = run("import time; time.sleep(1); print(1); raise SystemExit(3)", "true")
    assert (code, error) == (141, "")


def test_a_terminal_that_was_closed_is_told_by_the_exit_code():
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PROGRAM.format(body="input(); print(1)")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs, stderr=theirs) as program:
        os.close(theirs)
        os.close(ours)
        program.communicate(b"\n")
    assert program.returncode == 129


@pytest.mark.parametrize(
    "body, expected", [("return 3", 3), ("print(1)", 0), ("raise SystemExit(2)", 2)]
)
def test_the_exit_code_is_what_main_says(body, expected):
    assert run(body)[::2] == (expected, "")


@pytest.mark.parametrize("words, said", [("", "interrupted"), ("'twice'", "twice")])
def test_ctrl_c_is_one_line_with_its_own_exit_code(words, said):
    assert run(f"raise KeyboardInterrupt({words})") == (130, "", f"error: {said}\n")


def test_a_users_mistake_is_one_line():
    body = "from common.user_error import UserError; raise UserError('mend it')"
    assert run(body) == (2, "", "error: mend it\n")


def test_another_broken_pipe_is_an_error():
    code, _, error = run("raise BrokenPipeError('of a client')")
    assert code == 1 and "BrokenPipeError: of a client" in error


def test_threads_that_hide_output_leave_standard_error_as_it_was():
    """That of the process became the removed file of one, as in Optuna's trials in threads."""
    before, is_in, may_leave = os.dup(2), threading.Event(), threading.Event()

    def first():
        with native_output_only_on_failure():
            is_in.set()
            may_leave.wait()

    def second():
        is_in.wait()
        with native_output_only_on_failure():
            threads[0].join()

    threads = [threading.Thread(target=function) for function in (first, second)]
    for thread in threads:
        thread.start()
    threads[1].join(timeout=0.2)  # it would be in its block by then
    may_leave.set()
    threads[1].join()
    try:
        assert os.path.samestat(os.fstat(2), os.fstat(before))
    finally:
        os.dup2(before, 2)
        os.close(before)


@pytest.mark.parametrize(
    "directory, command, typed",
    [
        ("/data", ["/data/.venv/bin/python", "--workdir=/data/run"], [".venv/bin/python", "run"]),
        (
            "/data",
            ["/usr/bin/python", "--workdir=/mnt/data/run"],
            ["/usr/bin/python", "/mnt/data/run"],
        ),
        ("/", ["/usr/bin/python", "--workdir=/mnt/run"], ["usr/bin/python", "mnt/run"]),
    ],
)
def test_a_command_line_means_the_same_paths_as_it_is_shown(directory, command, typed, monkeypatch):
    """A directory whose path has that of the working directory inside kept half of its name."""
    monkeypatch.setattr(os, "getcwd", lambda: directory)
    python, workdir = typed
    assert records.as_typed(command) == [python, f"--workdir={workdir}"]


@pytest.mark.parametrize(
    "error, is_of_disk",
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "learner.csv"), True),
        (OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)), True),
        (tf.errors.ResourceExhaustedError(None, None, "No space left on device\nat a line"), True),
        (tf.errors.UnknownError(None, None, "ckpt-3; Disk quota exceeded"), True),
        (OSError(errno.EACCES, os.strerror(errno.EACCES), "learner.csv"), False),
        (tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"), False),
        (ValueError("28"), False),
        (OSError(), False),
    ],
    ids=str,
)
def test_a_full_disk_is_one_line_and_other_errors_are_none(error, is_of_disk):
    line = disk_full(error)
    assert line.startswith("disk full: ") == is_of_disk and "\n" not in line
    assert line.removeprefix("disk full: ") in str(error)


@pytest.mark.parametrize(
    "group, files, cores",
    [
        ("0::/job/step", {"job/step/cpu.max": "max 100000", "job/cpu.max": "250000 100000"}, 2),
        ("0::/../abc", {"cpu.max": "50000 100000"}, 1),
        (
            "4:cpu,cpuacct:/docker/abc\n0::/",
            {"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"},
            3,
        ),
        ("4:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ("0::/", {"cpu.max": "900000 100000"}, 4),
    ],
    ids=["levels", "half a core", "version 1", "no quota", "more than there are"],
)
def test_usable_cores_are_those_that_control_groups_leave(
    group, files, cores, tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4))
    for name, text in {
        "proc/self/cgroup": group,
        **{f"sys/fs/cgroup/{n}": t for n, t in files.items()},
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert usable_cores(tmp_path) == cores


def _write_run(directory, evaluations: int) -> RunDirectory:
    rows = CsvRows(directory / "evaluator.csv", csv_rows.EVALUATOR)
    random = np.random.default_rng(0)
    for minute in range(evaluations):
        mean = 850 * (1 - np.exp(-minute / 8)) + random.normal(0, 25)
        row = dict.fromkeys(csv_rows.EVALUATOR, 18_000 * minute) | {"wall_seconds": 60.0 * minute}
        rows.append(row | {"episode_return_mean": mean, "episode_return_std": 40.0})
    return RunDirectory(directory)


@pytest.mark.parametrize("evaluations", [1, 40])
def test_the_same_rows_give_the_same_picture(tmp_path, evaluations):
    run = _write_run(tmp_path, evaluations)
    picture, again = tmp_path / "curve.png", tmp_path / "again.png"
    learning_curve(run, picture, "D4PG, cartpole swingup")
    assert 5_000 < picture.stat().st_size < 150_000
    pixels = imread(picture)[..., :3]
    assert pixels.shape[1] > pixels.shape[0] > 400
    blue = np.abs(pixels - np.array([0, 114, 178]) / 255).max(axis=-1) < 0.02
    assert blue.sum() > (20 if evaluations == 1 else 200)
    learning_curve(run, again, "D4PG, cartpole swingup")
    assert again.read_bytes() == picture.read_bytes()


def test_a_picture_that_cannot_be_written_leaves_the_result(tmp_path):
    run = _write_run(tmp_path, 3)
    (tmp_path / "learning_curve.png").mkdir()
    words, drawn = result_of(run, "title", finished=True).splitlines()
    assert words.startswith("finished: evaluator return ")
    assert drawn.startswith("no learning curve: ") and drawn.endswith("(Is a directory)")


def test_nothing_to_draw_is_an_error(tmp_path):
    run = RunDirectory(tmp_path)
    for _ in range(2):
        with pytest.raises(UserError, match="evaluator.csv has no evaluations yet"):
            learning_curve(run, tmp_path / "curve.png", "empty")
        _write_run(tmp_path, 0)
    assert not (tmp_path / "curve.png").exists()


def events_of(directory):
    """The events as TensorBoard reads them."""
    events = EventAccumulator(str(directory))
    events.Reload()
    return events


def scalars(events, tag):
    """Each step of a tag with its value."""
    return [(it.step, tf.make_ndarray(it.tensor_proto).item()) for it in events.Tensors(tag)]


def test_a_process_that_goes_on_from_a_checkpoint_replaces_the_steps_after_it(tmp_path):
    for first in (0, 30, 20):
        writer = Events(tmp_path)
        writer.write_hyperparameters({"n_step": 5})
        for step in range(first, first + 30, 10):
            writer.write({"loss": float(first)}, step)
        writer.close()
    assert scalars(events_of(tmp_path), "loss") == [(0, 0), (10, 0), (20, 20), (30, 20), (40, 20)]


def test_hyperparameters_are_known_to_the_plug_in(tmp_path):
    writer = Events(tmp_path)
    writer.write_hyperparameters({"agent": "d4pg", "n_step": 5, "rate": 1e-4, "sizes": (300, 200)})
    writer.close()
    events = events_of(tmp_path)
    content = events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    found = metadata.parse_session_start_info_plugin_data(content).hparams
    assert found["n_step"].number_value == 5 and found["sizes"].string_value == "(300, 200)"
    assert found["rate"].number_value == 1e-4 and found["agent"].string_value == "d4pg"
    content = events.SummaryMetadata(metadata.EXPERIMENT_TAG).plugin_data.content
    experiment = metadata.parse_experiment_plugin_data(content)
    assert [info.name for info in experiment.hparam_infos] == ["agent", "n_step", "rate", "sizes"]
    assert experiment.metric_infos[0].name.tag == tensorboard.MEAN_RETURN


def test_an_evaluation_is_shown_with_its_film(tmp_path):
    run = RunDirectory(tmp_path)
    run.films.mkdir()
    run.film(20).write_bytes(b"GIF89a...")
    writer = Events(tmp_path)
    for step in (10, 20):
        writer.write_evaluation(run, 1.5 * step, 0.5, step)
    writer.close()
    events = events_of(tmp_path)
    assert scalars(events, tensorboard.MEAN_RETURN) == [(10, 15.0), (20, 30.0)]
    (film,) = events.Tensors("evaluator/film")
    assert film.step == 20 and film.tensor_proto.string_val[2] == b"GIF89a..."


def test_a_full_disk_costs_events_and_no_more(tmp_path, monkeypatch):
    writer, told = Events(tmp_path), []
    monkeypatch.setattr(
        records.logging,
        "log_every_n_seconds",  # which says nothing for a minute after another test's warning
        lambda level, text, seconds, *values: told.append(text % values),
    )

    def fail(tag, value, error=None):
        raise error

    full = tf.errors.ResourceExhaustedError(None, None, "events.v2; No space left on device")
    with monkeypatch.context() as patch:
        patch.setattr(tf.summary, "scalar", functools.partial(fail, error=full))
        writer.write({"loss": 1.0}, step=1)
        assert told == ["no events: disk full: events.v2; No space left on device"]
        other = tf.errors.PermissionDeniedError(None, None, "events.v2; Permission denied")
        patch.setattr(tf.summary, "scalar", functools.partial(fail, error=other))
        with pytest.raises(tf.errors.PermissionDeniedError):
            writer.write({"loss": 2.0}, step=2)
    writer.write({"loss": 3.0}, step=3)
    writer.close()
    assert scalars(events_of(tmp_path), "loss") == [(3, 3.0)]
