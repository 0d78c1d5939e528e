"""The READMEs of Ape-X and its DQN say what the code says, beyond what test_readmes.py compares."""

import dataclasses
import re

import pytest
from reproduction_readme import Readme

from reproductions.apex.dqn.config import SETTINGS

README, SHARED = Readme("apex/dqn"), Readme("apex")


def test_settings_in_the_text_exist():
    named = set(re.findall(r"`(dqn\w*[\w.-]*)`", README.text))
    assert {name for name in named if name != "dqn_two_cores_n5"} <= set(SETTINGS.names)


@pytest.mark.parametrize("setting", ["dqn_two_cores", "dqn_ten_minutes"])
def test_what_differs_from_the_paper_is_in_the_table(setting):
    changed = SETTINGS.overrides[setting]
    rows = re.findall(r"^\| `(\w+)` \| .+ \|$", README.section("Run"), re.M)
    assert set(rows) == set(changed)
    paper, small = SETTINGS.configuration("dqn"), SETTINGS.configuration(setting)
    differ = {
        f.name
        for f in dataclasses.fields(paper)
        if getattr(paper, f.name) != getattr(small, f.name)
    }
    assert differ == set(rows)


def test_every_place_in_the_maps_exists():
    assert SHARED.check_places("Layout") > 10


def test_where_a_user_looks_for_human_starts():
    assert "never published" in SHARED.section("Evaluation")
