"""Tests of common.replay.store."""

from common.replay import store


def test_derived_seeds_are_positive_int64_and_differ_by_each_part():
    derived = [store.derive_seed(seed, step) for seed in range(50) for step in range(0, 800, 16)]
    derived += [store.derive_seed(2**63 - 1, part) for part in range(3)]
    derived += [store.derive_seed(2**31, 2**40)]
    assert all(1 <= seed < 2**63 for seed in derived)
    assert len(set(derived)) == len(derived)
    assert store.derive_seed(3, 16) == store.derive_seed(3, 16) != store.derive_seed(16, 3)
