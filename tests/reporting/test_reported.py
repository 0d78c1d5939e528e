"""The files in results/reported: whole, consistent, and refused where they are not."""

import math

import pytest

from common.reporting import reported

HEADER = ",".join(reported.COLUMNS)
GOOD = "apex,table 1,DQN,Training time,9.5,days"


def _write(directory, *lines, end="\n"):
    (directory / "apex.csv").write_text("\n".join((HEADER, *lines)) + end)
    return directory


# The files


@pytest.mark.parametrize(
    "paper, rows", [("apex", 284), ("reactor", 825), ("d4pg", 125), ("refer", 130), ("aql", 92)]
)
def test_every_row_of_a_paper_is_well_formed(paper, rows):
    assert len(reported.read(paper)) == rows


@pytest.mark.parametrize(
    "paper, source, shape, cells",
    [
        ("apex", "table 1", (8, 8), 39),
        ("apex", "table 2", (57, 2), 114),
        ("reactor", "table 1", (12, 3), 36),
        ("reactor", "table 2", (12, 3), 34),
        ("reactor", "table 5", (57, 11), 627),
        ("reactor", "figure 2", (9, 3), 27),
        ("d4pg", "table 1", (16, 3), 48),
        ("d4pg", "table 2", (10, 4), 12),
    ],
)
def test_tables_are_complete(paper, source, shape, cells):
    table = reported.table(paper, source, cells="value")
    assert (table.shape, table.notna().sum().sum()) == (shape, cells)


def test_only_what_is_no_single_number_has_no_number():
    texts = set()
    for paper in reported.PAPERS:
        rows = reported.read(paper)
        texts |= set(rows["value"][rows["number"].isna() & (rows["source"] != "table 3")])
    assert texts == {"unknown", "< 1", "< 2", "10+1", "20+1", "CPU", "GPU", "5^D"}


def test_the_papers_and_the_references_name_the_same_57_games():
    games = list(reported.atari_scores().index)
    assert len(games) == 57
    assert sorted(reported.table("apex", "table 2").index) == games
    assert sorted(reported.table("reactor", "table 5").index) == games


def test_reactors_random_and_human_columns_are_the_references():
    table = reported.table("reactor", "table 5")[["Random", "Human"]]
    references = reported.atari_scores()
    assert table.loc[references.index].to_numpy().tolist() == references.to_numpy().tolist()


def test_the_numbers_of_a_paper_agree_with_each_other():
    apex, dqn = ("apex", "section 4.1", "Ape-X DQN"), reported.number
    frames = dqn(*apex, "frames per second of all actors")
    assert dqn(*apex, "transitions per second of all actors") == frames / 4
    actors = dqn(*apex, "actors") * dqn(*apex, "frames per second of an actor")
    assert actors == pytest.approx(frames, rel=0.005)
    learned = dqn(*apex, "batch size") * dqn(*apex, "batches per second")
    assert dqn(*apex, "transitions learned from per second") == pytest.approx(learned, rel=0.005)

    sizes = reported.table("d4pg", "table 2")
    always = sizes["Size"].filter(regex="^(Hand|Object)").sum()
    assert sizes.loc["Total", "Catch"] == always
    assert sizes.loc["Total", "Pick-up-and-orient"] == always + 3 + 4
    assert sizes.loc["Total", "Rotate-in-hand"] == always + 2

    # ReF-ER, section 5.1: 2 d_A / sigma^2; appendix E: (d_A^2 + d_A) / 2 and 1 + 2 d_A outputs.
    for task, dimensions in (("Humanoid", 17), ("Walker", 6)):
        greatest = reported.number("refer", "section 5.1", task, "greatest D_KL")
        assert greatest == pytest.approx(2 * dimensions / 0.2**2)
    outputs = reported.table("refer", "appendix E").loc["Humanoid tasks"].dropna().tolist()
    assert outputs == [17, (17**2 + 17) / 2, 1 + 2 * 17]

    lab = reported.table("aql", "section 5.2")
    assert lab.loc["large action set", "actions"] == 7**2 * 3**2 * 2**3
    steps = lab.loc["DeepMind Lab"]
    assert steps["environment steps per seed"] == 4 * steps["actor steps per seed"]
    replay = reported.table("aql", "appendix A2").loc["all"]
    assert replay["replay size of all actors"] == 100 * replay["replay size of an actor"]


def test_a_table_is_arranged_as_in_the_paper():
    table = reported.table("reactor", "table 2")
    assert list(table.columns) == ["Normalized scores", "Mean rank", "Elo"]
    assert list(table.index[:3]) == ["Random", "Human", "DQN"]
    units = reported.table("apex", "table 1", cells="unit")
    assert units.loc["Rainbow", "Median (no-op starts)"] == "percent"


# Reading


@pytest.mark.parametrize(
    "value, number",
    [("9.5", 9.5), ("-0.4", -0.4), ("1.5e-7", 1.5e-7), ("9.7K", 9700), ("22800M", 2.28e10),
     ("0.00025 / 4", 6.25e-5), ("2^18", 262144), ("2^-10", 2**-10), ("2/3", 2 / 3)],
)  # fmt: skip
def test_numbers_are_read_as_the_papers_print_them(tmp_path, value, number):
    _write(tmp_path, f"apex,table 1,DQN,x,{value},-")
    assert reported.read("apex", directory=tmp_path)["number"].tolist() == [number]


@pytest.mark.parametrize("value", ["unknown", "< 2", "10+1", "GPU", "1/0", '"[84, 84, 1]"'])
def test_what_is_no_number_stays_as_text(tmp_path, value):
    _write(tmp_path, f"apex,table 1,DQN,x,{value},-")
    rows = reported.read("apex", directory=tmp_path)
    assert math.isnan(rows["number"][0])
    assert rows["value"][0] == value.strip('"')


@pytest.mark.parametrize(
    "line, complaint",
    [
        ("apex,table 1,DQN,frames,200M", "5 cells instead of 6"),
        ("apex,table 1,DQN,frames,22,800,frames", "7 cells instead of 6"),
        ("apex,table 1,DQN,frames,,frames", "nothing for value"),
        ("", "0 cells instead of 6"),
        ('apex,table 1,"DQN,frames,1,frames', "unexpected end of data"),
        ("d4pg,table 1,DQN,frames,1,frames", "the paper is 'd4pg', not 'apex'"),
        (GOOD, "table 1 | DQN | Training time stands in line 2 already"),
    ],
)
def test_a_malformed_row_is_named_and_the_rest_is_there_for_who_wants_it(tmp_path, line, complaint):
    _write(tmp_path, GOOD, line, "apex,table 1,UNREAL,frames,250M,frames")
    with pytest.raises(reported.ReportedError) as error:
        reported.read("apex", directory=tmp_path)
    assert f"{tmp_path / 'apex.csv'}:3: " in str(error.value)
    assert complaint in str(error.value)

    complaints = []
    rows = reported.read("apex", directory=tmp_path, on_malformed=complaints.append)
    assert rows["row"].tolist() == ["DQN", "UNREAL"]
    assert complaints == [str(error.value)]


def test_a_line_that_was_cut_off_is_malformed(tmp_path):
    _write(tmp_path, GOOD, "apex,table 1,UNREAL,frames,250M,fra", end="")
    with pytest.raises(reported.ReportedError, match="apex.csv:3: malformed row: it is cut off"):
        reported.read("apex", directory=tmp_path)


def test_what_is_not_there_is_answered_with_what_is(tmp_path):
    _write(tmp_path, GOOD)
    with pytest.raises(reported.ReportedError, match="no .*rainbow.csv; reported is: apex"):
        reported.read("rainbow", directory=tmp_path)
    with pytest.raises(reported.ReportedError, match="no source 'table 3'; near ones: table 1"):
        reported.table("apex", "table 3", directory=tmp_path)
    with pytest.raises(reported.ReportedError, match="no row 'dqn'; near ones: DQN"):
        reported.number("apex", "table 1", "dqn", "Training time", directory=tmp_path)
    with pytest.raises(reported.ReportedError, match="no column 'time'; near ones: Training time"):
        reported.number("apex", "table 1", "DQN", "time", directory=tmp_path)
    with pytest.raises(reported.ReportedError, match="no number for Gorila DQN"):
        reported.number("apex", "table 1", "Gorila DQN", "Resources: cores")


def test_files_that_are_something_else_are_refused(tmp_path):
    path = tmp_path / "apex.csv"
    path.write_text("paper,value\napex,1\n")
    with pytest.raises(reported.ReportedError, match="apex.csv:1: the header is 'paper,value'"):
        reported.read("apex", directory=tmp_path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(reported.ReportedError, match="apex.csv is not UTF-8 text"):
        reported.read("apex", directory=tmp_path)


def test_malformed_atari_scores_are_named(tmp_path):
    lines = ("game,random,human,source", "pong,-20.7,14.6,x", "pong,0,1,x", "alien,227.8,n/a,x")
    (tmp_path / "atari_scores.csv").write_text("\n".join(lines) + "\n")
    complaints = []
    scores = reported.atari_scores(directory=tmp_path, on_malformed=complaints.append)
    assert scores.to_dict("index") == {"pong": {"random": -20.7, "human": 14.6}}
    assert [complaint.split("atari_scores.csv:")[1] for complaint in complaints] == [
        "3: pong stands above already",
        "4: '227.8' or 'n/a' is no number",
    ]
