"""Tests of common.reporting.setting_names."""

import dataclasses

from common.reporting.setting_names import suffixes


@dataclasses.dataclass
class Config:
    """Of some agent."""

    size: int = 3
    rate: float = 1e-4
    kind: str = "one"
    is_odd: bool = False


FORMATS = {"kind": "{}", "rate": "lr{:g}", "is_odd": "odd"}


def test_what_differs_is_said_in_the_order_of_the_fields():
    assert suffixes(Config(), Config(), FORMATS) == ""
    assert suffixes(Config(rate=1e-3, kind="two"), Config(), FORMATS) == "_lr0.001_two"
    assert suffixes(Config(is_odd=True), Config(), FORMATS) == "_odd"
    assert suffixes(Config(), Config(rate=1e-3), FORMATS) == "_lr0.0001"


def test_other_fields_are_not_said():
    assert suffixes(Config(size=4, rate=5e-5), Config(), FORMATS, silent=("rate",)) == ""
