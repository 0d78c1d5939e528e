"""Errors of flags as the one line that people read. This module imports no TensorFlow."""

from collections.abc import Collection
import difflib
import re

from absl import flags

_EXPLAINED = (
    (r"invalid literal for int\(\).*|Exceeds the limit .*", "it must be a whole number"),
    (r"could not convert string to float.*", "it must be a number"),
    (r"\('Non-boolean argument .*", "it must be true or false"),
)
"""(pattern of Python's message about a value, message for people)."""
_CONFIG = "config."
_SIMILAR = 0.65
"""The similarity of a name that may be meant."""
_MOST_VALUE = 60
"""Characters of a value that are shown."""


def in_words(error: flags.Error, known: Collection[str] = ()) -> str:
    """Returns what is wrong with a flag, and with which.

    Args:
      error: of reading the flags.
      known: names of the program's flags, one of which may be meant.
    """
    if isinstance(error, flags.CantOpenFlagFileError) and isinstance(error.__context__, OSError):
        return f"--flagfile={error.__context__.filename}: {error.__context__.strerror}"
    if isinstance(error, flags.UnrecognizedFlagError):
        name, prefix = error.flagname.removeprefix(_CONFIG), len(_CONFIG)
        hyperparameters = [one[prefix:] for one in known if one.startswith(_CONFIG)]
        near = _near(error.flagname, known)
        near += [_CONFIG + one for one in _near(name, hyperparameters)]
        hint = f"did you mean --{near[0]}? " if near else ""
        return f"unknown flag --{error.flagname}: {hint}--help lists them all"
    text = str(error).removeprefix("flag ")
    if value := re.fullmatch(r"(--[^=]+=)(.*?): (.*)", text, re.DOTALL):
        flag, given, reason = value.groups()
        for pattern, words in _EXPLAINED:
            reason = words if re.fullmatch(pattern, reason, re.DOTALL) else reason
        given = given if len(given) <= _MOST_VALUE else f"{given[:_MOST_VALUE]}..."
        text = f"{flag}{given}: {reason}"
    return f"{text} (--help explains each flag)"


def _near(name: str, known: Collection[str]) -> list[str]:
    return difflib.get_close_matches(name, known, 1, _SIMILAR)
