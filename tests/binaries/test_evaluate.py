"""`binaries.evaluate` as its user meets it, and the trained policies that come with the code."""

import dataclasses
import json
import re
import shutil
import sys

from launched import forked
import numpy as np
import pytest
from refusals import refusal

from binaries import evaluate
from binaries.evaluate import POLICIES
from common import environments
from common.agents import trained
from common.cluster.layout import imported
from common.environments import atari_suite
from common.environments.spec import EnvironmentSpec
from common.learning.checkpoint import Checkpoints
from common.reporting.budget import EPISODE_STEPS
from common.reporting.csv_rows import read_rows
from common.reporting.run_directory import RunDirectory
from common.roles.evaluator import environment_seeds, run_episodes
from reproductions import agent_of
from reproductions.apex.dqn.config import DQNConfig
from reproductions.apex.dqn.dqn import ApexDQN
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import D4PG

OWN = "python:reproductions.d4pg.own_environment:make"
SECONDS = 120
"""Patience with a busy machine."""


@pytest.fixture(scope="module")
def workdirs(tmp_path_factory):
    """A run of each environment as a program leaves it, before the first update."""
    config = D4PGConfig(policy_sizes=(16, 8), critic_sizes=(16, 8))
    made = {}
    for name in (OWN, "control:cartpole:swingup"):
        run = RunDirectory(tmp_path_factory.mktemp("runs") / "run")
        run.open(
            {
                "paper": "d4pg",
                "setting": "a_setting",
                "environment": name,
                "config": dataclasses.asdict(config),
            }
        )
        spec = EnvironmentSpec.of(environments.make(name, 0))
        learner = D4PG(config, "a_setting").make_learner(spec, seed=0)
        Checkpoints(run.checkpoints, {"learner": learner}).save()
        made[name] = run.path
    return made


def play(*flags):
    """Plays in this process."""
    arguments = evaluate._arguments(list(map(str, flags)))
    evaluate._evaluate(arguments, evaluate._trusted_agent(arguments))


def test_a_game_is_played_by_the_rules_of_evaluations(tmp_path, monkeypatch, capsys):
    """In this process, where half an hour can be 10 steps."""
    run, config = RunDirectory(tmp_path / "run"), DQNConfig()
    agent = {"paper": "apex", "agent": "apex_dqn", "setting": "a_setting"}
    run.open({**agent, "environment": "atari:pong", "config": dataclasses.asdict(config)})
    spec = EnvironmentSpec.of(environments.make("atari:pong", 0, frames=4))
    learner = ApexDQN(config, "a_setting").make_learner(spec, seed=0)
    Checkpoints(run.checkpoints, {"learner": learner}).save()
    monkeypatch.setattr(atari_suite, "TRAINING_FRAMES", 0)
    monkeypatch.setattr(atari_suite, "EVALUATION_FRAMES", 40)
    result = tmp_path / "result.json"
    play(f"--workdir={run.path}", "--episodes=11", f"--json={result}")
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("return 0.0 +- 0.0 (min 0.0, max 0.0, 11 episodes): ")
    assert first.endswith(" on atari:pong after 0 learner steps")
    assert second.startswith("human-normalised score 58.6 %")
    returned = json.loads(result.read_text())
    assert returned["human_normalised_score"] == pytest.approx(20.7 / (14.6 + 20.7))
    assert returned["paper"] == "apex" and returned["episode_returns"] == [0.0] * 11


@pytest.mark.parametrize(
    "environment, from_human_starts, score",
    [
        ("atari:pong", False, (20.9 + 20.7) / (14.6 + 20.7)),
        ("atari:pong", True, (20.9 + 18.0) / (15.5 + 18.0)),
        ("atari:tetris", False, None),
    ],
)
def test_the_human_normalised_score(environment, from_human_starts, score):
    found = evaluate._human_normalised(environment, 20.9, from_human_starts)
    assert found == pytest.approx(score)


def test_starts_are_recorded_and_played(workdirs, tmp_path, capsys):
    run, file = workdirs["control:cartpole:swingup"], tmp_path / "starts.json"
    result = tmp_path / "result.json"
    play(f"--workdir={run}", "--episodes=1", f"--record_starts={file}")
    play(f"--workdir={run}", "--episodes=2", f"--starts={file}", f"--json={result}")
    lines = capsys.readouterr()
    origin = "a_setting, run, after 0 learner steps"
    assert f"starts {file}: states of {origin}" in lines.out
    assert f"playing 2 episodes of control:cartpole:swingup from 100 starts: {origin}" in lines.err
    assert json.loads(result.read_text())["starts"] == origin
    (episode,) = json.loads(file.read_text())["episodes"]
    assert len(episode["starts"]) == 100 and len(episode["actions"][0]) == 1


def contents(directory):
    return {path: path.is_file() and path.read_bytes() for path in directory.rglob("*")}


def test_result_video_and_json(workdirs, tmp_path):
    workdir, video, result = workdirs[OWN], tmp_path / "own.gif", tmp_path / "own.json"
    before = contents(workdir)
    flags = (f"--workdir={workdir}", "--episodes=3", "--seed=5")
    with forked() as start:
        programs = [
            start(tmp_path / f"{index}.log", "binaries.evaluate", *flags, *more)
            for index, more in enumerate([(f"--video={video}", f"--json={result}"), ()])
        ]
        assert [program.wait(SECONDS) for program in programs] == [0, 0]
    returned = json.loads(result.read_text())
    returns = returned["episode_returns"]
    # The policy begins near zero, so the mass hardly moves.
    assert returned["human_normalised_score"] is None
    assert len(returns) == 3 and all(-20 < value < 20 for value in returns)
    mean, std = sum(returns) / 3, returned["episode_return_std"]
    assert returned["episode_return_mean"] == pytest.approx(mean)
    imported, loads, plays, first, second = programs[0].output.splitlines()
    assert loads == f"loading the policy of {workdir}"
    assert plays == f"playing 3 episodes of {OWN}"
    assert imported.startswith("importing ") and imported.endswith(f"for {OWN}")
    assert first == (
        f"return {mean:.1f} +- {std:.1f} (min {min(returns):.1f}, max {max(returns):.1f}, 3 "
        f"episodes): a_setting on {OWN} after 0 learner steps"
    )
    assert re.fullmatch(
        rf"video {video}: 101 frames, one every 50 ms, \d+\.\d MB, an episode with a return of "
        rf"{returns[0]:.1f}",
        second,
    )
    assert video.read_bytes().startswith(b"GIF89a")
    assert programs[1].output.splitlines() == [imported, loads, plays, first]  # the same seed
    assert contents(workdir) == before


def test_another_environment_of_the_same_sizes_is_played(workdirs, capsys):
    run = f"--workdir={workdirs['control:cartpole:swingup']}"
    play(run, "--environment=control:cartpole:balance", "--episodes=1")
    assert " on control:cartpole:balance after 0 learner steps" in capsys.readouterr().out
    flags = (run, "--environment=control:walker:walk", "--episodes=1")
    line = refusal(capsys, lambda flags: play(*flags), *flags)
    assert line.startswith("error: control:walker:walk is another kind of task than the run's: ")
    assert "observation_size 24, not 5" in line


def test_without_egl_a_video_is_one_line(workdirs, tmp_path):
    video = tmp_path / "cartpole.gif"
    with forked() as start:
        program = start(
            *(tmp_path / "log", "binaries.evaluate", f"--video={video}"),
            f"--workdir={workdirs['control:cartpole:swingup']}",
            __EGL_VENDOR_LIBRARY_FILENAMES="/nonexistent",
        )
        assert program.wait(SECONDS) == 2
    line = program.output.splitlines()[-1]
    for words in ("error: ", "cannot draw with MUJOCO_GL=egl", "apt-get install libegl1"):
        assert words in line
    assert not video.exists()


def test_bad_input_is_one_line_and_needs_no_tensorflow(workdirs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(evaluate.processes, "limit_threads", lambda _: pytest.fail("TensorFlow"))
    monkeypatch.setitem(sys.modules, "av", None)  # as if it were not installed
    workdir = f"--workdir={workdirs[OWN]}"
    for name, config in (("cut", "{"), ("list", "[]"), ("other", '{"paper": "ape_x"}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(config)
    mine = tmp_path / "mine.gif"
    mine.write_text("mine")
    for flags, words in (
        ([], ["--workdir"]),
        ([f"--workdir={tmp_path}/absent"], ["no directory", "absent"]),
        ([f"--workdir={tmp_path}"], [str(tmp_path), "no config.json"]),
        ([f"--workdir={tmp_path}/cut"], ["cut/config.json", "not JSON"]),
        ([f"--workdir={tmp_path}/list"], ["list/config.json", "not an object"]),
        ([f"--workdir={tmp_path}/other"], ['"ape_x"', "there are apex_dpg, apex_dqn, aql, d4pg"]),
        ([workdir, "--episodes=0"], ["--episodes", "at least 1", "0"]),
        ([workdir, "--seed=-1"], ["--seed", "-1"]),
        ([workdir, "--video=film.avi"], ["--video=film.avi", ".gif or .mp4"]),
        ([workdir, "--video=film.mp4"], ["--video=film.mp4", "av is not installed", "make video"]),
        ([workdir, "--video=/absent/film.gif"], ["--video=/absent/film.gif", "directory"]),
        ([workdir, f"--video={mine}"], [str(mine), "exists already"]),
        ([workdir, "--policy=d4pg"], ["--policy", "not allowed with"]),
        (["--policy=no_such"], ["--policy=no_such", "there are"]),
        ([workdir, "--checkpoint=last"], ["--checkpoint", "newest", "best"]),
        ([workdir, f"--export={tmp_path}"], [f"--export={tmp_path} exists already"]),
        ([workdir, "--proposals=x.jpg"], ["--proposals=x.jpg must end in .png or .pdf"]),
        ([workdir, "--starts=a.json", "--record_starts=b.json"], ["--starts", "not allowed"]),
        ([workdir, "--starts=a.json", "--video=a.gif"], ["--starts", "omit --video"]),
        ([workdir, "--moments", "3"], ["--moments", "--proposals"]),
        ([workdir, f"--proposals={tmp_path}/x.png", "--moments", "-3"], ["not negative"]),
    ):
        line = refusal(capsys, evaluate.main, *flags)
        for word in words:
            assert word in line
    assert mine.read_text() == "mine"


MARKS = """
import pathlib
pathlib.Path(__file__).with_suffix(".imported").touch()
from reproductions.d4pg.own_environment import make
"""


@pytest.mark.parametrize(
    "name, inside", [("sent.code.task", "task"), ("sent.code", "__init__"), ("mine.task", "task")]
)
def test_code_inside_the_run_directory_is_refused_before_its_import(
    tmp_path, monkeypatch, capsys, name, inside
):
    """A run that somebody sent, unpacked where evaluate is started; `mine.task` is a link to it."""
    source = tmp_path / f"sent/code/{inside}.py"
    source.parent.mkdir(parents=True)
    source.write_text(MARKS)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/task.py").symlink_to(source)
    environment = f"python:{name}:make"
    sent = json.dumps({"paper": "d4pg", "environment": environment})
    (tmp_path / "sent/config.json").write_text(sent)
    before = contents(tmp_path)
    monkeypatch.chdir(tmp_path)
    line = refusal(capsys, evaluate.main, f"--workdir={tmp_path}/sent")
    assert all(word in line for word in (str(source), environment, "--trust_environment"))
    known = json.dumps({"paper": "d4pg", "environment": "control:cartpole:swingup"})
    (tmp_path / "sent/config.json").write_text(known)
    flags = [f"--workdir={tmp_path}/sent", f"--environment={environment}"]
    assert "--trust_environment" in refusal(capsys, evaluate.main, *flags)
    (tmp_path / "sent/config.json").write_text(sent)
    assert contents(tmp_path) == before
    arguments = evaluate._arguments([f"--workdir={tmp_path}/sent", "--trust_environment"])
    assert evaluate._trusted_agent(arguments).name == "d4pg"
    assert capsys.readouterr().err == f"importing {source} for {environment}\n"


def test_trusted_code_is_named_then_imported(workdirs, tmp_path):
    run, environment = tmp_path / "sent", "python:sent.task:make"
    shutil.copytree(workdirs[OWN], run)
    (run / "task.py").write_text(MARKS)
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "environment": environment}))
    flags = (f"--workdir={run}", "--episodes=1", "--trust_environment")
    with forked() as start:
        program = start(tmp_path / "log", "binaries.evaluate", *flags, PYTHONPATH=str(tmp_path))
        assert program.wait(SECONDS) == 0, program.output
    assert program.output.startswith(f"importing {run}/task.py for {environment}\n")
    assert "\nreturn " in program.output and (run / "task.imported").exists()


NAMES = sorted(path.name for path in POLICIES.iterdir() if path.is_dir())
PARTS = {"apex_pong": (300, -0.5), "aql_walker_walk": (200, 120.0)}
"""Of a policy whose episode takes seconds: the first steps, and a return that it exceeds there.

Random actions have a return of -4 in Pong and of 7 in walker walk by then.
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_plays_as_well_as_its_run_says(name):
    directory = RunDirectory(POLICIES / name)
    run = trained.load(directory.path, imported(agent_of(directory.path).agent_class), "best")
    evaluations = read_rows(directory.evaluator_csv)["episode_return_mean"]
    first, best = evaluations.iloc[0], evaluations.max()
    whole = EPISODE_STEPS, first + 0.9 * (best - first)
    steps, least = PARTS.get(name, whole)
    number = 1 if name in (*PARTS, "refer_flow") else 4
    frames = run.agent.declaration.num_frames
    seeds = environment_seeds(1, number)
    batch = environments.make_batch(run.environment, seeds, evaluation=True, frames=frames)
    returns = run_episodes(batch, run.make_policy(number), number, max_steps=steps)
    # The median, since an unlucky start may cost an episode of four.
    assert np.median(returns) > least and whole[1] > first


@pytest.mark.parametrize("name", NAMES)
def test_a_policy_is_small_and_has_the_run_that_made_it(name):
    files = [path for path in (POLICIES / name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 4e6
    *_, start = json.loads((POLICIES / name / "run.json").read_text())["starts"]
    assert start["outcome"] in ("finished", "stopped") and start["git"]["commit"]
