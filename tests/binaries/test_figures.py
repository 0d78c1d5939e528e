"""`binaries.figures` as its user meets it."""

import shutil

import pytest
from refusals import refusal

from binaries import figures
from common.experiments.paper import RESULTS

RUNS = RESULTS / "runs"


def test_a_figure_is_written_as_png_and_pdf(tmp_path, capsys):
    figures.main(["--paper=d4pg", "--figure=2", f"--runs={RUNS}", f"--output={tmp_path}/new"])
    files = [tmp_path / "new" / f"d4pg_figure_2_two_cores.{kind}" for kind in ("png", "pdf")]
    assert capsys.readouterr().out.split() == list(map(str, files))
    assert all(file.stat().st_size > 10_000 for file in files)


def test_a_section_is_asked_for_by_its_name(tmp_path, capsys):
    figures.main(["--paper=aql", "--section=match", f"--runs={RUNS}", f"--output={tmp_path}"])
    assert f"{tmp_path}/aql_section_match_small.png" in capsys.readouterr().out
    words = refusal(capsys, figures.main, "--paper=aql", "--section=math")
    assert "AQL has no section math" in words and "section match" in words
    words = refusal(capsys, figures.main, "--paper=aql", "--section=match", f"--runs={tmp_path}")
    assert "--paper=aql --section=match --scale=" in words
    assert "not allowed with" in refusal(
        capsys, figures.main, "--paper=aql", "--section=match", "--figure=1"
    )


def test_a_malformed_row_ends_it_and_a_torn_last_one_does_not(tmp_path, capsys):
    run = "d4pg/two_cores/d4pg_prioritized_n5/control-cheetah-walk/seed_0"
    shutil.copytree(RUNS / run, tmp_path / run)
    flags = ["--paper=d4pg", "--figure=runs", f"--runs={tmp_path}", f"--output={tmp_path}"]
    file = tmp_path / run / "evaluator.csv"
    with open(file, "a") as rows:
        rows.write("d4pg,d4pg_prior")
    figures.main(flags)
    assert "d4pg_two_cores.pdf" in capsys.readouterr().out
    with open(file, "a") as rows:
        rows.write("\n")
    line = len(file.read_text().splitlines())
    expected = f"error: {file}:{line}: 2 cells for 11 columns\n"
    assert refusal(capsys, figures.main, *flags) == expected
    assert refusal(capsys, figures.main, "--all", *flags[2:]) == expected


def test_runs_without_values_are_left_out_of_all(tmp_path, capsys):
    run = "d4pg/two_cores/d4pg_prioritized_n5/control-cheetah-walk/seed_0"
    shutil.copytree(RUNS / run, tmp_path / run)
    (tmp_path / run / "evaluator.csv").unlink()
    flags = [f"--runs={tmp_path}", f"--output={tmp_path}"]
    figures.main(["--all", *flags])
    assert capsys.readouterr().out == ""
    assert "has anything to draw" in refusal(
        capsys, figures.main, "--paper=d4pg", "--figure=2", *flags
    )


@pytest.mark.parametrize(
    "flags, words",
    [
        (
            ["--paper=d4pg", "--figure=99"],
            ["D4PG has no figure 99", "there are figure 1, figure 2"],
        ),
        (["--paper=d4"], ["give --paper and --figure, or --all"]),
        (["--paper=d4", "--figure=2"], ['unknown paper "d4"', "aql, d4pg"]),
        (["--paper=d4pg", "--figure=2", "--scale=huge"], ['D4PG: no scale "huge"', "two_cores"]),
        (["--paper=d4pg", "--figure=7"], ["D4PG figure 7", "nothing to run"]),
        (["--paper=d4pg", "--figure=5", "--scale=workstation"], ["no runs of D4PG figure 5"]),
        (
            ["--paper=aql", "--figure=3", "--scale=workstation"],
            ["no runs of AQL figure 3", "--figure=3 --scale=workstation"],
        ),
        (["--all", "--figure=2"], ["leave --figure out"]),
        (["--all", "--section=4"], ["leave --section out"]),
        (
            ["--all", "--scale=two_core"],
            ['no scale "two_core", there are paper', "two_cores", "quickstart"],
        ),
        (["--all", "--paper=aql", "--scale=tiny"], ['AQL: no scale "tiny", there are paper']),
    ],
)
def test_what_cannot_be_drawn_is_said_in_one_line(capsys, flags, words):
    line = refusal(capsys, figures.main, *flags, f"--runs={RUNS}")
    for word in words:
        assert word in line


def test_without_runs_it_says_which_command_makes_them(tmp_path, capsys, monkeypatch):
    def line(*flags, runs=tmp_path):
        return refusal(capsys, figures.main, *flags, f"--runs={runs}")

    figure = ("--paper=d4pg", "--figure=8")
    assert line(*figure).endswith(
        f"--paper=d4pg --figure=8 --scale=workstation --runs={tmp_path}\n"
    )
    command = "python -m binaries.experiment --paper=d4pg --figure=8 --scale=smoke"
    assert command in line(*figure, "--scale=smoke")
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    words = line(*figure, runs=tmp_path / "runs")
    assert "--scale=workstation, and copy" in words and "with --keep" in words
    assert "--runs" not in words
    assert "there are no runs of D4PG" in line("--paper=d4pg", "--figure=runs")
    assert "there are no runs: " in line("--all", runs=tmp_path / "none")
