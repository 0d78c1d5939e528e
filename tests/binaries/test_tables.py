"""`binaries.tables` as its user meets it."""

import shutil

import pytest
from refusals import refusal

from binaries import tables
from common.experiments.paper import RESULTS


def test_a_table_is_written_as_markdown_and_csv(tmp_path, capsys):
    tables.main(["--paper=apex", "--table=2", f"--runs={tmp_path}", f"--output={tmp_path}/new"])
    files = [tmp_path / "new" / f"apex_table_2.{kind}" for kind in ("md", "csv")]
    assert capsys.readouterr().out.split() == list(map(str, files))
    assert "| alien " in files[0].read_text() and "\nalien,40804.9," in files[1].read_text()


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--paper=apex", "--table=7"], "Ape-X has no table 7: there are"),
        (["--paper=apex"], "give --paper and --table, or --all"),
        (
            ["--paper=reactor", "--table=4"],
            "Reactor table 4 (57 Atari games, human starts: scores): "
            "results/reported has no numbers of it: the human starts were never published",
        ),
        (["--all", "--scale=two_core"], 'no scale "two_core", there are paper'),
        (["--all", "--runs=none"], "there are no runs: none is no directory"),
        (["--all", "--reported=none"], "there is no none/apex.csv; reported is: nothing"),
        (["--paper=d4pg", "--table=2", "--scale=huge"], 'D4PG: no scale "huge"'),
        (["--all", "--table=1"], "leave --table out"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(tmp_path, capsys, flags, words):
    own = [f"--runs={RESULTS / 'runs'}", f"--output={tmp_path}"]
    assert words in refusal(capsys, tables.main, *own, *flags)


def test_a_malformed_reported_row_is_named(tmp_path, capsys):
    reported = tmp_path / "reported"
    shutil.copytree(RESULTS / "reported", reported)
    with open(reported / "apex.csv", "a") as file:
        file.write("apex,table\n")
    line = len((reported / "apex.csv").read_text().splitlines())
    flags = [f"--runs={tmp_path}", f"--reported={reported}", f"--output={tmp_path}/t"]
    assert f"apex.csv:{line}: 2 cells for 6" in refusal(capsys, tables.main, "--all", *flags)
