"""Tests of common.experiments.contrasts."""

import numpy as np
import pytest

from common.experiments import contrasts
from common.experiments.contrasts import Unit, common_budget
from common.experiments.paper import EPISODE_RETURN
from common.reporting.budget import Budget
from common.reporting.reported import Reported


def value(contrast, means):
    """The contrast of the settings' means."""
    return sum(weight * means[name] for name, weight in contrast.weights.items())


def test_a_trend_is_the_gain_on_a_fitted_line():
    trend = contrasts.trend({"a": 8, "b": 16, "c": 128})
    means = {"a": 1.0, "b": 5.0, "c": 3.0}
    slope = np.polyfit(np.log([8, 16, 128]), [1.0, 5.0, 3.0], 1)[0]
    assert value(trend, means) == pytest.approx(slope * np.log(128 / 8))
    assert sum(trend.weights.values()) == pytest.approx(0) and not trend.is_difference
    assert trend.name == "a to c"
    two = contrasts.trend({"b": 2, "a": 1})
    assert value(two, {"a": 1.0, "b": 4.0}) == pytest.approx(3)


def test_an_interaction_is_a_difference_of_differences():
    first, second = contrasts.difference("a", "b"), contrasts.difference("c", "d")
    means = {"a": 9.0, "b": 1.0, "c": 4.0, "d": 3.0}
    assert value(contrasts.gain_beyond(first, second), means) == 7
    assert value(contrasts.gain_beyond(second, first), means) == -7


def minutes(*numbers):
    return [Budget(minutes=number) for number in numbers]


@pytest.mark.parametrize(
    "first, second, declared, expected",
    [
        (minutes(5, 5, 5), minutes(5, 5, 5), Budget(), 5),
        (minutes(10, 10, 10), minutes(5, 5, 5), Budget(), 5),
        (minutes(10, 10, 10), minutes(10, 10, 10, 5), Budget(), 10),
        (minutes(10, 10, 5), minutes(10, 10, 10), Budget(), 5),  # 10 has two seeds, not three
        (minutes(10, 5), minutes(10, 10), Budget(), 5),
        (minutes(99, 99, 99), minutes(12, 12, 12), Budget(minutes=10), 10),
        (minutes(5), [Budget(learner_steps=100)], Budget(), None),
        (minutes(5), [], Budget(), None),
    ],
)
def test_the_common_budget_is_the_largest_that_enough_runs_reach(first, second, declared, expected):
    for sides in ([first, second], [second, first]):
        found = common_budget(sides, declared, needed=3)
        assert found == (None if expected is None else Budget(minutes=expected))


def test_units():
    human = Reported().atari_scores()
    assert Unit.of("control:cheetah:run", EPISODE_RETURN, [], None).convert([700]) == (700,)
    pong = Unit.of("atari:pong", EPISODE_RETURN, [], human)
    assert pong.convert([-20.7, 14.6]) == pytest.approx((0, 100)) and pong.is_human
    for task in ("minatar:breakout", "gym:Reacher-v4"):
        unit = Unit.of(task, EPISODE_RETURN, [-4.0, 2.0], None)
        assert unit.convert([-4.0, 2.0]) == (-100, 50) and unit.margin == 5
    assert Unit.of("control:cheetah:run", "kl_divergence", [0.5], None).convert([0.5]) == (100,)
    assert Unit.of("minatar:breakout", EPISODE_RETURN, [0.0, 0.0], None).convert([0.0]) == (0,)
