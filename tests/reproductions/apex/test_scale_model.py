"""Tests of reproductions.apex.scale_model, and of the runs that are made by it."""

import pytest

from reproductions.apex import experiments
from reproductions.apex.dpg.config import DPGConfig
from reproductions.apex.dqn.config import DQNConfig
from reproductions.apex.scale_model import DPG_RATES, DQN_RATES, ScaleModel

DQN, DPG = ScaleModel(DQN_RATES, 32), ScaleModel(DPG_RATES, 32)


@pytest.mark.parametrize(
    "model, actors, ratio",
    [
        (DQN, 8, 35.0),
        (DQN, 32, 8.7),
        (DQN, 128, 2.2),
        (DQN, 360, 0.78),  # 9.7K samples and 12.5K transitions a second (section 4.1)
        (DPG, 64, 1.57),  # 22K and 14K (section 4.2)
    ],
)
def test_samples_per_insert_are_the_papers(model, actors, ratio):
    assert model.samples_per_insert(actors) == pytest.approx(ratio, rel=0.01)
    # With another batch as many inserts an update.
    assert model.samples_per_insert(actors, 64) == pytest.approx(2 * ratio, rel=0.01)


@pytest.mark.parametrize(
    "model, config, capacity, least, period",
    [(DQN, DQNConfig(), 125_000, 3125, 6), (DPG, DPGConfig(), 125_000, 6250, 50)],
)
def test_ages_in_updates_are_the_papers(model, config, capacity, least, period):
    """Of the memory, of its first filling, and of an actor's parameters."""
    assert model.size(config.replay_capacity) == capacity
    assert model.size(config.min_replay_size) == least
    assert model.size(config.actor_period) == period
    rates, actors = model.rates, 128
    inserts_an_update = model.batch_size / model.samples_per_insert(actors)
    papers = rates.updates / (rates.actor_steps * actors)  # updates in the time of an insert
    for ours, theirs in ((capacity, config.replay_capacity), (least, config.min_replay_size)):
        assert ours / inserts_an_update == pytest.approx(theirs * papers, rel=1e-3)
    age = period * actors / inserts_an_update
    assert age == pytest.approx(config.actor_period * rates.updates / rates.actor_steps, rel=0.05)
    assert age == pytest.approx(54.7 if model is DQN else 157, rel=0.05)


def flags_of(figure):
    """The flags of a figure's curves at the scale small, by name, as numbers."""
    return {
        run.setting: {
            name: float(value)
            for name, _, value in (flag[2:].partition("=") for flag in run.flags)
            if name != "setting"
        }
        for run in experiments.PAPER.experiment(figure).at("small").runs
    }


@pytest.mark.parametrize("figure, product", [("figure 3", 100.6), ("figure 4", 279.9)])
def test_curves_with_more_actors_have_as_many_fewer_samples_per_insert(figure, product):
    for flags in flags_of(figure).values():
        ratio = flags["config.samples_per_insert"]
        assert flags["num_actors"] * ratio == pytest.approx(product, rel=1e-3)


def test_curves_keep_the_papers_ratios_to_each_other():
    capacities = [flags["config.replay_capacity"] for flags in flags_of("figure 5").values()]
    assert capacities == [15_625, 62_500, 125_000]
    copied, plain = flags_of("figure 6").values()
    assert (copied["num_actors"], plain["num_actors"]) == (16, 128)
    assert copied["config.samples_per_insert"] == plain["config.samples_per_insert"]
    rates = [flags["config.learning_rate"] for flags in flags_of("figure 14").values()]
    assert rates == [2.5e-4] * 3 + [1e-3] * 3
    others = flags_of("section E")
    assert others["dqn_lr3.125e-05"]["config.learning_rate"] == 1.25e-4
    assert others["dqn_batch32"]["config.batch_size"] == 2
    for name in ("dqn_batch32", "dqn_batch1024"):
        batch, ratio = (others[name][f"config.{of}"] for of in ("batch_size", "samples_per_insert"))
        assert batch / ratio == pytest.approx(32 / DQN.samples_per_insert(128), rel=1e-3)


def test_runs_of_the_scale_end_with_a_whole_call():
    """16 updates are drawn at once: a run ends, and is evaluated, at a multiple of them."""
    scale = experiments.PAPER.scale("small")
    assert scale.budget.learner_steps % 16 == 0
    (period,) = (change.flag for change in scale.changes if change.name == "evaluation_steps")
    assert int(period.partition("=")[2]) % 16 == 0
