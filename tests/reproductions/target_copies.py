"""What a learner does with its target networks."""

from float64_networks import assert_all_equal, values_of
import numpy as np


def check_hard_copies(learner, online, target, make_batch, period):
    """Asserts that targets begin as copies and are copied every `period` steps, and only then."""
    before = values_of(online)
    assert_all_equal(values_of(target), before)
    for step in range(1, 2 * period + 2):
        learner.update(make_batch(seed=step))
        assert int(learner.steps) == step
        if step % period == 0:
            before = values_of(online)
        assert_all_equal(values_of(target), before)
    assert any(np.any(now != then) for now, then in zip(values_of(online), before))
