"""`binaries.figures` as its user meets it."""

import shutil

from common.experiments.registry import RESULTS
import pytest

from binaries import figures

RUNS = RESULTS / "runs"


def fails(capsys, *flags):
    """The one line that the program ends with."""
    with pytest.raises(SystemExit) as ended:
        figures.main(list(map(str, flags)))
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and out == "" and err.count("\n") == 1
    return err


def test_a_figure_is_written_as_png_and_pdf(tmp_path, capsys):
    figures.main(["--paper=d4pg", "--figure=2", f"--runs={RUNS}", f"--output={tmp_path}/new"])
    files = [tmp_path / "new" / f"d4pg_figure_2_two_cores.{kind}" for kind in ("png", "pdf")]
    assert capsys.readouterr().out.split() == list(map(str, files))
    assert all(file.stat().st_size > 10_000 for file in files)


def test_malformed_rows_are_named_and_the_rest_is_drawn(tmp_path, capsys):
    run = "d4pg/two_cores/d4pg_prioritized_n5/control-cheetah-walk/seed_0"
    shutil.copytree(RUNS / run, tmp_path / run)
    file = tmp_path / run / "evaluator.csv"
    file.write_text(file.read_text() + "d4pg,d4pg_prior")
    figures.main(["--paper=d4pg", "--figure=runs", f"--runs={tmp_path}", f"--output={tmp_path}"])
    out, err = capsys.readouterr()
    line = len(file.read_text().splitlines())
    assert err == f"warning: {file}:{line}: half-written: row left out\n"
    assert (tmp_path / "d4pg_two_cores.png").exists() and "d4pg_two_cores.pdf" in out


@pytest.mark.parametrize(
    "flags, words",
    [
        (
            ["--paper=d4pg", "--figure=99"],
            ["D4PG has no figure 99", "there are figure 1, figure 2"],
        ),
        (["--paper=d4"], ["give --paper and --figure, or --all"]),
        (["--paper=d4", "--figure=2"], ['unknown paper "d4"', "aql, d4pg"]),
        (["--paper=d4pg", "--figure=2", "--scale=huge"], ["D4PG has no scale huge", "two_cores"]),
        (["--paper=d4pg", "--figure=7"], ["D4PG figure 7", "nothing to run"]),
        (["--paper=d4pg", "--figure=3"], ["no runs of D4PG figure 3", "not public"]),
        (["--paper=reactor", "--figure=3"], ["no runs of Reactor figure 3", "not yet implemented"]),
        (["--all", "--figure=2"], ["leave --figure out"]),
        (
            ["--all", "--scale=two_core"],
            ['no paper has a scale "two_core"', "two_cores", "quickstart"],
        ),
        (
            ["--all", "--paper=aql", "--scale=smoke"],
            ['no paper has a scale "smoke": there are paper'],
        ),
    ],
)
def test_what_cannot_be_drawn_is_said_in_one_line(capsys, flags, words):
    line = fails(capsys, *flags, f"--runs={RUNS}")
    for word in words:
        assert word in line


def test_without_runs_it_says_which_command_makes_them(tmp_path, capsys, monkeypatch):
    line = fails(capsys, "--paper=d4pg", "--figure=8", f"--runs={tmp_path}")
    assert line.endswith(f"--paper=d4pg --figure=8 --scale=workstation --runs={tmp_path}\n")
    line = fails(capsys, "--paper=d4pg", "--figure=8", "--scale=smoke", f"--runs={tmp_path}")
    assert "python -m binaries.experiment --paper=d4pg --figure=8 --scale=smoke" in line
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    line = fails(capsys, "--paper=d4pg", "--figure=8", f"--runs={tmp_path}/runs")
    assert "--scale=workstation, and copy" in line and "with --keep" in line
    assert "--runs" not in line
    assert "there are no returns of D4PG" in fails(
        capsys, "--paper=d4pg", "--figure=runs", f"--runs={tmp_path}"
    )
