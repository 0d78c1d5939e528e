"""The flags of a paper's hyperparameters: `--setting` and `--config.NAME`.

This module imports neither TensorFlow nor NumPy: the launcher stays light.
"""

from collections.abc import Collection, Iterable
import difflib
import re
import sys

from absl import flags
from ml_collections import config_flags

from common.config import Settings, help_of
from common.program import flag_errors
from common.reporting.command_line import fail

flags.disclaim_key_flags()  # --help lists them as the program's own


def define_config(
    settings: Settings, flag_values: flags.FlagValues = flags.FLAGS
) -> flags.FlagHolder:
    """Defines `--setting`, and `--config.NAME` for each hyperparameter.

    Ends the program with one line if the command line names an unknown setting or hyperparameter.

    Args:
      settings: those of the paper; `--config.NAME` changes single values of the chosen one.
      flag_values: the flags to add to.

    Returns:
      The holder of the configuration.
    """
    setting, others = _read_setting(settings.default)
    if setting not in settings.names:
        hint = _hint(_near_setting(setting, settings))
        fail(f"unknown --setting={setting}: {hint}all are {', '.join(settings.names)}")
    flags.DEFINE_enum(
        "setting",
        settings.default,
        list(settings.names),
        "A variant of the paper; --config.NAME changes single values of it.",
        flag_values=flag_values,
    )
    config = settings.configuration(setting)
    texts = help_of(settings.config_class)
    _refuse_unknown_fields(others, texts)
    described = (f"--config.{name}={getattr(config, name)}: {text}" for name, text in texts.items())
    help_text = "\n".join(["Hyperparameters; sections are those of the paper.", *described])
    return config_flags.DEFINE_config_dataclass("config", config, help_text, flag_values)


def _read_setting(default: str) -> tuple[str, list[str]]:
    """Returns --setting and the other arguments, those of flag files included.

    The setting decides the defaults of --config, so it is read before the flags are defined.
    """
    early = flags.FlagValues()
    early.set_gnu_getopt()
    setting = flags.DEFINE_string("setting", default, "", flag_values=early)
    try:
        others = early(sys.argv, known_only=True)
    except flags.Error as error:
        fail(flag_errors.in_words(error))
    except UnicodeDecodeError as error:
        fail(f"a file of --flagfile is no text ({error})")
    if any("\0" in one for one in others):
        fail("a file of --flagfile is no text: it has the character NUL")
    return setting.value, others


def _near_setting(name: str, settings: Settings) -> list[str]:
    """Returns the setting that is, or begins, most like `name`; the default one among equals."""

    def likeness(other: str) -> float:
        beginning = other[: len(name)]
        return max(difflib.SequenceMatcher(None, name, one).ratio() for one in (other, beginning))

    nearest = max((settings.default, *settings.names), key=likeness)
    return [nearest] if likeness(nearest) >= 0.6 else []


def _refuse_unknown_fields(arguments: Iterable[str], names: Collection[str]) -> None:
    """Ends the program on an unknown `--config.NAME`, on which ml_collections raises a KeyError."""
    for argument in arguments:
        match = re.match(r"--?(?:no)?config\.([^=]*)", argument)
        if match and match[1] not in names:
            near = difflib.get_close_matches(match[1], names, n=3)
            hint = _hint([f"--config.{name}" for name in near])
            fail(f"unknown flag --config.{match[1]}: {hint}--help lists them all")


def _hint(near: Collection[str]) -> str:
    return f"did you mean {' or '.join(near)}? " if near else ""
