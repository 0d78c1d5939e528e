"""Tests of common.acting.loop."""

import numpy as np

from common.acting import loop
from common.reporting import csv_rows
from common.reporting.csv_rows import read_rows
from common.reporting.run_directory import RunDirectory


def test_seeds_differ_between_runs_actors_and_starts():
    seeds = [
        of(seed, actor, start)
        for of in (loop.actor_seed, loop.exploration_seed)
        for seed in range(3)
        for actor in range(40)
        for start in range(5)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_the_seed_of_the_first_start_is_of_run_and_actor_alone():
    for seed, actor in ((0, 0), (3, 0), (0, 7), (2**31 - 1, 359)):
        expected = np.random.SeedSequence([seed, actor]).generate_state(1)[0]
        assert loop.actor_seed(seed, actor, 0) == expected


def test_an_environment_of_another_start_begins_otherwise():
    def first_observations(start):
        actors = range(2, 4)
        environments = loop.make_environments("control:cartpole:swingup", actors, 5, start, None)
        return environments.reset().observation

    again, other = first_observations(0), first_observations(1)
    np.testing.assert_array_equal(again, first_observations(0))
    for row in range(2):
        assert np.any(again[row] != other[row])


def test_a_start_counts_from_its_beginning(tmp_path):
    run = RunDirectory(tmp_path)
    starts = [
        loop.record_start(run, actors)
        for actors in (range(0, 3), range(3, 5), range(0, 3), range(0, 3), range(5, 7), range(3, 5))
    ]
    assert starts == [0, 0, 1, 2, 0, 1]
    # With other processes: at least those of the actor that had most.
    assert loop.record_start(run, range(2, 4)) >= 3


def test_a_torn_row_does_not_matter(tmp_path):
    run = RunDirectory(tmp_path)
    loop.record_start(run, range(1))
    run.lives_csv.write_text(run.lives_csv.read_text() + "2")
    assert loop.record_start(run, range(1)) == 1
    assert run.lives_csv.read_text().splitlines() == ["first_actor,last_actor", "0,0", "0,0"]


def test_a_row_for_each_episode(tmp_path):
    run = RunDirectory(tmp_path)
    status = {
        "wall_seconds": 2.5,
        "incarnation": 9,
        "parameter_version": 3,
        "parameter_age_steps": 16,
    }
    log = loop.EpisodeLog(run, range(4, 6), lambda: status)
    log.write(1, 7.5, 10)
    log.write(0, 1.0, 4)
    log.write(1, 8.5, 20)
    rows = read_rows(run.acting_csv)
    assert tuple(rows.columns) == csv_rows.ACTING
    assert rows["actor"].tolist() == [5, 4, 5]
    assert rows["actor_steps"].tolist() == [10, 4, 30]
    assert rows["episode_return"].tolist() == [7.5, 1.0, 8.5]
    assert rows["episode_length"].tolist() == [10, 4, 20]
    assert set(rows["incarnation"]) == {9}
