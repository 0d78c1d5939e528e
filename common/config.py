"""Hyperparameters and settings; each field holds all facts about its hyperparameter.

The string below a field is its help: the meaning and the source, a section of the paper or "Not in
the paper" with the reason for our value.

This module imports neither TensorFlow nor NumPy, so that the launcher stays light.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
import dataclasses
import difflib
import itertools
import linecache
import math
import operator
import sys
import typing
from typing import Any, Generic, TypeVar

_KINDS = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a string"}
_PLURALS = {int: "whole numbers", float: "numbers"}
_BOUNDS = {
    "minimum": (operator.ge, "at least", "["),
    "above": (operator.gt, "above", "("),
    "maximum": (operator.le, "at most", "]"),
    "below": (operator.lt, "below", ")"),
}
"""{argument of `field`: (comparison, its words, bracket of an interval)}."""


def field(
    default: Any,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    choices: Sequence[str] = (),
    suffix: str | None = None,
    earlier: Any = None,
    may_change: bool | Callable[[Mapping[str, Any]], bool] = False,
) -> Any:
    """Returns a field of a `Config`. The string below the field is its help; see `help_of`.

    Args:
      default: value of the default setting. Only a tuple with an empty default may be empty.
      minimum: inclusive lower bound. Bounds of a tuple apply to each of its elements.
      above: exclusive lower bound.
      maximum: inclusive upper bound.
      below: exclusive upper bound.
      choices: the allowed strings; empty if they are not restricted.
      suffix: format of the part that is added to a run's name if the value differs from its
        setting's, such as "lr{:g}". None if the value does not change the algorithm (memory sizes,
        speeds).
      earlier: value in runs that were started before the field existed; None uses the default. May
        be a function of a mapping, the run's other hyperparameters by name.
      may_change: whether the value does not change the algorithm, so that a run may continue with
        another value, and runs with different values are comparable. May be a function of a
        mapping, the run's hyperparameters by name.
    """
    given = {"minimum": minimum, "above": above, "maximum": maximum, "below": below}
    bounds = {name: bound for name, bound in given.items() if bound is not None}
    class_body = sys._getframe(1)  # locates the help, also in a notebook, where inspect fails
    metadata = {
        "bounds": bounds,
        "choices": tuple(choices),
        "suffix": suffix,
        "earlier": default if earlier is None else earlier,
        "may_change": may_change,
        "place": (class_body.f_code.co_filename, class_body.f_code.co_name, class_body.f_lineno),
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass
class Config:
    """Base of a paper's hyperparameters, a dataclass whose fields are created by `field`."""

    def __post_init__(self):
        self.validate()

    def validate(self) -> None:
        """Raises ValueError, in one line that names the flag, if a value is not allowed.

        A subclass adds conditions across fields after `super().validate()`.
        """
        for each in dataclasses.fields(self):
            self._check(each)

    def require(self, condition: object, name: str, wanted: str) -> None:
        """Raises ValueError unless `condition`: "--config.NAME must be WANTED, is VALUE"."""
        if not condition:
            raise ValueError(f"--config.{name} must be {wanted}, is {getattr(self, name)}")

    def require_at_most(self, bound: str, *names: str) -> None:
        """Raises ValueError if one of the fields `names` exceeds the field `bound`."""
        most = getattr(self, bound)
        for name in names:
            self.require(getattr(self, name) <= most, name, f"at most {bound} ({most})")

    def require_atoms(self) -> None:
        """Raises ValueError unless the atoms from v_min to v_max differ as float32.

        For a subclass with the fields v_min, v_max and num_atoms.
        """
        fields: Any = self
        self.require(fields.v_min < fields.v_max, "v_min", f"below v_max ({fields.v_max:g})")
        spacing = (fields.v_max - fields.v_min) / (fields.num_atoms - 1)
        largest = max(abs(fields.v_min), abs(fields.v_max))
        self.require(
            largest < 1e30 and spacing > 1e-6 * largest,
            "v_max",
            f"such that the atoms from v_min ({fields.v_min:g}) to v_max differ as float32",
        )

    def _check(self, each: dataclasses.Field) -> None:
        kind: Any = each.type
        value, name = getattr(self, each.name), each.name
        bounds, choices = each.metadata["bounds"], each.metadata["choices"]
        allowed = allowed_values(each)
        if choices:
            self.require(value in choices, name, allowed)
        elif typing.get_origin(kind) is tuple:
            kind = typing.get_args(kind)[0]
            wanted = f"{_PLURALS[kind]} {allowed}".rstrip()
            if each.default:
                wanted = f"one or more {wanted}, as in {each.default}"
            self.require(isinstance(value, tuple) and (value or not each.default), name, wanted)
            self.require(all(_is(kind, v) and _is_within(bounds, v) for v in value), name, wanted)
        else:
            self.require(_is(kind, value), name, _KINDS[kind])
            self.require(_is_within(bounds, value), name, allowed)


ConfigT = TypeVar("ConfigT", bound=Config)


@dataclasses.dataclass(frozen=True)
class Settings(Generic[ConfigT]):
    """A paper's variants by name.

    Attributes:
      config_class: dataclass of the paper's hyperparameters, with the paper's values as defaults.
      overrides: for each setting by name, the hyperparameters that differ from these defaults.
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

        Only fields count that have a suffix and may not change; the suffix of a bool that is now
        False follows "no_".
        """
        name, chosen = setting, self.configuration(setting)
        may_change = changeable(self.config_class, vars(config))
        for each in dataclasses.fields(config):
            value, suffix = getattr(config, each.name), each.metadata["suffix"]
            is_suffixed = suffix and each.name not in may_change
            if is_suffixed and value != getattr(chosen, each.name):
                name += "_no_" if value is False else "_"
                name += suffix.format(value)
        return name


_SIMILAR = 0.65
"""Minimum similarity of a suggested name, the `cutoff` of `difflib.get_close_matches`."""


def near_names(name: str, known: Sequence[str], count: int = 1) -> list[str]:
    """Returns at most `count` of the known names that a misspelt name may mean.

    They are similar to it. If none is, they start with it ("env" for environment), or their last
    words have it as initials ("lr" for learning_rate).
    """
    similar = difflib.get_close_matches(name, known, count, _SIMILAR)
    initials = {each: "".join(word[:1] for word in each.split("_")) for each in known}
    short = [
        each
        for each, letters in initials.items()
        if name and (each.startswith(name) or (len(name) > 1 and letters.endswith(name)))
    ]
    short.sort(key=lambda each: initials[each] != name)
    return similar or short[:count]


def from_values(cls: type[ConfigT], values: Mapping[str, Any]) -> ConfigT:
    """Returns a configuration from its fields in JSON.

    Lists become tuples. Absent fields take the values of `earlier_values`.

    Raises:
      ValueError: a field is unknown, or its value is not allowed.
      TypeError: `values` is not a mapping.
    """
    unknown = set(values) - {each.name for each in dataclasses.fields(cls)}
    if unknown:
        raise ValueError(f"there is no hyperparameter {', '.join(sorted(unknown))}")
    values = completed(values, earlier_values(cls))
    return cls(**{n: tuple(v) if isinstance(v, list) else v for n, v in values.items()})


def earlier_values(cls: type[Config]) -> dict[str, Any]:
    """Returns `earlier` of each field: a value, or a function of the run's other values."""
    return {each.name: each.metadata["earlier"] for each in dataclasses.fields(cls)}


def completed(values: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a run's hyperparameters, completed by those added since the run was started."""
    return {n: v(values) if callable(v) else v for n, v in earlier.items()} | dict(values)


def changeable(cls: type[Config], values: Mapping[str, Any]) -> set[str]:
    """Returns the names of the fields that may change in a run with these values."""
    may_change = {each.name: each.metadata["may_change"] for each in dataclasses.fields(cls)}
    return {name for name, may in may_change.items() if (may(values) if callable(may) else may)}


def help_of(config_class: type[Config]) -> dict[str, str]:
    """Returns the help of each field, by field name: the string below the field, as one line.

    Python discards such strings, so they are read from the source of the class that declares the
    field.

    Raises:
      ValueError: a field has no such string, or its source cannot be read.
    """
    fields = dataclasses.fields(config_class)
    files = {each.metadata["place"][0] for each in fields}
    strings = {file: _strings_below_fields(file) for file in files}
    texts = {}
    for each in fields:
        file, class_name, line = each.metadata["place"]
        if line not in strings[file]:
            raise ValueError(
                f"{file}, line {line}: the field {class_name}.{each.name} has no help: write a "
                "string below it, with its meaning and its source"
            )
        texts[each.name] = strings[file][line]
    return texts


def _strings_below_fields(file: str) -> dict[int, str]:
    """Returns each string as one line, keyed by the line on which the field's value starts."""
    tree = ast.parse("".join(linecache.getlines(file)))
    strings = {}
    for body in (node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for statement, below in itertools.pairwise(body):
            match statement, below:
                case ast.AnnAssign(value=ast.Call() as call), ast.Expr(ast.Constant(str(text))):
                    strings[call.lineno] = " ".join(text.split())
    return strings


def _is_within(bounds: Mapping[str, float], value: float) -> bool:
    return all(_BOUNDS[name][0](value, bound) for name, bound in bounds.items())


def allowed_values(each: dataclasses.Field) -> str:
    """Returns "at least 1", "in (0, 1]" or "adam or rmsprop"; "" if the type is the only limit."""
    bounds, choices = each.metadata["bounds"], each.metadata["choices"]
    if choices:
        return " or ".join(choices)
    if len(bounds) == 2:
        (lower, low), (upper, high) = bounds.items()
        return f"in {_BOUNDS[lower][2]}{low}, {high}{_BOUNDS[upper][2]}"
    return "".join(f"{_BOUNDS[name][1]} {bound}" for name, bound in bounds.items())


def _is(kind: type, value: Any) -> bool:
    """Returns whether a value has a type of `_KINDS`; a whole number is also a finite number."""
    if kind is float:
        return type(value) is int or (isinstance(value, float) and math.isfinite(value))
    return type(value) is kind
