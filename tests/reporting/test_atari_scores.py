import csv
import pathlib

import pytest

from common.environments import atari_suite
from common.reporting import atari_scores

REPORTED = pathlib.Path(__file__).parents[2] / "results" / "reported"


def column(name):
    with open(REPORTED / "apex_table2.csv", newline="") as file:
        return {row["game"]: float(row[name]) for row in csv.DictReader(file)}


def test_the_median_of_table_2_is_the_papers_434_percent():
    median = atari_scores.median_human_normalised(column("no_op_starts"))
    assert 100 * median == pytest.approx(434.08, abs=0.005)


def test_the_games_are_those_of_the_table_and_of_the_suite():
    games = list(column("no_op_starts"))
    assert len(games) == 57 and tuple(games) == atari_suite.GAMES
    assert all(atari_scores.players(game) for game in games)


def test_random_is_0_and_human_is_1():
    assert atari_scores.players("pong") == (-20.7, 14.6)
    assert atari_scores.human_normalised("pong", -20.7) == 0
    assert atari_scores.human_normalised("pong", 14.6) == 1
    assert atari_scores.human_normalised("breakout", 1.7 + 2 * 28.8) == pytest.approx(2)


def test_a_game_without_scores_and_no_games():
    assert atari_scores.players("tetris") is None
    with pytest.raises(ValueError, match='"tetris"'):
        atari_scores.human_normalised("tetris", 1.0)
    with pytest.raises(ValueError, match="no scores"):
        atari_scores.median_human_normalised({})
