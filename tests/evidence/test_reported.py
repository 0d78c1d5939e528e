"""The files in results/reported: whole, consistent, and refused where they are not."""

import math
import re

import pytest

from common.evidence import reported
from common.evidence.reported import Reported, ReportedError
from common.reporting.csv_rows import CsvError

REPORTED = Reported()
HEADER = ",".join(reported.COLUMNS)
GOOD = "apex,table 1,DQN,Training time,9.5,days"


def _write(directory, *lines, end="\n"):
    (directory / "apex.csv").write_text("\n".join((HEADER, *lines)) + end)
    return directory


# The files


PAPERS = {"apex": 284, "reactor": 939, "d4pg": 125, "refer": 130, "aql": 92}
"""Number of rows."""


@pytest.mark.parametrize("paper, rows", PAPERS.items())
def test_every_row_of_a_paper_is_well_formed(paper, rows):
    assert (reported.DIRECTORY / f"{paper}.csv").read_text().endswith("\n")
    table = REPORTED.rows(paper)
    assert len(table) == rows and set(table["paper"]) == {paper}
    assert not table.duplicated(["source", "row", "column"]).any()
    assert (table[list(reported.COLUMNS)].map(str.strip) != "").all(axis=None)


@pytest.mark.parametrize(
    "paper, source, shape, cells",
    [
        ("apex", "table 1", (8, 8), 39),
        ("apex", "table 2", (57, 2), 114),
        ("reactor", "table 1", (12, 3), 36),
        ("reactor", "table 2", (12, 3), 34),
        ("reactor", "table 4", (57, 2), 114),
        ("reactor", "table 5", (57, 11), 627),
        ("reactor", "figure 2", (9, 3), 27),
        ("d4pg", "table 1", (16, 3), 48),
        ("d4pg", "table 2", (10, 4), 12),
    ],
)
def test_tables_are_complete(paper, source, shape, cells):
    table = REPORTED.table(paper, source, cells="value")
    assert (table.shape, table.notna().sum().sum()) == (shape, cells)


def test_only_what_is_no_single_number_has_no_number():
    texts = set()
    for paper in PAPERS:
        rows = REPORTED.rows(paper)
        texts |= set(rows["value"][rows["number"].isna() & (rows["source"] != "table 3")])
    others = {"unknown", "< 1", "< 2", "10+1", "20+1", "CPU", "GPU", "5^D"}
    assert all(re.search("[/^]", text) for text in texts - others) and others <= texts


def test_the_papers_and_the_references_name_the_same_57_games():
    games = list(REPORTED.atari_scores().index)
    assert len(set(games)) == 57 and REPORTED.atari_scores().notna().all(axis=None)
    assert sorted(REPORTED.table("apex", "table 2").index) == games
    assert sorted(REPORTED.table("reactor", "table 5").index) == games


@pytest.mark.parametrize("source, from_human_starts", [("table 5", False), ("table 4", True)])
def test_reactors_random_and_human_columns_are_the_references(source, from_human_starts):
    table = REPORTED.table("reactor", source)[["Random", "Human"]]
    references = REPORTED.atari_scores(from_human_starts)
    assert table.loc[references.index].to_numpy().tolist() == references.to_numpy().tolist()


def test_the_numbers_of_a_paper_agree_with_each_other():
    apex, dqn = ("apex", "section 4.1", "Ape-X DQN"), REPORTED.number
    frames = dqn(*apex, "frames per second of all actors")
    assert dqn(*apex, "transitions per second of all actors") == frames / 4
    actors = dqn(*apex, "actors") * dqn(*apex, "frames per second of an actor")
    assert actors == pytest.approx(frames, rel=0.005)
    learned = dqn(*apex, "batch size") * dqn(*apex, "batches per second")
    assert dqn(*apex, "transitions learned from per second") == pytest.approx(learned, rel=0.005)

    sizes = REPORTED.table("d4pg", "table 2")
    always = sizes["Size"].filter(regex="^(Hand|Object)").sum()
    assert sizes.loc["Total", "Catch"] == always
    assert sizes.loc["Total", "Pick-up-and-orient"] == always + 3 + 4
    assert sizes.loc["Total", "Rotate-in-hand"] == always + 2

    # ReF-ER, section 5.1: 2 d_A / sigma^2; appendix E: (d_A^2 + d_A) / 2 and 1 + 2 d_A outputs.
    for task, dimensions in (("Humanoid", 17), ("Walker", 6)):
        greatest = REPORTED.number("refer", "section 5.1", task, "greatest D_KL")
        assert greatest == pytest.approx(2 * dimensions / 0.2**2)
    outputs = REPORTED.table("refer", "appendix E").loc["Humanoid tasks"].dropna().tolist()
    assert outputs == [17, (17**2 + 17) / 2, 1 + 2 * 17]

    lab = REPORTED.table("aql", "section 5.2")
    assert lab.loc["large action set", "actions"] == 7**2 * 3**2 * 2**3
    steps = lab.loc["DeepMind Lab"]
    assert steps["environment steps per seed"] == 4 * steps["actor steps per seed"]
    replay = REPORTED.table("aql", "appendix A2").loc["all"]
    assert replay["replay size of all actors"] == 100 * replay["replay size of an actor"]


def test_a_table_is_arranged_as_in_the_paper():
    table = REPORTED.table("reactor", "table 2")
    assert list(table.columns) == ["Normalized scores", "Mean rank", "Elo"]
    assert list(table.index[:3]) == ["Random", "Human", "DQN"]
    units = REPORTED.table("apex", "table 1", cells="unit")
    assert units.loc["Rainbow", "Median (no-op starts)"] == "percent"


# Reading


@pytest.mark.parametrize(
    "value, number",
    [("9.5", 9.5), ("-0.4", -0.4), ("1.5e-7", 1.5e-7), ("9.7K", 9700), ("22800M", 2.28e10)],
)
def test_numbers_are_read_as_the_papers_print_them(tmp_path, value, number):
    _write(tmp_path, f"apex,table 1,DQN,x,{value},-")
    assert Reported(tmp_path).rows("apex")["number"].tolist() == [number]


@pytest.mark.parametrize("value", ["unknown", "< 2", "10+1", "GPU", "2^18", '"[84, 84, 1]"'])
def test_what_is_no_number_stays_as_text(tmp_path, value):
    _write(tmp_path, f"apex,table 1,DQN,x,{value},-")
    rows = Reported(tmp_path).rows("apex")
    assert math.isnan(rows["number"][0])
    assert rows["value"][0] == value.strip('"')


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("apex,table 1,DQN,frames,200M", "5 cells for 6 columns"),
        ("apex,table 1,DQN,frames,22,800,frames", "7 cells for 6 columns"),
        ("", "0 cells for 6 columns"),
    ],
)
def test_a_malformed_row_is_named(tmp_path, line, complaint):
    _write(tmp_path, GOOD, line, "apex,table 1,UNREAL,frames,250M,frames")
    with pytest.raises(CsvError) as error:
        Reported(tmp_path).rows("apex")
    assert str(error.value) == f"{tmp_path / 'apex.csv'}:3: {complaint}"


def test_a_missing_name_is_said(tmp_path):
    numbers = Reported(_write(tmp_path, GOOD))
    with pytest.raises(ReportedError, match="no .*rainbow.csv; reported is: apex"):
        numbers.rows("rainbow")
    with pytest.raises(ReportedError, match="apex.csv has no source 'table 3'"):
        numbers.table("apex", "table 3")
    for row, column in (("dqn", "Training time"), ("DQN", "time")):
        with pytest.raises(ReportedError, match=rf"no number for {row} \| {column}"):
            numbers.number("apex", "table 1", row, column)
    with pytest.raises(ReportedError, match="no number for Gorila DQN"):
        REPORTED.number("apex", "table 1", "Gorila DQN", "Resources: cores")


def test_a_file_of_something_else_is_refused(tmp_path):
    (tmp_path / "apex.csv").write_text("paper,value\napex,1\n")
    with pytest.raises(CsvError, match="apex.csv:1: the header has no column source, row, column"):
        Reported(tmp_path).rows("apex")
