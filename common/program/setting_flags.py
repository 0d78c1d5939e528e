"""The flags of a paper's hyperparameters: `--setting` and `--config.NAME`.

This module imports neither TensorFlow nor NumPy: the launcher stays light.
"""

from collections.abc import Callable, Sequence
import dataclasses
import difflib
import re
import sys
from typing import Any

from absl import flags
from ml_collections import config_flags

from common.reporting.command_line import fail

flags.disclaim_key_flags()  # they are those of the program that defines them


def define_config(
    setting_names: Sequence[str], default: str, configuration: Callable[[str], Any]
) -> flags.FlagHolder:
    """Defines `--setting`, and `--config.NAME` for each field of its dataclass.

    A setting is a configuration with a name; `--config.NAME` changes what it says. The fields'
    metadata hold their `help`. Ends the program with one line if the command line names a setting
    or a field that there is not.
    """
    setting = _setting_in_command_line(default)
    if setting not in setting_names:
        near = difflib.get_close_matches(setting, setting_names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        fail(f"unknown --setting={setting}: {hint}all are {', '.join(setting_names)}")
    flags.DEFINE_enum(
        "setting",
        default,
        list(setting_names),
        "A variant of the paper; --config.NAME changes single values of it.",
    )
    config = configuration(setting)
    fields = dataclasses.fields(config)
    _refuse_unknown_fields([field.name for field in fields])
    described = (
        f"--config.{field.name}={getattr(config, field.name)}: {field.metadata['help']}"
        for field in fields
    )
    help_text = "\n".join(["Hyperparameters; sections are those of the paper.", *described])
    return config_flags.DEFINE_config_dataclass("config", config, help_text)


def _arguments() -> list[str]:
    """The command line with flag files read: a flag's default may hang on another flag."""
    try:
        return flags.FLAGS.read_flags_from_files(sys.argv[1:])
    except flags.Error as error:
        fail(str(error))


def _setting_in_command_line(default: str) -> str:
    setting, arguments = default, _arguments()
    for argument, following in zip(arguments, [*arguments[1:], ""]):
        if argument == "--":
            break
        match = re.fullmatch(r"--?setting(?:=(.*))?", argument)
        if match:
            setting = following if match[1] is None else match[1]
    return setting


def _refuse_unknown_fields(names: list[str]) -> None:
    """ml_collections reads the command line when the flag is defined, and raises a KeyError."""
    for argument in _arguments():
        match = re.match(r"--?(?:no)?config\.([^=]*)", argument)
        if match and match[1] not in names:
            near = difflib.get_close_matches(match[1], names, n=3)
            hint = "did you mean " + " or ".join(f"--config.{name}" for name in near) + "? "
            fail(f"unknown flag --config.{match[1]}: {hint if near else ''}--help lists them all")
