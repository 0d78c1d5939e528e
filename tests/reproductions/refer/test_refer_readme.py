"""The README of ReF-ER says what the code says, beyond what test_readmes.py compares."""

import math
import re

from reproduction_readme import Readme

from common.environments import make
from common.environments.spec import EnvironmentSpec
from common.replay.footprint import episode_bytes_per_step
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


def test_the_tasks_of_the_scale_small_are_as_many_as_it_says():
    tasks = {
        experiment.name: len(experiment.at("small").environments)
        for experiment in PAPER.experiments
        if "small" in experiment.substitutes
    }
    by_number = {
        number: {name for name in tasks if tasks[name] == number} for number in tasks.values()
    }
    assert by_number == {
        6: {"figure 1", "figure 2"},
        4: {"figure 3", "figure 4", "figure 5", "section 5.3"},
        2: {"figure 7"},
        1: {"figure 6"},
        0: {"figure 8"},
    }


def test_every_equation_has_a_number_once():
    README.check_equations([2, 3, 4, 5, 6, 8, *range(9, 17), *range(18, 46)])


def test_the_arithmetic():
    config = config_lib.ReferConfig()
    section = README.section("Layout in detail").split("### Arithmetic\n", 1)[1]
    cheetah, humanoid = (
        EnvironmentSpec.of(make(f"gym:{name}-v4", 0)) for name in ("HalfCheetah", "Humanoid")
    )
    steps = [episode_bytes_per_step(config, spec, None) for spec in (cheetah, humanoid)]
    memories = [config.replay_capacity * step / 1e9 for step in steps]
    whole = (PAPER.experiments[0].budget.actor_steps - config.min_replay_size) // 1
    c_max = [
        1 + float(rules.annealed(config.penalty_c, step, config.annealing)) for step in (0, whole)
    ]
    rate = float(rules.annealed(config.learning_rate, whole, config.annealing))
    batches = [config_lib.SETTINGS.configuration(f"{agent}_refer") for agent in ("naf", "ddpg")]
    for text in (
        f"4 ({cheetah.observation_size} + 3 x {cheetah.action_size}) + 100 = {steps[0]} bytes",
        f"HalfCheetah {memories[0]:.2f} GB, Humanoid {memories[1]:.2f} GB ({steps[1]:,} bytes",
        f"| {config.samples_per_insert:.0f} of V-RACER and NAF, "
        f"{batches[1].samples_per_insert:.0f} of DDPG: B / F |",
        f"{whole:,} updates, at whose end c_max is {c_max[1]:.2f} instead of {c_max[0]:.0f}, "
        f"and the learning rate {rate:.1e} instead of 1e-4",
    ):
        assert text in section, text
    assert f"has {whole:,} updates" in README.section("Deviations from the paper")
    assert batches[0].samples_per_insert == config.samples_per_insert
    left = (1 - config.learning_rate) ** 30_000
    assert math.isclose(left, 1 / 20, rel_tol=0.01), "a twentieth of beta_0"
