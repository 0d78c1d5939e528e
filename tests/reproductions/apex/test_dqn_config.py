"""A value that makes no sense gives one line that names its flag."""

import dataclasses
import math

import pytest

from reproductions.apex.dqn.config import DQNConfig

NONSENSE = [
    *[
        (name, value)
        for name in (
            "n_step",
            "batch_size",
            "target_period",
            "num_copies",
            "replay_capacity",
            "min_replay_size",
            "send_batch",
            "actor_period",
            "removal_period",
            "prefetch",
        )
        for value in (0, -1)
    ],
    *[
        (name, value)
        for name in (
            "reward_clip",
            "max_gradient_norm",
            "epsilon_alpha",
            "importance_exponent",
            "samples_per_insert",
        )
        for value in (-1.0, math.nan, math.inf)
    ],
    *[
        (name, value)
        for name in ("epsilon", "evaluation_epsilon", "discount")
        for value in (-0.1, 1.1, math.nan)
    ],
    *[("epsilons", value) for value in ((0.1, 1.1), (-0.1,), (math.nan,), ("0.1",))],
    *[("learning_rate", value) for value in (0.0, -1e-4, math.nan)],
    ("rmsprop_decay", 1.0),
    ("rmsprop_decay", -0.1),
    ("rmsprop_epsilon", 0.0),
    ("priority_exponent", -0.4),
    ("priority_exponent", 8.0),
    ("priority_floor", 0.0),
    ("precision", "float16"),
    ("batch_size", 2_000_001),
    ("min_replay_size", 2_000_001),
    ("replay_capacity", 2**29 + 1),
]


@pytest.mark.parametrize("name, value", NONSENSE)
def test_nonsense_is_refused(name, value):
    with pytest.raises(ValueError) as caught:
        DQNConfig(**{name: value})
    message = str(caught.value)
    assert "\n" not in message and message.startswith(f"--config.{name} must be ")
    assert str(value) in message


def test_nonsense_set_afterwards_is_refused_by_validate():
    """As the flags set it: on the object that is there."""
    config = DQNConfig()
    config.precision = "half"
    message = "^--config.precision must be float32 or bfloat16, is half$"
    with pytest.raises(ValueError, match=message):
        config.validate()


@pytest.mark.parametrize(
    "values",
    [
        {"reward_clip": 0.0, "max_gradient_norm": 0.0, "epsilon_alpha": 0.0, "epsilon": 0.0},
        {"evaluation_epsilon": 0.0, "epsilons": (0.0, 1.0, 1), "rmsprop_decay": 0.0},
        {"priority_exponent": 0.0, "importance_exponent": 0.0, "n_step": 1, "prefetch": 1},
        {"replay_capacity": 10, "batch_size": 10, "min_replay_size": 10, "send_batch": 10},
    ],
)
def test_values_at_the_edge_are_taken(values):
    config = DQNConfig(**values)
    assert {name: getattr(config, name) for name in values} == values


def test_every_field_says_where_it_comes_from():
    for each in dataclasses.fields(DQNConfig):
        text = each.metadata["help"]
        assert any(word in text for word in ("section", "appendix", "Not in the paper")), each.name
