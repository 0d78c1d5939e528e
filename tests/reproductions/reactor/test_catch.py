"""Catch: its rules, and that nothing shows the ball after its fourth row."""

import numpy as np
import pytest

from reproductions.reactor import catch


def cells(timestep):
    """[36, 36, 1] -> [9, 9], after a look whether each cell is of one colour."""
    image = timestep.observation[..., 0].reshape(9, 4, 9, 4)
    assert np.all(image == image[:, :1, :, :1])
    return image[:, 0, :, 0]


def play(environment, choose):
    """Plays an episode; `choose` maps (paddle, ball's column) to an action."""
    timestep = environment.reset()
    column = int(np.flatnonzero(cells(timestep)[0])[0])
    timesteps = [timestep]
    while not timestep.last():
        paddle = int(np.flatnonzero(cells(timestep)[8] == 128)[0])
        timestep = environment.step(np.int32(choose(paddle, column)))
        timesteps.append(timestep)
    return timesteps, column


def towards(paddle, column):
    return 1 + np.sign(column - paddle)


@pytest.mark.parametrize("choose, reward", [(towards, 1.0), (lambda p, c: 2 * (c < 5), -1.0)])
def test_the_reward_is_at_the_last_row_only(choose, reward):
    environment = catch.make(seed=0)
    for _ in range(20):
        timesteps, _ = play(environment, choose)
        assert len(timesteps) == 9
        assert [t.reward for t in timesteps] == [None, *[0.0] * 7, reward]
        assert [t.discount for t in timesteps] == [None, *[1.0] * 7, 0.0]


def test_the_ball_is_seen_in_its_first_four_rows():
    timesteps, column = play(catch.make(seed=5), towards)
    for row, timestep in enumerate(timesteps):
        image = cells(timestep)
        assert np.count_nonzero(image == 128) == 1 and image[8].max() == 128
        balls = [tuple(each) for each in np.argwhere(image == 255)]
        assert balls == ([(row, column)] if row < 4 else [])


def test_balls_fall_in_all_columns():
    environment = catch.make(seed=7)
    assert {play(environment, towards)[1] for _ in range(40)} == set(range(9))


def test_the_paddle_stays_within_the_columns():
    environment = catch.make(seed=1)
    for action, end in ((0, 0), (2, 8)):
        timesteps, _ = play(environment, lambda *_: action)
        assert cells(timesteps[-1])[8, end] == 128


def test_a_film_shows_the_ball_at_all_times():
    environment = catch.make(seed=2)
    timestep = environment.reset()
    for row in range(catch.SIDE):
        picture = environment.render(18, 30)
        assert picture.shape == (18, 30, 3) and not picture[:, :6].any()
        board = picture[::2, 6:24:2]
        assert np.count_nonzero(board[:8].any(axis=2)) == (row < 8)
        assert row == 8 or board[row].any()
        assert board[8].any() or timestep.last()
        timestep = environment.step(np.int32(1))
