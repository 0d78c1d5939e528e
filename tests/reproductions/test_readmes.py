"""Each reproduction's README says what the code says; a paper's own test has what only it says."""

from collections.abc import Sequence
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

FILE = r"tests/[\w/]+\.py"


@dataclasses.dataclass(frozen=True)
class Page:
    """The facts about a README that tests compare it with.

    Attributes:
      settings: the paper's settings.
      pitfalls: the numbers of its pitfalls.
      places: a number; the equations' places in the code are more.
      tests: a number; the tests that it names by their function are more.
      pitfalls_test: a pattern of the test that each pitfall names.
    """

    settings: Settings
    pitfalls: Sequence[int]
    places: int
    tests: int = -1
    pitfalls_test: str = ""


PAGES = {
    "d4pg": Page(settings=d4pg.SETTINGS, pitfalls=range(1, 17), places=25, tests=15),
    "d4pg/ppo": Page(
        settings=d4pg_ppo.SETTINGS, pitfalls=range(1, 6), places=10, pitfalls_test=rf"{FILE}::\w+"
    ),
    "apex/dqn": Page(settings=dqn.SETTINGS, pitfalls=range(1, 19), places=30, tests=15),
    "apex/dpg": Page(
        settings=dpg.SETTINGS,
        pitfalls=(2, 3, 4, 6, 9, 12, 15),  # of DQN's
        places=20,
        tests=8,
    ),
    "reactor": Page(
        settings=reactor.SETTINGS, pitfalls=range(1, 20), places=30, pitfalls_test=FILE
    ),
    "aql": Page(
        settings=aql.SETTINGS, pitfalls=range(1, 26), places=40, pitfalls_test=rf"{FILE}::\w+"
    ),
    "refer": Page(
        settings=refer.SETTINGS, pitfalls=range(1, 35), places=40, pitfalls_test=rf"{FILE}::\w+"
    ),
    "refer/ppo": Page(
        settings=refer_ppo.SETTINGS, pitfalls=range(1, 7), places=10, pitfalls_test=rf"{FILE}::\w+"
    ),
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


def test_every_test_that_is_named_exists(page, readme):
    assert len(check_named_tests(readme.text)) > page.tests


def test_every_pitfall_is_there_with_a_test(page, readme):
    section = readme.section("Pitfalls, and how each is handled")
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", section, re.M)]
    assert numbers == [*page.pitfalls]
    pitfalls = re.split(r"^\d+\. ", section, flags=re.M)[1:]
    assert [text for text in pitfalls if not re.search(page.pitfalls_test, text)] == []


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
