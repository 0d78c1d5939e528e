"""Reported and reproduced."""

import importlib.util
import sys

from planted_curves import plant_run, planting

from common import environments
from common.evidence import tables
from common.evidence.atari_scores import among_others
from common.evidence.reported import Reported
from common.evidence.runs import KeptRuns
import reproductions

NUMBERS = Reported()
APEX, REACTOR = reproductions.paper("apex"), reproductions.paper("reactor")


def build(paper, name, root, scale="paper"):
    runs = KeptRuns(root).of(paper.name, scale)
    return tables.build(paper, paper.experiment(name), scale, runs, NUMBERS)


def test_without_runs_there_are_no_columns_of_ours():
    table = tables.build(APEX, APEX.experiment("table 2"), None, (), NUMBERS)
    assert len(table.rows) == 57 and table.rows.loc["alien", "No-op starts"] == "40804.9"
    assert list(table.rows) == ["No-op starts", "Human starts"] and "Ours" not in table.note
    assert table.summary.loc["No-op starts"].tolist()[:2] == ["57", "4.34"]
    assert table.summary.loc["Human starts"].tolist() == ["57", "3.58", "18.03", "", ""]
    assert "no runs yet" in tables.page(table).lower()


def test_scores_stand_beside_reported_ones_with_frames_and_seeds(tmp_path):
    run = {"paper": "apex", "scale": "paper", "steps": 1_000_000}
    for seed, score in enumerate((14.0, 15.2)):
        plant_run(tmp_path, "dqn", "atari:pong", seed, [score] * 4, **run)
    table = build(APEX, "table 2", tmp_path)
    pong = ["20.9", "14.6", "-6.3", "4,000,000", "2", "10", "dqn", "18.7"]
    assert table.rows.loc["pong"].tolist() == pong
    assert table.rows.loc["alien", f"No-op starts: {tables.OURS}"] == ""
    ours = table.summary.loc["No-op starts, ours"]
    assert (ours["games"], ours["median"]) == ("1", "1.00")
    assert "| pong" in tables.page(table) and "\npong,20.9,14.6,-6.3," in tables.csv(table)


def test_columns_of_human_starts_take_the_episodes_from_starts(tmp_path):
    run = {"paper": "apex", "scale": "paper", "from_starts": (10.0, 12.0)}
    for seed in (0, 1):
        plant_run(tmp_path, "dqn", "atari:pong", seed, [20.0] * 4, **run)
    plant_run(tmp_path, "dqn", "atari:qbert", 0, [9.0] * 4, paper="apex", scale="paper")
    table = build(APEX, "table 2", tmp_path)
    pong, qbert = table.rows.loc["pong"], table.rows.loc["qbert"]
    names = [f"Human starts: {name}" for name in (tables.OURS, "seeds", "episodes")]
    assert pong[names].tolist() == ["11.0", "2", "2"] and pong["No-op starts: ours"] == "20.0"
    assert qbert[names].tolist() == ["", "", ""] and qbert["No-op starts: ours"] == "9.0"
    assert "Where the paper has human starts, ours are states of a robot." in table.note
    ours = table.summary.loc["Human starts, ours"]
    assert ours["median"] == f"{(11 + 18) / (15.5 + 18):.2f}" and ours["Elo"] == ""


def test_medians_from_human_starts_are_by_the_scores_from_these(tmp_path):
    printed = NUMBERS.table("apex", "table 2")
    with planting(tmp_path, "apex", "paper") as plant:
        for game, row in printed.iterrows():
            starts = (row["Human starts"],)
            plant("dqn", f"atari:{game}", 0, [row["No-op starts"]], from_starts=starts)
    ours = build(APEX, "table 1", tmp_path).rows.loc["Ape-X DQN"]
    assert ours["Median (no-op starts): ours"] == "434"
    assert ours["Median (human starts): ours"] == "358"


def test_a_table_whose_own_columns_the_text_has_lost_shows_ours(tmp_path):
    run = {"paper": "reactor", "scale": "paper", "from_starts": (10.0, 12.0)}
    plant_run(tmp_path, "reactor", "atari:pong", 0, [20.0] * 4, **run)
    pong = build(REACTOR, "table 4", tmp_path).rows.loc["pong"]
    assert pong["Human [score]"] == "15.5"
    assert pong["Reactor"] == "" and pong["Reactor: ours"] == "11"
    assert "Reactor ND: ours" not in pong


def test_only_columns_with_numbers_of_ours_are_there_and_few_rows_are_named(tmp_path):
    plant_run(tmp_path, "reactor", "atari:pong", 0, [14.0] * 4, paper="reactor", scale="paper")
    table = build(REACTOR, "table 5", tmp_path)
    ours = [name for name in table.rows if ": " in name]
    names = (tables.OURS, tables.DIFFERENCE, "frames", "seeds", "episodes", "setting")
    assert ours == [f"Reactor: {name}" for name in names]
    assert table.note.startswith("Runs of the scale paper, in these rows: pong.")


def test_units_stand_with_the_columns_or_in_the_note():
    table = tables.build(APEX, APEX.experiment("table 1"), None, (), NUMBERS)
    with_units = [name for name in table.rows if "[" in name]
    assert with_units == [
        "Training time [days]",
        "Median (no-op starts) [percent]",
        "Median (human starts) [percent]",
    ]
    assert "| Training time [days] " in tables.page(table)
    assert tables.csv(table).startswith(",Training time [days],Environment frames (per game),")
    scores = tables.build(APEX, APEX.experiment("table 2"), None, (), NUMBERS)
    assert list(scores.rows) == ["No-op starts", "Human starts"] and scores.note.endswith(
        "Unit: score."
    )


def test_runs_of_too_few_games_are_said_to_be(tmp_path):
    run = {"paper": "reactor", "scale": "paper"}
    plant_run(tmp_path, "reactor", "atari:pong", 0, [14.0] * 4, **run)
    plant_run(tmp_path, "reactor", "atari:qbert", 0, [], **run)
    note = build(REACTOR, "table 2", tmp_path).note
    assert "Runs of 2 of 57 tasks at the scale paper: not enough" in note
    assert "runs without an evaluation of their final parameters: qbert." in note


def test_time_frames_and_hardware_are_of_the_runs_that_there_are(tmp_path):
    run = {"paper": "apex", "scale": "paper", "gpus": ["a", "b"], "cores": 16}
    for game, days in (("pong", 4), ("qbert", 5)):
        size = {"seconds": days * 86_400, "steps": 10_000_000}
        plant_run(tmp_path, "dqn", f"atari:{game}", 0, [14.0] * 4, **size, **run)
    rows = build(APEX, "table 1", tmp_path).rows
    ours = {name.removesuffix(": ours"): rows[name] for name in rows if name.endswith(": ours")}
    assert {name: column["Ape-X DQN"] for name, column in ours.items()} == {
        "Training time": "4.5",
        "Environment frames (per game)": "40.0M",
        "Resources: cores": "16",
        "Resources: GPUs": "2",
        "Games": "2",
    }
    assert rows.loc["Ape-X DQN", "Environment frames (per game): difference"] == "-22760.0M"


def test_sums_over_all_games_stand_beside_the_reported_ones(tmp_path):
    scores = NUMBERS.table("reactor", "table 5")["Reactor"]
    with planting(tmp_path, "reactor", "paper") as plant:
        for game, score in scores.items():
            plant("reactor", f"atari:{game}", 0, [score] * 2)
    rows = build(REACTOR, "table 2", tmp_path).rows
    assert rows.loc["Reactor", "Normalized scores: ours"] == "1.87"
    assert rows.loc["Reactor", "Normalized scores: difference"] == "-0.00"
    assert rows.loc["Reactor", "Mean rank: ours"] == "4.51"
    assert rows.loc["Reactor", "Elo: ours"] == "194"
    assert rows.loc["Reactor ND", "Elo: ours"] == ""


def test_an_agent_is_ranked_among_the_others_of_its_games():
    best = NUMBERS.table("reactor", "table 5")[["Reactor"]].assign(Ours=1e9)["Ours"]
    field = NUMBERS.table("reactor", "table 5")
    row = among_others("Ours", best.head(3), field)
    assert row["games"] == 3 and row["mean rank"] == 1 and row.isna()["Elo"]
    assert among_others("Ours", best.head(0), field)["games"] == 0


def test_our_hand_has_the_observations_of_the_paper(monkeypatch):
    d4pg = reproductions.paper("d4pg")

    def rows():
        table = tables.build(d4pg, d4pg.experiment("table 2"), None, (), NUMBERS)
        assert table.rows.loc["Total", "Catch"] == "70" and table.summary is None
        return table.rows

    if importlib.util.find_spec("myosuite"):
        found = rows()
        for name in ("Size", "Catch", "Pick-up-and-orient", "Rotate-in-hand"):
            ours = found[f"{name}: ours"]
            assert (ours != "").sum() == (9 if name == "Size" else 1)
            assert set(found[f"{name}: difference"]) == {"", "+0"}

    # Without MuJoCo the suite itself cannot be imported.
    monkeypatch.delattr(environments, "hand_suite", raising=False)
    monkeypatch.setitem(sys.modules, "common.environments.hand_suite", None)
    assert list(rows()) == ["Size", "Catch", "Pick-up-and-orient", "Rotate-in-hand"]


def test_bars_in_names_do_not_break_a_markdown_table():
    d4pg = reproductions.paper("d4pg")
    text = tables.page(tables.build(d4pg, d4pg.experiment("table 1"), None, (), NUMBERS))
    header, _, first = text.splitlines()[4:7]
    assert header.replace(r"\|", "").count("|") == first.count("|")
    assert "manipulator:bring_ball" in text and "+7" in text
