"""`binaries.evaluate` as its user meets it."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from binaries import evaluate

ROOT = pathlib.Path(__file__).parents[2]
OWN = "python:reproductions.d4pg.own_environment:make"
IMPORTING_OWN = f"importing {ROOT}/reproductions/d4pg/own_environment.py for {OWN}\n"


def start(*flags, cwd=ROOT, **variables):
    kept = {name: value for name, value in os.environ.items() if name != "MUJOCO_GL"}
    return subprocess.Popen(
        [sys.executable, "-m", "binaries.evaluate", *map(str, flags)],
        cwd=cwd,
        text=True,
        env={**kept, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def assert_refused(process, *words):
    out, err = process.communicate(timeout=200)
    assert process.returncode == 2 and out == "", (out, err)
    lines = err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), err
    for word in words:
        assert word in lines[0], err


def config_of(agent, setting, environment, config, paper="d4pg"):
    """The config.json of a run."""
    return {
        "paper": paper,
        "agent": agent,
        "setting": setting,
        "environment": environment,
        "config": config,
    }


@pytest.fixture(scope="module")
def workdirs(tmp_path_factory):
    """A run of each environment as a program leaves it, before the first update."""
    from common import environments
    from common.environments.spec import EnvironmentSpec
    from common.learning.checkpoint import Checkpoints
    from common.reporting.run_directory import RunDirectory
    from reproductions.d4pg.agent import D4PG
    from reproductions.d4pg.config import D4PGConfig

    config = D4PGConfig(policy_sizes=(16, 8), critic_sizes=(16, 8))
    made = {}
    for name in (OWN, "control:cartpole:swingup"):
        run = RunDirectory(tmp_path_factory.mktemp("runs") / "run")
        run.open(config_of("d4pg", "d4pg_prioritized_n5", name, dataclasses.asdict(config)))
        spec = EnvironmentSpec.of(environments.make(name, 0))
        learner = D4PG(config).make_learner(spec, seed=0)
        Checkpoints(run.checkpoints, {"learner": learner}).save()
        made[name] = run.path
    return made


def test_a_game_is_played_by_the_rules_of_evaluations(tmp_path, monkeypatch, capsys):
    """In this process, where half an hour can be 10 steps."""
    from common import environments
    from common.environments import atari_suite
    from common.environments.spec import EnvironmentSpec
    from common.learning.checkpoint import Checkpoints
    from common.reporting.run_directory import RunDirectory
    from reproductions.apex.dqn import agent as agent_lib

    run = RunDirectory(tmp_path / "run")
    config = config_of("apex_dqn", "apex_dqn", "atari:pong", {}, paper="apex")
    run.open(config)
    spec = EnvironmentSpec.of(environments.make("atari:pong", 0))
    learner = agent_lib.from_config(config).make_learner(spec, seed=0)
    Checkpoints(run.checkpoints, {"learner": learner}).save()
    monkeypatch.setattr(atari_suite, "TRAINING_FRAMES", 0)
    monkeypatch.setattr(atari_suite, "EVALUATION_FRAMES", 40)
    result = tmp_path / "result.json"
    arguments = evaluate._arguments([f"--workdir={run.path}", "--episodes=11", f"--json={result}"])
    evaluate._evaluate(arguments, evaluate._agent_module(arguments))

    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("return 0.0 +- 0.0 (min 0.0, max 0.0, 11 episodes): ")
    assert first.endswith(" on atari:pong after 0 learner steps")
    assert second.startswith("human-normalised score 58.6 %")
    returned = json.loads(result.read_text())
    assert returned["human_normalised_score"] == pytest.approx(20.7 / (14.6 + 20.7))
    assert returned["paper"] == "apex" and returned["episode_returns"] == [0.0] * 11


@pytest.mark.parametrize(
    "environment, score",
    [
        ("atari:pong", (20.9 + 20.7) / (14.6 + 20.7)),
        ("atari:tetris", None),
        ("control:cartpole:swingup", None),
    ],
)
def test_the_human_normalised_score(environment, score):
    assert evaluate._human_normalised(environment, 20.9) == pytest.approx(score)


def test_the_help_says_what_the_papers_regimes_are(capsys):
    with pytest.raises(SystemExit):
        evaluate.main(["--help"])
    text = capsys.readouterr().out
    for words in ("no-op starts", "--episodes=200", "108,000", "human", "never published"):
        assert words in text


def contents(directory):
    return {path: path.is_file() and path.read_bytes() for path in directory.rglob("*")}


def test_result_video_and_json(workdirs, tmp_path):
    workdir, video, result = workdirs[OWN], tmp_path / "own.gif", tmp_path / "own.json"
    before = contents(workdir)
    out, err = start(
        f"--workdir={workdir}", "--episodes=3", f"--video={video}", f"--json={result}"
    ).communicate(timeout=200)
    assert err == IMPORTING_OWN
    returned = json.loads(result.read_text())
    returns = returned["episode_returns"]
    # The policy begins near zero, so the mass hardly moves.
    assert returned["human_normalised_score"] is None
    assert len(returns) == 3 and all(-20 < value < 20 for value in returns)
    mean, std = sum(returns) / 3, returned["episode_return_std"]
    assert returned["episode_return_mean"] == pytest.approx(mean)
    first, second = out.splitlines()
    assert first == (
        f"return {mean:.1f} +- {std:.1f} (min {min(returns):.1f}, max {max(returns):.1f}, 3 "
        f"episodes): d4pg_prioritized_n5 on {OWN} after 0 learner steps"
    )
    assert re.fullmatch(
        rf"video {video}: 101 frames, one every 50 ms, \d+\.\d MB, an episode of return "
        rf"{returns[0]:.1f}",
        second,
    )
    assert video.read_bytes().startswith(b"GIF89a")
    assert contents(workdir) == before


def test_the_same_seed_gives_the_same_result_and_no_egl_gives_one_line(workdirs, tmp_path):
    flags = [f"--workdir={workdirs[OWN]}", "--episodes=2", "--seed=5"]
    video = tmp_path / "cartpole.gif"
    # All at once: most of the time is TensorFlow's start.
    same = [start(*flags), start(*flags)]
    without_egl = start(
        f"--workdir={workdirs['control:cartpole:swingup']}",
        f"--video={video}",
        __EGL_VENDOR_LIBRARY_FILENAMES="/nonexistent",
    )
    outputs = [process.communicate(timeout=200) for process in same]
    assert outputs[0] == outputs[1] and outputs[0][0].startswith("return ")
    assert_refused(without_egl, "cannot draw with MUJOCO_GL=egl", "apt-get install libegl1")
    assert not video.exists()


def test_bad_input_is_one_line_and_needs_no_tensorflow(workdirs, tmp_path):
    (tmp_path / "tensorflow.py").write_text("raise SystemExit('TensorFlow was imported')\n")
    workdir = f"--workdir={workdirs[OWN]}"
    for name, config in (("cut", "{"), ("list", "[]"), ("other", '{"paper": "ape_x"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(config)
    mine = tmp_path / "mine.gif"
    mine.write_text("mine")
    cases = [
        ([], ["--workdir"]),
        ([f"--workdir={tmp_path}/absent"], ["no directory", "absent"]),
        ([f"--workdir={tmp_path}"], [str(tmp_path), "no config.json"]),
        ([f"--workdir={tmp_path}/cut"], ["cut/config.json", "not JSON"]),
        ([f"--workdir={tmp_path}/list"], ["list/config.json", "not the config"]),
        ([f"--workdir={tmp_path}/other"], ['"ape_x"', "there are d4pg, apex_dqn, apex_dpg"]),
        ([workdir, "--episodes=0"], ["--episodes", "at least 1", "0"]),
        ([workdir, "--episodes=few"], ["--episodes", "few"]),
        ([workdir, "--seed=-1"], ["--seed", "-1"]),
        ([workdir, "--video=film.mp4"], ["--video=film.mp4", ".gif"]),
        ([workdir, "--video=/absent/film.gif"], ["--video=/absent/film.gif", "directory"]),
        ([workdir, f"--video={mine}"], [str(mine), "exists already"]),
        ([workdir, "--json=/absent/result.json"], ["--json=/absent/result.json"]),
        ([workdir, "--vido=x.gif"], ["--vido"]),
    ]
    running = [start(*flags, PYTHONPATH=str(tmp_path)) for flags, _ in cases]
    for process, (_, words) in zip(running, cases):
        assert_refused(process, *words)
    assert mine.read_text() == "mine"


MARKS = """
import pathlib
pathlib.Path(__file__).with_suffix(".imported").touch()
from reproductions.d4pg.own_environment import make
"""


@pytest.mark.parametrize("kind", ["module", "package", "link"])
def test_code_inside_the_run_directory_is_imported_only_if_it_is_trusted(tmp_path, kind):
    """A run that somebody sent, unpacked where evaluate is started."""
    run, mine = tmp_path / "sent", tmp_path / "mine"
    (run / "code").mkdir(parents=True)
    mine.mkdir()
    name = {"module": "sent.code.task", "package": "sent.code", "link": "mine.task"}[kind]
    source = run / "code" / ("__init__.py" if kind == "package" else "task.py")
    source.write_text(MARKS)
    if kind == "link":
        (mine / "task.py").symlink_to(source)
    environment = f"python:{name}:make"
    (run / "config.json").write_text(
        json.dumps(config_of("d4pg", "d4pg_prioritized_n5", environment, {"no": "field"}))
    )
    before = contents(tmp_path)
    flags, elsewhere = [f"--workdir={run}"], {"PYTHONPATH": str(ROOT), "cwd": tmp_path}
    assert_refused(start(*flags, **elsewhere), str(source), environment, "--trust_environment")
    assert contents(tmp_path) == before


def test_code_outside_of_the_run_directory_needs_no_trust_and_is_named(workdirs, capsys):
    arguments = evaluate._arguments([f"--workdir={workdirs[OWN]}"])
    evaluate._check_trust(OWN, arguments)
    for unknown in ("control:cartpole:swingup", "python:no_such_package_here:make"):
        evaluate._check_trust(unknown, arguments)
    assert capsys.readouterr().err == IMPORTING_OWN


def test_trusted_code_is_named_then_imported(workdirs, tmp_path):
    run = tmp_path / "sent"
    shutil.copytree(workdirs[OWN], run)
    (run / "task.py").write_text(MARKS)
    config = json.loads((run / "config.json").read_text())
    environment = "python:sent.task:make"
    (run / "config.json").write_text(json.dumps({**config, "environment": environment}))
    flags = [f"--workdir={run}", "--episodes=1", "--trust_environment"]
    out, err = start(*flags, PYTHONPATH=str(ROOT), cwd=tmp_path).communicate(timeout=200)
    assert err == f"importing {run}/task.py for {environment}\n"
    assert out.startswith("return ") and (run / "task.imported").exists()
