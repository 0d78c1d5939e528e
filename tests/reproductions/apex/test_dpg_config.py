"""Tests of the hyperparameters of Ape-X DPG."""

import pytest

from reproductions.apex.dpg.config import DPGConfig


@pytest.mark.parametrize(
    "name, value",
    [
        *[(name, -1.0) for name in ("noise_sigma", "dqda_clip", "max_gradient_norm")],
        ("activation", "relu"),
        ("removal", "other"),
        ("learning_rate", 0.0),
        ("removal_exponent", 0.4),
        ("removal_exponent", -8.0),
        ("policy_sizes", ()),
        ("critic_sizes", (400, 0)),
        ("replay_capacity", 2**29 + 1),
    ],
)
def test_nonsense_is_refused(name, value):
    with pytest.raises(ValueError) as caught:
        DPGConfig(**{name: value})
    assert str(caught.value).startswith(f"--config.{name} must be ")


def test_zero_turns_off_what_it_should():
    DPGConfig(noise_sigma=0.0, dqda_clip=0.0, max_gradient_norm=0.0, removal_exponent=0.0)
