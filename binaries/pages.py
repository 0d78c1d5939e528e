"""Writes what pages repeat of the code: tables of hyperparameters, and Kubernetes files.

    make pages                                      # or python -m binaries.pages

Prints the names of the files that it changes.
"""

import pathlib

from binaries import apex_dpg, apex_dqn, aql, d4pg, reactor, refer
from common.program import hyperparameters, kubernetes
from common.reporting.command_line import Parser, exit_with
from common.reporting.user_error import UserError
from reproductions.apex import deployment as apex_deployment
from reproductions.aql import deployment as aql_deployment
from reproductions.d4pg import deployment as d4pg_deployment
from reproductions.reactor import deployment as reactor_deployment

REPRODUCTIONS = pathlib.Path(__file__).parents[1] / "reproductions"

READMES = {
    "apex/dpg": apex_dpg.PROGRAM,
    "apex/dqn": apex_dqn.PROGRAM,
    "aql": aql.PROGRAM,
    "d4pg": d4pg.PROGRAM,
    "reactor": reactor.PROGRAM,
    "refer": refer.PROGRAM,
}
"""Programs whose hyperparameters stand in the README of a directory."""

DEPLOYMENTS = {
    "apex": (apex_dqn.PROGRAM, apex_deployment.DEPLOYMENT),
    "aql": (aql.PROGRAM, aql_deployment.DEPLOYMENT),
    "d4pg": (d4pg.PROGRAM, d4pg_deployment.DEPLOYMENT),
    "reactor": (reactor.PROGRAM, reactor_deployment.DEPLOYMENT),
}
"""Programs with a kubernetes.yaml in a directory, and what it says."""


def pages() -> dict[pathlib.Path, str]:
    """Returns the text that each of these files should have."""
    made = {}
    for directory, program in READMES.items():
        path = REPRODUCTIONS / directory / "README.md"
        made[path] = hyperparameters.with_table(path, program)
    for directory, (program, deployment) in DEPLOYMENTS.items():
        path = REPRODUCTIONS / directory / "kubernetes.yaml"
        made[path] = kubernetes.manifest(program, deployment)
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
