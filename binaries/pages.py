"""Writes what pages repeat of the code: tables of hyperparameters, and Kubernetes files.

    make pages                                      # or python -m binaries.pages

Prints the names of the files that it changes.
"""

import pathlib

from common.program import flags, kubernetes
from common.reporting.command_line import Parser, exit_with
from common.reporting.user_error import UserError
from reproductions import declared

REPRODUCTIONS = pathlib.Path(__file__).parents[1] / "reproductions"


def pages() -> dict[pathlib.Path, str]:
    """Returns the text that each of these files should have."""
    made = {}
    for folder, agent in declared("config", "AGENT").items():
        path = REPRODUCTIONS / folder / "README.md"
        made[path] = flags.with_table(path, agent)
    for folder, deployment in declared("deployment", "DEPLOYMENT").items():
        made[REPRODUCTIONS / folder / "kubernetes.yaml"] = kubernetes.manifest(deployment)
    return made


def main(argv: list[str] | None = None) -> None:
    """Writes the files that differ."""
    Parser(prog="python -m binaries.pages", description=__doc__).parse_args(argv)
    for path, text in pages().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(REPRODUCTIONS.parent))


if __name__ == "__main__":
    exit_with(main, (UserError, OSError))
