"""Tests of the hyperparameters and settings of all papers."""

import dataclasses
import json
import pathlib

import pytest

from common.cluster.layout import imported
from common.config import completed, earlier_values, from_values, help_of
from common.reporting.run_directory import ConfigMismatchError, RunDirectory
from reproductions import AGENTS
from reproductions.apex.dpg import config as dpg
from reproductions.apex.dqn import config as dqn
from reproductions.aql import config as aql
from reproductions.d4pg import config as d4pg
from reproductions.reactor import config as reactor

ALL = [
    pytest.param(module.SETTINGS, id=module.SETTINGS.config_class.__name__)
    for module in (d4pg, dqn, dpg, reactor, aql)
]
EARLIER = pathlib.Path(__file__).parents[1] / "golden" / "earlier_config.json"
"""Of commit e474e9f7, 2026-11-22, and with the seed, which the kept file was without."""
SOURCES = ("section", "Section", "appendix", "algorithm 1", "Ape-X", "Not in the paper")


@pytest.mark.parametrize("settings", ALL)
def test_every_setting_is_allowed_and_has_its_own_name(settings):
    assert settings.default in settings.names
    for name in settings.names:
        assert settings.name_of(name, settings.configuration(name)) == name


@pytest.mark.parametrize("settings", ALL)
def test_every_field_says_where_it_comes_from(settings):
    for name, text in help_of(settings.config_class).items():
        assert any(word in text for word in SOURCES), name


@pytest.mark.parametrize("settings", ALL)
def test_every_number_has_bounds(settings):
    """The values of atoms may be any."""
    for each in dataclasses.fields(settings.config_class):
        if each.type not in (bool, str) and each.name not in ("v_min", "v_max"):
            assert each.metadata["bounds"], each.name


@pytest.mark.parametrize("settings", ALL[:3])  # of Reactor and AQL other things fill it
def test_what_is_drawn_or_sent_at_once_may_fill_the_replay_but_not_exceed_it(settings):
    sizes = dict.fromkeys(("replay_capacity", "batch_size", "min_replay_size", "send_batch"), 10)
    settings.config_class(**sizes)
    for name in ("batch_size", "min_replay_size", "send_batch"):
        message = rf"^--config.{name} must be at most replay_capacity \(10\), is 11$"
        with pytest.raises(ValueError, match=message):
            settings.config_class(**{**sizes, name: 11})


@pytest.mark.parametrize("settings", ALL[:3])
def test_a_single_process_needs_to_know_its_turns(settings):
    message = r"^--config.samples_per_insert must be above 0 with single_process.*, is 0.0$"
    with pytest.raises(ValueError, match=message):
        settings.config_class(single_process=True)
    assert settings.config_class(single_process=True, samples_per_insert=1.0).single_process


@pytest.mark.parametrize("name", AGENTS)
def test_a_run_from_before_a_field_existed_goes_on(name, tmp_path):
    config_class = imported(AGENTS[name]).settings.config_class
    config, earlier = dataclasses.asdict(config_class()), earlier_values(config_class)
    run = RunDirectory(tmp_path)
    for absent in config:
        fewer = {name: value for name, value in config.items() if name != absent}
        run.config_json.write_text(json.dumps({"agent": name, "config": fewer}))
        value = completed(fewer, earlier)[absent]
        run.open({"agent": name, "config": config | {absent: value}}, earlier)
        expected = dataclasses.replace(config_class(), **{absent: value})
        assert from_values(config_class, fewer) == expected


def test_a_run_of_an_earlier_version_goes_on_but_only_with_its_values(tmp_path):
    settings = imported(AGENTS["refer"]).settings
    run, there = RunDirectory(tmp_path), json.loads(EARLIER.read_text())
    run.config_json.write_bytes(EARLIER.read_bytes())
    config = from_values(settings.config_class, there["config"])
    assert not {"recurrent", "advantage", "window"} & there["config"].keys()
    assert settings.name_of("ddpg_er", config) == there["setting"]
    record, earlier = there | {"config": vars(config)}, earlier_values(settings.config_class)
    run.open(record, earlier)
    assert run.config_json.read_bytes() == EARLIER.read_bytes()
    other = there | {"config": vars(dataclasses.replace(config, recurrent=True))}
    with pytest.raises(ConfigMismatchError, match="config: config.recurrent false -> true; resume"):
        run.open(other, earlier)
