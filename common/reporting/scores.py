"""Summaries of Atari scores over games: human-normalised scores, their median and mean, ranks, Elo.

A table of scores has games as rows and agents as columns.
"""

import pandas

from common.reporting import ranking


def human_normalised(
    scores: pandas.DataFrame, random: pandas.Series, human: pandas.Series
) -> pandas.DataFrame:
    """Returns (score - random) / (human - random): 0 is as good as random play, 1 as a human.

    Ape-X's percentages are 100 times this, Reactor's "normalized scores" its median over games.

    Args:
      scores: unit score, unclipped.
      random: scores of random play by game; games that are not in `scores` are ignored.
      human: scores of a human by game; games that are not in `scores` are ignored.

    Returns:
      A table like `scores`.

    Raises:
      ValueError: a game has no random or human score.
    """
    unknown = [game for game in scores.index if game not in random or game not in human]
    if unknown:
        raise ValueError(f"no random or human score of {', '.join(map(str, unknown))}")
    random, human = random.loc[scores.index], human.loc[scores.index]
    return scores.sub(random, axis="index").div(human - random, axis="index")


def summary(
    scores: pandas.DataFrame, random: str = "Random", human: str = "Human"
) -> pandas.DataFrame:
    """Returns what the Reactor's tables 1 and 2 show of each agent, and the mean score.

    Args:
      scores: unit score, a score in every cell.
      random: the column with the scores of random play, which is ranked like the others.
      human: the column with the scores of a human, which is ranked too and whose Elo is 0.

    Returns:
      By agent: `games` (count), `median` and `mean` of the human-normalised scores (human = 1),
      `mean_rank` (1 is best), `elo` (nan if there is no finite maximum).

    Raises:
      ValueError: a score is missing.
    """
    ranking.require_complete(scores)
    try:
        elo = ranking.elo(ranking.wins(scores), anchor=human)
    except ValueError:  # on few games an agent may win or lose all
        elo = float("nan")
    normalised = human_normalised(scores, scores[random], scores[human])
    return pandas.DataFrame(
        {
            "games": normalised.count(),
            "median": normalised.median(),
            "mean": normalised.mean(),
            "mean_rank": ranking.mean_rank(scores),
            "elo": elo,
        }
    )
