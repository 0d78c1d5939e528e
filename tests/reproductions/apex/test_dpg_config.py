"""A value that makes no sense gives one line that names its flag."""

import dataclasses
import math

import pytest

from reproductions.apex.dpg.config import DPGConfig

NONSENSE = [
    *[
        (name, value)
        for name in (
            "n_step",
            "batch_size",
            "target_period",
            "updates_per_call",
            "replay_capacity",
            "removal_period",
            "prefetch",
        )
        for value in (0, -1)
    ],
    *[(name, "other") for name in ("activation", "removal")],
    *[
        (name, value)
        for name in ("noise_sigma", "dqda_clip", "max_gradient_norm")
        for value in (-1.0, math.nan, math.inf)
    ],
    ("learning_rate", 0.0),
    ("learning_rate", math.nan),
    ("removal_exponent", 0.4),
    ("removal_exponent", -8.0),
    ("priority_exponent", -0.4),
    ("priority_floor", 0.0),
    ("policy_sizes", ()),
    ("critic_sizes", (400, 0)),
    ("batch_size", 1_000_001),
    ("min_replay_size", 1_000_001),
]


@pytest.mark.parametrize("name, value", NONSENSE)
def test_nonsense_is_refused(name, value):
    with pytest.raises(ValueError) as caught:
        DPGConfig(**{name: value})
    message = str(caught.value)
    assert "\n" not in message and message.startswith(f"--config.{name} must be ")
    assert str(value) in message


@pytest.mark.parametrize(
    "values",
    [
        {"noise_sigma": 0.0, "dqda_clip": 0.0, "max_gradient_norm": 0.0, "removal_exponent": 0.0},
        {"priority_exponent": 0.0, "importance_exponent": 0.0, "updates_per_call": 1},
        {"replay_capacity": 10, "batch_size": 10, "min_replay_size": 10, "send_batch": 10},
        {"policy_sizes": (1,), "critic_sizes": (1,), "activation": "tanh", "removal": "fifo"},
    ],
)
def test_values_at_the_edge_are_taken(values):
    config = DPGConfig(**values)
    assert {name: getattr(config, name) for name in values} == values


def test_every_field_says_where_it_comes_from():
    for each in dataclasses.fields(DPGConfig):
        text = each.metadata["help"]
        assert any(word in text for word in ("section", "appendix", "Not in the paper")), each.name
