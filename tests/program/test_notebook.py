"""An agent in a notebook: trained by its program, evaluated and saved here."""

import os
import pathlib
import re
import subprocess
import sys
import types

import gymnasium
import numpy as np
import pytest

from common.cluster.layout import imported
from common.program.notebook import TrainingError
import reproductions

ROOT = pathlib.Path(__file__).parents[2]
OWN = "python:reproductions.d4pg.own_environment:make"
SMALL = {
    "torso": "mlp",
    "batch_size": 16,
    "min_replay_size": 100,
    "replay_capacity": 5_000,
    "samples_per_insert": 16.0,
    "single_process": True,
    "num_actors": 4,
    "evaluation_steps": 48,
    "evaluation_episodes": 2,
    "learner_threads": 1,
}


class Raised(Exception):
    pass


def test_it_trains_goes_on_evaluates_and_saves(tmp_path, capfd):
    agent = reproductions.make("apex_dqn", "gym:CartPole-v1", n_step=2, **SMALL)
    evaluations, episodes = [], []

    def stops(row):
        evaluations.append(row)
        return np.bool_(row["learner_steps"] < 48 or not episodes)

    agent.train(10**9, callback=stops, on_episode=episodes.append)
    assert agent.policy().learner_steps == agent.learner_steps >= 48
    assert [row["learner_steps"] for row in evaluations][:2] == [0, 48]
    assert {row["actor"] for row in episodes} <= set(range(4))

    def raise_at_96(row):
        if row["learner_steps"] >= 96:
            raise Raised

    with pytest.raises(Raised):
        agent.train(10**9, callback=raise_at_96)
    assert "saves what it has learnt" in capfd.readouterr().out
    log = (agent.directory.logs / "learner-0.log").read_text()
    (items,) = map(int, re.findall(r"resumes with (\d+) saved items", log))
    assert items > 100  # the replay of the first updates
    steps = agent.learner_steps
    assert re.search(rf"n_step=2.*: {steps:,} updates in", repr(agent))
    policy = agent.policy()
    assert policy.learner_steps == steps >= 96 and policy(np.zeros(4)).shape == ()
    returns = agent.evaluate(episodes=3)
    assert returns.shape == (3,) and np.isfinite(returns).all()
    assert agent.evaluations()["learner_steps"].tolist()[:3] == [0, 48, 96]
    agent.save(tmp_path / "saved")
    saved = reproductions.load_policy(tmp_path / "saved")
    np.testing.assert_array_equal(saved(np.ones(4)), policy(np.ones(4)))
    best = agent.evaluations()["episode_return_mean"].idxmax()
    steps = agent.evaluations()["learner_steps"][best]
    assert agent.policy("best").learner_steps == steps
    with pytest.raises(FileExistsError):
        agent.save(tmp_path / "saved")


def test_what_cannot_be_is_one_line(capfd):
    with pytest.raises(ValueError, match='unknown agent "d5pg": there are apex_dpg'):
        reproductions.make("d5pg", OWN)
    with pytest.raises(ValueError, match='no setting "d4", .*|has no setting "d4": there are'):
        reproductions.make("d4pg", OWN, setting="d4")
    with pytest.raises(ValueError, match="^n_step must be at least 1, is 0"):
        reproductions.make("d4pg", OWN, n_step=0)
    for wrong, words in (
        ({"n_steps": 3}, "^unknown flag n_steps: did you mean n_step"),
        ({"lr": 1e-3}, "^unknown flag lr: did you mean learning_rate"),
        ({"num_actor": 3}, "^unknown flag num_actor: did you mean num_actors"),
        ({"evaluation_episodes": 1.5}, "^evaluation_episodes=1.5: it must be a whole number"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            reproductions.make("d4pg", OWN, **wrong)
        assert "\n" not in str(caught.value) and not "".join(capfd.readouterr())
    for made in (gymnasium.make("CartPole-v1"), lambda seed: None):
        with pytest.raises(ValueError, match='must be a name, such as "gym:.*", or a function or'):
            reproductions.make("d4pg", made)
    with pytest.raises(ValueError, match="arguments of an environment must be numbers"):
        reproductions.make("d4pg", "gym:Pendulum-v1", {"g": object()})
    with pytest.raises(ValueError, match="TypeError: .*'gravity'"):
        reproductions.make("d4pg", "gym:Pendulum-v1", env_kwargs={"gravity": 1})
    with pytest.raises(ValueError, match='did you mean "control:cartpole:swingup"'):
        reproductions.make("d4pg", "control:cartpole:swingpu")
    with pytest.raises(ValueError, match="d4pg on gym:CartPole-v1: .* actions"):
        reproductions.make("d4pg", "gym:CartPole-v1")


@pytest.mark.parametrize("name", ["match:make_5", "redundant:cartpole_14", "rover:make_11"])
def test_an_environment_may_be_a_call_with_fixed_arguments(name):
    whole = f"reproductions.aql.{name}"
    agent = reproductions.make("aql", imported(whole))
    assert f'make("aql", "python:{whole}"' in repr(agent)


def test_before_it_is_trained_there_is_nothing_to_play_or_to_save(tmp_path):
    agent = reproductions.make("d4pg", OWN)
    for call in (agent.evaluate, agent.policy, agent.evaluations, lambda: agent.save(tmp_path)):
        with pytest.raises(TrainingError, match=r"does not exist yet: call train\(learner_steps\)"):
            call()
    with pytest.raises(ValueError, match="episodes must be at least 1, is 0"):
        agent.evaluate(episodes=0)


SCRIPT = """
import gymnasium
import reproductions

class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Box(2.0, 6.0, (1,))

    def __init__(self, length):
        self.length = length

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        return self.steps % 3, float(action[0]), False, self.steps == self.length, {}

if GUARD:
    print(reproductions.make("d4pg", Own, env_kwargs={"length": 5}))
"""


def test_a_function_of_the_notebook_itself_is_told_how_to_become_one_of_a_module(monkeypatch):
    notebook = types.ModuleType("__main__")  # it has no file
    exec("def make(seed): ...", vars(notebook))
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    with pytest.raises(
        ValueError, match=r"(?s)at the top level of a module.*%%writefile.*<function make"
    ):
        reproductions.make("d4pg", notebook.make)


@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_script_has_its_own_environment(is_guarded, tmp_path):
    guard = '__name__ == "__main__"' if is_guarded else "True"
    script = tmp_path / "own_script.py"
    script.write_text(SCRIPT.replace("GUARD", guard))
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path.parent,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if is_guarded:
        assert done.returncode == 0, done.stderr
        assert 'make("d4pg", "python:own_script:Own(length=5)"' in done.stdout
    else:
        assert done.returncode == 1 and 'below `if __name__ == "__main__":`' in done.stderr


STOPPED = """
import signal, sys, time
from common.reporting import csv_rows
signal.signal(signal.SIGINT, lambda *_: END)
csv_rows.CsvRows(sys.argv[1], csv_rows.EVALUATOR).append(dict.fromkeys(csv_rows.EVALUATOR, 1))
time.sleep(600)
"""


def test_a_program_that_fails_while_a_callback_stops_it_is_no_success(monkeypatch):
    agent = reproductions.make("d4pg", OWN)
    agent.directory.open({})

    def train(end):
        code = STOPPED.replace("END", end)
        command = [sys.executable, "-c", code, str(agent.directory.evaluator_csv)]
        monkeypatch.setattr(type(agent), "_command", command)
        return agent.train(1, callback=lambda row: False)

    assert train("sys.exit(130)") is agent
    with pytest.raises(TrainingError, match="^no room$"):
        train("print('error: no room', flush=True) or sys.exit(2)")


def test_an_error_of_several_lines_is_raised_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "failing_environment.py"
    path.write_text(
        "import os\nfrom reproductions.d4pg import own_environment\n\n\ndef make(seed):\n"
        "    if os.environ.get('FAILS'):\n        raise OSError('no simulator')\n"
        "    return own_environment.make(seed)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    agent = reproductions.make("d4pg", "python:failing_environment:make")
    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(TrainingError, match="OSError: no simulator"):
        agent.train(1)
