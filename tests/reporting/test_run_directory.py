import dataclasses
import errno
import functools
import json
import os
import re
import subprocess
import sys

import pytest

from common.config import Config, field
from common.reporting import records
from common.reporting.budget import Budget
from common.reporting.csv_rows import CsvError, CsvRows, GrowingRows
from common.reporting.records import JsonError
from common.reporting.run_directory import (
    ConfigMismatchError,
    RunDirectory,
    RunDirectoryError,
    RunInUseError,
    differences,
)
from common.user_error import UserError

CONFIG = {"seed": 1, "learner": {"batch_size": 256, "sizes": (300, 200)}, "limit": None}


def _contents(path):
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_open_makes_the_layout_and_accepts_the_same_config(tmp_path):
    run = RunDirectory(tmp_path / "deep" / "run")
    run.open(CONFIG)
    assert sorted(entry.name for entry in run.path.iterdir()) == [
        "checkpoints", "config.json", "logs",
    ]  # fmt: skip
    before = _contents(run.path)
    run.learner_csv.write_text("kept")
    RunDirectory(run.path).open(CONFIG)
    assert _contents(run.path) == {**before, run.learner_csv: b"kept"}


def test_a_run_stays_where_it_is_if_the_process_changes_its_directory(tmp_path, monkeypatch):
    """An environment may do that to find its files."""
    (tmp_path / "assets").mkdir()
    monkeypatch.chdir(tmp_path)
    run = RunDirectory("run")
    monkeypatch.chdir("assets")
    run.open(CONFIG)
    assert (tmp_path / "run/config.json").exists() and run.read_config()["seed"] == 1


def test_another_config_is_refused_in_one_line_that_names_each_key(tmp_path):
    RunDirectory(tmp_path).open(CONFIG)
    before = _contents(tmp_path)
    other = {"seed": 1, "learner": {"batch_size": 64, "n_step": 5}, "limit": None}
    with pytest.raises(ConfigMismatchError) as error:
        RunDirectory(tmp_path).open(other)
    message = str(error.value)
    assert "\n" not in message
    assert str(tmp_path) in message
    assert "learner.batch_size 256 -> 64" in message
    assert "learner.sizes [300, 200] -> (absent)" in message
    assert "learner.n_step (absent) -> 5" in message
    assert "seed" not in message and "limit" not in message
    assert "--workdir" in message
    assert _contents(tmp_path) == before


def test_a_run_of_another_agent_is_named_with_five_differences_at_most(tmp_path):
    shared = {"paper": "apex", "agent": "apex_dpg", "seed": 1, "num_actors": 8}
    there = {**shared, "config": {f"only_there_{i}": i for i in range(30)} | {"n_step": 5}}
    here = shared | {"paper": "d4pg", "agent": "d4pg", "config": {"n_step": 3, "noise": "x" * 999}}
    run = RunDirectory(tmp_path)
    run.open(there)
    with pytest.raises(ConfigMismatchError) as error:
        run.open(here)
    message = str(error.value)
    assert f'{tmp_path} holds a run of the agent "apex_dpg", not of "d4pg": ' in message
    assert "config.n_step 5 -> 3, config.only_there_0 0 -> (absent), " in message
    assert message.count(" -> ") == 5 and ", and 27 more; resume it with its own " in message
    assert len(message) < 500


def test_directory_of_something_else_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RunDirectoryError, match="thesis.tex.*--workdir"):
        RunDirectory(tmp_path).open(CONFIG)
    assert list(_contents(tmp_path)) == [tmp_path / "thesis.tex"]


def test_unwritable_path_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run", "/proc/run"):
        with pytest.raises(RunDirectoryError, match="cannot write .*--workdir") as error:
            RunDirectory(path).open(CONFIG)
        assert str(path) in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(RunDirectoryError, match=": /proc/a.: give"):
        RunDirectory("/proc/a/b").open(CONFIG)


@pytest.mark.parametrize(
    "text, words",
    [
        ('{"starts":\n', ":2: is not JSON"),
        ("null", " contains only null: correct"),
        ("{}", " is not a record of a run"),
        ('{"starts": []}', " is not a record of a run"),
        ('{"starts": [1]}', ": starts[0] is 1, not an object"),
    ],
)
def test_a_malformed_record_is_named(tmp_path, text, words):
    run = RunDirectory(tmp_path)
    assert run.read_starts() == []
    run.run_json.write_text(text)
    for use in (run.read_starts, lambda: run.close_run_record("finished")):
        with pytest.raises(UserError) as error:
            use()
        message = str(error.value)
        assert message.startswith(f"{run.run_json}{words}") and "\n" not in message


def test_a_malformed_config_is_named(tmp_path):
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(RunDirectoryError, match="there is no directory .*/run: name"):
        run.read_config()
    run.path.mkdir()
    with pytest.raises(RunDirectoryError, match="not a run directory, it has no config.json: name"):
        run.read_config()
    for text, words in (
        ("{", "config.json:1: is not JSON"),
        ("[]", "config.json: it is .., not an object"),
    ):
        run.config_json.write_text(text)
        with pytest.raises(JsonError, match=words):
            run.read_config()
    run.config_json.unlink()
    run.config_json.mkdir()
    with pytest.raises(JsonError, match="config.json: cannot be read .Is a directory"):
        run.read_config()


def test_processes_that_open_at_once_agree(tmp_path):
    code = """
import sys
from common.reporting.records import JsonError
from common.reporting.run_directory import ConfigMismatchError, RunDirectory
try:
    RunDirectory(sys.argv[1]).open({"seed": int(sys.argv[2]) % 2})
except ConfigMismatchError:
    sys.exit(3)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    openers = [subprocess.Popen([*command, str(seed)]) for seed in range(6)]
    codes = [opener.wait(timeout=60) for opener in openers]
    seed = json.loads((tmp_path / "run" / "config.json").read_text())["seed"]
    assert codes == [0 if opener % 2 == seed else 3 for opener in range(6)]
    assert not list((tmp_path / "run").glob(".config*"))


def test_links_in_a_run_directory_of_somebody_else_are_not_followed(tmp_path):
    mine, run = tmp_path / "mine", RunDirectory(tmp_path / "run")
    mine.mkdir()
    run.open(CONFIG)
    for name in (".run.json.tmp", ".rows.csv.tmp", "other.csv", "learner.lock"):
        (mine / name).touch()
        (run.path / name).symlink_to(mine / name)
    (run.path / "learner.lock").rename(run.checkpoints / "learner.lock")
    run.write_run_record(seed=1, scale="laptop")
    GrowingRows(run.path / "rows.csv", ["a"]).append({"a": 1, "b": 2})
    with pytest.raises(CsvError, match="other.csv: cannot be used .Too many levels of symbolic"):
        CsvRows(run.path / "other.csv", ["a"])
    with pytest.raises(RunDirectoryError, match="cannot open .*learner.lock .Too many levels"):
        with run.hold_checkpoints():
            pass
    assert set(_contents(mine).values()) == {b""} and len(run.read_starts()) == 1


@dataclasses.dataclass
class Learning(Config):
    """A hyperparameter that may change, another that may change with n_step = 5, and n_step."""

    prefetch: int = field(16, may_change=True)
    part: int = field(0, may_change=lambda of: of["n_step"] == 5)
    n_step: int = field(5)


def test_a_run_goes_on_with_other_values_of_what_may_change(tmp_path):
    run = RunDirectory(tmp_path)
    config = {"seed": 1, "config": {"prefetch": 16, "n_step": 5}}
    run.open(config)
    run.write_run_record(seed=1, scale="laptop", config=config)
    other = {"seed": 1, "config": {"prefetch": 2, "n_step": 5}}
    with pytest.raises(ConfigMismatchError, match="config.prefetch 16 -> 2"):
        run.open(other)
    run.open(other, Learning)
    assert run.read_config() == config  # until the process that keeps the run has begun
    run.write_run_record(seed=1, scale="laptop", config=other)
    assert run.read_config() == other
    changes = [start["changed_since"] for start in run.read_starts()]
    assert changes == [{}, {"config.prefetch": [16, 2]}]
    newer = {"seed": 1, "config": {"prefetch": 2, "n_step": 5, "part": 3}}
    run.write_run_record(seed=1, scale="laptop", config=newer, config_class=Learning)
    assert run.read_starts()[-1]["changed_since"] == {"config.part": [0, 3]}
    with pytest.raises(ConfigMismatchError, match="config.n_step 5 -> 1"):
        run.open({"seed": 1, "config": {"prefetch": 4, "n_step": 1}}, Learning)


@pytest.mark.parametrize(
    ("there", "here", "found"),
    [
        ({}, {"prefetch": 1, "part": 1}, {}),
        ({"n_step": 1}, {"n_step": 1, "part": 1}, {"config.part": ("0", "1")}),
        ({"n_step": 1, "part": 1}, {}, {"config.n_step": ("1", "5"), "config.part": ("1", "0")}),
    ],
)
def test_hyperparameters_that_may_change_are_no_difference(there, here, found):
    assert differences({"config": there}, {"config": here}, Learning) == found


def test_run_record_keeps_every_start(tmp_path):
    run = RunDirectory(tmp_path)
    run.open(CONFIG)
    with pytest.raises(RunDirectoryError, match="no start"):
        run.close_run_record("finished")
    run.write_run_record(
        seed=1, scale="laptop", budget=Budget(minutes=5), changed={"config.sizes": (3, 4)}
    )
    (first,) = run.read_starts()
    assert first["end_time"] is None and first["outcome"] is None
    assert first["budget"] == {"minutes": 5, "actor_steps": None, "learner_steps": None}
    assert first["changed"] == {"config.sizes": [3, 4]} and first["scale_changes"] == ""
    here = os.path.join(os.getcwd(), "")
    assert first["command"] == [word.replace(here, "") for word in sys.orig_argv]
    assert first["seed"] == 1 and first["scale"] == "laptop"
    assert first["versions"]["tensorflow"] and first["versions"]["python"]
    assert first["machine"]["usable_cores"] >= 1 and first["machine"]["memory_gb"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", first["start_time"])

    resumed = RunDirectory(tmp_path)
    resumed.write_run_record(seed=1, scale="laptop")
    resumed.close_run_record("finished")
    starts = run.read_starts()
    assert starts[0] == first
    assert starts[1]["outcome"] == "finished" and starts[1]["end_time"]
    assert starts[1]["changed"] == {} and set(starts[1]["budget"].values()) == {None}
    assert not list(tmp_path.glob(".run.json*"))


def test_git_state_names_what_differs_and_is_bounded(tmp_path):
    environment = dict(os.environ, GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_SYSTEM=os.devnull)
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]

    def run(*arguments):
        command = ["git", *who, *arguments]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)

    (tmp_path / "code.py").write_text("a = 1\n")
    run("init")
    assert records.git(tmp_path)["commit"] is None
    run("add", ".")
    run("commit", "-m", "first")
    clean = records.git(tmp_path)
    assert re.fullmatch("[0-9a-f]{40}", clean["commit"])
    assert clean["dirty"] is False and clean["diff"] == ""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "runs.csv").write_text("left by a run\n")
    assert records.git(tmp_path) == clean
    (tmp_path / "code.py").write_text("a = 2\n")
    (tmp_path / "new.py").write_text("")
    dirty = records.git(tmp_path)
    assert dirty["dirty"] and "+a = 2" in dirty["diff"] and not dirty["diff_truncated"]
    assert dirty["status"] == [" M code.py", "?? new.py"]
    (tmp_path / "code.py").write_text("a = 2\n" * 100_000)
    large = records.git(tmp_path)
    assert large["diff_truncated"] and len(large["diff"]) <= 200_000


def test_a_run_directory_is_held_by_one_launcher_at_a_time(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.open(CONFIG)
    with run.hold():
        with pytest.raises(RunDirectoryError, match="another run uses .*--workdir") as error:
            with RunDirectory(run.path).hold():
                pass
        assert "\n" not in str(error.value)
        run.write_run_record(seed=1, scale="laptop", config=CONFIG | {"limit": 5})
        with pytest.raises(RunInUseError):  # though config.json is another file now
            with RunDirectory(run.path).hold():
                pass
    with RunDirectory(run.path).hold():
        assert run.read_config()["limit"] == 5


def test_a_start_on_a_full_disk_waits_for_room_and_is_recorded_once(tmp_path, monkeypatch):
    run = RunDirectory(tmp_path)
    run.open(CONFIG)
    write = functools.partial(
        run.write_run_record, seed=1, scale="laptop", config=CONFIG | {"limit": 5}
    )
    waited, replace, number = [], records.replace_file, errno.EIO

    def replace_with_room(path, text):
        if len(waited) < 2:
            raise OSError(number, os.strerror(number))
        replace(path, text)

    monkeypatch.setattr(records, "replace_file", replace_with_room)
    with pytest.raises(OSError, match="Input/output"):
        records.when_there_is_room(write, waited.append)
    number = errno.ENOSPC
    with pytest.raises(OSError, match="No space"):
        records.when_there_is_room(write, lambda seconds: True)  # a request to stop
    records.when_there_is_room(write, waited.append)
    (start,) = run.read_starts()
    assert len(waited) == 2 and start["changed_since"] == {"limit": [None, 5]}


def test_a_killed_learner_lets_go_of_the_checkpoints(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.open(CONFIG)
    code = f"""
import time
from common.reporting.records import JsonError
from common.reporting.run_directory import RunDirectory
with RunDirectory({str(run.path)!r}).hold_checkpoints():
    print("held", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunDirectoryError, match="another learner"):
            with run.hold_checkpoints():
                pass
        waits = []
        with pytest.raises(RunInUseError):  # a request to stop ends the patience
            with run.hold_checkpoints("learner", 60.0, lambda _: waits.append(0) or len(waits) > 2):
                pass
        assert len(waits) == 3
        with run.hold_checkpoints("learner", 60.0, lambda _: holder.kill()):
            pass
