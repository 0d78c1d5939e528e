"""The table of an agent's hyperparameters in its README. This module imports no TensorFlow."""

import dataclasses
import json
import pathlib
import re

from common.agents.declaration import AgentDeclaration
from common.config import allowed_values, help_of
from common.reporting.user_error import UserError

_BEGIN = "<!-- hyperparameters: written by make pages -->\n"
_END = "<!-- end of hyperparameters -->\n"
_HEAD = "| `--config.` | Default | Allowed | Meaning and source |\n|---|---|---|---|\n"


def with_table(page: pathlib.Path, agent: AgentDeclaration) -> str:
    """Returns a README's text with a new table between its two markers.

    Args:
      page: the README.
      agent: whose hyperparameters and number of actors are listed.

    Raises:
      UserError: the markers are missing, or there are several.
    """
    found = re.split(f"({_BEGIN}|{_END})", page.read_text())
    if found[1::2] != [_BEGIN, _END]:
        raise UserError(
            f'{page} has no place for hyperparameters: give it one line "{_BEGIN.strip()}" and, '
            f'below, one "{_END.strip()}"'
        )
    before, begin, _, end, after = found
    return f"{before}{begin}\n{table(agent)}\n{end}{after}"


def table(agent: AgentDeclaration) -> str:
    """Returns the table in Markdown: name, default, allowed values, meaning and source."""
    settings = agent.settings
    texts = help_of(settings.config_class)
    rows = [
        (each.name, each.default, allowed_values(each), texts[each.name])
        for each in dataclasses.fields(settings.config_class)
    ]
    actors = agent.num_actors(settings.configuration(settings.default), settings.default)
    rows.append((f"--{agent.num_actors_flag}", actors, "at least 1", agent.num_actors_help))
    lines = []
    for name, default, allowed, text in rows:
        text = text.replace("|", r"\|")
        lines.append(f"| `{name}` | `{_literal(default)}` | {allowed} | {text} |\n")
    return _HEAD + "".join(lines)


def _literal(value: object) -> str:
    """Returns a value as a reader would write it: 50_000, 1e-6, "adam"."""
    if isinstance(value, str):
        return json.dumps(value)
    if type(value) is int and value >= 10_000:
        return f"{value:_}"
    return re.sub(r"e-0", "e-", repr(value))
