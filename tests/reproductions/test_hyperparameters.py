"""Tests of the hyperparameters and settings of all papers."""

import dataclasses

import pytest

from common.config import help_of
from reproductions.apex.dpg import config as dpg
from reproductions.apex.dqn import config as dqn
from reproductions.aql import config as aql
from reproductions.d4pg import config as d4pg
from reproductions.reactor import config as reactor

ALL = [
    pytest.param(module.SETTINGS, id=module.SETTINGS.config_class.__name__)
    for module in (d4pg, dqn, dpg, reactor, aql)
]
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
