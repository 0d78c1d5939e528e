"""Tests of the file of a store: what a process that starts again finds."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from common.replay import local_replay, saving
from common.replay.local_replay import LocalReplay
from common.replay.memory import Fifo, Items, Memory, Proportional
from common.replay.saving import StoreFile


def make_memory(capacity=100):
    distributions = {"sample": Proportional(1.0), "remove": Fifo()}
    return Memory(tf.TensorSpec([3]), capacity, distributions, "remove", seed=1)


def put(memory, begin, count):
    keys = np.arange(begin, begin + count)
    rows = np.repeat(keys[:, None], 3, 1).astype(np.float32)
    memory.put(Items(keys, rows, 1 + keys.astype(np.float32)))


@pytest.fixture
def lines(monkeypatch):
    """What was logged, as "info: ..." and "warning: ..."."""
    said = []
    for level in ("info", "warning"):
        monkeypatch.setattr(
            saving.logging, level, lambda text, *a, level=level: said.append(f"{level}: {text % a}")
        )
    return said


def test_a_stop_keeps_the_contents_and_the_next_start_has_them(tmp_path, lines):
    memory = make_memory()
    put(memory, 0, 90)
    put(memory, 90, 60)
    file = StoreFile(memory, tmp_path / "replay/learner_0.replay", 60.0)
    file.load()
    assert not lines  # there was nothing
    file.close(is_over=False)

    again = make_memory()
    StoreFile(again, tmp_path / "replay/learner_0.replay", 60.0).load()
    assert lines == ["info: the replay resumes with 100 saved items"]
    assert again.statistics() == memory.statistics()
    np.testing.assert_array_equal(again.draw(50, seed=4).steps, memory.draw(50, seed=4).steps)


def test_contents_are_saved_every_period_and_again_at_the_end_if_they_changed(tmp_path):
    memory, path = make_memory(), tmp_path / "learner_0.replay"
    file = StoreFile(memory, path, 0.0)
    put(memory, 0, 10)
    file.save_if_due()
    put(memory, 10, 10)
    file.close(is_over=False)
    again = make_memory()
    StoreFile(again, path, 60.0).load()
    assert again.counters().items == 20
    slow = StoreFile(memory, tmp_path / "other.replay", 3600.0)
    slow.save_if_due()
    slow.close(is_over=True)
    assert [file.name for file in tmp_path.iterdir()] == ["learner_0.replay"]


def test_the_time_between_two_saves_grows_with_the_file(tmp_path):
    """However often a save is asked for. The next start knows the size; the last save is due."""
    memory, path = make_memory(), tmp_path / "learner_0.replay"
    put(memory, 0, 10)
    file = StoreFile(memory, path, 0.0, bytes_per_second=1.0)
    file.save_if_due()
    file._saving.result()
    first = path.stat()
    assert first.st_size > 600  # so the next save is due in ten minutes
    for again in (file, StoreFile(memory, path, 0.0, bytes_per_second=1.0)):
        put(memory, 10, 10)
        again.save_if_due()
        again.begin_to_save()
        assert again._saving in (None, file._saving) and path.stat() == first
    file._began -= first.st_size
    file.save_if_due()
    file._saving.result()
    second = path.stat()
    assert second.st_ino != first.st_ino
    put(memory, 20, 10)
    file.close(is_over=False)
    assert path.stat().st_ino != second.st_ino


def test_a_save_that_failed_is_made_up_for_at_the_end(tmp_path, monkeypatch):
    memory, path = make_memory(), tmp_path / "learner_0.replay"
    put(memory, 0, 10)
    file = StoreFile(memory, path, 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(memory, "save", lambda path: saving.check_saved(tf.constant("disk full")))
        file.save_if_due()
        file._saving.result()
    file.close(is_over=False)
    assert path.exists()


def test_the_directory_is_made_anew_but_not_the_run_s(tmp_path, lines):
    (tmp_path / "run").mkdir()
    memory, path = make_memory(), tmp_path / "run/replay/learner_0.replay"
    put(memory, 0, 10)
    for name in ("first", "second"):
        StoreFile(memory, path, 60.0).close(is_over=False)
        (tmp_path / "run/replay").rename(tmp_path / name)
    (tmp_path / "run").rename(tmp_path / "moved")
    StoreFile(memory, path, 60.0).close(is_over=False)
    (line,) = lines
    assert line.startswith("warning: cannot save the replay: ")
    assert line.endswith("; the previous file is kept")
    assert {entry.name for entry in tmp_path.iterdir()} == {"first", "second", "moved"}


def test_one_save_at_a_time_and_none_of_what_is_saved(tmp_path):
    started, go_on, saved = threading.Event(), threading.Event(), []

    class Slow(Memory):
        def save(self, path):
            started.set()
            go_on.wait(30)
            saved.append(self.counters().items)
            super().save(path)

    memory = Slow(tf.TensorSpec([3]), 9, {"sample": Proportional(1.0), "remove": Fifo()}, "remove")
    file = StoreFile(memory, tmp_path / "memory", 0.0)
    put(memory, 0, 5)
    file.begin_to_save()
    assert started.wait(30)
    file.begin_to_save()
    go_on.set()
    file.close(is_over=False)
    assert saved == [5]


def test_the_end_of_the_run_removes_the_file_and_no_other_role_s(tmp_path):
    (tmp_path / "actor_10.replay").touch()
    file = StoreFile(make_memory(), tmp_path / "actor_1.replay", 0.0)
    (tmp_path / "actor_1.replay_7").touch()
    file.begin_to_save()
    file.close(is_over=True)
    assert [file.name for file in tmp_path.iterdir()] == ["actor_10.replay"]


def test_a_file_that_outlasts_the_run_goes_only_if_its_contents_are_of_no_use(tmp_path):
    memory, path = make_memory(), tmp_path / "learner_0.replay"
    put(memory, 0, 10)
    StoreFile(memory, path, 60.0, outlasts_run=True).close(is_over=True)
    again = make_memory()
    StoreFile(again, path, 60.0).load()
    assert again.counters().items == 10
    StoreFile(again, path, 60.0, outlasts_run=True).close(is_over=True, is_bad=True)
    assert not path.exists()


def test_without_the_flag_nothing_is_saved_and_an_old_file_goes(tmp_path, lines):
    path, memory = tmp_path / "learner_0.replay", make_memory()
    put(memory, 0, 5)
    StoreFile(memory, path, 60.0).close(is_over=False)
    other = make_memory()
    off = StoreFile(other, path, 0.0, is_on=False)
    off.load()
    off.save_if_due()
    off.close(is_over=False)
    assert other.counters().items == 0 and not list(tmp_path.iterdir())
    words = "the saved replay is removed, because this start does not save the replay"
    assert lines == [f"warning: {words}"]


def test_a_damaged_file_is_one_line_and_the_replay_starts_empty(tmp_path, lines):
    path, memory = tmp_path / "learner_0.replay", make_memory()
    put(memory, 0, 50)
    StoreFile(memory, path, 60.0).close(is_over=False)
    path.write_bytes(path.read_bytes()[:-20])
    again = make_memory()
    StoreFile(again, path, 60.0).load()
    (line,) = lines
    assert line.startswith("warning: the replay starts empty: ") and str(path) in line
    assert "\n" not in line and again.counters().items == 0
    put(again, 0, 3)  # it works
    other = make_memory(capacity=7)
    StoreFile(other, path, 60.0).load()
    assert lines[1].startswith("warning: the replay starts empty: ")


def test_what_cannot_be_removed_at_the_end_of_a_run_is_one_line(tmp_path, lines):
    (tmp_path / "learner_0.replay").mkdir()  # somebody's own
    StoreFile(make_memory(), tmp_path / "learner_0.replay", 60.0).close(is_over=True)
    (line,) = lines
    assert line == f"warning: cannot remove {tmp_path}/learner_0.replay: Is a directory"


def replay(actors=range(2, 12)):
    return LocalReplay({"x": tf.TensorSpec([4, 2])}, actors, capacity=40, length=4, seed=5)


def bursts(local, begin):
    rows = np.arange(begin, begin + 3, dtype=np.float32)[:, None, None] * np.ones((1, 4, 2))
    return local.burst([2, 11, 2], {"x": rows.astype(np.float32)}, 3)["x"]


def test_replays_of_actors_go_on(tmp_path):
    uncut = replay()
    for number in range(6):
        bursts(uncut, number)
    StoreFile(uncut, tmp_path / "actor_1.replay", 60.0).close(is_over=False)
    again = replay()
    file = StoreFile(again, tmp_path / "actor_1.replay", 60.0)
    file.load()
    assert again.counters() == uncut.counters()
    for number in range(6, 20):
        np.testing.assert_array_equal(bursts(again, number), bursts(uncut, number))
    file.close(is_over=True)
    assert not list(tmp_path.iterdir())


def test_each_actor_goes_on_with_its_replay_in_another_number_of_processes(tmp_path):
    path = tmp_path / "actors.replay"
    before = replay()
    for number in range(6):
        bursts(before, number)
    StoreFile(before, path, 60.0).close(is_over=False)
    for number_of_starts in range(2):
        files = []
        for actors, items in ((range(2, 6), 10), (range(6, 12), 6)):
            again = replay(actors)
            files.append(StoreFile(again, path, 60.0))
            files[-1].load()
            assert again.counters().items == items
        for file in files:
            file.close(is_over=number_of_starts == 1)
    assert not list(tmp_path.iterdir())


def test_replays_of_actors_start_whatever_lies_beside_their_files(tmp_path, lines, monkeypatch):
    monkeypatch.setattr(local_replay.logging, "warning", saving.logging.warning)
    uncut = replay()
    for number in range(6):
        bursts(uncut, number)
    path = tmp_path / "actor_1.replay"
    StoreFile(uncut, path, 60.0).close(is_over=False)
    content = (tmp_path / "actor_1.replay_2").read_bytes()
    for left in ("2.tmp", "11.tmp", "", "x", "-1", "2_3", "9" * 400, "\u0663", "7~"):
        (tmp_path / f"actor_1.replay_{left[:200]}").write_bytes(content)
    (tmp_path / "actor_1.replay_11").write_bytes(content[:-1])
    again = replay()
    StoreFile(again, path, 60.0).load()
    assert lines[0].startswith("warning: the replay of actor 11 starts empty: ")
    assert lines[1:] == ["info: the replay resumes with 10 saved items"]
    bursts(again, 6)
