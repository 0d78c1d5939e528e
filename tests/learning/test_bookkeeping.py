"""Tests of common.learning.bookkeeping: a run whose parts die. Nothing is learnt."""

import dataclasses
import errno
import os
import types

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import metadata
import tensorflow as tf

from common.cluster.errors import ServiceUnavailableError
from common.learning import bookkeeping as bookkeeping_lib
from common.learning.bookkeeping import Bookkeeping, BookkeepingOptions, RunCounters, SavedCounters
from common.learning.checkpoint import Checkpoints
from common.replay.saving import StoreFile
from common.replay.store import Counters
from common.reporting import csv_rows
from common.reporting.csv_rows import CsvRows, last_row, read_rows
from common.reporting.run_directory import RunDirectory
from common.user_error import UserError

METRICS = ("critic_loss", "importance_weight_max", "mean_q")
OPTIONS = BookkeepingOptions(
    samples_per_update=256, num_copies=1, publish_period=16, checkpoint_seconds=1000.0
)


def make_learner():
    learner = tf.Module()
    learner.steps = tf.Variable(0, dtype=tf.int64)
    learner.actor_variables = (tf.Variable([1.0, 2.0]),)
    return learner


class Run:
    """A run directory, and starts of a learner in it.

    Attributes:
      reported: transitions that the replay has accepted from each incarnation; None if it is away.
    """

    def __init__(self, path):
        self.directory = RunDirectory(path)
        self.directory.open({})
        self.reported = None

    def accepted(self):
        if self.reported is None:
            raise ServiceUnavailableError("away")
        return self.reported

    def start(self, **options):
        """The bookkeeping of another start of the learner."""
        self.learner = make_learner()
        trainer = types.SimpleNamespace(
            state={}, counters=None, priority_lag=0.0, flush=lambda: None
        )
        parameters = types.SimpleNamespace(publish=lambda *snapshot: 1)
        return Bookkeeping(
            self.directory,
            self.learner,
            trainer,
            parameters,
            lambda: self.accepted(),
            dataclasses.replace(OPTIONS, **options),
        )

    def num_saved(self):
        """Checkpoints so far."""
        numbers = [
            int(path.stem.split("-")[1]) for path in self.directory.checkpoints.glob("*.index")
        ]
        return max(numbers, default=0)


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


@pytest.fixture
def warnings(monkeypatch):
    """What the bookkeeping warns of."""
    told = []
    monkeypatch.setattr(
        bookkeeping_lib.logging, "warning", lambda text, *values: told.append(text % values)
    )
    return told


def test_counts_what_comes_until_the_actors_have_ended(run):
    bookkeeping = run.start(quiet_seconds=0.5)
    run.reported = {1: 10}
    bookkeeping.after_call(None)
    assert bookkeeping.counters.actor_steps == 10  # in a row that is due at once
    more = iter(range(20, 70, 10))
    run.accepted = lambda: {1: next(more, 60)}  # an actor goes on for some time
    ended = bookkeeping.counters.wall_seconds
    bookkeeping.settle(lambda: Counters(items=60))
    row = last_row(run.directory.learner_csv)
    assert row["actor_steps"] == row["replay_size"] == bookkeeping.counters.actor_steps == 60
    assert row["wall_seconds"] == pytest.approx(ended, abs=0.3)  # not the time of waiting
    assert row["actor_steps_per_second"] == 0  # all 50 steps came in that time
    assert bookkeeping.counters.wall_seconds - ended > 0.5
    assert run.start().counters.actor_steps == 60  # and it is saved


def test_a_poll_counts_what_came_since_the_last_one(run):
    bookkeeping = run.start(poll_seconds=1000.0)
    run.reported = {1: 10}
    bookkeeping.after_call(None)
    run.reported = {1: 40}
    bookkeeping.after_call(None)
    assert bookkeeping.counters.actor_steps == 10
    bookkeeping.poll()
    assert bookkeeping.counters.actor_steps == 40


def test_a_start_refuses_a_last_row_that_cannot_be_and_goes_on_from_one_that_can(run):
    path = run.directory.learner_csv
    row = dict.fromkeys((*csv_rows.LEARNER, *METRICS), 1)
    for name in ("wall_seconds", "actor_steps"):
        path.unlink(missing_ok=True)
        CsvRows(path, list(row)).append(row | {name: "-3.0"})
        before = path.read_bytes()
        with pytest.raises(UserError, match=f"learner.csv: in the last line: {name} is "):
            run.start()
        assert path.read_bytes() == before
    CsvRows(path, list(row)).append(row | {"actor_steps": "70.0"})
    bookkeeping = run.start()
    bookkeeping.counters.count_unreported()
    bookkeeping.save()
    assert run.num_saved() == 1 and bookkeeping.counters.actor_steps == 70


def test_saves_what_only_it_knows_when_a_replay_has_died(run):
    bookkeeping = run.start(poll_seconds=0.0)
    run.reported = {1: 10, 2: 10}
    bookkeeping.after_call(None)
    assert run.num_saved() == 0
    run.reported = None
    for _ in range(2):
        bookkeeping.after_call(None)
        assert run.num_saved() == 1 and bookkeeping.counters.actor_steps == 20  # it may be dead

    run.reported = {2: 20}  # of a new replay; the first actor is dead as well
    bookkeeping.after_call(None)
    assert bookkeeping.counters.actor_steps == 30

    second = run.start()  # the learner dies without another save
    second.after_call(None)
    assert second.counters.actor_steps == 30


def test_a_save_on_a_full_disk_is_skipped_and_told(run, monkeypatch, warnings):
    bookkeeping = run.start()
    bookkeeping.save()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        bookkeeping.save()
    (warning,) = warnings
    assert warning.startswith("cannot write a checkpoint: disk full: ")
    assert warning.endswith("; the previous one is kept")
    assert run.num_saved() == 1
    bookkeeping.save()
    assert run.num_saved() == 2


def test_columns_of_metrics_come_with_the_first_update_and_cover_all_calls_of_a_row(run):
    path = run.directory.learner_csv
    bookkeeping = run.start()
    bookkeeping.after_call(None)
    assert tuple(read_rows(path)) == csv_rows.LEARNER
    bookkeeping.after_call(dict.fromkeys(METRICS, tf.constant(1.0)))
    bookkeeping.counters._begin -= 100  # a row is due
    bookkeeping.after_call(dict.fromkeys(METRICS, tf.constant(3.0)))
    rows = read_rows(path)
    assert tuple(rows) == (*csv_rows.LEARNER, *METRICS)
    assert rows["mean_q"].isna().tolist() == [True, False]
    assert rows["importance_weight_max"].iloc[1] == 3  # not the mean
    bookkeeping = run.start()
    bookkeeping.after_call(None)
    bookkeeping.counters._begin -= 100
    bookkeeping.after_call(dict.fromkeys(reversed(METRICS), tf.constant(3.0)))
    rows = read_rows(path)
    assert tuple(rows) == (*csv_rows.LEARNER, *METRICS)
    assert rows["mean_q"].dropna().tolist() == [2, 3] and len(rows) == 4


def test_a_value_beyond_what_is_possible_is_told_once(run, warnings):
    options = dataclasses.replace(OPTIONS, q_bound=200.0)
    log = bookkeeping_lib.LearnerLog(run.directory, options, RunCounters(SavedCounters()))
    for step, (mean_q, scale) in enumerate([(100.0, 1.0), (30.0, 10.0), (40.0, 10.0), (9.0, 0.0)]):
        log.add({"mean_q": tf.constant(mean_q), "reward_scale": tf.constant(scale)})
        log.write(float(step), step, 1, None, 0.0)
    log.close()
    assert read_rows(run.directory.learner_csv)["q_bound"].tolist() == [200, 20, 20, 200]
    (warning,) = warnings
    assert warning.startswith("mean_q, 30 at learner step 1, exceeds") and "= 20:" in warning


def test_a_metric_with_the_name_of_a_column_of_every_agent_is_refused(run):
    bookkeeping = run.start()
    with pytest.raises(ValueError, match="column replay_size twice"):
        bookkeeping.after_call({"replay_size": tf.constant(1.0)})


def test_samples_per_insert_count_every_copy_of_a_transition(run):
    bookkeeping = run.start(num_copies=4, poll_seconds=0.0)
    run.reported = {1: 10}
    bookkeeping.after_call(None)
    run.reported = {1: 14, 2: 6}
    run.learner.steps.assign(5)
    bookkeeping.counters._begin -= 100  # a row is due
    bookkeeping.after_call(dict.fromkeys(METRICS, tf.constant(1.0)))
    rows = read_rows(run.directory.learner_csv)
    assert rows["actor_steps"].tolist() == [10, 20]
    assert rows["samples_per_insert"].iloc[-1] == 5 * OPTIONS.samples_per_update / 40


class Stored:
    """A store of which a checkpoint saves the contents."""

    def __init__(self):
        self.saved = []

    def save(self, path):
        self.saved.append(path)

    def counters(self):
        return Counters(len(self.saved))


def test_checkpoints_come_in_their_time_with_the_store_in_this_process(run, tmp_path):
    bookkeeping, store = run.start(), Stored()
    bookkeeping.save()
    path = tmp_path / "replay" / "learner_0.replay"
    bookkeeping.store_file = StoreFile(store, path, period_seconds=1000.0)
    bookkeeping.after_call(None)
    assert store.saved == [] and run.num_saved() == 1
    bookkeeping._saved_at -= 1000.0
    for _ in range(2):
        bookkeeping.after_call(None)
    bookkeeping.store_file.close(is_over=False)  # waits for the thread, and saves what it lacks
    assert store.saved == [path, path] and run.num_saved() == 2


def test_steps_that_no_replay_reports_count_once():
    """A learner that acts itself died 30 transitions after its last checkpoint."""
    saved = SavedCounters()
    first = RunCounters(saved)
    first.update({7: 100})
    first.store()
    second = RunCounters(saved, actor_steps=130)
    second.count_unreported()
    assert second.actor_steps == 130
    second.update({8: 5})
    assert second.actor_steps == 135
    second.store()
    third = RunCounters(saved, actor_steps=135)
    third.count_unreported()
    assert third.actor_steps == 135


def test_no_accepted_transition_is_lost_or_counted_twice_whoever_dies(tmp_path):
    """Kills of actors, replay and learner; a replay dies only after the learner's last poll."""
    generator = np.random.default_rng(0)
    saved = SavedCounters()
    checkpoints = Checkpoints(tmp_path, {"saved": saved})
    checkpoints.save()
    counters, replay = RunCounters(saved), {}
    actors, next_incarnation, accepted, before = {}, 100, 0, 0
    for _ in range(300):
        event = generator.choice(
            ["insert", "poll", "save", "actor", "replay", "learner"],
            p=[0.6, 0.2, 0.05, 0.05, 0.05, 0.05],
        )
        if event == "insert" or not actors:
            if len(actors) < 3:
                actors[next_incarnation] = 0
                next_incarnation += 1
            incarnation = generator.choice(list(actors))
            actors[incarnation] += (rows := int(generator.integers(1, 50)))
            accepted += rows
            replay[incarnation] = actors[incarnation]
        elif event == "actor":
            del actors[generator.choice(list(actors))]
        elif event == "save":
            counters.store()
            checkpoints.save()
        elif event == "learner":
            saved = SavedCounters()
            checkpoints = Checkpoints(tmp_path, {"saved": saved})
            assert checkpoints.restore()
            counters = RunCounters(saved)
        if event == "replay":
            counters.update(replay)
            replay = {}
        if event in ("poll", "replay", "learner"):
            if counters.update(replay):
                counters.store()
                checkpoints.save()
            assert counters.actor_steps == accepted >= before
            before = accepted
    assert before > 1000


def test_wall_time_does_not_go_back():
    saved = SavedCounters()
    saved.wall_seconds.assign(100.0)
    assert RunCounters(saved).wall_seconds == pytest.approx(100, abs=1)
    assert RunCounters(saved, 90.0).wall_seconds == pytest.approx(100, abs=1)
    counters = RunCounters(saved, 130.0)  # a row was written after the checkpoint
    assert counters.wall_seconds == pytest.approx(130, abs=1)
    counters.store()
    assert float(saved.wall_seconds) == pytest.approx(130, abs=1)


def test_actor_steps_do_not_go_back_while_the_accounts_are_away():
    """Learner and replay were killed: the actors bring their counts with their next inserts."""
    saved = SavedCounters()
    counters = RunCounters(saved)
    counters.update({1: 50})
    counters.store()
    counters = RunCounters(saved, 0.0, 80)  # a row was written after the checkpoint
    assert counters.actor_steps == 80
    counters.update({1: 60})
    assert counters.actor_steps == 80
    counters.update({1: 90})
    assert counters.actor_steps == 90
    counters.store()
    assert RunCounters(saved).actor_steps == 90


def test_tensorboard_gets_each_hyperparameter_as_a_value_of_its_own(tmp_path):
    directory = RunDirectory(tmp_path)
    directory.open({"agent": "d4pg", "config": {"n_step": 5, "policy_sizes": (4, 4)}})
    bookkeeping_lib.LearnerLog(directory, OPTIONS, RunCounters(SavedCounters())).close()
    events = EventAccumulator(str(directory.path))
    events.Reload()
    content = events.SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
    found = metadata.parse_session_start_info_plugin_data(content).hparams
    assert {"agent", "n_step", "policy_sizes"} <= set(found) and "config" not in found


def test_a_checkpoint_stays_at_every_so_many_steps(run):
    bookkeeping = run.start(keep_every=100)
    kept = []
    for steps in (60, 110, 150, 230):
        run.learner.steps.assign(steps)
        bookkeeping.after_call(dict.fromkeys(METRICS, np.float32(0)))
        bookkeeping.save()
        kept.append(sorted(path.name for path in run.directory.checkpoints.glob("step_*")))
    assert kept == [[], ["step_110"], ["step_110"], ["step_110", "step_230"]]
    learner = make_learner()
    assert Checkpoints(run.directory.kept_checkpoint(110), {"learner": learner}).restore()
    assert int(learner.steps) == 110


def test_a_checkpoint_that_stays_is_made_again_if_its_writer_was_killed(run, monkeypatch):
    bookkeeping, save = run.start(keep_every=100), Checkpoints.save

    def killed(checkpoints):
        if checkpoints._directory != run.directory.checkpoints:
            raise KeyboardInterrupt
        save(checkpoints)

    def reach(bookkeeping, steps):
        run.learner.steps.assign(steps)
        bookkeeping.after_call(dict.fromkeys(METRICS, tf.constant(1.0)))

    reach(bookkeeping, 90)
    bookkeeping.save()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Checkpoints, "save", killed)
        reach(bookkeeping, 110)
    bookkeeping = run.start(keep_every=100)
    reach(bookkeeping, bookkeeping.steps + 20)
    assert Checkpoints(run.directory.kept_checkpoint(110), {"learner": run.learner}).restore()


def test_a_checkpoint_that_should_stay_but_finds_a_full_disk_is_named_nowhere(run, monkeypatch):
    bookkeeping = run.start(keep_every=100)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def reach(steps):
        run.learner.steps.assign(steps)
        bookkeeping.after_call(dict.fromkeys(METRICS, tf.constant(1.0)))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        reach(110)
    assert run.directory.kept_in_words == "none is kept"
    reach(230)
    assert run.directory.kept_in_words == "there are step_230"


def test_evaluations_are_shown_next_to_the_learner_and_the_best_is_known(run):
    bookkeeping = run.start(quiet_seconds=0.0)
    rows = CsvRows(run.directory.evaluator_csv, csv_rows.EVALUATOR)
    for step, mean in ((0, 9.0), (10, 2.0), (20, 1.0)):  # before an update nothing is learnt
        row = dict.fromkeys(csv_rows.EVALUATOR, 1)
        rows.append(row | {"learner_steps": step, "episode_return_mean": mean})
    assert bookkeeping.best_return == -np.inf
    bookkeeping.settle(Counters)
    assert bookkeeping.best_return == 2.0
    events = EventAccumulator(str(run.directory.path))
    events.Reload()
    assert [event.step for event in events.Tensors("evaluator/episode_return")] == [0, 10, 20]
