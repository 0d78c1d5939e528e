"""Tests of the searches for the best action."""

import dataclasses

import numpy as np
import pytest

from reproductions.aql import search
from reproductions.aql.config import AQLConfig


def test_the_best_of_all_candidates_is_found_by_one_call():
    proposed = np.array([[[1.0, 0], [2, 0]], [[3, 0], [4, 0]]])
    uniform = np.array([[[5.0, 1]], [[0, 1]]])
    calls = []

    def q(candidates):
        calls.append(candidates.shape)
        return -np.square(candidates[..., 0] - np.array([[4.0], [3.0]]))

    np.testing.assert_array_equal(search.search(q, proposed, uniform), [[5, 1], [3, 0]])
    assert calls == [(2, 3, 2)]


@pytest.mark.parametrize("num", [(4, 0), (0, 4)])
def test_either_kind_of_samples_may_be_missing(num):
    proposed, uniform = (np.arange(2.0 * n).reshape(1, n, 2) for n in num)
    best = search.search(lambda candidates: candidates.sum(-1), proposed, uniform)
    np.testing.assert_array_equal(best, [[6, 7]])


def test_exploring_takes_the_first_uniform_sample():
    best, uniform = np.zeros((3, 2)), np.arange(30.0).reshape(3, 5, 2)
    generator = np.random.default_rng(0)
    action = search.act(best, uniform, np.array([0.0, 1.0, 0.0]), generator)
    np.testing.assert_array_equal(action, [[0, 0], uniform[1, 0], [0, 0]])
    explored = [
        search.act(best, uniform, np.array([0.05, 0.5, 0.05]), generator).any(axis=1)
        for _ in range(4000)
    ]
    np.testing.assert_allclose(np.mean(explored, axis=0), [0.05, 0.5, 0.05], atol=0.03)


def test_elites_are_fitted_by_sub_action():
    candidates = np.array([[[1.0, 5], [2, 7], [9, 9], [4, 7]]])
    mean, std = search.fit(candidates, np.array([[3.0, 2, -1, 1]]), num_elites=3, min_std=0.01)
    np.testing.assert_allclose(mean, [[7 / 3, 19 / 3]])
    np.testing.assert_allclose(std, [[np.std([1, 2, 4]), np.std([5, 7, 7])]])
    _, std = search.fit(candidates, np.array([[3.0, 2, -1, 1]]), num_elites=1, min_std=0.01)
    np.testing.assert_array_equal(std, [[0.01, 0.01]])


class Recorder:
    """A function q with its maximum at each row's peak, which keeps its candidates."""

    def __init__(self, peaks):
        self.peaks = np.asarray(peaks)[:, np.newaxis]
        self.calls = []

    def __call__(self, candidates):
        self.calls.append(candidates)
        return -np.square(candidates - self.peaks).sum(axis=-1)


QT_OPT = AQLConfig(search="cem", num_levels=0)
NO_MORE = dataclasses.replace(QT_OPT, cem_uniform_samples=0)


def test_cem_is_the_best_of_a_uniform_and_two_gaussian_sets():
    q = Recorder([[0.3, -0.8, 0.95], [-0.5, 0.1, 0.0]])
    best = search.cem(q, 2, 3, np.random.default_rng(0), NO_MORE)
    assert [calls.shape for calls in q.calls] == [(2, 100, 3)] * 3
    everything = np.concatenate(q.calls, axis=1)
    values = -np.square(everything - q.peaks).sum(axis=-1)
    np.testing.assert_array_equal(best, everything[np.arange(2), values.argmax(axis=1)])
    assert np.abs(everything).max() <= 1 and everything.dtype == np.float32
    np.testing.assert_allclose(q.calls[0].std(), 1 / np.sqrt(3), atol=0.04)
    for before, after in zip(q.calls, q.calls[1:]):
        mean, std = search.fit(before, -np.square(before - q.peaks).sum(-1), 10, 0.01)
        inside = np.all(np.abs(mean) + 3 * std < 1)
        if inside:
            np.testing.assert_allclose(after.mean(axis=1), mean, atol=5 * std.max() / 10)
    np.testing.assert_allclose(best, q.peaks[:, 0], atol=0.25)


def test_cem_with_uniform_samples_keeps_its_gaussians():
    plain, more = Recorder([[0.2, 0.4]]), Recorder([[0.2, 0.4]])
    search.cem(plain, 1, 2, np.random.default_rng(0), NO_MORE)
    best = search.cem(more, 1, 2, np.random.default_rng(0), QT_OPT)
    assert [c.shape[1] for c in more.calls] == [100, 100, 100, 400]
    for a, b in zip(plain.calls, more.calls):
        np.testing.assert_array_equal(a, b)
    everything = np.concatenate(more.calls, axis=1)
    index = np.square(everything - more.peaks).sum(axis=-1).argmin()
    np.testing.assert_array_equal(best[0], everything[0, index])
