"""Tests of common.reporting.budget."""

import json

import pytest

from common.reporting.budget import Budget


def test_flags_and_words():
    budget = Budget(minutes=1.5, learner_steps=100)
    assert budget.flags == ("--max_minutes=1.5", "--max_learner_steps=100")
    assert str(budget) == "1.5 minutes or 100 learner steps"
    assert Budget(actor_steps=200_000_000).flags == ("--max_actor_steps=200000000",)
    assert [str(Budget(minutes)) for minutes in (1, 60, 2100, 7200, None)] == [
        "1 minute",
        "1 hour",
        "35 hours",
        "5 days",
        "no limit",
    ]


def test_reached():
    budget = Budget(minutes=1.5, learner_steps=100)
    assert budget.reached(90, 0, 0) and budget.reached(0, 0, 100)
    assert not budget.reached(89, 10**9, 99)
    assert not Budget().reached(1e9, 1e9, 1e9)
    row = {"wall_seconds": 90.0, "actor_steps": 0, "learner_steps": 0, "replay_size": None}
    assert budget.reached_by(row) and not budget.reached_by(row | {"wall_seconds": 89.0})


def test_json():
    budget = Budget(minutes=1.5, learner_steps=100)
    assert budget.to_json() == {"minutes": 1.5, "actor_steps": None, "learner_steps": 100}
    assert Budget.from_json(json.loads(json.dumps(budget.to_json()))) == budget
    for wrong in ({}, [], None, {**budget.to_json(), "minutes": "5"}, {**budget.to_json(), "x": 1}):
        with pytest.raises(ValueError, match="a budget has actor_steps, learner_steps, minutes"):
            Budget.from_json(wrong)
