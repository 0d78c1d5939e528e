"""`binaries.claims` as its user meets it."""

import io
import subprocess
import sys

import pandas
from planted_curves import plant_run
import pytest
from refusals import refusal

from binaries import claims
from common.experiments import overview
from common.experiments.claims import Basis, Verdict
from common.experiments.lacking import planned_budget
from common.experiments.paper import RESULTS
import reproductions

HERE = [f"--runs={RESULTS / 'runs'}", f"--benchmarks={RESULTS / 'benchmarks'}"]


def test_all_claims_with_verdict_evidence_and_rule(tmp_path, capsys):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{overview.BEGIN}\nold\n{overview.END}\nafter\n")
    claims.main([*HERE, f"--output={tmp_path}", f"--overview={readme}"])
    out, err = capsys.readouterr()
    assert len(out.split()) == 3 and err == ""
    rows = pandas.read_csv(tmp_path / "claims.csv")
    assert len(rows) >= 40 and rows["paper"].nunique() == 5
    assert set(rows["verdict"]) == set(Verdict)
    assert not rows[["what it says", "source", "evidence", "rule"]].isna().to_numpy().any()
    decided = rows[rows["verdict"] != Verdict.OPEN]
    assert len(decided) >= 8 and (rows["claim"] + rows["paper"]).is_unique
    assert set(rows["decided by"]) == set(Basis)
    text = (tmp_path / "claims.md").read_text()
    assert all(f"| {claim} |" in text for claim in rows["claim"])
    titles = [line for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "## Decided by training runs",
        "## Not decided by all of their runs",
        "## Decided by benchmarks",
        "## Not yet decided",
        "## The papers' own numbers",
        "## Rules",
    ]
    own = text.partition(titles[4])[2].partition(titles[5])[0]
    assert "| replay_size |" in own and "| replay_size |" not in text.partition(titles[4])[0]
    unsure = text.partition(titles[1])[2].partition(titles[2])[0]
    assert all((f"| {row.claim} |" in unsure) == row.complete for row in rows.itertuples())
    assert text.count("<details>") == text.count("</details>") >= 6
    text = readme.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "\nold\n" not in text
    assert "| D4PG " in text and "core hours" in text
    for basis in Basis:
        of = rows[(rows["decided by"] == basis) & (rows["paper"] == "Ape-X")]
        counts = " / ".join(str((of["verdict"] == verdict).sum()) for verdict in Verdict)
        if basis is Basis.RUNS:
            scales = of[of["verdict"] != Verdict.OPEN]["scale"].value_counts()
            counts += "".join(f", {number} at {scale}" for scale, number in scales.items())
        assert f"claims by {basis}" in text and f"| {counts} " in text
    claims.main([*HERE, f"--output={tmp_path}", f"--overview={readme}"])
    assert readme.read_text() == text


def test_claims_of_a_paper_are_printed(capsys):
    claims.main([*HERE, "--paper=reactor", "--scale=paper"])
    out, _ = capsys.readouterr()
    assert "Reactor all_metrics (section 4.1, table 1): DOES NOT HOLD" in out
    assert "Reactor no_op (section 4.1, table 2, footnote 6): HOLDS" in out
    assert "Ape-X DQN" not in out
    assert out.replace("\n", " ").endswith(
        " 11 claims need evidence. By runs: 0 hold, 0 do not, 11 are not yet decided. 14 more are "
        "about the paper's own numbers, which are no evidence of this code: 10 hold, 2 do not, 2 "
        "are not yet decided. "
    )


def test_a_terminal_sees_which_claim_is_judged_and_lines_of_its_width(capsys, monkeypatch):
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "57")
    claims.main([*HERE, "--paper=reactor", "--scale=paper"])
    assert "0 of 25 claims judged: Reactor " in terminal.getvalue()
    assert "25 of 25 claims judged" in terminal.getvalue()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 57 and "\n  " in "\n".join(lines)


def test_a_verdict_says_its_scale_everywhere(tmp_path, capsys):
    paper = reproductions.paper("d4pg")
    budget = planned_budget(paper, paper.experiment("section 4"), "small")
    for setting, level in (("d4pg_prioritized_n5", 800), ("d4pg_prioritized_n5_ou", 600)):
        for task in paper.experiment("section 4").at("small").environments:
            for seed in range(3):
                returns = [0] + [level + seed] * 9
                plant_run(
                    tmp_path / "runs", setting, task, seed, returns, budget=budget, scale="small"
                )
    where = [f"--runs={tmp_path / 'runs'}", HERE[1], "--paper=d4pg"]
    claims.main(where)
    out = " ".join(capsys.readouterr().out.split())
    assert "D4PG noise (section 4): HOLDS AT THE SCALE SMALL" in out
    assert "By runs: 1 hold, 0 do not, " in out and "Of those decided, 1 at the scale small" in out
    claims.main([*where, f"--output={tmp_path}"])
    text = (tmp_path / "claims.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("| D4PG | noise | Ornst")]
    words = "| holds at the scale small | ahead, exploratory | 4 of 16 tasks, 3 seeds | +20.0 % ("
    assert words in row


@pytest.mark.parametrize("program", ["claims", "tables"])
def test_a_reader_may_leave(tmp_path, program):
    flags = {
        "claims": ["--paper=aql"],
        "tables": ["--paper=reactor", "--table=5", f"--output={tmp_path}"],
    }[program]
    with subprocess.Popen(
        [sys.executable, "-u", "-m", f"binaries.{program}", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize(
    "flags, words",
    [
        (["--paper=nobody"], 'unknown paper "nobody"'),
        (["--paper=d4pg", "--scale=huge"], 'D4PG: no scale "huge", there are paper, '),
        (["--scale=two_core"], 'no scale "two_core", there are paper, '),
        (["--runs={tmp}/none"], "there are no runs: "),
        (["--benchmarks={tmp}/none"], "/none is no directory"),
        (["--paper=d4pg", "--overview=README.md"], "leave --paper and --scale out"),
        (["--overview={tmp}/none.md"], "none.md"),
        (["--overview={tmp}/plain.md"], "has no place for the overview"),
    ],
)
def test_mistakes_are_said_in_one_line(tmp_path, capsys, flags, words):
    (tmp_path / "plain.md").write_text("nothing\n")
    flags = [flag.format(tmp=tmp_path) for flag in flags]
    where = [f"--runs={tmp_path}", f"--benchmarks={tmp_path}", f"--output={tmp_path}"]
    assert words in refusal(capsys, claims.main, *where, *flags)
