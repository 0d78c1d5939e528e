import importlib.util
import pathlib
import sys
import types

import pytest

from binaries import benchmark
from common.benchmarks.report import Row


def refuse(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        benchmark.main(list(arguments))
    captured = capsys.readouterr()
    assert caught.value.code == 2 and not captured.out
    (line,) = captured.err.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize(
    "arguments, named",
    [
        (["nonsense"], "nonsense"),
        (["replay", "learner"], "learner"),
        (["--nonsense"], "--nonsense"),
        (["--repeats=0"], "--repeats"),
        (["--repeats=many"], "--repeats"),
        (["--json"], "--json"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(capsys, arguments, named):
    assert named in refuse(capsys, *arguments)


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(capsys, tmp_path):
    for path in (tmp_path, tmp_path / "absent" / "rows.json"):
        assert str(path) in refuse(capsys, f"--json={path}")


def test_a_missing_peer_is_refused(capsys, monkeypatch, tmp_path):
    installed = importlib.util.find_spec
    monkeypatch.setattr(benchmark, "_measure", lambda *_: [])
    monkeypatch.setattr(benchmark.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(benchmark.learner_peers, "PYTHON", pathlib.Path(sys.executable))
    for request in ([], ["replay"], ["d4pg"], ["image_replay"]):
        assert "make peers" in refuse(capsys, *request, "--peers")
    benchmark.main(["learner", "--peers"])
    capsys.readouterr()
    monkeypatch.setattr(benchmark.importlib.util, "find_spec", lambda name: installed("json"))
    monkeypatch.setattr(benchmark.learner_peers, "PYTHON", tmp_path / "absent")
    for request in (["d4pg"], ["learner"]):
        assert "make peers" in refuse(capsys, *request, "--peers")
    for request in (["replay"], ["actor"]):
        benchmark.main([*request, "--peers"])


def test_a_suite_is_printed_and_written(capsys, monkeypatch, tmp_path):
    rows = [Row("actor/x", 2.0, "steps/s", "y", 4.0)]
    monkeypatch.setattr(benchmark, "_measure", lambda case, arguments: rows)
    path = tmp_path / "rows.json"
    benchmark.main(["actor", "--quick", f"--json={path}"])
    captured = capsys.readouterr()
    assert captured.out.splitlines()[1].split() == ["actor/x", "2", "steps/s", "y", "4", "0.50"]
    assert "quick" in captured.err
    assert benchmark.report.read_json(path) == rows


@pytest.mark.parametrize(
    "which, names",
    [
        ([], [name for name, case in benchmark._CASES.items() if not case.by_name_only]),
        (["reactor"], ("sequence_learner", "priority_tree", "sequence_actor", "parameter_server")),
        (["refer"], ("episodes", "update_cost")),
    ],
    ids=["all", "reactor", "refer"],
)
def test_suites_run_in_processes_of_their_own(capsys, monkeypatch, which, names):
    commands = []

    def run(command, **_):
        commands.append(command)
        suite, path = command[3], command[4].removeprefix("--json=")
        benchmark.report.write_json(benchmark.pathlib.Path(path), [Row(f"{suite}/x", 1.0, "u")])
        return types.SimpleNamespace(returncode=0)

    monkeypatch.setattr(benchmark.subprocess, "run", run)
    benchmark.main([*which, "--repeats=3", "--quick"])
    assert [command[3] for command in commands] == list(names)
    assert all(
        command[0] == sys.executable and "--repeats=3" in command and "--quick" in command
        for command in commands
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [f"{name}/x" for name in names]
