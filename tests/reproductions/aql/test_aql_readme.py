"""The pages of AQL say what the code says, beyond what test_readmes.py compares."""

import math
import re

from reproduction_readme import Readme

import reproductions
from reproductions.aql import config as config_lib

README = Readme("aql")
PAPER = reproductions.paper("aql")


def test_the_table_of_scales_names_those_of_the_experiments():
    section = README.section("Scales").split("\n### ", 1)[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.M) == [scale.name for scale in PAPER.scales]
    small = PAPER.scale("small").budget.actor_steps
    match, rover = (
        PAPER.experiment(name).substitute("small").budget.actor_steps
        for name in ("section match", "section rover")
    )
    words = f"{small:,} actor steps in one process on one core (match: {match:,}, rover: {rover:,})"
    assert words in section


def test_what_differs_on_two_cores_is_in_the_table():
    section = README.section("Scales").split("### On two cores\n", 1)[1].split("\n### ", 1)[0]
    rows = re.findall(r"^\| `(?:--)?(\w+)` \| ([\de-]+) \| ([\de-]+) \| .+ \|$", section, re.M)
    scale = PAPER.scale("two_cores")
    changed = {
        change.name.removeprefix("config."): float(change.flag.partition("=")[2])
        for change in scale.changes
        if not change.name.startswith("evaluation")
    }
    assert {name: float(ours) for name, _, ours in rows} == changed
    papers = {**vars(config_lib.AQLConfig()), "num_actors": config_lib.NUM_ACTORS}
    assert all(float(value) == papers[name] for name, value, _ in rows)


def test_every_equation_has_a_number_once_and_a_place():
    README.check_equations([*range(1, 24)])


def test_the_proposals_probabilities_follow_from_the_entropy_cost():
    section = README.section("Values chosen here")
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
