"""Tests of AQL's hyperparameters and settings."""

import pytest

from reproductions.aql.config import SETTINGS, AQLConfig


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"num_proposal_samples": 0, "num_uniform_samples": 0},
            "num_uniform_samples must be above 0 where num_proposal_samples is 0, is 0",
        ),
        ({"num_levels": 1}, "num_levels must be 0, or 2 and more, is 1"),
        ({"search": "cem"}, "num_levels must be 0 with search=cem, is 5"),
        ({"search": "policy"}, "num_levels must be 0 with search=policy, is 5"),
        (
            {"search": "exact", "num_levels": 0},
            "num_levels must be above 0 with search=exact, is 0",
        ),
        (
            {"search": "cem", "num_levels": 0, "channels": (4,)},
            "search must be another one for images, is cem",
        ),
        (
            {"shared_sizes": (4,), "channels": (4,)},
            r"shared_sizes must be empty for images, is \(4,\)",
        ),
        ({"action_set": "curated"}, "action_set must be own without channels, is curated"),
        ({"flat_policy": True}, "flat_policy must be false without search=none, is True"),
        ({"cem_elites": 101}, r"cem_elites must be at most cem_samples \(100\), is 101"),
        ({"replay_capacity": 29}, r"unroll_length must be at most replay_capacity \(29\), is 30"),
        ({"queue_capacity": 31}, r"batch_size must be at most queue_capacity \(31\), is 32"),
        (
            {"updates_per_call": 3},
            r"updates_per_call must be at most queue_capacity / batch_size \(2\), is 3",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(values, message):
    with pytest.raises(ValueError, match=f"^--config.{message}$"):
        AQLConfig(**values)


def test_the_settings_are_those_of_the_figures():
    assert SETTINGS.default == "aql"
    assert SETTINGS.configuration("aql") == AQLConfig()
    assert SETTINGS.configuration("d3pg_shared_rmsprop").search == "policy"


def test_another_value_shows_in_the_name():
    config = SETTINGS.configuration("qt_opt")
    config.cem_uniform_samples = 0
    assert SETTINGS.name_of("qt_opt", config) == "qt_opt_cem_uniform0"


def test_qt_opt_and_d3pg_are_what_section_5_1_says():
    """M = 400 of all methods but D3PG; architectures that are held fixed."""
    config = SETTINGS.configuration("qt_opt")
    found = config.cem_samples, config.cem_elites, config.cem_iterations, config.cem_uniform_samples
    assert found == (100, 10, 3, 400)
    assert SETTINGS.configuration("d3pg").policy_network == "proposal"
    assert SETTINGS.configuration("d3pg_network_of_d4pg").policy_network == "d4pg"


def test_what_follows_from_the_unrolls():
    config = AQLConfig(unroll_length=20, replayed_unrolls=14)
    assert config.actor_period == 20
    assert config.samples_per_insert == 15
