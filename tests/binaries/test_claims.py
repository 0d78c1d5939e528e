"""`binaries.claims` as its user meets it."""

import subprocess
import sys

import pandas
import pytest
from refusals import refusal

from binaries import claims
from common.experiments import overview
from common.experiments.claims import Basis, Verdict
from common.experiments.paper import RESULTS

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
    text = readme.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "\nold\n" not in text
    assert "| D4PG " in text and "core hours" in text
    for basis in Basis:
        of = rows[(rows["decided by"] == basis) & (rows["paper"] == "Ape-X")]["verdict"]
        counts = " / ".join(str((of == verdict).sum()) for verdict in Verdict)
        assert f"claims by {basis}" in text and f"| {counts} " in text
    claims.main([*HERE, f"--output={tmp_path}", f"--overview={readme}"])
    assert readme.read_text() == text


def test_claims_of_a_paper_are_printed(capsys):
    claims.main([*HERE, "--paper=reactor", "--scale=paper"])
    out, _ = capsys.readouterr()
    assert "Reactor all_metrics (section 4.1, table 1): DOES NOT HOLD" in out
    assert "Ape-X" not in out and "14 claims: 5 hold, 4 do not, 5 are not yet decided." in out
    assert "By runs: 0 hold, 0 do not, 5 are not yet decided." in out
    assert "By the paper's own numbers: 5 hold, 4 do not, 0 are" in out


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
