"""Tests of common.config."""

import dataclasses
import json
import math
import os
import re
import subprocess
import sys

import pytest

from common.config import Config, Settings, changeable, earlier_values, field, from_values, help_of


@dataclasses.dataclass
class Example(Config):
    """A field of each kind."""

    count: int = field(3, minimum=1, suffix="count{}")
    """At least 1."""
    part: float = field(0.5, minimum=0, maximum=1, suffix="part{:g}")
    """In [0, 1]."""
    rate: float = field(1e-4, above=0)
    """Above 0."""
    decay: float = field(0.9, minimum=0, below=1)
    """In [0, 1)."""
    forgotten: float = field(0.1, above=0, maximum=1)
    """In (0, 1]."""
    low: float = field(-1.0, maximum=0)
    """At most 0."""
    lower: float = field(-1.0, below=0)
    """Below 0."""
    free: float = field(1.0)
    """Any number."""
    name: str = field("some")
    """Any text."""
    kind: str = field("fifo", choices=("fifo", "priority"), suffix="{}")
    """A choice."""
    is_odd: bool = field(False, suffix="odd")
    """Yes or no."""
    sizes: tuple[int, ...] = field((30, 20), above=0)
    """Above 0."""
    parts: tuple[float, ...] = field((), minimum=0, maximum=1, suffix="other_parts")
    """In [0, 1]."""
    labels: tuple[float, ...] = field(())
    """Any numbers."""

    def validate(self):
        super().validate()
        self.require(self.count != 13, "count", "a lucky number")
        self.require_at_most("count", "low", "free")


SETTINGS = Settings(Example, {"plain": {}, "odd": {"is_odd": True, "part": 0.25}}, default="plain")


@pytest.mark.parametrize(
    "name, value, wanted",
    [
        ("count", 0, "at least 1"),
        ("count", 3.0, "a whole number"),
        ("count", True, "a whole number"),
        ("count", "five", "a whole number"),
        ("count", 13, "a lucky number"),
        ("part", 1.1, "in [0, 1]"),
        ("part", -0.1, "in [0, 1]"),
        *[("part", value, "a finite number") for value in (math.nan, math.inf, "half", None, True)],
        ("rate", 0.0, "above 0"),
        ("decay", 1.0, "in [0, 1)"),
        ("decay", -0.1, "in [0, 1)"),
        ("forgotten", 0.0, "in (0, 1]"),
        ("forgotten", 1.1, "in (0, 1]"),
        ("low", 0.1, "at most 0"),
        ("lower", 0.0, "below 0"),
        ("free", -math.inf, "a finite number"),
        ("free", 3.5, "at most count (3)"),
        ("name", 3, "a string"),
        ("kind", "other", "fifo or priority"),
        ("kind", 3, "fifo or priority"),
        ("is_odd", 1, "true or false"),
        *[
            ("sizes", value, "one or more whole numbers above 0, as in (30, 20)")
            for value in ((), (30, 0), (30, 20.0), 30, "wide", [30])
        ],
        *[
            ("parts", value, "numbers in [0, 1]")
            for value in ((0.1, 1.1), (-0.1,), (math.nan,), ("0.1",), 0.1)
        ],
        ("labels", ("a",), "numbers"),
    ],
)
def test_a_value_that_is_not_allowed_gives_one_line(name, value, wanted):
    with pytest.raises(ValueError) as caught:
        Example(**{name: value})
    assert str(caught.value) == f"--config.{name} must be {wanted}, is {value}"


@pytest.mark.parametrize(
    "values",
    [
        {"count": 1, "part": 0.0, "decay": 0, "low": 0, "is_odd": True, "name": ""},
        {"part": 1, "forgotten": 1.0, "kind": "priority", "sizes": (1,), "parts": (0, 1.0)},
    ],
)
def test_values_at_the_bounds_are_taken(values):
    config = Example(**values)
    assert {name: getattr(config, name) for name in values} == values


def test_a_value_set_afterwards_is_checked_by_validate():
    """The flags set values on an object that is there."""
    config = Example()
    config.count = 0
    with pytest.raises(ValueError, match="^--config.count must be at least 1, is 0$"):
        config.validate()


def test_a_setting_is_the_default_with_its_overrides():
    assert SETTINGS.names == ("plain", "odd")
    assert SETTINGS.configuration("plain") == Example()
    assert SETTINGS.configuration("odd") == Example(is_odd=True, part=0.25)


@pytest.mark.parametrize(
    "setting, changed, name",
    [
        ("plain", {}, "plain"),
        ("plain", {"part": 0.25, "is_odd": True}, "plain_part0.25_odd"),
        (
            "plain",
            {"kind": "priority", "count": 2, "parts": (1,)},
            "plain_count2_priority_other_parts",
        ),
        ("plain", {"sizes": (1,), "rate": 1.0}, "plain"),
        ("odd", {}, "odd"),
        ("odd", {"part": 0.5, "is_odd": False}, "odd_part0.5_no_odd"),
    ],
)
def test_a_name_says_what_was_changed_of_the_setting(setting, changed, name):
    config = dataclasses.replace(SETTINGS.configuration(setting), **changed)
    assert SETTINGS.name_of(setting, config) == name


def test_a_configuration_comes_back_from_json():
    config = Example(sizes=(5, 6, 7), part=1.0)
    assert from_values(Example, json.loads(json.dumps(dataclasses.asdict(config)))) == config
    assert from_values(Example, {}) == Example()


def test_a_field_says_what_runs_did_before_it_existed_and_whether_it_may_change():
    @dataclasses.dataclass
    class Later(Config):
        ratio: float = field(1.0, may_change=True)
        part: int = field(0, suffix="part{}", may_change=lambda of: of["ratio"] == 1)
        new: float = field(0.5, earlier=0.0)
        clock: str = field("steps", earlier=lambda of: "steps" if of["ratio"] == 1 else "updates")

    assert earlier_values(Later)["ratio"] == 1.0
    assert changeable(Later, {"ratio": 1.0}) == {"ratio", "part"}
    assert changeable(Later, {"ratio": 2.0}) == {"ratio"}
    settings = Settings(Later, {"one": {}, "two": {"ratio": 2.0}}, "one")
    assert settings.name_of("one", Later(part=1)) == "one"
    assert settings.name_of("two", Later(ratio=2.0, part=1)) == "two_part1"
    assert from_values(Later, {"ratio": 1.0}) == Later(new=0.0, clock="steps")
    assert from_values(Later, {"ratio": 2.0}) == Later(ratio=2.0, new=0.0, clock="updates")
    assert from_values(Later, {"ratio": 2.0, "clock": "steps"}).clock == "steps"


def test_json_that_is_no_configuration_is_refused():
    with pytest.raises(ValueError, match="^there is no hyperparameter cuont, size$"):
        from_values(Example, {"size": [3], "cuont": 1, "count": 1})
    with pytest.raises(ValueError, match="^--config.count must be at least 1"):
        from_values(Example, {"count": 0})


@dataclasses.dataclass
class Longer(Example):
    """A field of its own, one with another default and another help, and others inherited."""

    size: int = field(1, minimum=1)
    """Some "size",
    on two lines."""
    free: float = field(2.0)
    """At least free."""


class Same(Longer):
    """No field of its own."""


@pytest.mark.parametrize("config_class", [Longer, Same])
def test_the_help_of_a_field_is_the_string_below_it(config_class):
    texts = help_of(config_class)
    assert list(texts) == [each.name for each in dataclasses.fields(config_class)]
    assert texts["count"] == help_of(Example)["count"] == "At least 1."
    assert (texts["size"], texts["free"]) == ('Some "size", on two lines.', "At least free.")
    assert help_of(Example)["free"] == "Any number."


@dataclasses.dataclass
class Silent(Config):
    """A field with a comment where its help should be, and a string further down."""

    count: int = field(3)  # At least 1.

    def validate(self):
        """No help of a field."""


@dataclasses.dataclass
class StillSilent(Silent):
    size: int = field(3)
    """Items."""


def test_a_field_without_help_is_an_error_that_names_it():
    message = rf"^{re.escape(__file__)}, line \d+: the field Silent.count has no help"
    for config_class in (Silent, StillSilent):  # named by the class that declares it
        with pytest.raises(ValueError, match=message):
            help_of(config_class)


CELL = """
import dataclasses
from common.config import Config, field, help_of

@dataclasses.dataclass
class Example(Config):
    size: int = field(3)
    \"""Items.\"""

print(help_of(Example))
"""
NOTEBOOK = f"""
import linecache
cell = {CELL!r}
linecache.cache["<cell>"] = len(cell), None, cell.splitlines(keepends=True), "<cell>"
exec(compile(cell, "<cell>", "exec"))
"""


@pytest.mark.parametrize("code", ["import module", NOTEBOOK])
def test_help_is_read_where_python_drops_strings_and_from_a_notebook(code, tmp_path):
    (tmp_path / "module.py").write_text(CELL)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-OO", "-c", code]
    shown = subprocess.run(command, check=True, timeout=60, env=environment, capture_output=True)
    assert shown.stdout == b"{'size': 'Items.'}\n"
