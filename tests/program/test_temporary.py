"""A start removes what earlier starts of its run have left behind, and nothing of anybody else."""

import os
import pathlib
import shutil
import tempfile

import pytest

from common.program.local import temporary_directory
from common.reporting.run_directory import RunDirectory


@pytest.fixture(name="temporary", autouse=True)
def _temporary(tmp_path, monkeypatch):
    """The machine's temporary folder."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


def make_run(path):
    run = RunDirectory(path)
    run.open({})
    return run


def killed(run):
    """Returns the directory of a start that was killed."""
    with temporary_directory(run) as left:
        (left / "learner-0").write_text("socket")
        (left / "folder").mkdir()
        kept = left.with_name("kept")
        shutil.copytree(left, kept)
        shutil.copystat(left, kept)
    kept.rename(left)
    (run.path / "tmp").symlink_to(left)
    return left


def start(run):
    """Starts the run, and ends it in order; returns the directory that it had."""
    with temporary_directory(run) as directory:
        assert os.readlink(run.path / "tmp") == str(directory) and directory.is_dir()
        assert directory.stat().st_mode & 0o777 == 0o700
    assert not directory.exists() and not (run.path / "tmp").is_symlink()
    return directory


def test_a_start_removes_what_a_killed_one_left_also_after_the_run_has_moved(tmp_path, temporary):
    run = make_run(tmp_path / "run")
    left = killed(run)
    assert start(run) != left and not left.exists()
    left = killed(run)
    run.path.rename(tmp_path / "moved")
    start(RunDirectory(tmp_path / "moved"))
    assert not list(temporary.iterdir())


def test_a_copy_leaves_the_directory_of_the_run_that_it_is_a_copy_of(tmp_path):
    run = make_run(tmp_path / "run")
    with temporary_directory(run) as directory:
        shutil.copytree(run.path, tmp_path / "copy", symlinks=True)
        start(RunDirectory(tmp_path / "copy"))
        assert list(directory.iterdir()) == [directory / "run"]


@pytest.mark.parametrize(
    "change",
    [
        lambda left, elsewhere: left.chmod(0o750),
        lambda left, elsewhere: (left / "run").unlink(),
        lambda left, elsewhere: (left / "run").write_text("1 2 /home/somebody/run\n"),
        lambda left, elsewhere: left.rename(elsewhere / left.name),
        lambda left, elsewhere: left.rename(left.with_name("reply_rl_1")),
        lambda left, elsewhere: (left.rename(elsewhere / "a"), left.symlink_to(elsewhere / "a")),
        lambda left, elsewhere: (shutil.rmtree(left), left.write_text("mine")),
        lambda left, elsewhere: elsewhere,  # and the link leads there
    ],
    ids=["mode", "unmarked", "other_run", "folder", "name", "chain", "file", "notes"],
)
def test_of_a_link_to_anything_else_only_the_link_goes(tmp_path, temporary, change):
    run = make_run(tmp_path / "run")
    left, elsewhere = killed(run), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "notes").write_text("mine")
    target = change(left, elsewhere)
    if isinstance(target, pathlib.Path):  # where it is now
        (run.path / "tmp").unlink()
        (run.path / "tmp").symlink_to(os.path.relpath(target, run.path))

    def files():
        return sorted(path for root in (temporary, elsewhere) for path in root.rglob("*"))

    before = files()
    start(run)
    assert files() == before and (elsewhere / "notes").read_text() == "mine"


def test_a_real_folder_is_left_alone_with_a_line(tmp_path, temporary, capsys):
    run = make_run(tmp_path / "run")
    (run.path / "tmp").mkdir()
    (run.path / "tmp" / "notes").write_text("mine")
    with temporary_directory(run) as directory:
        (line,) = capsys.readouterr().err.splitlines()
        assert str(run.path / "tmp") in line and str(directory) in line
    assert (run.path / "tmp" / "notes").read_text() == "mine" and not list(temporary.iterdir())


def test_a_run_that_is_moved_or_whose_link_is_replaced_ends_in_order(tmp_path, temporary):
    run = make_run(tmp_path / "run")
    with temporary_directory(run):
        run.path.rename(tmp_path / "moved")
    run = RunDirectory(tmp_path / "moved")
    with temporary_directory(run):
        (run.path / "tmp").unlink()
        (run.path / "tmp").symlink_to(tmp_path)
    assert (run.path / "tmp").is_symlink() and not list(temporary.iterdir())
