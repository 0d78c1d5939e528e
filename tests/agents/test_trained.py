"""A run's newest checkpoint as a policy, also while the run goes on."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

from common.acting.policy import Policy
from common.agents import trained
from common.cluster.layout import imported
from common.environments.spec import EnvironmentSpec, UnusableEnvironmentError
from common.learning import checkpoint
from common.learning.checkpoint import CheckpointError, Checkpoints, StoredPolicy
from common.reporting.run_directory import RunDirectory, RunDirectoryError
from reproductions import AGENTS, load_policy
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import D4PG

ROOT = pathlib.Path(__file__).parents[2]
OWN = "python:reproductions.d4pg.own_environment:make"
CONFIG = D4PGConfig(policy_sizes=(16, 8), critic_sizes=(16, 8), layer_norm=False)


@pytest.fixture(scope="module")
def learner():
    learner = D4PG(CONFIG).make_learner(EnvironmentSpec(2, 1), seed=3)
    generator = np.random.default_rng(0)
    for variable in learner.networks.policy.trainable_variables:  # policies begin near zero
        variable.assign(generator.normal(size=variable.shape))
    learner.steps.assign(77)
    return learner


@pytest.fixture(scope="module")
def saved(tmp_path_factory, learner):
    """A run directory as a program leaves it."""
    run = RunDirectory(tmp_path_factory.mktemp("saved") / "run")
    config = {"paper": "d4pg", "environment": OWN, "setting": "small"}
    run.open({**config, "config": dataclasses.asdict(CONFIG)})
    Checkpoints(run.checkpoints, {"learner": learner, "counter": tf.Variable(1)}).save()
    return run.path


@pytest.fixture(scope="module")
def policy(saved):
    return load_policy(saved)


@pytest.fixture
def workdir(saved, tmp_path):
    """A copy, to be spoilt."""
    return shutil.copytree(saved, tmp_path / "run")


def change_config(workdir, **changes):
    """Sets parts of a run's config.json; None removes a part."""
    path = workdir / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({name: v for name, v in config.items() if v is not None}))


def test_a_loaded_policy_is_that_of_the_learner(policy, learner, saved):
    assert (policy.environment, policy.learner_steps) == (OWN, 77)
    assert trained.load(saved, D4PG).agent.setting == "small"
    observations = np.random.default_rng(0).normal(size=(5, 2), scale=5).astype(np.float32)
    expected = learner.networks.policy(observations).numpy()
    assert np.std(expected) > 0.1
    actions = policy(observations)
    assert actions.dtype == np.float32
    np.testing.assert_allclose(actions, expected, atol=1e-5)
    np.testing.assert_allclose(policy(observations[1]), expected[1], atol=1e-5)
    np.testing.assert_allclose(policy([0, 0]), policy(np.zeros(2)), atol=0)


def test_an_action_in_the_units_of_the_environment(workdir, policy):
    """Forces are in [-2, 2] there, and an agent's actions in [-1, 1]."""
    own = {"position": np.array([0.3], np.float32), "velocity": np.array([-0.2], np.float32)}
    observation = np.array([0.3, -0.2])
    action = policy.act(own)
    assert action.dtype == np.float32 and action.shape == (1,)
    np.testing.assert_allclose(action, 2 * policy(observation), rtol=1e-6)
    with pytest.raises(ValueError, match=r"its observation\['position'\] is float64 \[3\]"):
        policy.act({**own, "position": np.zeros(3)})


def test_a_call_needs_no_tensorflow(policy):
    files = set()
    sys.setprofile(lambda frame, event, argument: files.add(frame.f_code.co_filename))
    try:
        policy(np.zeros(2))
    finally:
        sys.setprofile(None)
    assert any(file.endswith("numpy_twins.py") for file in files)
    assert not [file for file in files if "tensorflow" in file]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 1, 2)])
def test_an_observation_of_another_shape(shape, policy):
    with pytest.raises(ValueError, match=r"must be \[2\] or \[K, 2\] for python:"):
        policy(np.zeros(shape))


class Unlearnt(Policy):
    """A policy without parameters."""

    def load(self, flat):
        assert flat.shape == (0,)


class Brightness(Unlearnt):
    """Acts on pictures: its action is the brightest channel."""

    def __call__(self, observation, state):
        assert observation.dtype == np.uint8 and state == ()
        return observation.sum((1, 2), dtype=np.int64).argmax(-1).astype(np.int32), state, {}


class Mean(Unlearnt):
    """A recurrent policy: its action is the mean of all observations of the episode."""

    def initial_state(self, num_environments):
        return {"sum": np.zeros((num_environments, 1), np.float32), "n": np.zeros(num_environments)}

    def __call__(self, observation, state):
        state = {"sum": state["sum"] + observation, "n": state["n"] + 1}
        return (state["sum"] / state["n"][:, np.newaxis]).astype(np.float32), state, {}


def of_policy(policy, environment, spec):
    """The trained policy of a run whose agent would evaluate `policy`."""
    agent = types.SimpleNamespace(make_evaluator=lambda spec, num_environments: policy)
    run = trained.TrainedRun(agent, environment, spec, 5, np.zeros(0, np.float32))
    return trained.TrainedPolicy(run)


@pytest.fixture
def pictures():
    spec = EnvironmentSpec(2 * 3 * 4, 4, image_shape=(2, 3, 4), is_discrete=True)
    return of_policy(Brightness(), "atari:pong", spec)


@pytest.fixture
def recurrent():
    return of_policy(Mean(), OWN, EnvironmentSpec(1, 1))


def test_a_policy_on_pictures_gives_one_of_its_actions(pictures):
    observation = np.zeros((3, 2, 3, 4), np.uint8)
    observation[[0, 1, 2], 0, 0, [3, 0, 2]] = 200
    np.testing.assert_array_equal(pictures(observation), [3, 0, 2])
    assert pictures(observation).dtype == np.int32
    assert pictures(observation[0]) == 3 and pictures(observation[0]).shape == ()
    assert (pictures.environment, pictures.learner_steps) == ("atari:pong", 5)


def test_a_recurrent_policy_keeps_its_state_until_it_is_reset(recurrent):
    actions = [recurrent(np.array([value])) for value in (2.0, 4.0, 9.0)]
    np.testing.assert_array_equal(actions, [[2], [3], [5]])
    recurrent.reset()
    np.testing.assert_array_equal(recurrent(np.array([7.0])), [7])


def test_a_reset_of_some_rows_leaves_the_others(recurrent):
    recurrent.reset(np.array([True, False]))  # nothing has begun yet
    recurrent(np.array([[2.0], [10.0]]))
    recurrent.reset(np.array([False, False]))
    np.testing.assert_array_equal(recurrent(np.array([[4.0], [20.0]])), [[3], [15]])
    recurrent.reset(np.array([True, False]))
    np.testing.assert_array_equal(recurrent(np.array([[8.0], [30.0]])), [[8], [20]])


class Rewarded(Unlearnt):
    """Its action is the sum of the rewards of the episode."""

    sees_rewards = True

    def initial_state(self, num_environments):
        return np.zeros(num_environments, np.float32)

    def with_reward(self, state, reward):
        return state + reward

    def __call__(self, observation, state):
        return state[:, np.newaxis], state, {}


def test_a_policy_that_sees_rewards_asks_for_them():
    policy, zeros = of_policy(Rewarded(), OWN, EnvironmentSpec(1, 1)), np.zeros((2, 1))
    np.testing.assert_array_equal(policy(zeros), [[0], [0]])
    np.testing.assert_array_equal(policy(zeros, np.array([2.0, 3.0])), [[2], [3]])
    with pytest.raises(ValueError, match=r"needs rewards: call policy\(observation, reward\)"):
        policy(zeros)
    policy.reset(np.array([True, False]))
    np.testing.assert_array_equal(policy(zeros, np.array([0.0, 4.0])), [[0], [7]])
    policy.reset()
    np.testing.assert_array_equal(policy(zeros[0]), [0])
    np.testing.assert_array_equal(policy(zeros[0], 5.0), [5])


def test_a_recurrent_policy_refuses_another_number_of_observations(recurrent):
    recurrent(np.array([[2.0], [10.0]]))
    with pytest.raises(
        ValueError, match=r"called with 2 observations .* with 1 now: call reset\(\)"
    ):
        recurrent(np.array([4.0]))
    np.testing.assert_array_equal(recurrent(np.array([[4.0], [20.0]])), [[3], [15]])
    recurrent.reset()
    np.testing.assert_array_equal(recurrent(np.array([4.0])), [4])


def test_a_policy_without_a_state_takes_any_number_of_observations():
    """Also that of ReF-ER, whose state is a tuple of empty parts."""
    agent, spec = imported(AGENTS["refer"]).make_agent(hidden_size=8), EnvironmentSpec(3, 2)
    flat = np.ones(agent.make_learner(spec, seed=0).num_parameters, np.float32)
    policy = trained.TrainedPolicy(trained.TrainedRun(agent, "an environment", spec, 7, flat))
    assert [policy(np.zeros((number, 3))).shape for number in (1, 5)] == [(1, 2), (5, 2)]


def test_pictures_of_another_kind(pictures):
    with pytest.raises(ValueError, match="must be uint8, got float32"):
        pictures(np.zeros((2, 3, 4), np.float32))
    words = r"must be \[2, 3, 4\] or \[K, 2, 3, 4\] for atari:pong, got \[24\]"
    with pytest.raises(ValueError, match=words):
        pictures(np.zeros(24, np.uint8))


def require_images(config, spec):
    raise ValueError(f"it needs images, this has {spec.observation_size} numbers")


def test_an_agent_that_cannot_act_in_the_runs_environment(saved):
    class Picky(D4PG):
        declaration = dataclasses.replace(
            D4PG.declaration, require=f"{__name__}:{require_images.__name__}"
        )

    with pytest.raises(RunDirectoryError, match="config.json .*it needs images, this has 2 num"):
        trained.load(saved, Picky)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"config": {"n_stp": 1}}, "there is no hyperparameter n_stp"),
        ({"config": {"n_step": 0}}, "--config.n_step must be at least 1"),
        *[({name: None}, f"it has no '{name}'") for name in ("environment", "setting", "config")],
    ],
)
def test_a_config_that_is_not_of_this_version(changes, words, workdir):
    change_config(workdir, **changes)
    with pytest.raises(RunDirectoryError, match=f"config.json was not written by .*: {words}"):
        trained.load(workdir, D4PG)


def test_no_run_and_no_checkpoint(tmp_path, workdir):
    with pytest.raises(RunDirectoryError, match="absent"):
        load_policy(tmp_path / "absent")
    with pytest.raises(RunDirectoryError, match="no config.json"):
        load_policy(workdir / "checkpoints")
    for path in (workdir / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(CheckpointError, match="no checkpoint yet"):
        load_policy(workdir)


def test_a_truncated_checkpoint(workdir):
    (data,) = (workdir / "checkpoints").glob("*.data-*")
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_policy(workdir)


def test_a_run_that_saves_all_the_time_can_be_read(workdir, learner):
    checkpoints = Checkpoints(
        workdir / "checkpoints", {"learner": learner, "counter": tf.Variable(1)}, keep=1
    )
    end = threading.Event()

    def save():
        while not end.is_set():
            checkpoints.save()

    thread = threading.Thread(target=save)
    thread.start()
    try:
        for _ in range(3):
            assert trained.load(workdir, D4PG).learner_steps == 77
    finally:
        end.set()
        thread.join()


def test_the_best_evaluations_parameters_are_loaded_instead_of_the_newest(workdir, policy):
    with pytest.raises(CheckpointError, match="has no saved best policy yet"):
        load_policy(workdir, "best")
    run = RunDirectory(workdir)
    newest = trained.load(workdir, D4PG)
    checkpoint.write_policy(run.best_policy, StoredPolicy(newest.parameters / 2, 30, 1.5))
    best = load_policy(workdir, "best")
    observation = np.array([0.5, -0.5])
    assert best.learner_steps == 30 and load_policy(workdir).learner_steps == 77
    assert not np.allclose(best(observation), policy(observation), atol=1e-3)
    checkpoint.write_policy(run.best_policy, StoredPolicy(newest.parameters[1:], 30, 1.5))
    with pytest.raises(CheckpointError, match="best.npz has parameters float32 .* another run"):
        load_policy(workdir, "best")
    with pytest.raises(ValueError, match="'latest'"):
        load_policy(workdir, "latest")


def test_dm_controls_dictionary_is_an_observation(workdir, learner):
    change_config(workdir, environment="control:pendulum:swingup")
    spec = EnvironmentSpec(3, 1)
    Checkpoints(
        RunDirectory(workdir).checkpoints, {"learner": D4PG(CONFIG).make_learner(spec, seed=0)}
    ).save()
    policy = load_policy(workdir)
    parts = {"velocity": np.array([2.0]), "orientation": np.array([0.6, 0.8])}
    np.testing.assert_array_equal(policy(parts), policy(np.array([0.6, 0.8, 2.0])))
    with pytest.raises(ValueError, match="velocity"):
        policy({"orientation": parts["orientation"]})


def test_a_policy_that_is_stored_alone_is_its_best():
    policy = load_policy(ROOT / "results/policies/d4pg_cartpole_swingup")
    assert policy.environment == "control:cartpole:swingup" and policy.learner_steps > 0
    with pytest.raises(CheckpointError, match="no checkpoint yet"):
        load_policy(ROOT / "results/policies/d4pg_cartpole_swingup", "newest")


def test_loading_a_policy_is_silent(saved):
    code = f"from reproductions import load_policy; load_policy({str(saved)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_code_in_the_run_directory_runs_only_with_trust(workdir, monkeypatch):
    """A run that somebody sent."""
    (workdir / "sent_code.py").write_text(
        "import pathlib\npathlib.Path(__file__).with_suffix('.imported').touch()\n"
        "from reproductions.d4pg.own_environment import make\n"
    )
    monkeypatch.syspath_prepend(workdir)
    change_config(workdir, environment="python:sent_code:make")
    with pytest.raises(UnusableEnvironmentError, match=r"from the run .*trust_environment=True"):
        load_policy(workdir)
    assert not (workdir / "sent_code.imported").exists()
    assert load_policy(workdir, trust_environment=True).learner_steps == 77
    assert (workdir / "sent_code.imported").exists()
    change_config(workdir, environment="python:os:_exit")
    with pytest.raises(UnusableEnvironmentError, match="standard library"):
        load_policy(workdir)
