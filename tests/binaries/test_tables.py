"""`binaries.tables` as its user meets it."""

import shutil

from common.experiments.registry import RESULTS
import pytest

from binaries import tables


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
        (["--all", "--scale=two_core"], 'no paper has a scale "two_core": there are paper'),
        (["--paper=d4pg", "--table=2", "--scale=huge"], "D4PG has no scale huge"),
        (["--all", "--table=1"], "leave --table out"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(tmp_path, capsys, flags, words):
    with pytest.raises(SystemExit) as ended:
        tables.main([*flags, f"--runs={RESULTS / 'runs'}", f"--output={tmp_path}"])
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and out == "" and err.count("\n") == 1 and words in err


def test_a_malformed_reported_row_is_named_and_the_other_tables_are_written(tmp_path, capsys):
    reported = tmp_path / "reported"
    shutil.copytree(RESULTS / "reported", reported)
    (reported / "apex.csv").write_text((reported / "apex.csv").read_text() + "apex,table")
    line = len((reported / "apex.csv").read_text().splitlines())
    tables.main(["--all", f"--runs={tmp_path}", f"--reported={reported}", f"--output={tmp_path}/t"])
    out, err = capsys.readouterr()
    assert err.startswith("warning: ") and err.count("\n") == 1 and f"apex.csv:{line}" in err
    assert "reactor_table_5.md" in out and "apex_table_2.md" in out
