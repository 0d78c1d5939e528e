"""Hyperparameters and settings: each fact about a hyperparameter stands in its field, once.

This module imports neither TensorFlow nor NumPy: the launcher stays light.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import math
import typing
from typing import Any, Generic, TypeVar

_KINDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text"}
_PLURALS = {int: "whole numbers", float: "numbers"}


def field(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    choices: Sequence[str] = (),
    suffix: str | None = None,
) -> Any:
    """Returns a field of a `Config`, all that there is to say about a hyperparameter.

    Args:
      default: value of the default setting. Only a tuple with an empty default may be empty.
      help: text of `--help`: the meaning and the source, a section of the paper or "Not in the
        paper" with the reason for our value.
      minimum: lowest value; of a tuple, lowest element, and so for all bounds.
      above: bound that each value exceeds.
      maximum: highest value.
      below: bound that no value reaches.
      choices: the allowed texts.
      suffix: format of a value that differs from its setting, for the setting's name: "lr{:g}".
        None where another value is no other algorithm (sizes of memory, speeds).
    """
    limits = _Range(minimum, above, maximum, below)
    metadata = {"help": help, "range": limits, "choices": tuple(choices), "suffix": suffix}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass
class Config:
    """Base of a paper's hyperparameters, a dataclass whose fields are made by `field`."""

    def __post_init__(self):
        self.validate()

    def validate(self) -> None:
        """Raises ValueError, in one line that names the flag, if a value is not allowed.

        A subclass adds conditions across fields after `super().validate()`.
        """
        for each in dataclasses.fields(self):
            self._check(each)

    def require(self, condition: bool, name: str, wanted: str) -> None:
        """Raises ValueError unless `condition`: "--config.NAME must be WANTED, is VALUE"."""
        if not condition:
            raise ValueError(f"--config.{name} must be {wanted}, is {getattr(self, name)}")

    def require_at_most(self, bound: str, *names: str) -> None:
        """Raises ValueError if one of the fields `names` exceeds the field `bound`."""
        most = getattr(self, bound)
        for name in names:
            self.require(getattr(self, name) <= most, name, f"at most {bound} ({most})")

    def _check(self, each: dataclasses.Field) -> None:
        value, name, kind = getattr(self, each.name), each.name, each.type
        limits, choices = each.metadata["range"], each.metadata["choices"]
        if choices:
            self.require(value in choices, name, " or ".join(choices))
        elif typing.get_origin(kind) is tuple:
            kind = typing.get_args(kind)[0]
            wanted = f"{_PLURALS[kind]} {limits}".rstrip()
            if each.default:
                wanted = f"one or more {wanted}, as in {each.default}"
            valid = isinstance(value, tuple) and all(_is(kind, v) and v in limits for v in value)
            self.require(valid and bool(value or not each.default), name, wanted)
        else:
            self.require(_is(kind, value), name, _KINDS[kind])
            self.require(value in limits, name, str(limits))


ConfigT = TypeVar("ConfigT", bound=Config)


@dataclasses.dataclass(frozen=True)
class Settings(Generic[ConfigT]):
    """A paper's variants by name.

    Attributes:
      config_class: the paper's hyperparameters, whose defaults are those of the paper.
      overrides: by the name of a setting, its values that differ from these defaults.
      default: name of the setting that runs if no other is chosen.
    """

    config_class: type[ConfigT]
    overrides: Mapping[str, Mapping[str, Any]]
    default: str

    @property
    def names(self) -> tuple[str, ...]:
        """All settings, in the order of `overrides`."""
        return tuple(self.overrides)

    def configuration(self, name: str) -> ConfigT:
        """Returns the hyperparameters of a setting."""
        return self.config_class(**self.overrides[name])

    def name_of(self, setting: str, config: ConfigT) -> str:
        """Returns the setting's name with a suffix for each value that `config` changes.

        Only fields that have a suffix count; a bool that is now False gets "no_" before it.
        """
        name, chosen = setting, self.configuration(setting)
        for each in dataclasses.fields(config):
            value, suffix = getattr(config, each.name), each.metadata["suffix"]
            if suffix and value != getattr(chosen, each.name):
                name += "_no_" if value is False else "_"
                name += suffix.format(value)
        return name


def from_values(cls: type[ConfigT], values: Mapping[str, Any]) -> ConfigT:
    """Returns a configuration from its fields in JSON.

    Lists become tuples, absent fields have their defaults.

    Raises:
      ValueError: a field is unknown, or its value is not allowed.
      TypeError: `values` is no mapping.
    """
    unknown = set(values) - {each.name for each in dataclasses.fields(cls)}
    if unknown:
        raise ValueError(f"there is no hyperparameter {', '.join(sorted(unknown))}")
    return cls(**{n: tuple(v) if isinstance(v, list) else v for n, v in values.items()})


@dataclasses.dataclass(frozen=True)
class _Range:
    """The bounds of a number; as text, the words of an error line."""

    minimum: float | None
    above: float | None
    maximum: float | None
    below: float | None

    def __contains__(self, value: float) -> bool:
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        lower, opening, least = (self.minimum, "[", "at least")
        if lower is None:
            lower, opening, least = (self.above, "(", "above")
        upper, closing, most = (self.maximum, "]", "at most")
        if upper is None:
            upper, closing, most = (self.below, ")", "below")
        if lower is None:
            return "" if upper is None else f"{most} {upper}"
        return f"{least} {lower}" if upper is None else f"in {opening}{lower}, {upper}{closing}"


def _is(kind: type, value: Any) -> bool:
    """Returns whether a value is of a kind of `_KINDS`: whole numbers are finite numbers, too."""
    if kind is float:
        return type(value) is int or (isinstance(value, float) and math.isfinite(value))
    return type(value) is kind
