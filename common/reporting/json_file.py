"""JSON files, read strictly: whatever is wrong with one is an error of one line that names it."""

from collections.abc import Mapping
import json
import math
from pathlib import Path
import reprlib
from typing import Any

from common.reporting.user_error import UserError

LARGEST = 3.4e38
"""The largest float32, which networks and rewards are: no result is beyond it."""
LARGEST_COUNT = 2**62
"""A count beyond it is damage; what is added to one still fits int64."""
_DEEPEST = 50
_LONGEST = 1000
_KINDS: Any = {
    str: ("a short line of text", lambda value: value.isprintable() and len(value) <= _LONGEST),
    int: ("a count", lambda value: 0 <= value <= LARGEST_COUNT),
    float: ("a number", lambda value: abs(value) <= LARGEST),
    list: ("lines of text", lambda value: all(type(one) is str for one in value)),
    dict: ("an object", lambda value: True),
}


class JsonError(UserError):
    """Malformed JSON; the message names the file."""


def parse(text: str | bytes, where: str | Path) -> Any:
    """Returns what JSON text holds.

    Args:
      text: UTF-8.
      where: name of the file or variable that has it.

    Raises:
      JsonError: it is no JSON, nests too deeply, or has a number that is not finite or a text that
        is no Unicode.
    """
    try:
        found = json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_number)
        _check(found, _DEEPEST)
        return found
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise JsonError(f"{where}:{line}: is not JSON ({error}): mend or remove it") from None


def read(path: Path) -> Any:
    """Returns what a JSON file holds; None if it does not exist.

    Raises:
      JsonError: as of `parse`, or the file cannot be read, or holds nothing but null.
    """
    try:
        found = parse(path.read_bytes(), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise JsonError(f"{path}: cannot be read ({error.strerror})") from None
    if found is None:
        raise JsonError(f"{path}: is null: mend or remove it")
    return found


def require(where: str | Path, found: Any, kinds: Any, name: str = "it") -> Any:
    """Returns a part of what a JSON file holds, once its kinds are checked.

    Args:
      where: name of the file.
      found: the part.
      kinds: the kind that it has to be of: str (a line), float, int (a count) or list (of lines);
        or, of an object, those of its members by name. A member may be absent, and one that is no
        object may be null.
      name: of the part.

    Raises:
      JsonError: the part, or a member, is of another kind.
    """
    members = kinds if isinstance(kinds, Mapping) else {}
    kind = dict if isinstance(kinds, Mapping) else kinds
    words, is_right = _KINDS[kind]
    if type(found) not in (kind, kind is float and int) or not is_right(found):
        shown = reprlib.repr(found)
        raise JsonError(f"{where}: {name} is {shown}, not {words}: mend or remove it")
    for key, of in members.items():
        if key in found and (found[key] is not None or isinstance(of, Mapping)):
            require(where, found[key], of, key if name == "it" else f"{name}.{key}")
    return found


def _number(text: str) -> float:
    if not math.isfinite(float(text)):
        raise ValueError(f"{text:.20} is no finite number")
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _check(value: Any, depth: int) -> None:
    """Raises ValueError if a value nests deeper than `depth`, or has a text that is no Unicode."""
    if not depth:
        raise ValueError("it nests too deeply")
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, dict | list):
        for one in (*value, *value.values()) if isinstance(value, dict) else value:
            _check(one, depth - 1)
