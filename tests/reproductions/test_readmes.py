"""Each reproduction's README says what the code says."""

import dataclasses
import math
import re

import pytest
from reproduction_readme import ROOT, Readme, check_flags, check_named_tests

from common.config import Settings
from common.environments.spec import EnvironmentSpec
from common.replay.footprint import sequence_bytes_per_step
import reproductions
from reproductions.apex.dpg import config as dpg
from reproductions.apex.dqn import config as dqn
from reproductions.aql import config as aql
from reproductions.d4pg import config as d4pg
from reproductions.d4pg.ppo import config as d4pg_ppo
from reproductions.reactor import config as reactor
from reproductions.reactor.networks import make_network
from reproductions.refer import config as refer
from reproductions.refer import rules
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


AQL, REFER = reproductions.paper("aql"), reproductions.paper("refer")


@pytest.fixture(params=PAGES)
def directory(request):
    return request.param


@pytest.fixture
def page(directory):
    return PAGES[directory]


@pytest.fixture
def readme(directory):
    return Readme(directory)


def words_of(text):
    """The text with one space wherever its lines break."""
    return " ".join(text.split())


def subsection(readme, title, subtitle):
    return readme.section(title).split(f"### {subtitle}\n", 1)[1].split("\n### ", 1)[0]


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


# What only one page says.


def test_settings_that_ape_x_dqns_text_names_exist():
    named = set(re.findall(r"`(dqn\w*[\w.-]*)`", Readme("apex/dqn").text))
    assert {name for name in named if name != "dqn_two_cores_n5"} <= set(dqn.SETTINGS.names)


@pytest.mark.parametrize("setting", ["dqn_two_cores", "dqn_ten_minutes"])
def test_what_differs_from_ape_x_is_in_the_table(setting):
    rows = re.findall(r"^\| `(\w+)` \| .+ \|$", Readme("apex/dqn").section("Run"), re.M)
    assert set(rows) == set(dqn.SETTINGS.overrides[setting])
    paper, small = (vars(dqn.SETTINGS.configuration(name)) for name in ("dqn", setting))
    assert set(rows) == {name for name, value in paper.items() if small[name] != value}


def test_what_ape_xs_agents_share():
    shared = Readme("apex")
    assert shared.check_places("Layout") > 10
    assert "never published" in shared.section("Evaluation")  # human starts


def test_what_differs_from_reactor_on_two_cores_is_in_the_table():
    section = subsection(Readme("reactor"), "Run", "On two cores")
    rows = re.findall(r"^\| `(\w+)` \| .+ \| ([\de,.-]+) \| .+ \|$", section, re.M)
    given = {name: float(value.replace(",", "")) for name, value in rows}
    assert given == reactor.SETTINGS.overrides["reactor_two_cores"]
    assert f"| `--num_workers` | 10 | {reactor.num_actors('reactor_two_cores')} |" in section


def test_the_rates_of_reactors_run():
    config = reactor.ReactorConfig()
    pong = EnvironmentSpec(84 * 84, 18, image_shape=(84, 84, 1), is_discrete=True)
    variables = make_network(config, pong).trainable_variables
    size = sum(variable.shape.num_elements() for variable in variables)
    acted = 200e6 / 4 / (2 * 24 * 3600)
    learnt = acted / config.acting_steps_per_update
    stored = dataclasses.replace(config, stored_state=True)
    raw, with_states = (
        each.replay_capacity * sequence_bytes_per_step(each, pong, None) / 1e9
        for each in (config, stored)
    )
    section = words_of(Readme("reactor").section("Layout"))
    for text in (
        f"200 million frames in two days (figure 2) are {acted:.0f} actor steps "
        f"and {learnt:.0f} updates a second",
        f"{size:,} parameters with 18 actions",
        f"take {learnt * 8 * size / 1e6:.0f} MB/s of downloads and updates at the server",
        f"replay takes {raw:.2f} GB, with stored states {with_states:.2f} GB",
    ):
        assert text in section, text


def test_every_task_of_refer_is_in_the_text():
    section = Readme("refer").section("Run")
    for task in REFER.experiment("figure 1").environments:
        name = task.removeprefix("gym:").removesuffix("-v4")
        assert f"`{name}`" in section or f"`{task}`" in section, name


def test_refers_table_of_scales_is_that_of_the_experiments():
    section = Readme("refer").section("Run")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| ([\d,]+) \|$", section, re.M)
    assert [name for name, _, _ in rows] == [scale.name for scale in REFER.scales]
    paper = refer.ReferConfig().min_replay_size
    for (_, steps, prefill), scale in zip(rows, REFER.scales, strict=True):
        budget = scale.budget or REFER.experiments[0].budget
        words = f"{budget.actor_steps:,}" if budget.actor_steps else "one minute"
        assert steps == words and (words != "one minute" or budget.minutes == 1)
        changed = {change.name: change.flag.partition("=")[2] for change in scale.changes}
        assert prefill == f"{int(changed.get('config.min_replay_size', paper)):,}", scale.name


@pytest.mark.parametrize(
    "directory, numbers",
    [("refer", [2, 3, 4, 5, 6, 8, *range(9, 17), *range(18, 46)]), ("aql", [*range(1, 24)])],
)
def test_every_equation_has_a_number_once_and_a_place(readme, numbers):
    readme.check_equations(numbers)


def test_the_annealing_of_a_run_of_refers_length():
    config = refer.ReferConfig()
    whole = REFER.experiments[0].budget.actor_steps - config.min_replay_size
    c_max = [
        1 + float(rules.annealed(config.penalty_c, step, config.annealing)) for step in (0, whole)
    ]
    rate = float(rules.annealed(config.learning_rate, whole, config.annealing))
    assert (
        f"has {whole:,} updates. At its end, annealing has reduced c_max from {c_max[0]:.0f} to "
        f"{c_max[1]:.2f}, and the learning rate from 1e-4 to {rate:.1e}."
    ) in words_of(Readme("refer").section("Deviations from the paper"))


def test_aqls_table_of_scales_names_those_of_the_experiments():
    section = Readme("aql").section("Scales").split("\n### ", 1)[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == [scale.name for scale in AQL.scales]
    small = AQL.scale("small").budget.actor_steps
    match, rover = (
        AQL.experiment(name).substitute("small").budget.actor_steps
        for name in ("section match", "section rover")
    )
    words = f"{small:,} actor steps in one process on one core (match: {match:,}, rover: {rover:,})"
    assert words in section


def test_what_differs_from_aql_on_two_cores_is_in_the_table():
    section = subsection(Readme("aql"), "Scales", "On two cores")
    rows = re.findall(r"^\| `(?:--)?(\w+)` \| ([\de-]+) \| ([\de-]+) \| .+ \|$", section, re.M)
    changed = {
        change.name.removeprefix("config."): float(change.flag.partition("=")[2])
        for change in AQL.scale("two_cores").changes
        if not change.name.startswith("evaluation")
    }
    assert {name: float(ours) for name, _, ours in rows} == changed
    papers = {**vars(aql.AQLConfig()), "num_actors": aql.NUM_ACTORS}
    assert all(float(value) == papers[name] for name, value, _ in rows)


def test_the_proposals_probabilities_follow_from_the_entropy_cost():
    section = Readme("aql").section("Values chosen here")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", section, re.M)
    assert len(rows) == 5
    for cost, probability, of_21 in rows:
        low, high = 0.2001, 1 - 1e-12
        for _ in range(100):
            x = (low + high) / 2
            is_above = math.log(4 * x / (1 - x)) > 1 / (float(cost) * x)
            low, high = (low, x) if is_above else (x, high)
        assert f"{x:.{len(probability) - 2}f}" == probability
        assert f"{x**21:.{len(of_21) - 2}f}" == of_21
