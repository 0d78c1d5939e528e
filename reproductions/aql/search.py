"""Stochastic searches for the action of the highest value (sections 4 and 5.1), in NumPy.

A function q takes candidates [K, n, D] at K states and returns their values [K, n].
"""

from collections.abc import Callable

import numpy as np

from reproductions.aql.config import AQLConfig

QFunction = Callable[[np.ndarray], np.ndarray]


def search(q: QFunction, proposed: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Returns the best of all candidates (algorithm 1), by one call of `q`.

    Args:
      q: the values.
      proposed: [K, N, D], samples of the proposal.
      uniform: [K, M, D], uniform samples. N or M may be 0.

    Returns:
      a* [K, D]; of equally good candidates the first, proposed ones before uniform ones.
    """
    candidates = np.concatenate([proposed, uniform], axis=1)
    return _best(candidates, q(candidates))


def act(
    best: np.ndarray, uniform: np.ndarray, epsilons: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Returns the first uniform sample with probability epsilon, else the best (algorithm 1).

    Args:
      best: a* [K, D].
      uniform: [K, M, D], M at least 1.
      epsilons: [K].
      generator: source of the random numbers that decide which states explore.

    Returns:
      [K, D].
    """
    explores = generator.random(len(best)) < epsilons
    return np.where(explores[:, np.newaxis], uniform[:, 0], best)


def fit(
    candidates: np.ndarray, values: np.ndarray, num_elites: int, min_std: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and standard deviation of the elites, [K, D] each (section 5.1).

    Args:
      candidates: [K, n, D].
      values: [K, n].
      num_elites: L, number of candidates with the highest values.
      min_std: minimum standard deviation.
    """
    order = np.argsort(-values, axis=1, kind="stable")[:, :num_elites]
    elites = np.take_along_axis(candidates, order[:, :, np.newaxis], axis=1)
    return elites.mean(axis=1), np.maximum(elites.std(axis=1), min_std)


def cem(
    q: QFunction, num_rows: int, action_size: int, generator: np.random.Generator, config: AQLConfig
) -> np.ndarray:
    """Returns the best action that QT-Opt's cross-entropy method evaluates (section 5.1).

    The first iteration draws uniform samples of [-1, 1]^D. Each later iteration draws from
    independent Gaussians fitted to the previous elites, and clips its samples. The additional
    uniform candidates have no part in any fit.

    Args:
      q: the values.
      num_rows: K.
      action_size: D.
      generator: source of the samples.
      config: has the numbers of samples, elites and iterations.

    Returns:
      [K, D] float32; of equally good candidates the first.
    """

    def uniform(number: int) -> np.ndarray:
        return 2 * generator.random((num_rows, number, action_size), np.float32) - 1

    candidates = [uniform(config.cem_samples)]
    values = [q(candidates[0])]
    for _ in range(config.cem_iterations - 1):
        mean, std = fit(candidates[-1], values[-1], config.cem_elites, config.cem_min_std)
        noise = generator.standard_normal((num_rows, config.cem_samples, action_size), np.float32)
        samples = mean[:, np.newaxis] + std[:, np.newaxis] * noise
        candidates.append(np.clip(samples, -1, 1))
        values.append(q(candidates[-1]))
    if config.cem_uniform_samples:
        candidates.append(uniform(config.cem_uniform_samples))
        values.append(q(candidates[-1]))
    return _best(np.concatenate(candidates, axis=1), np.concatenate(values, axis=1))


def _best(candidates: np.ndarray, values: np.ndarray) -> np.ndarray:
    return candidates[np.arange(len(values)), values.argmax(axis=1)]
