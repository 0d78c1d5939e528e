"""Tests of Reactor's hyperparameters and settings."""

import dataclasses

import pytest

import reproductions
from reproductions.reactor.config import NUM_WORKERS, SETTINGS, ReactorConfig, num_actors


def test_a_memory_holds_a_sequence_and_all_that_is_drawn_or_waited_for():
    sizes = dict(replay_capacity=40, batch_size=8, min_replay_size=8)
    assert ReactorConfig(**sizes).replay_capacity == 40
    message = r"^--config.sequence_length must be at most replay_capacity \(32\), is 33$"
    with pytest.raises(ValueError, match=message):
        ReactorConfig(**{**sizes, "replay_capacity": 32})
    for name in ("batch_size", "min_replay_size"):
        message = rf"^--config.{name} must be at most 8, the .* replay_capacity \(40\), is 9$"
        with pytest.raises(ValueError, match=message):
            ReactorConfig(**{**sizes, name: 9})
    with pytest.raises(ValueError, match="^--config.png_frames must be false with torso=minatar"):
        ReactorConfig(torso="minatar", png_frames=True)


def test_the_default_is_the_papers():
    """Sections 3.3, 3.4, 3.4.1, 4.1 and 6.4; the rest is not in the paper."""
    c = SETTINGS.configuration("reactor")
    assert (c.sequence_length, c.batch_size, c.acting_steps_per_update) == (33, 4, 5.0)
    assert c.samples_per_insert == 0.8
    assert (c.learning_rate, c.adam_beta1, c.adam_beta2, c.adam_epsilon) == (5e-5, 0, 0.999, 1e-8)
    assert (c.target_period, c.trace_lambda, c.policy_floor) == (1000, 1.0, 0.01)
    assert (c.distributional, c.policy_gradient, c.c) == (True, "beta_loo", 1.0)
    assert (c.prioritization, c.importance_exponent) == ("contextual", 1.0)
    assert (c.discount, c.reward_clip, c.entropy_cost, c.uniform_mix) == (0.99, 1.0, 0.01, 0.1)
    assert (c.num_atoms, c.v_min, c.v_max) == (51, -10.0, 10.0)
    assert (c.stored_state, c.single_process, c.png_frames, c.torso) == (False,) * 3 + ("atari",)
    assert NUM_WORKERS == 10


def test_settings_are_those_of_the_figures_and_claims():
    names = {
        run.setting
        for experiment in reproductions.paper("reactor").experiments
        for run in experiment.runs
    }
    names = {name for name in names if "_momentum" not in name}  # flags of section 6.1
    assert names - {"reactor_500m"} <= set(SETTINGS.names)  # "reactor" with more frames
    assert SETTINGS.default == "reactor"


def test_section_6_1_is_three_rates_two_momenta_and_two_periods_on_seven_games():
    """Without prioritisation and distributions (section 6.1)."""
    runs = reproductions.paper("reactor").experiment("section 6.1").runs
    assert len({run.environment for run in runs}) == 7 and len(runs) == 7 * 3 * 2 * 2
    found = set()
    for run in runs:
        values = dict(flag.removeprefix("--").split("=") for flag in run.flags)
        assert values["setting"] == "reactor_nd" and values["config.prioritization"] == "uniform"
        names = ("learning_rate", "adam_beta1", "target_period")
        found.add(tuple(float(values[f"config.{name}"]) for name in names))
    assert len(found) == 12 and (5e-5, 0, 1000) in found  # the values that were kept


@pytest.mark.parametrize(
    "name, changed",
    [
        ("reactor_nd", {"distributional": False}),
        ("reactor_uniform", {"prioritization": "uniform"}),
        ("reactor_tislr", {"policy_gradient": "tislr", "c": 10.0}),
        ("reactor_20_workers", {}),
        ("reactor_max_priority", {"prioritization": "max"}),
        ("reactor_one_step", {"trace_lambda": 0.0}),
        ("reactor_one_over_mu", {"policy_gradient": "one_over_mu"}),
        ("reactor_islr", {"policy_gradient": "islr"}),
        ("reactor_stored_state", {"stored_state": True}),
    ],
)
def test_a_setting_changes_what_it_studies_and_no_more(name, changed):
    assert SETTINGS.configuration(name) == ReactorConfig(**changed)


def test_numbers_of_workers():
    found = {name: num_actors(name) for name in SETTINGS.names}
    assert (found.pop("reactor_20_workers"), found.pop("reactor_two_cores")) == (20, 2)
    assert set(found.values()) == {10}


def test_another_algorithm_has_another_name():
    config = dataclasses.replace(
        SETTINGS.configuration("reactor_tislr"),
        distributional=False,
        learning_rate=1e-3,
        v_max=2.0,
        min_replay_size=100,
    )
    name = SETTINGS.name_of("reactor_tislr", config)
    assert name == "reactor_tislr_lr0.001_no_distributional_vmax2"
