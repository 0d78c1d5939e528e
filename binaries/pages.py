"""Writes the tables of hyperparameters into the READMEs of the papers.

    make pages                                      # or python -m binaries.pages

Prints the names of the files that it changes.
"""

import pathlib

from common.program import flags
from common.reporting.command_line import Parser, exit_with
from common.reporting.records import with_part
from common.user_error import UserError
from reproductions import declared

BEGIN = "<!-- hyperparameters: written by make pages -->"
END = "<!-- end of hyperparameters -->"
REPRODUCTIONS = pathlib.Path(__file__).parents[1] / "reproductions"


def pages() -> dict[pathlib.Path, str]:
    """Returns the text that each agent's README should have, by path."""
    agents = declared("config", "AGENT").items()
    readmes = {REPRODUCTIONS / folder / "README.md": agent for folder, agent in agents}
    return {
        path: with_part(path, BEGIN, END, flags.table(agent)) for path, agent in readmes.items()
    }


def main(argv: list[str] | None = None) -> None:
    """Writes the files that differ."""
    Parser(prog="python -m binaries.pages", description=__doc__).parse_args(argv)
    for path, text in pages().items():
        if path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(REPRODUCTIONS.parent))


if __name__ == "__main__":
    exit_with(main, (UserError, OSError))
