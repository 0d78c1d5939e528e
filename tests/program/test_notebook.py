"""An agent in a notebook: trained by its program, evaluated and saved here."""

import gymnasium
import numpy as np
import pytest

from common.program.notebook import TrainingError
import reproductions

OWN = "python:reproductions.d4pg.own_environment:make"
SMALL = {
    "policy_sizes": (16, 16),
    "critic_sizes": (16, 16),
    "batch_size": 16,
    "min_replay_size": 100,
    "samples_per_insert": 16.0,
    "single_process": True,
    "num_actors": 4,
    "updates_per_call": 8,
    "evaluation_steps": 40,
    "evaluation_episodes": 2,
    "learner_threads": 1,
}


def test_it_trains_goes_on_evaluates_and_saves(tmp_path, capfd):
    agent = reproductions.make("d4pg", OWN, n_step=3, **SMALL)
    assert agent.train(40).policy().learner_steps == 40
    assert "finished: evaluator return" in capfd.readouterr().out
    agent.train(40)
    policy = agent.policy()
    assert policy.learner_steps == 80 and policy(np.zeros(2)).shape == (1,)
    returns = agent.evaluate(episodes=3)
    assert returns.shape == (3,) and np.isfinite(returns).all()
    assert agent.evaluations()["learner_steps"].tolist() == [0, 40, 80]
    agent.save(tmp_path / "saved")
    saved = reproductions.load_policy(tmp_path / "saved")
    np.testing.assert_array_equal(saved([0.1, 0.2]), policy([0.1, 0.2]))
    best = agent.evaluations()["episode_return_mean"].idxmax()
    steps = agent.evaluations()["learner_steps"][best]
    assert agent.policy("best").learner_steps == steps
    with pytest.raises(FileExistsError):
        agent.save(tmp_path / "saved")


def test_what_cannot_be_is_one_line(capfd):
    with pytest.raises(ValueError, match='no agent "d5pg": there are apex_dpg'):
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
    with pytest.raises(ValueError, match='must be a name, such as "gym:CartPole-v1", or "python:m'):
        reproductions.make("d4pg", gymnasium.make("CartPole-v1"))
    with pytest.raises(ValueError, match='did you mean "control:cartpole:swingup"'):
        reproductions.make("d4pg", "control:cartpole:swingpu")
    with pytest.raises(ValueError, match="d4pg on gym:CartPole-v1: .* actions"):
        reproductions.make("d4pg", "gym:CartPole-v1")


def test_before_it_is_trained_there_is_nothing_to_play_or_to_save(tmp_path):
    agent = reproductions.make("d4pg", OWN)
    for call in (agent.evaluate, agent.policy, agent.evaluations, lambda: agent.save(tmp_path)):
        with pytest.raises(TrainingError, match=r"is not there yet: call train\(learner_steps\)"):
            call()
    with pytest.raises(ValueError, match="episodes must be at least 1, is 0"):
        agent.evaluate(episodes=0)


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
