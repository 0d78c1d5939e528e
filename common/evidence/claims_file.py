"""Claims from a paper's claims.toml.

Each table of the file is a claim: what it `says`, its `source`, and the `experiment` that shows it,
by default the last one that the source names ("": none). `headline = true` marks the paper's main
statements, which results/README.md shows. One of these keys says what decides it:

    effect     a comparison of settings in the kept runs, see below
    median     our median human-normalised score over all games of a `setting`, and the paper's:
               `source`, `row`, `column`, and whether it is in `percent`; see `GameMedian`
    benchmark  `number` in results/benchmarks/`record`.json, which lies within `bounds`
    check      a function of the paper's checks.py, with its `basis` ("runs" or "benchmark") and a
               `rule`, a sentence
    lacks      why nothing decides it, a sentence, with the `rule` that would

An effect is "A > B" (A is ahead), "A >= B" (not behind), "A ~ B" (level), or "A" with the `bounds`
between which A lies. A side is a mean over settings, "mean - mean", or 0. A mean lists names and
patterns of settings, with ", " between them: "x_{a,b}" stands for x_a and x_b, and `*` and `?` for
settings of the experiment. "trend x_{8,16,32}" stands in place of a mean for the gain from the
smallest to the largest size, on a line over their logarithms, and "slope x_{8,16,32}" for the
slope of that line. A size is the word in braces, or follows a name: "trend x_{8,16}, y=32".

Several effects, which must all hold, are a table {name = effect}. With a list `each` of words or
patterns, an effect with "{each}" in its name is repeated for each word, which replaces "{each}".
"{all}" stands for all words in braces. An effect without a table has the name "{each}" or none.

    each = ["d3pg", "impala"]
    effect = { mean = "aql > {all}", "{each}" = "aql >= {each}" }

Further keys of effects: `over` ("mean", "uniform", "every" or "some" tasks, or "tally": on seven of
nine with `least = [7, 9]`), `tasks` (names, patterns, and experiments, which stand for their
tasks), `except` (tasks to leave out), `measure` (of `effects`), and `quantity`, `clock` and `since`
(of `MainEffects`). `at.SCALE` replaces any of these at a scale. Runs of the scales in `not_at`
cannot decide the claim.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import datetime
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
    GameMedian,
    MainEffects,
    Measured,
    Test,
    Unavailable,
)
from common.evidence.effects import AHEAD, LEVEL, NOT_BEHIND, Bounds, EffectPart, Over
from common.evidence.figures_file import spread
from common.evidence.paper import Experiment, Paper
from common.reporting.user_error import UserError

Weights = dict[str, float]
"""{setting: weight}, which sum to 0."""


def slope(sizes: Mapping[str, float]) -> Weights:
    """Returns the weights of the slope, by least squares, over the decimal logarithm of a size.

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
_KINDS = ("effect", "median", "benchmark", "check", "lacks")
_REQUIRED = object()


class ClaimError(UserError):
    """An entry of a claims.toml that cannot be read."""


def read(file: pathlib.Path, paper: Paper, checks: ModuleType | None = None) -> tuple[Claim, ...]:
    """Returns the claims of a file, in its order.

    Args:
      file: claims.toml.
      paper: whose experiments, settings and tasks it names.
      checks: the paper's checks.py.

    Raises:
      ClaimError: an entry is wrong; the message names the file and the key.
    """
    try:
        entries = tomllib.loads(file.read_text())
    except ValueError as error:
        raise ClaimError(f"{file}: {error}") from None
    return tuple(
        _claim(name, _Entry(f"{file}: {name}", entry), paper, checks)
        for name, entry in entries.items()
    )


class _Entry:
    """A table whose keys are taken one by one, so that what is left over is a mistake."""

    def __init__(self, where: str, keys: Mapping[str, Any]):
        self._where, self._keys = where, dict(keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def take(self, key: str, kind: type | tuple[type, ...] = str, default: Any = _REQUIRED) -> Any:
        value = self._keys.pop(key, default)
        if value is _REQUIRED:
            raise self.error(key, "is missing")
        if value is not default and not isinstance(value, kind):
            raise self.error(key, f"cannot be {value!r}")
        return value

    def choose(self, key: str, choices: Iterable[str], default: Any = _REQUIRED) -> str:
        return self.known(key, self.take(key, str, default), choices)

    def known(self, key: str, name: str, names: Iterable[str]) -> str:
        if name not in (names := list(names)):
            raise self.error(key, f'there is no "{name}": there are {", ".join(names)}')
        return name

    def bounds(self, default: Any = _REQUIRED) -> Bounds:
        given = self.take("bounds", list, default)
        if given is default:
            return default
        if [isinstance(end, int | float) for end in given] != [True, True]:
            raise self.error("bounds", f"are two numbers, not {given}")
        return float(given[0]), float(given[1])

    def table(self, key: str) -> "_Entry":
        return _Entry(f"{self._where}.{key}", self.take(key, dict))

    def changed(self, key: str, name: str, changes: Mapping[str, Any]) -> "_Entry":
        """Returns the table as another one in it, `key.name`, changes it."""
        return _Entry(f"{self._where}.{key}.{name}", {**self._keys, **changes})

    def end(self) -> None:
        for key in self._keys:
            raise self.error(key, "is no key of such a claim")

    def error(self, key: str, words: object) -> ClaimError:
        return ClaimError(f"{self._where}.{key}: {words}")


def _claim(name: str, entry: _Entry, paper: Paper, checks: ModuleType | None) -> Claim:
    says, source = entry.take("says"), entry.take("source")
    is_headline = entry.take("headline", bool, False)
    shown_by = entry.take("experiment", default=re.split(", | and ", source)[-1])
    kinds = [kind for kind in _KINDS if kind in entry]
    if len(kinds) != 1:
        raise entry.error("effect", f"a claim has one of {', '.join(_KINDS)}")
    (kind,) = kinds
    rule = entry.take("rule") if kind in ("check", "lacks") else ""
    names = [experiment.name for experiment in paper.experiments]
    if shown_by or kind == "effect":
        entry.known("experiment", shown_by, names)
    test: Test
    if kind == "effect":
        test = _main_effects(entry, paper, paper.experiment(shown_by))
    elif kind == "check":
        function = entry.choose(kind, vars(checks) if checks else ())
        test = Check(getattr(checks, function), Basis(entry.choose("basis", list(Basis))))
    elif kind == "lacks":
        test = Unavailable(entry.take(kind))
    else:
        numbers = entry.table(kind)
        if kind == "median":
            of_paper = (numbers.take(key) for key in ("setting", "source", "row", "column"))
            test = GameMedian(*of_paper, is_percent=numbers.take("percent", bool))
        else:
            test = Measured(numbers.take("record"), numbers.take("number"), numbers.bounds())
        numbers.end()
    entry.end()
    return Claim(name, says, source, shown_by, test, is_headline, rule)


def _main_effects(entry: _Entry, paper: Paper, experiment: Experiment) -> MainEffects:
    """Returns a test with its tests at other scales."""
    scales = [scale.name for scale in paper.scales]
    at: dict[str, MainEffects | None] = {}
    for scale in entry.take("not_at", list, []):
        at[entry.known("not_at", scale, scales)] = None
    for scale, changes in entry.take("at", dict, {}).items():
        there = experiment.at(entry.known("at", scale, scales))
        changed = entry.changed("at", scale, changes)
        at[scale] = _at_scale(changed, paper, there)
        changed.end()
    return dataclasses.replace(_at_scale(entry, paper, experiment), at=at)


def _at_scale(entry: _Entry, paper: Paper, experiment: Experiment) -> MainEffects:
    """Returns a test with the settings and tasks that the experiment has at a scale."""
    return MainEffects(
        _parts(entry, _Settings(paper, experiment)),
        _tasks(entry, paper, experiment),
        effects.MEASURES[entry.choose("measure", effects.MEASURES, "late_mean")],
        entry.take("quantity", default=""),
        entry.take("clock", default=""),
        str(entry.take("since", datetime.date, "")),
    )


def _tasks(entry: _Entry, paper: Paper, experiment: Experiment) -> tuple[str, ...]:
    """Returns the tasks that are named; none stands for all of the experiment's."""
    tasks = {of.name: of.environments for of in paper.experiments}
    named: dict[str, list[str]] = {"tasks": [], "except": []}
    for key, found in named.items():
        for pattern in entry.take(key, list, []):
            fitting = tasks.get(pattern) or fnmatch.filter(experiment.environments, pattern)
            if not fitting:
                entry.known(key, pattern, experiment.environments)
            found += fitting
    if not named["except"]:
        return tuple(named["tasks"])
    chosen = named["tasks"] or experiment.environments
    return tuple(task for task in chosen if task not in named["except"])


def _parts(entry: _Entry, settings: "_Settings") -> tuple[EffectPart, ...]:
    words = settings.words(map(str, entry.take("each", list, [])))
    bounds, over = entry.bounds(None), Over(entry.choose("over", list(Over), "mean"))
    least, of = entry.take("least", list) if over is Over.TALLY else (1, 1)
    effect, parts = entry.take("effect", (str, dict)), []
    if isinstance(effect, str):
        effect = {"{each}" if "{each}" in effect else "": effect}
    for name, text in effect.items():
        text = str(text).replace("{all}", f"{{{','.join(words)}}}" if words[1:] else "{each}")
        for word in words if "{each}" in name else [""]:
            try:
                weighed = settings.effect(text.replace("{each}", word), bounds)
            except ValueError as error:
                raise entry.error("effect", f"{text}: {error}") from None
            parts.append(EffectPart(name.replace("{each}", word), *weighed, over, least / of))
    return tuple(parts)


class _Settings:
    """The settings that effects of an experiment may name."""

    def __init__(self, paper: Paper, experiment: Experiment):
        self._of_paper = {run.setting for of in paper.experiments for run in of.every_run}
        self._of_experiment = experiment.settings

    def effect(self, text: str, bounds: Bounds | None) -> tuple[Weights, Bounds]:
        """Returns the weights and the bounds of an effect; raises ValueError if it is none."""
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
        """Returns words, and in place of patterns the settings that fit, each once."""
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
        """Returns the experiment's settings that fit a pattern; else the name itself."""
        is_pattern = "*" in pattern or "?" in pattern
        return fnmatch.filter(self._of_experiment, pattern) if is_pattern else [pattern]
