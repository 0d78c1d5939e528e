"""The language of claims.toml."""

import math
import types

import numpy as np
import pytest

from common.evidence import claims_file, effects
from common.evidence.claims import Basis, Check, Evidence, Finding, GameMedian, Measured
from common.evidence.claims_file import slope, trend
from common.evidence.effects import AHEAD, LEVEL, NOT_BEHIND, Over, Verdict
from common.evidence.figures_file import FileMistakeError
import reproductions

D4PG = reproductions.paper("d4pg")
CHECKS = types.SimpleNamespace(soak=lambda evidence: Finding(Verdict.HOLDS))
FULL = "d4pg_prioritized_n5"


def read(tmp_path, text, head='says = "It is so."\nsource = "section 4.1, figure 2"\n'):
    file = tmp_path / "claims.toml"
    file.write_text(f"[name]\n{head}{text}\n")
    (claim,) = claims_file.read(file, D4PG, CHECKS)
    return claim


def parts(tmp_path, text):
    return {part.name: part for part in read(tmp_path, text).test.parts}


@pytest.mark.parametrize(
    "effect, bounds, weights",
    [
        (f"{FULL} > ddpg", AHEAD, {FULL: 1, "ddpg": -1}),
        (f"{FULL} >= ddpg", NOT_BEHIND, {FULL: 1, "ddpg": -1}),
        ("d4pg_*_n5 ~ ddpg", LEVEL, {FULL: 1 / 2, "d4pg_uniform_n5": 1 / 2, "ddpg": -1}),
        (
            "d?pg_uniform_{n1,n5} > 0",
            AHEAD,
            {f"d{agent}pg_uniform_n{n}": 1 / 4 for agent in (3, 4) for n in (1, 5)},
        ),
        (
            "ddpg, d3pg_uniform_n1 > d3pg_uniform_n5",
            AHEAD,
            {"ddpg": 1 / 2, "d3pg_uniform_n1": 1 / 2, "d3pg_uniform_n5": -1},
        ),
        # What cancels is needed for neither side.
        (f"{FULL} - d4pg_uniform_n5 > ddpg - d4pg_uniform_n5", AHEAD, {FULL: 1, "ddpg": -1}),
        ("trend d4pg_uniform_n{1,5} > 0", AHEAD, {"d4pg_uniform_n1": -1, "d4pg_uniform_n5": 1}),
        (
            "trend d4pg_uniform_n1=10, ddpg=40 > trend d3pg_uniform_n1=1, d3pg_uniform_n5=4",
            AHEAD,
            {"d4pg_uniform_n1": -1, "ddpg": 1, "d3pg_uniform_n1": 1, "d3pg_uniform_n5": -1},
        ),
    ],
)
def test_an_effect_is_a_comparison_of_means(tmp_path, effect, bounds, weights):
    (part,) = read(tmp_path, f'effect = "{effect}"').test.parts
    assert part.name == "" and part.bounds == bounds and part.over is Over.MEAN
    assert part.weights == pytest.approx(weights)


def test_bounds_stand_in_place_of_a_comparison(tmp_path):
    text = 'effect.power = "slope ddpg=1, d3pg_uniform_n1=10"\nbounds = [0.9, inf]'
    part = parts(tmp_path, text)["power"]
    assert part.bounds == (0.9, math.inf)
    assert part.weights == pytest.approx({"ddpg": -1, "d3pg_uniform_n1": 1})


def test_weights_of_trends():
    assert trend({"s8": 8, "s32": 32, "s128": 128}) == pytest.approx(
        {"s8": -1, "s32": 0, "s128": 1}
    )
    assert slope({"s10": 10, "s100": 100}) == pytest.approx({"s10": -1, "s100": 1})
    random = np.random.default_rng(0)
    for sizes in ([8, 16, 64], [1, 2, 3, 7]):
        values = random.normal(size=len(sizes))
        line = np.polyfit(np.log(sizes), values, 1)
        ends = np.polyval(line, np.log([sizes[0], sizes[-1]]))
        found = trend(dict(zip("abcd", sizes)))
        assert np.dot(list(found.values()), values) == pytest.approx(ends[1] - ends[0])


def test_each_makes_a_part_for_a_word(tmp_path):
    text = """
        each = ["d3pg_{uniform,prioritized}", "d4pg_uniform"]
        effect.mean = "d4pg_prioritized_n5 > {all}_n5"
        effect."{each}" = "d4pg_prioritized_n5 >= {each}_n5"
        over = "uniform"
        """
    found = parts(tmp_path, text)
    names = ["d3pg_uniform", "d3pg_prioritized", "d4pg_uniform"]
    assert list(found) == ["mean", *names]
    others = {f"{name}_n5": -1 / 3 for name in names}
    assert found["mean"].weights == pytest.approx({FULL: 1, **others})
    assert found["d4pg_uniform"].weights == {FULL: 1, "d4pg_uniform_n5": -1}
    assert found["mean"].bounds == AHEAD and found["d4pg_uniform"].bounds == NOT_BEHIND
    assert {part.over for part in found.values()} == {Over.UNIFORM}
    # Patterns are settings of the experiment; an effect without a table has the words' names.
    found = parts(tmp_path, f'each = ["{FULL}", "d4pg_*_n5"]\neffect = "{{each}} > ddpg"')
    assert list(found) == [FULL, "d4pg_uniform_n5"]
    found = parts(tmp_path, 'each = [1, 5]\neffect = "trend d4pg_uniform_n{all} > 0"')
    assert list(found) == [""]
    found = parts(tmp_path, 'each = ["ddpg"]\neffect."{each}" = "d4pg_uniform_n1 > {all}"')
    assert found["ddpg"].weights == {"d4pg_uniform_n1": 1, "ddpg": -1}


def test_tasks_are_names_patterns_and_those_of_experiments(tmp_path):
    effect = f'effect = "{FULL} > ddpg"\n'
    assert read(tmp_path, effect).test.environments == ()
    acrobot = ("control:acrobot:swingup", "control:acrobot:swingup_sparse")
    tasks = 'tasks = ["control:acrobot:*"]'
    assert read(tmp_path, effect + tasks).test.environments == acrobot
    tasks = 'tasks = ["control:acrobot:*"]\nexcept = ["*_sparse"]'
    assert read(tmp_path, effect + tasks).test.environments == acrobot[:1]
    every = D4PG.experiment("figure 2").environments
    tasks = 'except = ["control:acrobot:*"]'
    assert read(tmp_path, effect + tasks).test.environments == every[2:]
    of_figure_3 = D4PG.experiment("figure 3").environments
    assert read(tmp_path, effect + 'tasks = ["figure 3"]').test.environments == of_figure_3


def test_other_fields_and_other_scales(tmp_path):
    text = f"""
        effect = "{FULL} > ddpg"
        measure = "largest_fall"
        since = 2026-11-27
        headline = true
        quantity = "loss"
        clock = "actor_steps"
        not_at = ["workstation"]
        at.small.effect = "ddpg > {FULL}"
        at.small.tasks = ["control:cartpole:*"]
        """
    test = read(tmp_path, text).test
    assert (test.measure, test.since, test.quantity) == (effects.largest_fall, "2026-11-27", "loss")
    assert test.clock == "actor_steps" and test.at["workstation"] is None
    small = test.at_scale("small")
    assert small.parts[0].weights == {"ddpg": 1, FULL: -1} and small.measure is test.measure
    there = D4PG.experiment("figure 2").at("small").environments
    assert small.environments == tuple(task for task in there if ":cartpole:" in task)
    assert test.at_scale("two_cores") is test


def test_what_else_decides_a_claim(tmp_path):
    own = 'says = "It is so."\nsource = "section 4.1"\nexperiment = ""\n'
    claim = read(tmp_path, 'check = "soak"\nbasis = "benchmark"\nrule = "It is."', own)
    assert claim.test == Check(CHECKS.soak, Basis.BENCHMARK) and claim.rule == "It is."
    claim = read(tmp_path, 'lacks = "Nobody knows."\nrule = "It is."', own)
    assert claim.experiment == "" and claim.test.basis is Basis.RUNS
    finding = claim.judge(D4PG, Evidence(None, None, None, tmp_path))
    assert finding == Finding(Verdict.OPEN, lacks="Nobody knows.")
    text = 'benchmark = { record = "d4pg", number = "cost", bounds = [1, inf] }'
    assert read(tmp_path, text, own).test == Measured("d4pg", "cost", (1.0, math.inf))
    assert read(tmp_path, f'{text}\nnote = "here"', own).note == "here"
    text = 'median = { setting = "a", source = "b", row = "c", column = "d", is_percent = true }'
    assert read(tmp_path, text, own).test == GameMedian("a", "b", "c", "d", is_percent=True)


GOOD = f'effect = "{FULL} > ddpg"'


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("", "a claim must have exactly one of benchmark, check, effect, lacks, median"),
        (f"{GOOD}\nfoo = 1", "foo: there is no such key"),
        (f'{GOOD}\nsays = "twice"', "claims.toml: "),
        (f"{GOOD}\nat.small.foo = 1", "foo: there is no such key"),
        (f'{GOOD}\nat.tiny.effect = ""', "no scale tiny: there are paper, "),
        (f'{GOOD}\nexperiment = "figure 99"', "no figure 99"),
        (f'{GOOD}\nover = "all"', "'all' is not a valid Over"),
        (f'{GOOD}\nmeasure = "mean"', "'mean'"),
        (
            f'{GOOD}\ntasks = ["control:*:sleep"]',
            'tasks: no task or experiment matches "control:.*:sleep"',
        ),
        (f"{GOOD}\nbounds = [0, 1]", "give .>., .>=. or .~. once, or `bounds`"),
        ('effect = "ddpg"\nbounds = [0]', "name: "),
        ('effect = "ddpg > *_n7"', 'there is no setting "\\*_n7"'),
        ('effect = "trend ddpg > 0"', "name: "),
        ("effect = 1", "name: "),
        ('check = "nothing"\nrule = "a"', "nothing"),
        ('lacks = "a"', "'rule'"),
        ('benchmark = { record = "a" }', "'number'"),
    ],
)
def test_a_mistake_is_named_with_file_and_claim(tmp_path, text, complaint):
    with pytest.raises(FileMistakeError, match=complaint) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(str(tmp_path / "claims.toml"))
