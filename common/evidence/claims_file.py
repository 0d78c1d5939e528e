"""Claims from a paper's claims.toml.

Each table of the file is a claim: what it `says`, its `source`, and the `experiment` that shows it,
by default the last one that the source names ("": none). `headline = true` marks the paper's main
statements, which results/README.md shows. A `note` limits the verdict, for example to what the
scale model allows; the pages of results show it. One of these keys says what decides the claim:

    effect     a comparison of settings in the kept runs, see below
    median     our median human-normalised score over all games for a `setting`, compared with the
               paper's: `source`, `row`, `column`, and whether it `is_percent`; see `GameMedian`
    benchmark  whether `number` in results/benchmarks/`record`.json lies within `bounds`
    check      a function of the paper's checks.py, with its `basis` ("runs" or "benchmark") and its
               `rule` in a sentence
    lacks      a sentence that says why nothing decides it, with the `rule` that would

An effect is "A > B" (A is ahead), "A >= B" (not behind), "A ~ B" (level), or "A" with the `bounds`
between which A lies. A side is a mean over settings, "mean - mean", or 0. A mean lists names and
patterns of settings, separated by ", ": "x_{a,b}" stands for x_a and x_b, and `*` and `?` match
settings of the experiment. Instead of a mean, "trend x_{8,16,32}" is the gain from the smallest to
the largest size on a line fitted over their logarithms, and "slope x_{8,16,32}" is the slope of
that line. A size is the word in braces, or follows a name: "trend x_{8,16}, y=32".

Several effects, which must all hold, are a table {name = effect}. With a list `each` of words or
patterns, an effect with "{each}" in its name is repeated for each word, which replaces "{each}".
"{all}" stands for all these words, as "{a,b}". An effect that is not in a table has the name
"{each}" if it contains "{each}", and otherwise no name.

    each = ["d3pg", "impala"]
    effect = { mean = "aql > {all}", "{each}" = "aql >= {each}" }

Further keys of effects: `over` ("mean", "uniform", "every" or "some" tasks, or "tally": on seven of
nine with `least = [7, 9]`), `tasks` (names, patterns, and experiments, which stand for their
tasks), `except` (tasks to leave out), `measure` (a function of `effects`), and `quantity`, `clock`
and `since` (see `MainEffects`). `at.SCALE` replaces any of these at a scale. Runs of the scales in
`not_at` cannot decide the claim.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import fnmatch
import itertools
import math
import pathlib
import re
import tomllib
from types import ModuleType
from typing import Any

import numpy as np

from common.evidence import effects
from common.evidence.claims import (
    Basis,
    Check,
    Claim,
    Finding,
    GameMedian,
    MainEffects,
    Measured,
    Test,
)
from common.evidence.effects import AHEAD, LEVEL, NOT_BEHIND, Bounds, EffectPart, Over, Verdict
from common.evidence.figures_file import mistakes_in, spread
from common.evidence.paper import Experiment, Paper

_Table = Mapping[str, Any]

Weights = dict[str, float]
"""{setting: weight}; the weights sum to 0."""


def slope(sizes: Mapping[str, float]) -> Weights:
    """Returns the weights of the least-squares slope over the decimal logarithm of a size.

    Args:
      sizes: {setting: size}.
    """
    position = np.log10(list(sizes.values()))
    position -= position.mean()
    return dict(zip(sizes, (position / np.square(position).sum()).tolist()))


def trend(sizes: Mapping[str, float]) -> Weights:
    """Returns the weights of the gain from the smallest to the largest size, see `slope`."""
    reach = math.log10(max(sizes.values()) / min(sizes.values()))
    return {name: reach * weight for name, weight in slope(sizes).items()}


_BOUNDS = {">": AHEAD, ">=": NOT_BEHIND, "~": LEVEL}
_OVER_SIZES = {"trend ": trend, "slope ": slope}
_KINDS = {"effect", "median", "benchmark", "check", "lacks"}
_OF_CLAIM = {"says", "source", "headline", "experiment", "basis", "rule", "note"}
_OF_EFFECT = {
    *("effect", "each", "over", "least", "bounds", "tasks", "except"),
    *("measure", "quantity", "clock", "since"),
}


def read(file: pathlib.Path, paper: Paper, checks: ModuleType | None = None) -> tuple[Claim, ...]:
    """Returns the claims of a file, in its order.

    Args:
      file: claims.toml.
      paper: the paper whose experiments, settings and tasks the file names.
      checks: the paper's checks.py.

    Raises:
      FileMistakeError: an entry is wrong; the message names the file and the claim.
    """
    with mistakes_in(file):
        entries = tomllib.loads(file.read_text())
    claims = []
    for name, entry in entries.items():
        with mistakes_in(f"{file}: {name}"):
            claims.append(_claim(name, entry, paper, checks))
    return tuple(claims)


def _check_keys(table: _Table, known: set[str]) -> None:
    if unknown := table.keys() - known:
        raise LookupError(f"{', '.join(sorted(unknown))}: there is no such key")


def _claim(name: str, entry: _Table, paper: Paper, checks: ModuleType | None) -> Claim:
    kinds = entry.keys() & _KINDS
    if len(kinds) != 1:
        raise ValueError(f"a claim must have exactly one of {', '.join(sorted(_KINDS))}")
    (kind,) = kinds
    of_kind = {*_OF_EFFECT, "at", "not_at"} if kind == "effect" else kinds
    _check_keys(entry, _OF_CLAIM | of_kind)
    shown_by = entry.get("experiment", re.split(", | and ", entry["source"])[-1])
    if shown_by:
        paper.experiment(shown_by)  # raises UnknownError
    test: Test
    if kind == "effect":
        test = _main_effects(entry, paper, paper.experiment(shown_by))
    elif kind == "median":
        test = GameMedian(**entry[kind])
    elif kind == "benchmark":
        test = Measured(entry[kind]["record"], entry[kind]["number"], _bounds(entry[kind]))
    elif kind == "check":
        test = Check(getattr(checks, entry[kind]), Basis(entry["basis"]))
    else:
        finding = Finding(Verdict.OPEN, lacks=entry[kind])
        test = Check(lambda evidence: finding, Basis.RUNS)
    return Claim(
        name,
        entry["says"],
        entry["source"],
        shown_by,
        test,
        is_headline=entry.get("headline", False),
        rule=entry["rule"] if kind in ("check", "lacks") else "",
        note=entry.get("note", ""),
    )


def _main_effects(entry: _Table, paper: Paper, experiment: Experiment) -> MainEffects:
    """Returns a claim's test, with its variants at single scales."""
    at: dict[str, MainEffects | None] = {}
    for scale in entry.get("not_at", ()):
        at[paper.scale(scale).name] = None
    for scale, changes in entry.get("at", {}).items():
        _check_keys(changes, _OF_EFFECT)
        there = experiment.at(paper.scale(scale).name)
        at[scale] = _at_scale({**entry, **changes}, paper, there)
    return dataclasses.replace(_at_scale(entry, paper, experiment), at=at)


def _at_scale(entry: _Table, paper: Paper, experiment: Experiment) -> MainEffects:
    """Returns a claim's test for an experiment as it is at a scale."""
    return MainEffects(
        _parts(entry, _Settings(paper, experiment)),
        _tasks(entry, paper, experiment),
        effects.MEASURES[entry.get("measure", "late_mean")],
        entry.get("quantity", ""),
        entry.get("clock", ""),
        str(entry.get("since", "")),
    )


def _bounds(table: _Table) -> Bounds:
    low, high = map(float, table["bounds"])
    return low, high


def _tasks(entry: _Table, paper: Paper, experiment: Experiment) -> tuple[str, ...]:
    """Returns the tasks that a claim names; () stands for all tasks of the experiment."""
    of_experiments = {of.name: of.environments for of in paper.experiments}

    def named(key: str) -> list[str]:
        found: list[str] = []
        for pattern in entry.get(key, ()):
            fitting = fnmatch.filter(experiment.environments, pattern)
            fitting = of_experiments.get(pattern) or fitting
            if not fitting:
                raise LookupError(f'{key}: no task or experiment matches "{pattern}"')
            found += fitting
        return found

    tasks, left_out = named("tasks"), named("except")
    if not left_out:
        return tuple(tasks)
    return tuple(task for task in tasks or experiment.environments if task not in left_out)


def _parts(entry: _Table, settings: "_Settings") -> tuple[EffectPart, ...]:
    words = settings.words(map(str, entry.get("each", ())))
    bounds, over = _bounds(entry) if "bounds" in entry else None, Over(entry.get("over", "mean"))
    least, of = entry["least"] if over is Over.TALLY else (1, 1)
    effect, parts = entry["effect"], []
    if isinstance(effect, str):
        effect = {"{each}" if "{each}" in effect else "": effect}
    for name, text in effect.items():
        text = text.replace("{all}", f"{{{','.join(words)}}}" if words[1:] else "{each}")
        for word in words if "{each}" in name else [""]:
            with mistakes_in(text):
                weighed = settings.effect(text.replace("{each}", word), bounds)
            parts.append(EffectPart(name.replace("{each}", word), *weighed, over, least / of))
    return tuple(parts)


class _Settings:
    """The settings that effects of an experiment may name."""

    def __init__(self, paper: Paper, experiment: Experiment):
        self._of_paper = {run.setting for of in paper.experiments for run in of.every_run}
        self._of_experiment = experiment.settings

    def effect(self, text: str, bounds: Bounds | None) -> tuple[Weights, Bounds]:
        """Returns the weights and the bounds of an effect; raises ValueError if it is malformed."""
        left, *right = re.split(" (>=|>|~) ", text)
        if len(right) != 2 * (bounds is None):
            raise ValueError('give ">", ">=" or "~" once, or `bounds`')
        weights: Weights = {}
        for sign, side in ((1, left), (-1, right[1] if right else "0")):
            for factor, mean in zip((sign, -sign), side.split(" - ", 1)):
                for name, weight in self._mean(mean).items():
                    added = weights.get(name, 0.0) + factor * weight
                    if name in weights and not added:
                        del weights[name]
                    else:
                        weights[name] = added
        return weights, _BOUNDS[right[0]] if bounds is None else bounds

    def words(self, patterns: Iterable[str]) -> list[str]:
        """Returns the distinct words, with patterns replaced by the settings that match."""
        spread_out = (word for pattern in patterns for word, _ in spread(pattern))
        return list(dict.fromkeys(itertools.chain.from_iterable(map(self._fitting, spread_out))))

    def _mean(self, text: str) -> Weights:
        """Returns the weights of a mean, or of a trend or a slope over sizes."""
        if text == "0":
            return {}
        sizes = {}
        of_sizes = next((word for word in _OVER_SIZES if text.startswith(word)), "")
        for pattern in text.removeprefix(of_sizes).split(", "):
            pattern, _, stated = pattern.partition("=")
            for name, words in spread(pattern):
                fitting = self._fitting(name)
                if not fitting or not self._of_paper.issuperset(fitting):
                    raise ValueError(f'there is no setting "{name}"')
                sizes |= dict.fromkeys(fitting, stated or "".join(words[:1]))
        if of_sizes:
            return _OVER_SIZES[of_sizes]({name: float(size) for name, size in sizes.items()})
        return dict.fromkeys(sizes, 1 / len(sizes))

    def _fitting(self, pattern: str) -> Sequence[str]:
        """Returns the experiment's settings that match a pattern; for a plain name, the name."""
        is_pattern = "*" in pattern or "?" in pattern
        return fnmatch.filter(self._of_experiment, pattern) if is_pattern else [pattern]
