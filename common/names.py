"""Names of environments and wrappers with arguments, such as gym:LunarLander-v3(gravity=-5).

This module imports neither TensorFlow nor NumPy, so that the launcher stays light.
"""

import ast
from collections.abc import Mapping
import contextlib
import json
from typing import Any

_WORDS = {"true": True, "false": False, "null": None, "none": None}


def split(name: str) -> tuple[str, dict[str, Any]]:
    """Returns a name without its arguments, and the arguments.

    Raises:
      ValueError: the part in brackets is not a list of arguments.
    """
    plain, bracket, rest = name.partition("(")
    if not bracket:
        return name, {}
    if not rest.endswith(")"):
        raise ValueError(f"{name} has no closing bracket")
    return plain, arguments_of(rest[:-1])


def arguments_of(text: str) -> dict[str, Any]:
    """Returns the arguments in a text: `gravity=-5,mode=fast,sizes=(1,2)`, or a JSON object.

    A word without quotes is a string, but true, false, null and none are constants in any case.

    Raises:
      ValueError: the text is neither.
    """
    try:
        if text.lstrip().startswith("{"):
            return json.loads(text)
        match ast.parse(f"f({text})", mode="eval").body:
            case ast.Call(ast.Name(), [], keywords) if all(word.arg for word in keywords):
                return {str(word.arg): _value(word.value) for word in keywords}
        raise ValueError
    except (ValueError, SyntaxError):
        raise ValueError(
            f"arguments look like 'gravity=-5,mode=fast' or '{{\"gravity\": -5}}', not {text!r}"
        ) from None


def with_arguments(name: str, arguments: Mapping[str, Any] | str) -> str:
    """Returns a name with arguments added to those that it already has.

    Args:
      name: name of an environment, with or without arguments.
      arguments: Python values by name, such as numbers, strings, lists and None; or a text, see
        `arguments_of`. They replace arguments of the same name.

    Raises:
      ValueError: as for `arguments_of`, or a value is of another type.
    """
    plain, before = split(name)
    added = arguments_of(arguments) if isinstance(arguments, str) else arguments
    together = {**before, **added}
    if not together:
        return plain
    text = ", ".join(f"{key}={value!r}" for key, value in together.items())
    with contextlib.suppress(ValueError):
        if arguments_of(text) == together:
            return f"{plain}({text})"
    raise ValueError(
        "arguments of an environment must be numbers, strings, true, false, null, or lists and "
        f"dictionaries of these, because other processes read them: got {text}"
    )


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return _WORDS.get(node.id.lower(), node.id)
    return ast.literal_eval(node)
