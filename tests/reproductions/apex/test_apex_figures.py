"""Tests of Ape-X's figures.toml: what it runs is there, and says what the paper says."""

from typing import NamedTuple

import pytest

from common import environments
import reproductions
from reproductions.apex.dpg import config as dpg
from reproductions.apex.dpg.config import AGENT as DPG
from reproductions.apex.dpg.config import DPGConfig
from reproductions.apex.dqn import config as dqn
from reproductions.apex.dqn.config import AGENT as DQN
from reproductions.apex.dqn.config import DQNConfig

PAPER = reproductions.paper("apex")
RUNS = [run for experiment in PAPER.experiments for run in experiment.runs]
BATCH = 32
"""Of the scale small, which has the paper's ratios."""


class Rates(NamedTuple):
    """By the second, in the paper: steps of an actor, and updates, each of so many transitions."""

    actor_steps: float
    updates: float
    batch_size: int

    def size(self, paper):
        """The scale's number of transitions or of an actor's steps, given the paper's."""
        return max(1, round(paper * BATCH / self.batch_size))

    def samples_per_insert(self, actors):
        """How often each transition is drawn, to four digits."""
        inserts = actors * self.actor_steps / self.updates
        return float(f"{self.batch_size / inserts:.4g}")


DQN_RATES = Rates(actor_steps=139 / 4, updates=19, batch_size=512)
"""Section 4.1: 139 frames a second, 4 a step; 19 batches a second of 512."""

DPG_RATES = Rates(actor_steps=14_000 / 64, updates=86, batch_size=256)
"""Section 4.2: 14K steps a second of 64 actors; 86 batches a second of 256."""


def flag(run, name):
    """The value of a flag of a run, None if it has none."""
    found = [flag.partition("=")[2] for flag in run.flags if flag.startswith(f"--{name}=")]
    return found[-1] if found else None


def of(name):
    return PAPER.experiment(name).runs


def test_every_environment_exists():
    assert {run.environment for run in RUNS} <= set(environments.names())


def test_every_setting_has_a_curve_but_those_of_ours():
    used = {flag(run, "setting") for run in RUNS}
    assert used <= {*dqn.SETTINGS.names, *dpg.SETTINGS.names}
    tried = {"dqn_replay_1m_lr0.00025", "dqn_uniform_replay_1m_lr6.25e-05"}  # for figure 14
    ours = {"dqn_uniform", "dqn_bfloat16", *dqn.TWO_CORES, *tried}
    assert {*dqn.SETTINGS.names, *dpg.SETTINGS.names} - used <= ours


def test_figure_3_is_four_tasks_with_8_to_64_actors_and_ddpg():
    pairs = {(flag(run, "num_actors"), run.environment) for run in of("figure 3")}
    assert len(pairs) == len(of("figure 3")) == 20
    assert {actors for actors, _ in pairs} == {"1", "8", "16", "32", "64"}
    alone = {run.setting for run in of("figure 3") if flag(run, "num_actors") == "1"}
    assert alone == {"ddpg"}


def test_figure_6_is_few_actors_whose_transitions_are_copied():
    found = {
        (flag(run, "num_actors"), dqn.SETTINGS.configuration(flag(run, "setting")).num_copies)
        for run in of("figure 6")
    }
    assert found == {("32", 1), ("32", 8), ("256", 1)}


def flags_of(figure):
    """The flags of a figure's curves at the scale small, by name, as numbers."""
    return {
        run.setting: {
            name: float(value)
            for name, _, value in (flag[2:].partition("=") for flag in run.flags)
            if name != "setting"
        }
        for run in PAPER.experiment(figure).at("small").runs
    }


@pytest.mark.parametrize("figure, rates", [("figure 3", DPG_RATES), ("figure 4", DQN_RATES)])
def test_curves_with_more_actors_have_as_many_fewer_samples_per_insert(figure, rates):
    for name, flags in flags_of(figure).items():
        if name == "ddpg":  # an update a step
            continue
        ratio = rates.samples_per_insert(int(flags["num_actors"]))
        assert flags["config.samples_per_insert"] == ratio


@pytest.mark.parametrize(
    "agent, rates, config", [(DQN, DQN_RATES, DQNConfig()), (DPG, DPG_RATES, DPGConfig())]
)
def test_the_scale_small_has_the_papers_ratios(agent, rates, config):
    values = {
        change.name.removeprefix("config."): change.value
        for change in PAPER.scale("small").changes
        if change.agent is agent
    }
    assert int(values["batch_size"]) == BATCH
    ratio = rates.samples_per_insert(int(values["num_actors"]))
    assert float(values["samples_per_insert"]) == ratio
    for name in ("replay_capacity", "min_replay_size", "actor_period"):
        assert int(values[name]) == rates.size(getattr(config, name))


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
        assert batch / ratio == pytest.approx(BATCH / DQN_RATES.samples_per_insert(128), rel=1e-3)


def test_runs_of_the_scale_end_with_a_whole_call():
    """16 updates are drawn at once: a run ends, and is evaluated, at a multiple of them."""
    scale = PAPER.scale("small")
    assert scale.budget.learner_steps % 16 == 0
    (period,) = (change.flag for change in scale.changes if change.name == "evaluation_steps")
    assert int(period.partition("=")[2]) % 16 == 0
