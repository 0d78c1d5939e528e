"""What is committed below results/ is what `make results` makes of runs, reports and benchmarks."""

import re
import shutil

import pytest

from binaries import claims, figures, tables
from common.experiments.paper import RESULTS

ROOT = RESULTS.parent


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory):
    """A directory with the programs' output, by the commands of the Makefile."""
    made = tmp_path_factory.mktemp("results")
    shutil.copy(RESULTS / "README.md", made)
    here = [f"--runs={RESULTS / 'runs'}"]
    target = (ROOT / "Makefile").read_text().partition("\nresults: ")[2].partition("\n\n")[0]
    commands = re.findall(r"\$\(RUN\) -m binaries\.(\w+) (.*)", target)
    assert [name for name, _ in commands] == ["figures", "tables", "claims"]
    for program, (name, flags) in zip((figures, tables, claims), commands):
        own = [flag.replace("=results", f"={made}") for flag in flags.split()]
        if name != "claims":
            own.append(f"--output={made / name}")
        else:
            own.append(f"--benchmarks={RESULTS / 'benchmarks'}")
        program.main([*own, *here])
    return made


@pytest.mark.parametrize("name", ["figures", "tables"])
def test_it_is_made_byte_for_byte_and_nothing_else_is_there(made, name):
    committed = {file.name: file.read_bytes() for file in (RESULTS / name).iterdir()}
    again = {file.name: file.read_bytes() for file in (made / name).iterdir()}
    assert sorted(committed) == sorted(again), "run `make results` and commit what it changes"
    differing = [file for file in again if again[file] != committed[file]]
    assert not differing, "run `make results` and commit what it changes"


def test_the_overview_is_that_of_the_readme(made):
    assert (made / "README.md").read_text() == (RESULTS / "README.md").read_text(), (
        "run `make results` and commit what it changes"
    )


def test_what_the_readmes_show_exists():
    for file in [
        ROOT / "README.md",
        RESULTS / "README.md",
        *(ROOT / "reproductions").glob("*/README.md"),
    ]:
        for link in re.findall(r"\]\(([^)#:]+)\)", file.read_text()):
            assert (file.parent / link).exists(), f"{file}: {link}"
