"""The READMEs of Ape-X and of Ape-X DQN say what the code says."""

import dataclasses
import re

import pytest
from reproduction_readme import Readme

from reproductions.apex.dqn import config as config_lib
from reproductions.apex.dqn import settings

README, SHARED = Readme("apex/dqn"), Readme("apex")


def test_table_of_hyperparameters_is_the_configuration():
    README.check_hyperparameters(config_lib.DQNConfig)
    assert f"N = {config_lib.NUM_ACTORS} " in README.section("Hyperparameters")


def test_flags_in_the_text_exist():
    README.check_flags(config_lib.DQNConfig, settings.SETTINGS.names)
    named = set(re.findall(r"`(dqn\w*[\w.-]*)`", README.text))
    assert {name for name in named if name != "dqn_two_cores_n5"} <= set(settings.SETTINGS.names)


def test_every_setting_is_in_the_text():
    for name in settings.SETTINGS.names:
        assert re.search(rf"[`=]{re.escape(name)}[` ]", README.text), name


@pytest.mark.parametrize("setting", ["dqn_two_cores", "dqn_ten_minutes"])
def test_what_differs_from_the_paper_is_in_the_table(setting):
    changed = settings.SETTINGS.overrides[setting]
    rows = re.findall(r"^\| `(\w+)` \| .+ \|$", README.section("Run"), re.M)
    assert set(rows) == set(changed)
    paper, small = settings.SETTINGS.configuration("dqn"), settings.SETTINGS.configuration(setting)
    differ = {
        f.name
        for f in dataclasses.fields(paper)
        if getattr(paper, f.name) != getattr(small, f.name)
    }
    assert differ == set(rows)


def test_every_place_in_the_maps_exists():
    assert README.check_places("Equations and where they are") > 30
    assert SHARED.check_places("Layout") > 10


def test_every_file_in_the_list_exists():
    README.check_files()


def test_every_test_that_is_named_exists():
    assert len(README.check_tests()) > 15


def test_every_pitfall_is_there():
    assert README.numbers("Pitfalls, and how each is handled") == list(range(1, 19))


def test_where_a_user_looks_for_human_starts():
    assert "never published" in SHARED.section("Evaluation")
