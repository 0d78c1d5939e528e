"""Tests of the hyperparameters and settings of Ape-X DQN."""

import dataclasses

import pytest

from reproductions.apex.dqn.config import (
    FIGURE_5,
    FIGURE_7,
    FIGURE_14,
    FIGURE_14_TRIED,
    NUM_ACTORS,
    SETTINGS,
    TWO_CORES,
    DQNConfig,
    num_actors,
)


def test_zero_turns_off_what_it_should():
    DQNConfig(reward_clip=0.0, max_gradient_norm=0.0, epsilon_alpha=0.0, evaluation_epsilon=0.0)


def test_the_default_is_the_papers():
    """Section 4.1 and appendix C."""
    c = SETTINGS.configuration("dqn")
    assert (c.n_step, c.batch_size, c.learning_rate) == (3, 512, 6.25e-5)
    assert (c.rmsprop_decay, c.rmsprop_epsilon, c.max_gradient_norm) == (0.95, 1.5e-7, 40.0)
    assert (c.target_period, c.replay_capacity, c.removal_period) == (2500, 2_000_000, 100)
    assert (c.priority_exponent, c.importance_exponent) == (0.6, 0.4)
    assert (c.min_replay_size, c.send_batch, c.actor_period, c.prefetch) == (50_000, 50, 100, 16)
    assert (c.epsilon, c.epsilon_alpha, c.epsilons, c.reward_clip) == (0.4, 7.0, (), 1.0)
    assert (c.samples_per_insert, c.num_copies, c.discount, NUM_ACTORS) == (0.0, 1, 0.99, 360)


def changed(setting):
    """What a setting changes of the default."""
    return dict(SETTINGS.overrides[setting])


def test_the_studies_change_what_they_study():
    assert [changed(name).get("replay_capacity") for name in FIGURE_5] == [
        250_000,
        500_000,
        1_000_000,
        None,
    ]
    assert changed("dqn_replay_1m_copies8") == {"replay_capacity": 1_000_000, "num_copies": 8}
    six = changed("dqn_six_epsilons")["epsilons"]
    assert len(six) == 6 and (six[0], six[-1]) == (0.4, pytest.approx(0.4**8))
    assert {changed(name)["evaluation_epsilon"] for name in FIGURE_7} == {0.4**7}
    assert changed("dqn_uniform") == {"priority_exponent": 0.0, "learning_rate": 0.00025}
    rates = {
        (bool(c.priority_exponent), c.learning_rate)
        for c in map(SETTINGS.configuration, (*FIGURE_14, *FIGURE_14_TRIED))
    }
    assert rates == {(p, rate) for p in (False, True) for rate in (6.25e-5, 0.00025)}


@pytest.mark.parametrize(
    "setting, changed, name",
    [
        (
            "dqn_bfloat16",
            {
                "n_step": 5,
                "rescale_gradient": True,
                "epsilons": (0.1,),
                "min_replay_size": 2_000,
                "samples_per_insert": 8.0,
                "prefetch": 2,
                "removal_period": 10,
            },
            "dqn_bfloat16_n5_other_epsilons_rescaled",
        ),
        ("dqn_two_cores", {"learning_rate": 3e-4}, "dqn_two_cores_lr0.0003"),
        ("dqn_ten_minutes", {"priority_exponent": 0.0}, "dqn_ten_minutes_alpha0"),
    ],
)
def test_another_algorithm_has_another_name(setting, changed, name):
    config = dataclasses.replace(SETTINGS.configuration(setting), **changed)
    assert SETTINGS.name_of(setting, config) == name


def test_small_settings_have_few_actors_and_the_papers_360():
    assert num_actors("dqn") == 360
    assert {num_actors(name) for name in TWO_CORES} == {8}
