"""Tests of common.learning.counters: a simulated run whose parts die."""

import numpy as np
import pytest

from common.learning.checkpoint import Checkpoints
from common.learning.counters import Counters, Progress


def test_counts_the_most_that_was_seen_of_each_incarnation():
    counters = Counters(Progress())
    assert counters.actor_steps == 0
    counters.see({})
    counters.see({1: 50, 2: 10})
    assert counters.actor_steps == 60
    counters.see({1: 50, 2: 30})
    assert counters.actor_steps == 80
    counters.see({2: 30, 3: 5})  # a new replay, of which the first actor has not heard
    assert counters.actor_steps == 85
    counters.see({1: 70, 2: 30, 3: 5})  # and now it has
    assert counters.actor_steps == 105


def test_says_when_it_is_the_only_one_that_knows():
    counters = Counters(Progress())
    assert not counters.see({1: 50})  # the replay knows, too
    assert counters.see({})  # a new replay does not
    counters.store()
    assert not counters.see({})  # the checkpoint does
    assert not counters.see({1: 80})
    assert counters.see({1: 20})
    assert not counters.see({1: 90})


def test_what_is_in_no_account_any_more_is_booked_once():
    """A learner that acts itself died 30 transitions after its last checkpoint."""
    progress = Progress()
    first = Counters(progress)
    first.see({7: 100})
    first.store()
    second = Counters(progress, actor_steps=130)
    second.book_unknown()
    assert second.actor_steps == 130
    second.see({8: 5})
    assert second.actor_steps == 135
    second.store()
    third = Counters(progress, actor_steps=135)
    third.book_unknown()
    assert third.actor_steps == 135


@pytest.mark.parametrize("seed", range(2))
def test_no_accepted_transition_is_lost_or_counted_twice_whoever_dies(tmp_path, seed):
    """Kills of actors, replay and learner; a replay dies only after the learner's last look."""
    generator = np.random.default_rng(seed)
    progress = Progress()
    checkpoints = Checkpoints(tmp_path, {"progress": progress})
    checkpoints.save()
    counters, replay = Counters(progress), {}
    actors, next_incarnation, accepted, before = {}, 100, 0, 0
    for _ in range(300):
        event = generator.choice(
            ["insert", "look", "save", "actor", "replay", "learner"],
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
            progress = Progress()
            checkpoints = Checkpoints(tmp_path, {"progress": progress})
            assert checkpoints.restore()
            counters = Counters(progress)
        if event == "replay":
            counters.see(replay)
            replay = {}
        if event in ("look", "replay", "learner"):
            if counters.see(replay):
                counters.store()
                checkpoints.save()
            assert counters.actor_steps == accepted >= before
            before = accepted
    assert before > 1000


def test_wall_time_does_not_go_back():
    progress = Progress()
    progress.wall_seconds.assign(100.0)
    assert Counters(progress).wall_seconds == pytest.approx(100, abs=1)
    assert Counters(progress, 90.0).wall_seconds == pytest.approx(100, abs=1)
    counters = Counters(progress, 130.0)  # a row was written after the checkpoint
    assert counters.wall_seconds == pytest.approx(130, abs=1)
    counters.store()
    assert float(progress.wall_seconds) == pytest.approx(130, abs=1)


def test_actor_steps_do_not_go_back_while_the_accounts_are_away():
    """Learner and replay were killed: the actors bring their counts with their next inserts."""
    progress = Progress()
    counters = Counters(progress)
    counters.see({1: 50})
    counters.store()
    counters = Counters(progress, 0.0, 80)  # a row was written after the checkpoint
    assert counters.actor_steps == 80
    counters.see({1: 60})
    assert counters.actor_steps == 80
    counters.see({1: 90})
    assert counters.actor_steps == 90
    counters.store()
    assert Counters(progress).actor_steps == 90
