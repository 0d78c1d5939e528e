"""What the actors of a process, and their lives, have of their own."""

import numpy as np

from common.acting import episodes
from common.reporting.run_directory import RunDirectory


def test_seeds_differ_between_runs_actors_and_lives():
    seeds = [
        episodes.actor_seed(seed, actor, life)
        for seed in range(3)
        for actor in range(40)
        for life in range(5)
    ]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**32 for seed in seeds)


def test_the_first_lifes_seed_is_of_run_and_actor_alone():
    for seed, actor in ((0, 0), (3, 0), (0, 7), (2**31 - 1, 359)):
        expected = np.random.SeedSequence([seed, actor]).generate_state(1)[0]
        assert episodes.actor_seed(seed, actor, 0) == expected


def test_an_environment_of_another_life_begins_otherwise():
    def first_observations(life):
        return (
            episodes.make_environments("control:cartpole:swingup", range(2, 4), 5, life)
            .reset()
            .observation
        )

    again, other = first_observations(0), first_observations(1)
    np.testing.assert_array_equal(again, first_observations(0))
    for row in range(2):
        assert np.any(again[row] != other[row])


def test_a_life_is_counted_from_its_beginning(tmp_path):
    lives = [
        episodes.begin_life(tmp_path, actors)
        for actors in (range(0, 3), range(3, 5), range(0, 3), range(0, 3), range(5, 7), range(3, 5))
    ]
    assert lives == [0, 0, 1, 2, 0, 1]
    # With other processes: of the actor that had most of them.
    assert episodes.begin_life(tmp_path, range(2, 4)) >= 3


def test_a_torn_row_does_not_matter(tmp_path):
    episodes.begin_life(tmp_path, range(1))
    path = RunDirectory(tmp_path).lives_csv
    path.write_text(path.read_text() + "2")
    assert episodes.begin_life(tmp_path, range(1)) == 1
    assert path.read_text().splitlines() == ["first_actor,last_actor", "0,0", "0,0"]
