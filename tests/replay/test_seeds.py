"""Tests of common.replay.seeds."""

from common.replay import seeds


def test_derived_seeds_are_positive_int64_and_differ_by_each_part():
    derived = [seeds.derive(seed, step) for seed in range(50) for step in range(0, 800, 16)]
    derived += [seeds.derive(2**63 - 1, part) for part in range(3)]
    derived += [seeds.derive(2**31, 2**40)]
    assert all(1 <= seed < 2**63 for seed in derived)
    assert len(set(derived)) == len(derived)
    assert seeds.derive(3, 16) == seeds.derive(3, 16) != seeds.derive(16, 3)
