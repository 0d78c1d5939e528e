"""The README of ReF-ER says what the code says, beyond what test_readmes.py compares."""

import re

from reproduction_readme import Readme

import reproductions
from reproductions.refer import config as config_lib
from reproductions.refer import rules

README = Readme("refer")
PAPER = reproductions.paper("refer")


def test_every_task_of_the_paper_is_in_the_text():
    section = README.section("Run")
    for task in PAPER.experiment("figure 1").environments:
        name = task.removeprefix("gym:").removesuffix("-v4")
        assert f"`{name}`" in section or f"`{task}`" in section, name


def test_the_table_of_scales_is_that_of_the_experiments():
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| ([\d,]+) \|$", README.section("Run"), re.M)
    assert [name for name, _, _ in rows] == [scale.name for scale in PAPER.scales]
    paper = config_lib.ReferConfig().min_replay_size
    for (_, steps, prefill), scale in zip(rows, PAPER.scales, strict=True):
        budget = scale.budget or PAPER.experiments[0].budget
        words = f"{budget.actor_steps:,}" if budget.actor_steps else "one minute"
        assert steps == words and (words != "one minute" or budget.minutes == 1)
        changed = {change.name: change.flag.partition("=")[2] for change in scale.changes}
        assert prefill == f"{int(changed.get('config.min_replay_size', paper)):,}", scale.name


def test_every_equation_has_a_number_once():
    README.check_equations([2, 3, 4, 5, 6, 8, *range(9, 17), *range(18, 46)])


def test_the_annealing_of_a_run_of_the_papers_length():
    config = config_lib.ReferConfig()
    whole = PAPER.experiments[0].budget.actor_steps - config.min_replay_size
    c_max = [
        1 + float(rules.annealed(config.penalty_c, step, config.annealing)) for step in (0, whole)
    ]
    rate = float(rules.annealed(config.learning_rate, whole, config.annealing))
    text = " ".join(README.section("Deviations from the paper").split())
    assert (
        f"has {whole:,} updates, at whose end c_max is {c_max[1]:.2f} instead of {c_max[0]:.0f}, "
        f"and the learning rate {rate:.1e} instead of 1e-4"
    ) in text
