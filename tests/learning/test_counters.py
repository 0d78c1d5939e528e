"""Tests of common.learning.bookkeeping: a simulated run whose parts die."""

import numpy as np
import pytest

from common.learning.bookkeeping import RunCounters, SavedCounters
from common.learning.checkpoint import Checkpoints


def test_the_largest_count_of_each_incarnation_counts():
    counters = RunCounters(SavedCounters())
    assert counters.actor_steps == 0
    counters.update({})
    counters.update({1: 50, 2: 10})
    assert counters.actor_steps == 60
    counters.update({1: 50, 2: 30})
    assert counters.actor_steps == 80
    counters.update({2: 30, 3: 5})  # a new replay, of which the first actor has not heard
    assert counters.actor_steps == 85
    counters.update({1: 70, 2: 30, 3: 5})  # and now it has
    assert counters.actor_steps == 105


def test_the_sum_of_false_counts_is_a_number_that_files_can_hold():
    counters = RunCounters(SavedCounters())
    counters.update(dict.fromkeys(range(1, 2000), 2**44))
    assert counters.actor_steps == 2**53
    counters.store()
    assert RunCounters(SavedCounters(), actor_steps=10**30).actor_steps == 2**53


def test_an_update_returns_whether_only_it_knows_a_count():
    counters = RunCounters(SavedCounters())
    assert not counters.update({1: 50})  # the replay knows, too
    assert counters.update({})  # a new replay does not
    counters.store()
    assert not counters.update({})  # the checkpoint does
    assert not counters.update({1: 80})
    assert counters.update({1: 20})
    assert not counters.update({1: 90})


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


@pytest.mark.parametrize("seed", range(2))
def test_no_accepted_transition_is_lost_or_counted_twice_whoever_dies(tmp_path, seed):
    """Kills of actors, replay and learner; a replay dies only after the learner's last poll."""
    generator = np.random.default_rng(seed)
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
