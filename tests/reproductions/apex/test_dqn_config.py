"""Tests of the hyperparameters of Ape-X DQN."""

import math

import pytest

from reproductions.apex.dpg.config import DPGConfig
from reproductions.apex.dqn.config import DQNConfig


@pytest.mark.parametrize(
    "name, value",
    [
        *[
            (name, -1.0)
            for name in ("reward_clip", "max_gradient_norm", "epsilon_alpha", "samples_per_insert")
        ],
        *[(name, 1.1) for name in ("epsilon", "evaluation_epsilon", "discount")],
        ("epsilons", (0.1, 1.1)),
        ("epsilons", (math.nan,)),
        ("learning_rate", 0.0),
        ("rmsprop_decay", 1.0),
        ("rmsprop_epsilon", 0.0),
        ("priority_exponent", 8.0),
        ("priority_floor", 0.0),
        ("precision", "float16"),
        ("torso", "vgg"),
        ("replay_capacity", 2**29 + 1),
    ],
)
def test_nonsense_is_refused(name, value):
    with pytest.raises(ValueError) as caught:
        DQNConfig(**{name: value})
    assert str(caught.value).startswith(f"--config.{name} must be ")


@pytest.mark.parametrize("config_class", [DQNConfig, DPGConfig])
def test_a_single_process_needs_to_know_its_turns(config_class):
    message = r"^--config.samples_per_insert must be above 0 with single_process.*, is 0.0$"
    with pytest.raises(ValueError, match=message):
        config_class(single_process=True)
    assert config_class(single_process=True, samples_per_insert=1.0).single_process


def test_zero_turns_off_what_it_should():
    DQNConfig(reward_clip=0.0, max_gradient_norm=0.0, epsilon_alpha=0.0, evaluation_epsilon=0.0)
