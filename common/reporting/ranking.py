"""Mean rank and Elo of agents over games that all count the same.

Both follow the Reactor (Gruslys et al. 2018), appendix 6.2. Its text leaves ties and the fit open;
the choices here reproduce its table 2 (tests/reporting/test_reported_summaries.py says how
closely). A table of scores has games as rows and agents as columns, and a score in every cell.
"""

import numpy as np
import pandas


def mean_rank(scores: pandas.DataFrame) -> pandas.Series:
    """Returns the mean over the games of each agent's rank, from 1 (best).

    An agent's rank is the number of agents, itself included, that score at least as much: agents
    that tie share the worst of their places.

    Raises:
      ValueError: a score is missing.
    """
    require_complete(scores)
    return scores.rank(axis="columns", ascending=False, method="max").mean()


def wins(scores: pandas.DataFrame) -> pandas.DataFrame:
    """Returns the number of games in which the row's agent beats the column's; a tie is half a win.

    Raises:
      ValueError: a score is missing.
    """
    require_complete(scores)
    score = scores.to_numpy(float)
    row, column = score[:, :, np.newaxis], score[:, np.newaxis, :]
    won = (row > column).sum(axis=0) + (row == column).sum(axis=0) / 2
    np.fill_diagonal(won, 0)
    return pandas.DataFrame(won, index=scores.columns, columns=scores.columns)


def elo(won: pandas.DataFrame, anchor: str, penalty: float = 0.0) -> pandas.Series:
    """Returns Elo scores, by maximum likelihood in the logistic Bradley-Terry model.

    P(i beats j) = 1 / (1 + 10^((elo_j - elo_i) / 400)): 400 are odds of 10 to 1.

    Args:
      won: as `wins` returns it.
      anchor: the agent whose score is 0.
      penalty: factor of the sum of squared strengths (logits, around their mean), which is added
        to the negative log-likelihood. It keeps the scores finite of agents that win or lose
        everything.

    Raises:
      ValueError: there is no such agent, or no finite maximum, which a penalty gives.
    """
    # Imported here because SciPy takes half a second, and most users of scores need no Elo.
    from scipy import optimize, special

    if anchor not in won.index:
        raise ValueError(f"there is no agent {anchor!r}: there are {', '.join(won.index)}")
    counts = won.to_numpy(float)
    if penalty == 0:
        _require_finite(counts, won.index)

    def loss(strengths: np.ndarray) -> tuple[float, np.ndarray]:
        margins = strengths[:, np.newaxis] - strengths
        missed = counts * special.expit(-margins)  # d log-likelihood / d margin
        gradient = missed.sum(axis=0) - missed.sum(axis=1) + 2 * penalty * strengths
        value = -(counts * special.log_expit(margins)).sum() + penalty * (strengths**2).sum()
        return value, gradient

    start = np.zeros(len(counts))
    strengths = optimize.minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-7}).x
    scores = pandas.Series(400 / np.log(10) * strengths, index=won.index)
    return scores - scores[anchor]


def require_complete(scores: pandas.DataFrame) -> None:
    """Raises a ValueError that names the first game and agent without a score."""
    missing = scores.isna().stack()
    if missing.any():
        game, agent = missing.idxmax()
        raise ValueError(f"there is no score of {agent} on {game}: leave the game or agent out")


def _require_finite(counts: np.ndarray, names: pandas.Index) -> None:
    from scipy.sparse import csgraph

    groups, group = csgraph.connected_components(counts > 0, connection="strong")
    if groups > 1:
        first = ", ".join(names[group == group[0]])
        others = ", ".join(names[group != group[0]])
        raise ValueError(
            f"no finite Elo separates {first} from {others}: one side never wins against the "
            "other; give a penalty above 0"
        )
