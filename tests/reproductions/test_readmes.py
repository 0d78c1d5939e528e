"""Each reproduction's README says what the code says; a paper's own test has what only it says."""

import dataclasses
import re

import pytest
from reproduction_readme import ROOT, Readme, check_flags, check_named_tests

from common.config import Settings
from reproductions.apex.dpg import config as dpg
from reproductions.apex.dqn import config as dqn
from reproductions.aql import config as aql
from reproductions.d4pg import config as d4pg
from reproductions.d4pg.ppo import config as d4pg_ppo
from reproductions.reactor import config as reactor
from reproductions.refer import config as refer
from reproductions.refer.ppo import config as refer_ppo


@dataclasses.dataclass(frozen=True)
class Page:
    """The facts about a README that tests compare it with.

    Attributes:
      settings: the paper's settings.
      places: a number; the equations' places in the code are more.
    """

    settings: Settings
    places: int


PAGES = {
    "d4pg": Page(settings=d4pg.SETTINGS, places=25),
    "d4pg/ppo": Page(settings=d4pg_ppo.SETTINGS, places=10),
    "apex/dqn": Page(settings=dqn.SETTINGS, places=30),
    "apex/dpg": Page(settings=dpg.SETTINGS, places=20),
    "reactor": Page(settings=reactor.SETTINGS, places=30),
    "aql": Page(settings=aql.SETTINGS, places=40),
    "refer": Page(settings=refer.SETTINGS, places=40),
    "refer/ppo": Page(settings=refer_ppo.SETTINGS, places=10),
}


@pytest.fixture(params=PAGES)
def directory(request):
    return request.param


@pytest.fixture
def page(directory):
    return PAGES[directory]


@pytest.fixture
def readme(directory):
    return Readme(directory)


def test_flags_in_the_text_exist(page, readme):
    named, chosen = check_flags(readme.text, [page.settings])
    assert named and chosen


@pytest.mark.parametrize("directory", [each for each in PAGES if each != "apex/dpg"])
def test_every_setting_is_in_the_text(page, readme):
    """Ape-X DPG's are not: its text has only the first and the last of the exponents alpha."""
    for name in page.settings.names:
        assert re.search(rf"[`=]{re.escape(name)}[` ]", readme.section("Run")), name


def test_every_place_in_the_maps_exists(page, readme):
    assert readme.check_places("Equations and where they are") > page.places


def test_every_file_in_the_list_exists(readme):
    readme.check_files()


def test_every_test_that_is_named_exists(readme):
    check_named_tests(readme.text)


def test_every_pitfall_has_a_test(readme):
    pitfalls = re.split(r"^- ", readme.section("Pitfalls, and how each is handled"), flags=re.M)[1:]
    assert pitfalls and [text for text in pitfalls if not re.search(r"\btest_\w+", text)] == []


@pytest.mark.parametrize(
    "results", sorted(ROOT.glob("reproductions/*/RESULTS.md")), ids=lambda path: path.parent.name
)
def test_flags_and_tests_in_the_results_exist(results):
    paper = results.parent.name
    text = results.read_text()
    check_flags(
        text, [each.settings for name, each in PAGES.items() if name.split("/")[0] == paper]
    )
    check_named_tests(text)
