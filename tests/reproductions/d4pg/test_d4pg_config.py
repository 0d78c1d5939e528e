"""A value that makes no sense gives one line that names its flag."""

import dataclasses
import math

import pytest

from reproductions.d4pg.config import D4PGConfig

NONSENSE = [
    *[
        (name, value)
        for name in (
            "n_step",
            "batch_size",
            "target_period",
            "actor_period",
            "replay_capacity",
            "min_replay_size",
            "send_batch",
            "updates_per_call",
            "num_components",
            "num_target_samples",
        )
        for value in (0, -1)
    ],
    *[(name, "other") for name in ("critic", "noise", "removal", "policy_gradient_state")],
    ("ou_theta", 0.0),
    ("ou_theta", 1.5),
    ("min_variance", 0.0),
    ("removal_exponent", 0.4),
    ("removal_exponent", math.nan),
    ("discount", -0.1),
    ("discount", 1.1),
    ("discount", math.nan),
    ("learning_rate", 0.0),
    ("learning_rate", -1e-4),
    ("learning_rate", math.nan),
    ("learning_rate", math.inf),
    ("noise_sigma", -0.3),
    ("noise_sigma", math.nan),
    ("noise_sigma", math.inf),
    ("num_atoms", 1),
    ("num_atoms", -51),
    ("v_min", 150.0),
    ("v_min", math.nan),
    ("v_min", -math.inf),
    ("v_max", math.inf),
    ("v_max", 1e39),
    ("v_max", math.nan),
    ("policy_sizes", ()),
    ("policy_sizes", (300, 0)),
    ("critic_sizes", ()),
    ("critic_sizes", (-400, 300)),
    ("priority_exponent", -0.4),
    ("priority_exponent", math.inf),
    ("importance_exponent", -1.0),
    ("importance_exponent", math.nan),
    ("samples_per_insert", -1.0),
    ("samples_per_insert", math.inf),
    ("samples_per_insert", math.nan),
    ("batch_size", 1_000_001),
    ("min_replay_size", 1_000_001),
    ("send_batch", 1_000_001),
]


def _assert_one_line_about(name: str, error: Exception) -> None:
    message = str(error)
    assert "\n" not in message
    assert message.startswith(f"--config.{name} must be ")


@pytest.mark.parametrize("name, value", NONSENSE)
def test_nonsense_is_refused(name, value):
    with pytest.raises(ValueError) as caught:
        D4PGConfig(**{name: value})
    _assert_one_line_about(name, caught.value)
    assert str(value) in str(caught.value)


@pytest.mark.parametrize("name, value", [("n_step", 0), ("v_min", 150.0), ("batch_size", -256)])
def test_nonsense_set_afterwards_is_refused_by_validate(name, value):
    """As the flags set it: on the object that is there."""
    config = D4PGConfig()
    setattr(config, name, value)
    with pytest.raises(ValueError) as caught:
        config.validate()
    _assert_one_line_about(name, caught.value)


def test_capacity_below_the_batch_names_both():
    message = r"^--config.batch_size .*replay_capacity \(100\), is 256$"
    with pytest.raises(ValueError, match=message):
        D4PGConfig(replay_capacity=100)


def test_atoms_that_float32_cannot_tell_apart_are_refused():
    with pytest.raises(ValueError, match=r"^--config.v_max must be so that its atoms"):
        D4PGConfig(v_min=150.0, v_max=150.000001)


def test_a_single_process_needs_to_know_its_turns():
    message = r"^--config.samples_per_insert must be above 0 with single_process.*, is 0.0$"
    with pytest.raises(ValueError, match=message):
        D4PGConfig(single_process=True)


@pytest.mark.parametrize(
    "values",
    [
        {"n_step": 1, "updates_per_call": 1, "target_period": 1},
        {"discount": 0.0},
        {"discount": 1.0},
        {"noise_sigma": 0.0},
        {"priority_exponent": 0.0, "importance_exponent": 0.0},
        {"num_atoms": 2, "v_min": 0.0, "v_max": 1e-3},
        {"replay_capacity": 10, "batch_size": 10, "min_replay_size": 10, "send_batch": 10},
        {"policy_sizes": (1,), "critic_sizes": (1,), "layer_norm": False},
    ],
)
def test_values_at_the_edge_are_taken(values):
    config = D4PGConfig(**values)
    assert {name: getattr(config, name) for name in values} == values


def test_every_field_says_what_it_is_and_where_it_comes_from():
    for field in dataclasses.fields(D4PGConfig):
        text = field.metadata["help"]
        assert (
            "(section" in text
            or "Ape-X" in text
            or "Not in the paper" in text
            or ("algorithm 1" in text)
        ), field.name
