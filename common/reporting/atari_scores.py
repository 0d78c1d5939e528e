"""Scores of Atari games beside those of a random and of a human player."""

from collections.abc import Mapping
import csv
import functools
import pathlib
import statistics

_SCORES = pathlib.Path(__file__).parents[2] / "results" / "reported" / "atari_scores.csv"


@functools.cache
def players(game: str) -> tuple[float, float] | None:
    """The scores of the random and of the human player of a game; None if there are none.

    From no-op starts, in episodes of at most 108,000 frames; results/README.md has the source.
    """
    with open(_SCORES, newline="") as file:
        for row in csv.DictReader(file):
            if row["game"] == game:
                return float(row["random"]), float(row["human"])
    return None


def human_normalised(game: str, score: float) -> float:
    """(score - random) / (human - random): 0 is the random player and 1 the human one.

    Raises:
      ValueError: the game has no scores to compare with.
    """
    reference = players(game)
    if reference is None:
        raise ValueError(f'there are no scores to compare with for the game "{game}"')
    random, human = reference
    return (score - random) / (human - random)


def median_human_normalised(scores: Mapping[str, float]) -> float:
    """The median over games of `human_normalised`, as Ape-X's table 1 and figure 2 have it.

    Args:
      scores: of each game.

    Raises:
      ValueError: there are no scores, or a game has none to compare with.
    """
    if not scores:
        raise ValueError("there are no scores")
    return statistics.median(human_normalised(game, score) for game, score in scores.items())
