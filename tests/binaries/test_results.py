"""`binaries.results` as its user meets it, and what is committed below results/."""

import contextlib
import importlib.util
import io
import itertools
import re
import subprocess
import sys

import pandas
from planted_curves import plant_run, planting
import pytest
from refusals import refusal

from binaries import results
from common.evidence import verdicts
from common.evidence.claims import Basis, planned_budget
from common.evidence.effects import Verdict
from common.evidence.paper import RESULTS
import reproductions

ROOT = RESULTS.parent
RUNS = f"--runs={RESULTS / 'runs'}"
BENCHMARKS = f"--benchmarks={RESULTS / 'benchmarks'}"
NAMES = {paper.title: paper.name for paper in reproductions.papers()}


@pytest.fixture(name="made", scope="module")
def _made(tmp_path_factory):
    """A directory with the program's output, by the command of the Makefile."""
    made = tmp_path_factory.mktemp("results")
    page = (RESULTS / "README.md").read_text()
    (made / "README.md").write_text(page.replace(verdicts.BEGIN, f"{verdicts.BEGIN}\nold\n"))
    target = (ROOT / "Makefile").read_text().partition("\nresults: ")[2].partition("\n\n")[0]
    ((name, flags),) = re.findall(r"\$\(RUN\) -m binaries\.(\w+) (.*)", target)
    assert name == "results"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        results.main([*flags.split(), f"--output={made}", RUNS, BENCHMARKS])
    files = map(str, (file for file in made.rglob("*") if file.is_file()))
    assert sorted(printed.getvalue().split()) == sorted(files)
    return made


@pytest.mark.parametrize("name", ["figures", "tables"])
def test_it_is_made_byte_for_byte_and_nothing_else_is_there(made, name):
    committed = {file.name: file.read_bytes() for file in (RESULTS / name).iterdir()}
    again = {file.name: file.read_bytes() for file in (made / name).iterdir()}
    assert sorted(committed) == sorted(again), "run `make results` and commit what it changes"
    # Sizes of the hand are in a table only where it is installed.
    of_hand = (
        () if importlib.util.find_spec("myosuite") else ("d4pg_table_2.md", "d4pg_table_2.csv")
    )
    differing = [file for file in again if again[file] != committed[file] and file not in of_hand]
    assert not differing, "run `make results` and commit what it changes"


@pytest.mark.parametrize("name", ["README", *NAMES.values()])
def test_the_pages_are_those_of_the_runs(made, name):
    assert (made / f"{name}.md").read_text() == (RESULTS / f"{name}.md").read_text(), (
        "run `make results` and commit what it changes"
    )


def test_a_figure_is_written_as_png_and_on_demand_as_pdf(tmp_path, capsys):
    flags = ["--paper=d4pg", "--figure=2", RUNS, f"--output={tmp_path}/new"]
    for more, kinds in ([], ["png"]), (["--pdf"], ["png", "pdf"]):
        results.main([*flags, *more])
        files = [tmp_path / "new/figures" / f"d4pg_figure_2_two_cores.{kind}" for kind in kinds]
        assert capsys.readouterr().out.split() == list(map(str, files))
        assert all(file.stat().st_size > 10_000 for file in files)
        assert sorted(file.parent.iterdir() for file in files[:1])
    assert len(list((tmp_path / "new/figures").iterdir())) == 2


def test_a_malformed_row_ends_it(tmp_path, capsys):
    plant_run(tmp_path, "d4pg_prioritized_n5", "control:cheetah:walk", 0, [1.0, 2.0])
    flags = ["--paper=d4pg", "--figure=runs", f"--runs={tmp_path}", f"--output={tmp_path}"]
    file = tmp_path / "d4pg" / "two_cores.evaluations.csv"
    with open(file, "a") as rows:
        rows.write("d4pg,d4pg_prior\n")
    expected = f"error: {file}:4: 2 cells for 9 columns\n"
    assert refusal(capsys, results.main, *flags) == expected
    assert refusal(capsys, results.main, "--figures", *flags[2:]) == expected


def test_evaluations_of_no_runs_are_refused(tmp_path, capsys):
    flags = ["--paper=apex", "--scale=workstation", f"--evaluations={tmp_path}/e.csv"]
    assert "there are no runs" in refusal(capsys, results.main, *flags, f"--runs={tmp_path}")


def test_runs_without_values_are_left_out_of_all(tmp_path, capsys):
    plant_run(tmp_path, "d4pg_prioritized_n5", "control:cheetah:walk", 0, [])
    flags = [f"--runs={tmp_path}", f"--output={tmp_path}"]
    results.main(["--figures", *flags])
    assert capsys.readouterr().out == ""
    assert "has anything to draw" in refusal(
        capsys, results.main, "--paper=d4pg", "--figure=2", *flags
    )


def test_all_claims_with_verdict_numbers_and_what_lacks(made):
    rows = pandas.read_csv(made / "tables/claims.csv")
    assert len(rows) >= 40 and rows["paper"].nunique() == 5
    assert set(Verdict) - {Verdict.MIXED} <= set(rows["verdict"]) <= set(Verdict)
    assert not rows[["says", "source", "basis"]].isna().to_numpy().any()
    is_decided = rows["verdict"] != Verdict.OPEN
    assert is_decided.sum() >= 8 and (rows["claim"] + rows["paper"]).is_unique
    assert set(rows["basis"]) == set(Basis)
    # An open claim says what it lacks, or has had all of its runs, or lacks games.
    is_told = rows[["missing", "lacks", "complete"]].notna().any(axis="columns")
    assert set(rows["claim"][~is_decided & ~is_told]) == set()
    assert not (rows["complete"].notna() & is_decided).any()
    assert (rows["missing"].notna() == rows["commands"].notna()).all()
    numbers = pandas.read_csv(made / "tables/claims_numbers.csv", keep_default_na=False)
    decided = set(zip(rows["paper"][is_decided], rows["claim"][is_decided]))
    assert decided <= set(zip(numbers["paper"], numbers["claim"]))
    effects = numbers[numbers["unit"] != ""]
    by_runs = rows[is_decided & (rows["basis"] == Basis.RUNS)]
    assert set(by_runs["claim"]) <= set(effects["claim"])
    of_effect = ["value", "from", "to", "over", "measure", "outcome", "seeds"]
    assert (effects[of_effect] != "").all(axis=None)
    # The overview shows the main statements with their verdicts, and a page a paper all of them.
    overview = (made / "README.md").read_text()
    for paper, of_paper in rows.groupby("paper"):
        page = (made / f"{NAMES[paper]}.md").read_text()
        assert 3 <= (of_paper["headline"] == "yes").sum() <= 6
        for row in of_paper.itertuples():
            (answer,) = (line for line in page.splitlines() if f"| {row.says} |" in line)
            assert pandas.isna(row.note) or f"; {row.note} |" in answer
            assert (f"| {row.says} | {row.verdict}" in overview) == (row.headline == "yes")
        for picture in re.findall(r"\]\((figures/[^)]+)\)", page):
            assert (made / picture).exists(), picture
        counts = row_of(overview.partition("## What there is")[2], f"[{paper}]({NAMES[paper]}.md)")
        for verdict in Verdict:
            assert counts[verdict] == str((of_paper["verdict"] == verdict).sum())
        assert float(counts["core hours"]) >= float(counts["hours"]) > 0
        # Their effects have the names of legends and not those of settings.
        assert not re.findall(r"\| [a-z\d]+_[\w.-]+: [+-]", page + overview)
    assert not re.findall(r"\binf\b", overview)


def row_of(text, first):
    """The cells of the first row that begins with a cell, by the columns of its table."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines()]
    (number, *_) = [number for number, line in enumerate(lines) if line[0] == first]
    begin = max(place for place in range(number) if lines[place][0] == "---") - 1
    return dict(zip(lines[begin], lines[number]))


def test_claims_are_printed_in_a_line_each_and_one_as_a_whole(capsys):
    flags = [RUNS, BENCHMARKS, "--paper=reactor", "--scale=paper"]
    results.main([*flags, "--claims"])
    title, *lines, counts = capsys.readouterr().out.splitlines()
    assert title == "Reactor" and len(lines) == 11 and max(map(len, lines)) < 100
    assert lines[0] == "  median_reached           not yet decided  114 runs missing"
    assert "  tree                     not yet decided  228 runs missing" in lines
    assert counts == "  0 holds, 0 does not hold, 0 mixed, 11 not yet decided"
    results.main([*flags, "--claim=tree"])
    out = capsys.readouterr().out
    assert "\nsource: section 6.5\n" in out and "\nmissing: 228\n" in out
    assert "\ncommands: .venv/bin/python -m binaries.experiment --paper=reactor" in out
    words = refusal(capsys, results.main, *flags, "--claim=trees")
    assert "there is no claim trees: there are median_reached, " in words


def test_a_verdict_has_its_scale_and_its_numbers_everywhere(tmp_path, capsys):
    paper = reproductions.paper("d4pg")
    budget = planned_budget(paper, paper.experiment("section 4"), "small")
    tasks = paper.experiment("section 4").at("small").environments
    levels = {"d4pg_prioritized_n5": 800, "d4pg_prioritized_n5_ou": 600}
    with planting(tmp_path / "runs", scale="small") as plant:
        for setting, task, seed in itertools.product(levels, tasks, range(3)):
            plant(setting, task, seed, [0] + [levels[setting] + seed] * 9, budget=budget)
    where = [f"--runs={tmp_path / 'runs'}", BENCHMARKS, "--paper=d4pg"]
    results.main([*where, "--claims"])
    out = capsys.readouterr().out
    assert "\n  noise                    holds            +20.0 % (+19" in out
    assert out.endswith("\n  1 holds, 0 does not hold, 0 mixed, 28 not yet decided\n")
    results.main([*where, "--claim=noise"])
    out = capsys.readouterr().out
    assert "\nscale: small\n" in out and "\nexploratory: yes\n" in out
    assert re.search(r"\n    effect: \+20.0 % \[\+19.*\] ahead\n", out)
    assert all(re.search(rf"\n    {task}: \+20.0 % \[.*\] ahead\n", out) for task in tasks)
    results.main([*where, "--claims", f"--output={tmp_path}"])
    numbers = pandas.read_csv(tmp_path / "tables/claims_numbers.csv", keep_default_na=False)
    numbers = numbers[numbers["claim"] == "noise"]
    assert list(numbers["task"]) == ["", *tasks] and set(numbers["value"]) == {20.0}


def test_a_reader_may_leave(tmp_path):
    flags = ["--paper=apex", "--table=1", f"--output={tmp_path}", f"--runs={tmp_path}"]
    command = [sys.executable, "-u", "-m", "binaries.results", *flags]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize(
    "flags, words",
    [
        ("--paper=d4pg", ["one of the arguments --figure --section --table", "is required"]),
        ("--figure=2", ["--figure needs --paper"]),
        ("--paper=d4 --figure=2", ['unknown paper "d4"', "aql, d4pg"]),
        ("--paper=d4pg --figure=99", ["D4PG has no figure 99", "there are figure 1, figure 2"]),
        ("--paper=d4pg --figure=2 --scale=huge", ['D4PG: no scale "huge"', "two_cores"]),
        ("--paper=d4pg --figure=7", ["D4PG figure 7", "nothing to run"]),
        ("--paper=d4pg --figure=5 --scale=workstation", ["no runs of D4PG figure 5"]),
        (
            "--paper=aql --figure=3 --scale=workstation",
            ["no runs of AQL figure 3", "--figure=3 --scale=workstation"],
        ),
        # Nor can they be made at that scale, also where the experiment's other scales have runs.
        (
            "--paper=apex --figure=3 --scale=two_cores",
            ["no runs of Ape-X figure 3 at the scale two_cores", "use the scale small"],
        ),
        (
            "--paper=reactor --figure=2 --scale=two_cores",
            ["no runs of Reactor figure 2 at the scale two_cores", "use the scale workstation"],
        ),
        ("--all --figure=2", ["--figure: not allowed with argument --all"]),
        (
            "--all --scale=two_core",
            ['no scale "two_core", there are paper', "two_cores", "quickstart"],
        ),
        ("--claims --runs=none", ["there are no runs: none is not a directory"]),
        ("--tables --reported=none", ["there is no none/apex.csv; its directory has: nothing"]),
        ("--claims --benchmarks=none", ["--benchmarks=none is not a directory"]),
    ],
)
def test_mistakes_are_said_in_one_line(tmp_path, capsys, flags, words):
    own = [RUNS, BENCHMARKS, f"--output={tmp_path}", *flags.split()]
    line = refusal(capsys, results.main, *own)
    for word in words:
        assert word in line


def test_without_runs_it_says_which_command_makes_them(tmp_path, capsys, monkeypatch):
    def line(*flags, runs=tmp_path):
        return refusal(capsys, results.main, *flags, f"--runs={runs}")

    figure = ("--paper=d4pg", "--figure=8")
    command = f"--paper=d4pg --figure=8 --scale=workstation --kept={tmp_path}, and add the finished"
    assert command in line(*figure) and line(*figure).endswith(" ones with --keep\n")
    command = "python -m binaries.experiment --paper=d4pg --figure=8 --scale=smoke"
    assert command in line(*figure, "--scale=smoke")
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    words = line(*figure, runs=tmp_path / "runs")
    assert "--scale=workstation, and add the finished ones with --keep" in words
    assert "--kept" not in words and "--runs" not in words
    assert "there are no runs of D4PG" in line("--paper=d4pg", "--figure=runs")
    assert "there are no runs: " in line("--all", runs=tmp_path / "none")
