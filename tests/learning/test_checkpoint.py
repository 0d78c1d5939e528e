"""Tests of common.learning.checkpoint; that a run goes on bit for bit: test_resume.py."""

import contextlib
import os
import pathlib
import re
import shutil

from launched import run_code
import numpy as np
import pytest
import tensorflow as tf

from common.environments.spec import EnvironmentSpec
from common.learning import checkpoint as checkpoint_lib
from common.learning.checkpoint import CheckpointError, Checkpoints, StoredPolicy, newest
from reproductions.d4pg import d4pg
from reproductions.d4pg.config import D4PGConfig


def make_learner(**values):
    defaults = dict(policy_sizes=(6, 5), critic_sizes=(7, 6), num_atoms=5, v_min=-1.0, v_max=1.0)
    return d4pg.D4PGLearner(D4PGConfig(**{**defaults, **values}), EnvironmentSpec(3, 2))


def test_keeps_the_newest(tmp_path):
    counter = tf.Variable(0)
    checkpoints = Checkpoints(tmp_path, {"counter": counter}, keep=2)
    for value in range(1, 12):
        counter.assign(value)
        checkpoints.save()
    assert {path.name for path in tmp_path.glob("*.index")} == {"ckpt-10.index", "ckpt-11.index"}
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-11")
    # The highest number counts, not the last in the alphabet, where a first save was killed before
    # it was named: that must not cost what was learned.
    (tmp_path / NAMES).unlink()
    counter.assign(0)
    again = Checkpoints(tmp_path, {"counter": counter})
    assert again.restore() and int(counter) == 11
    again.save()
    assert newest(tmp_path).name == "ckpt-12"


@pytest.mark.parametrize("left", [[], ["data"], ["data", "index"]], ids=str)
def test_a_full_disk_in_the_middle_of_a_save_leaves_the_former_one(tmp_path, monkeypatch, left):
    counter = tf.Variable(7)
    checkpoints = Checkpoints(tmp_path, {"counter": counter})
    checkpoints.save()
    before = contents(tmp_path)

    def write(self, path, *arguments, **options):
        for kind in left:
            shard = "-00000-of-00001" if kind == "data" else ""
            pathlib.Path(f"{path}.{kind}{shard}").write_bytes(b"half")
        pathlib.Path(f"{path}_temp").mkdir()
        pathlib.Path(f"{path}_temp", "part-00000-of-00001").write_bytes(b"half")
        raise tf.errors.ResourceExhaustedError(None, None, f"{path}; No space left on device")

    monkeypatch.setattr(tf.train.Checkpoint, "write", write)
    counter.assign(8)
    for _ in range(3):
        with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left"):
            checkpoints.save()
        assert contents(tmp_path) == before and newest(tmp_path).name == "ckpt-1"
        assert not list(tmp_path.glob("*_temp*"))  # it would keep the disk full
    assert Checkpoints(tmp_path, {"counter": counter}).restore() and int(counter) == 7
    monkeypatch.undo()
    counter.assign(9)
    checkpoints.save()
    assert newest(tmp_path).name == "ckpt-2"
    assert Checkpoints(tmp_path, {"counter": counter}).restore() and int(counter) == 9


def test_the_remains_of_killed_saves_go_at_the_next_save(tmp_path):
    """Whatever their numbers are, and nothing else goes."""
    for name in ("ckpt-9_temp", "ckpt-1_temp", "ckpt-12_temp_ab12"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part-00000-of-00001").write_bytes(b"half")
    # Of a save, and of the removal of a save, that were killed between two files.
    torn = [tmp_path / "ckpt-7.data-00000-of-00001", tmp_path / "ckpt-31.index.tempstate88"]
    for path in torn:
        path.write_bytes(b"half")
    names = ("mine_temp", "ckpt-notes.txt", "ckpt-1.index.old", "ckpt-2.txt", "ckpt-9_temp_mine/a")
    others = [*(tmp_path / name for name in names), tmp_path / "ckpt-x.data-1"]
    others.append(tmp_path / "ckpt-007.data-00000-of-00001")  # no save has such a number
    (tmp_path / "ckpt-9_temp_mine").mkdir()
    for path in others:
        path.write_text("mine")
    checkpoints = Checkpoints(tmp_path, {"counter": tf.Variable(1)}, keep=1)
    for number in (1, 2, 3):
        checkpoints.save()
        assert newest(tmp_path).name == f"ckpt-{number}"
    assert [path.name for path in tmp_path.glob("ckpt-*_temp*")] == ["ckpt-9_temp_mine"]
    assert sorted(path.name for path in tmp_path.glob("ckpt-[12].*")) == list(names[2:4])
    assert not any(path.exists() for path in torn)
    assert all(path.read_text() == "mine" for path in others)


def test_a_directory_that_was_moved_is_not_made_again(tmp_path):
    moved = tmp_path / "run" / "checkpoints"
    moved.mkdir(parents=True)
    checkpoints = Checkpoints(moved, {"counter": tf.Variable(1)})
    moved.parent.rename(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=str(moved)):
        checkpoints.save()
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


def test_a_save_is_on_the_disk_before_it_is_named(tmp_path, monkeypatch):
    """Each file is synced, then the name in `checkpoint` is replaced in one step."""
    checkpoints = Checkpoints(tmp_path, {"counter": tf.Variable(1)})
    checkpoints.save()
    names, events = (tmp_path / NAMES).read_bytes(), []
    sync, replace = os.fsync, os.replace

    def noted_sync(descriptor):
        events.append(pathlib.Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        assert (tmp_path / NAMES).read_bytes() == names
        sync(descriptor)

    def noted_replace(source, target):
        assert pathlib.Path(target) == tmp_path / NAMES and newest(tmp_path).name == "ckpt-1"
        events.append("replace")
        replace(source, target)
        assert newest(tmp_path).name == "ckpt-2"

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    checkpoints.save()
    assert events[-1] == "replace"
    assert {DATA, INDEX, ".checkpoint.tmp", tmp_path.name} <= set(events)


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def cut(path, share=0.5):
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def flip_a_byte(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)


DATA, INDEX, NAMES = "ckpt-2.data-00000-of-00001", "ckpt-2.index", "checkpoint"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A directory with two saves: of a counter at 1, and at 2."""
    directory, counter = tmp_path_factory.mktemp("saved"), tf.Variable(0)
    padding = tf.Variable(tf.range(1000.0))  # so that half of the data is not only the counter
    checkpoints = Checkpoints(directory, {"counter": counter, "padding": padding})
    for value in (1, 2):
        counter.assign(value)
        checkpoints.save()
    return directory


def restored(directory):
    counter = tf.Variable(0)
    state = {"counter": counter, "padding": tf.Variable(tf.zeros([1000]))}
    assert Checkpoints(directory, state).restore()
    return int(counter)


@pytest.mark.parametrize(
    "spoil, name, way_out",
    [
        (cut, DATA, [DATA, INDEX, NAMES]),
        (flip_a_byte, DATA, [DATA, INDEX, NAMES]),
        (lambda path: cut(path, 0), INDEX, [DATA, INDEX, NAMES]),
        (flip_a_byte, INDEX, [DATA, INDEX, NAMES]),
        (os.remove, DATA, [INDEX, NAMES]),
        (os.remove, INDEX, [NAMES]),
    ],
    ids=["data cut", "data changed", "index empty", "index changed", "data gone", "index gone"],
)
def test_a_damaged_save_is_an_error_and_its_way_out_works(saved, tmp_path, spoil, name, way_out):
    """The save before it is named; following the advice restores that one."""
    directory = shutil.copytree(saved, tmp_path / "run")
    spoil(directory / name)
    before = contents(directory)
    named = "ckpt-2 cannot be read" if INDEX in way_out else "names ckpt-2, whose files are missing"
    with pytest.raises(CheckpointError, match=named) as caught:
        restored(directory)
    message = str(caught.value)
    assert "\n" not in message and str(directory) in message
    assert "to continue from ckpt-1" in message
    assert contents(directory) == before
    for name in way_out:
        assert name in message
        (directory / name).unlink()
    assert restored(directory) == 1


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"\xff\x00garbage", b"model_checkpoint_path 3"),
        *(
            b'model_checkpoint_path: "%s"\n' % name
            for name in (b"a\0b", b"x" * 300, b"ckpt-2\\n", b"../run/ckpt-1")
        ),
    ],
)
def test_a_checkpoint_file_that_is_none_is_an_error_and_can_be_removed(saved, tmp_path, text):
    directory = shutil.copytree(saved, tmp_path / "run")
    (directory / NAMES).write_bytes(text)
    with pytest.raises(CheckpointError, match="to continue from ckpt-2") as caught:
        restored(directory)
    assert "\n" not in str(caught.value) and str(directory / NAMES) in str(caught.value)
    assert (directory / NAMES).read_bytes() == text
    (directory / NAMES).unlink()
    assert restored(directory) == 2


def test_foreign_files_among_the_checkpoints_are_ignored(saved, tmp_path):
    directory = shutil.copytree(saved, tmp_path / "run")
    numbers = ("", "x", "\u00b2", "\u0663", "1.5", "-1", " 7", "9" * 200)
    foreign = [directory / f"ckpt-{number}.index" for number in numbers]
    for file in foreign:
        file.write_text("mine")
    counter = tf.Variable(0)
    checkpoints = Checkpoints(directory, {"counter": counter})
    assert checkpoints.restore() and counter == 2
    checkpoints.save()
    (directory / NAMES).unlink()
    assert checkpoints.restore() and (directory / "ckpt-3.index").exists()
    assert all(file.read_text() == "mine" for file in foreign)


@pytest.mark.parametrize("name", ["lr=[0.1]", "a\\b", "a?b", "a*b", "{a,b}", "gs:", "a b"])
def test_a_directory_of_any_name_is_restored(tmp_path, name):
    """TensorFlow takes the path of a restore for a pattern."""
    counter = tf.Variable(5)
    (tmp_path / name).mkdir()
    checkpoints = Checkpoints(tmp_path / name, {"counter": counter})
    checkpoints.save()
    counter.assign(0)
    assert checkpoints.restore() and int(counter) == 5
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", [DATA, INDEX, NAMES, "best.npz"])
def test_a_file_that_cannot_be_read_is_not_called_damaged(saved, tmp_path, name):
    """A directory in its place, since tests may run as a user who may read everything."""
    path = shutil.copytree(saved, tmp_path / "run") / name
    path.unlink(missing_ok=True)
    path.mkdir()
    with pytest.raises(CheckpointError, match="cannot be read .*Is a directory.*; remove no files"):
        checkpoint_lib.read_policy(path, 3) if name == "best.npz" else restored(path.parent)


def test_an_error_that_is_no_damage_names_no_file_to_remove(saved, monkeypatch):
    def fail(self, path):
        raise tf.errors.ResourceExhaustedError(None, None, f"no memory for {path}.index")

    monkeypatch.setattr(tf.train.Checkpoint, "read", fail)
    with pytest.raises(CheckpointError, match="cannot be read .no memory .*; remove no") as caught:
        restored(saved)
    assert f"no memory for {saved}/ckpt-2.index" in str(caught.value)


def test_checkpoints_that_somebody_removes_are_made_anew(tmp_path):
    checkpoints = Checkpoints(tmp_path / "checkpoints", {"counter": tf.Variable(1)})
    for _ in range(2):
        checkpoints.save()
        assert newest(tmp_path / "checkpoints").name == "ckpt-1"
        shutil.rmtree(tmp_path / "checkpoints")


def test_links_in_the_place_of_temporary_files_are_not_followed(tmp_path):
    """Whoever made the directory may have put them there."""
    mine, directory = tmp_path / "mine", tmp_path / "checkpoints"
    for path in (mine, directory):
        path.mkdir()
    (mine / "part-00000-of-00001").write_text("mine")
    (directory / "ckpt-1_temp").symlink_to(mine)
    for name in (".checkpoint", ".checkpoint.tmp", ".best.npz", ".best.npz.tmp", "best.npz"):
        (mine / name).write_text("mine")
        (directory / name).symlink_to(mine / name)
    before = contents(mine)
    Checkpoints(directory, {"counter": tf.Variable(1)}).save()
    policy = StoredPolicy(np.ones(3, np.float32), 2, 1.5)
    checkpoint_lib.write_policy(directory / "best.npz", policy)
    assert contents(mine) == before and newest(directory).name == "ckpt-1"
    assert checkpoint_lib.read_policy(directory / "best.npz", 3).learner_steps == 2


GOOD = {"parameters": np.ones(3, np.float32), "learner_steps": 2, "episode_return": 1.5}


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": np.ones(4, np.float32)},
        {"parameters": np.ones(3)},
        {"parameters": np.array([None] * 3)},
        {"learner_steps": np.ones(3, int)},
        {"learner_steps": np.str_("x" * 40)},
        {"episode_return": np.nan},
        {"episode_return": "high"},
    ],
    ids=str,
)
def test_a_policy_of_wrong_content_is_one_line(tmp_path, change):
    path = tmp_path / "best.npz"
    np.savez(path, **GOOD)
    assert checkpoint_lib.read_policy(path, 3).episode_return == 1.5
    np.savez(path, **(GOOD | change))
    with pytest.raises(CheckpointError) as caught:
        checkpoint_lib.read_policy(path, 3)
    assert str(caught.value).startswith(f"{path} ") and "\n" not in str(caught.value)


def test_a_policy_with_any_byte_changed_is_read_or_one_line(tmp_path):
    path = tmp_path / "best.npz"
    checkpoint_lib.write_policy(path, StoredPolicy(np.ones(3, np.float32), 2, 1.5))
    content = path.read_bytes()
    for position in range(len(content)):
        for value in (0, 255):
            path.write_bytes(content[:position] + bytes([value]) + content[position + 1 :])
            with contextlib.suppress(CheckpointError):
                checkpoint_lib.read_policy(path, 3)
        path.write_bytes(content[:position])
        with pytest.raises(CheckpointError):
            checkpoint_lib.read_policy(path, 3)


def test_a_damaged_save_without_another_says_so(tmp_path):
    Checkpoints(tmp_path, {"counter": tf.Variable(1)}).save()
    cut(tmp_path / "ckpt-1.data-00000-of-00001", 0)
    with pytest.raises(CheckpointError, match="no other checkpoint.*new directory"):
        Checkpoints(tmp_path, {"counter": tf.Variable(0)}).restore()


@pytest.mark.parametrize("values", [{"policy_sizes": (6, 4)}, {"policy_sizes": (6, 5, 4)}], ids=str)
def test_a_save_of_other_networks_is_refused(tmp_path, values):
    Checkpoints(tmp_path, {"learner": make_learner()}).save()
    before = contents(tmp_path)
    other = make_learner(**values)
    with pytest.raises(CheckpointError, match="does not fit the networks of this run") as caught:
        Checkpoints(tmp_path, {"learner": other}).restore()
    message = str(caught.value)
    assert re.search(
        r"shape \([\d, ]+\) .* shape \([\d, ]+\) and name|not bound.*Variable", message
    )
    assert "\n" not in message and str(tmp_path / "ckpt-1") in message and "--workdir" in message
    assert contents(tmp_path) == before


def test_a_save_without_a_name_of_the_state_is_refused(tmp_path):
    """That of another paper, or of a version of the code that did not save it."""
    Checkpoints(tmp_path, {"learner": tf.Variable(0)}).save()
    with pytest.raises(CheckpointError, match="not bound.*tf.Variable"):
        Checkpoints(tmp_path, {"learner": tf.Variable(0), "progress": tf.Variable(0)}).restore()


# Forks processes that restore, check, and save without a pause; a save is of one number throughout.
# Each says the number it restored, -1 for none, and each that it has saved.
SAVER = """
import os, pathlib, random, signal, sys, time
import numpy as np, tensorflow as tf
from common.learning.checkpoint import Checkpoints

def save(say):
    state = tf.Module()
    state.values = [tf.Variable(tf.zeros([100_000]), trainable=False) for _ in range(20)]
    checkpoints = Checkpoints(pathlib.Path(sys.argv[1]), {"learner": state})
    say(int(state.values[0][0]) if checkpoints.restore() else -1)
    step = state.values[0][0]
    assert all(np.all(value == step) for value in state.values), "the parts of several saves"
    while True:
        step += 1
        for value in state.values:
            value.assign(tf.fill([100_000], step))
        checkpoints.save()
        say(int(step))

random.seed(0)
seconds_a_save = None
for _ in range(int(sys.argv[2])):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        save(lambda number: os.write(write, b"%d " % number))
    os.close(write)
    said = os.read(read, 10)  # it has restored
    if seconds_a_save is None:  # the first tells how fast this machine saves
        begin = time.monotonic()
        while said.count(b" ") < 5:
            said += os.read(read, 1000)
        seconds_a_save = (time.monotonic() - begin) / 4
    else:
        for _ in range(random.randrange(5)):
            said += os.read(read, 10)
        time.sleep(random.uniform(0.0, 1.0) * seconds_a_save)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(read, 1000):
        said += more
    os.close(read)
    print(said.decode(), flush=True)
"""


def test_kill_9_in_the_middle_of_a_save_leaves_one_to_restore(tmp_path):
    kills, folder = 12, tmp_path / "saves"
    _, output = run_code(tmp_path, SAVER, folder, kills)
    said = re.findall(r"^[-\d ]+$", output, re.M)
    starts = [[int(number) for number in line.split()] for line in said]
    assert len(starts) == kills and all(starts), output
    assert starts[0][0] == -1
    for before, after in zip(starts, starts[1:]):
        # A save may have been done whose end could not be told any more.
        assert after[0] in (before[-1], max(before[-1], 0) + 1)
    assert sum(map(len, starts)) > 2 * kills  # it was saves that were cut, and some went through


def test_networks_of_another_run_without_its_optimisers_and_steps(tmp_path):
    source = make_learner()
    for variable in source.variables:
        variable.assign_add(tf.ones_like(variable))
    Checkpoints(tmp_path / "checkpoints", {"learner": source, "other": tf.Variable(3)}).save()
    for directory in (tmp_path, tmp_path / "checkpoints"):
        learner = make_learner(n_step=3)
        checkpoint_lib.load_networks(directory, learner)
        for name in ("networks", "target_networks"):
            pairs = zip(getattr(source, name).variables, getattr(learner, name).variables)
            for saved, loaded in pairs:
                np.testing.assert_array_equal(saved, loaded)
        assert int(learner.steps) == 0 < int(source.steps)
        adam = learner.policy_optimizer
        assert int(adam.step) == 0 and not any(np.any(m) for m in (*adam.m, *adam.v))


def test_networks_that_do_not_fit_are_an_error_that_names_the_flag(tmp_path):
    learner = make_learner()
    with pytest.raises(CheckpointError, match=f"--init_from={tmp_path}: there is no checkpoint"):
        checkpoint_lib.load_networks(tmp_path, learner)
    Checkpoints(tmp_path, {"learner": learner}).save()
    other = make_learner(policy_sizes=(7, 5))
    with pytest.raises(CheckpointError, match="does not fit .* shape .* and name") as error:
        checkpoint_lib.load_networks(tmp_path, other)
    assert "--workdir" not in str(error.value)
