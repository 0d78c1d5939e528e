"""An evaluator at work, and at the end of its run."""

import dataclasses
import errno
import json
import threading
import time
import types

import dm_env
from dm_env import specs
import numpy as np
import pytest
from run_contexts import TOKEN, make_context
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
import tensorflow as tf

from common import environments
from common.cluster import rpc_server
from common.cluster.errors import ClusterError
from common.cluster.processes import Patience
from common.cluster.topology import Topology, free_ports
from common.environments import UnusableEnvironmentError, film, watch
from common.environments.batch import BatchedEnvironment
from common.environments.spec import EnvironmentSpec
from common.learning import checkpoint
from common.learning.bookkeeping import SavedCounters
from common.learning.checkpoint import Checkpoints
from common.program.layouts import DISTRIBUTED
from common.remote.parameters import LearnerStatus, ParameterClient, ParameterService
from common.reporting import csv_rows, records
from common.reporting.budget import Budget
from common.reporting.csv_rows import last_row, read_rows
from common.roles import evaluator
from reproductions.d4pg.config import D4PGConfig
from reproductions.d4pg.d4pg import D4PG

LIMITS = Budget(learner_steps=32)
SECONDS = 60.0
"""Patience with a busy machine."""


class UntilAction(dm_env.Environment):
    """An episode ends with the first action above 0; the action is its reward."""

    def reset(self):
        return dm_env.restart(np.zeros(1, np.float32))

    def step(self, action):
        step = dm_env.termination if action[0] > 0 else dm_env.transition
        return step(float(action[0]), np.zeros(1, np.float32))

    def observation_spec(self):
        return specs.Array((1,), np.float32)

    def action_spec(self):
        return specs.BoundedArray((1,), np.float32, minimum=-1, maximum=1)


class Constant:
    """A policy whose only parameter is its action."""

    def __init__(self):
        self.action, self.calls = 0.0, 0

    def initial_state(self, num_environments):
        return ()

    def with_reward(self, state, reward):
        return state

    def load(self, flat):
        self.action, self.calls = flat[0], 0

    def __call__(self, observation, state):
        self.calls += 1
        return np.full([len(observation), 1], self.action, np.float32), state, {}


class Learner(tf.Module):
    """The part of a learner that a checkpoint holds."""

    def __init__(self):
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.actor_variables = [tf.Variable([0.0])]


def agent_of(policy):
    """The part of an agent that an evaluator needs."""
    return types.SimpleNamespace(
        declaration=types.SimpleNamespace(paper="a_paper", num_frames=None),
        setting="a_setting",
        make_evaluator=lambda spec, count: policy,
        make_learner=lambda spec, seed: Learner(),
    )


class Asking(ParameterClient):
    """Counts how often the learner was asked."""

    asked = 0

    def latest(self):
        Asking.asked += 1
        return super().latest()


class Run:
    """An evaluator in a thread, and the learner in this one.

    Attributes:
      error: the error that ended the evaluator.
    """

    def __init__(self, path):
        learner, own = (f"127.0.0.1:{port}" for port in free_ports(2))
        self.policy, self.error = Constant(), None
        cluster = {"learner": (learner,), "evaluator": (own,)}
        topology = Topology(DISTRIBUTED.roles, cluster, "evaluator", 0)
        agent, spec = agent_of(self.policy), EnvironmentSpec(1, 1)
        self.context = make_context(agent, spec, DISTRIBUTED, path, topology, seed=5, limits=LIMITS)
        self.directory = self.context.directory
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            evaluator.run(self.context)
        except ClusterError as error:
            self.error = error

    def start(self, **changes):
        """Starts the evaluator, with other fields in its context."""
        self.context = dataclasses.replace(self.context, **changes)
        self.thread.start()

    def serve(self):
        """Starts the learner's service."""
        self.server = rpc_server.Server(self.context.topology.keeper_address, TOKEN)
        self.service = ParameterService(self.server, 1)
        self.server.start()

    def publish(self, action, step, finished=False):
        """Publishes a policy of one action."""
        self.service.publish(np.array([action], np.float32), step, 10 * step, 12.345, finished)

    def save(self, action, step):
        """Writes a checkpoint."""
        learner, progress = Learner(), SavedCounters()
        learner.steps.assign(step)
        learner.actor_variables[0].assign([action])
        progress.wall_seconds.assign(12.345)
        progress.incarnations.assign([1, 2])
        progress.accepted.assign([4 * step, 6 * step])
        Checkpoints(self.directory.checkpoints, {"learner": learner, "progress": progress}).save()

    def wait_for(self, condition, what):
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline and not self.error, f"in vain: {what}, {self.error}"
            time.sleep(0.02)

    def wait_until_asked(self):
        """Waits until the evaluator has asked twice more."""
        asked = Asking.asked
        self.wait_for(lambda: Asking.asked > asked + 1, "the learner is asked")

    def ends(self):
        """Whether the evaluator ends by itself."""
        self.thread.join(SECONDS)
        return not self.thread.is_alive()

    def rows(self):
        """(learner step, return) of each row."""
        rows = read_rows(self.directory.evaluator_csv)
        return [*zip(rows["learner_steps"], rows["episode_return_mean"], strict=True)]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run whose evaluator has not started."""
    monkeypatch.setattr(
        evaluator.environments,
        "make_batch",
        lambda name, seeds, **options: BatchedEnvironment([UntilAction() for _ in seeds]),
    )
    monkeypatch.setattr(evaluator, "ParameterClient", Asking)
    monkeypatch.setattr(evaluator, "_POLL_SECONDS", 0.1)
    run = Run(tmp_path / "run")
    yield run
    run.context.stop.request()
    if run.thread.ident is not None:
        assert run.ends()


@pytest.mark.parametrize(
    "environment, frames", [("atari:pong", 1280), ("control:cartpole:swingup", 320)]
)
def test_a_row(run, environment, frames):
    run.serve()
    run.publish(0.5, 32)
    run.start(environment=environment)
    run.wait_for(lambda: last_row(run.directory.evaluator_csv), "a row")
    row = last_row(run.directory.evaluator_csv)
    assert set(row) == set(csv_rows.EVALUATOR)
    assert row == row | {
        "paper": "a_paper",
        "setting": "a_setting",
        "environment": environment,
        "seed": 5,
        "wall_seconds": 12.35,
        "actor_steps": 320,
        "environment_frames": frames,
        "learner_steps": 32,
        "episode_return_mean": 0.5,
        "episode_return_std": 0.0,
        "episodes": 3,
    }


def test_the_best_evaluation_is_kept(run):
    def steps():
        return (last_row(run.directory.evaluator_csv) or {}).get("learner_steps")

    run.serve()
    run.start(evaluation_seconds=0.0)
    for number, action in enumerate((0.25, 0.75, 0.5), 1):
        run.publish(action, number)
        run.wait_for(lambda number=number: steps() == number, "a row")
    run.context.stop.request()
    assert run.ends()
    best = checkpoint.read_policy(run.directory.best_policy, 1)
    assert (best.parameters.tolist(), best.learner_steps, best.episode_return) == ([0.75], 2, 0.75)
    assert not list(run.directory.path.glob("events*"))  # the learner shows them


def test_every_second_evaluation_films_an_episode_of_its_own(tmp_path, monkeypatch):
    agent = D4PG(D4PGConfig(policy_sizes=(4,), critic_sizes=(4,)))
    name, spec = "python:reproductions.d4pg.own_environment:make", EnvironmentSpec(2, 1)
    options = {"environment": name, "film_every": 2, "evaluation_episodes": 1}
    context = make_context(agent, spec, DISTRIBUTED, tmp_path, **options)
    evaluation, directory = evaluator.Evaluation(context), context.directory
    flat = np.zeros(agent.make_learner(spec, 0).num_parameters, np.float32)
    found = [
        evaluation.run(flat, LearnerStatus(1, step, step, 1.0, False), lambda: False)
        for step in (10, 20, 30)
    ]
    assert found == read_rows(directory.evaluator_csv)["episode_return_mean"].tolist()
    films = sorted(path.name for path in directory.films.iterdir())
    assert films == ["step_10.gif", "step_30.gif"]
    assert directory.film(10).read_bytes().startswith(b"GIF89a")


def test_an_environment_that_hangs_while_it_is_filmed_ends_the_process(run, monkeypatch, capsys):
    ended = threading.Event()

    class Hanging(UntilAction):
        def __init__(self, *arguments):
            pass

        def step(self, action):
            assert ended.wait(SECONDS)
            return super().step(action)

        def film(self):
            return film.Film([np.zeros((8, 8, 3), np.uint8)], 0.04, [0])

    monkeypatch.setattr(film, "FilmedEnvironment", Hanging)
    monkeypatch.setattr(watch, "limit_seconds", 1.0)
    monkeypatch.setattr(watch.os, "_exit", lambda code: ended.set())
    evaluation = evaluator.Evaluation(dataclasses.replace(run.context, film_every=1))
    evaluation.run(np.ones(1, np.float32), LearnerStatus(1, 10, 10, 1.0, False), lambda: False)
    assert "has not returned from a step for 1 s, at timestep 1" in capsys.readouterr().err


def test_an_environment_that_cannot_be_drawn_is_refused_before_the_first_film(tmp_path):
    """The evaluator ended at each first film, before it wrote the row of the evaluation."""
    options = {"environment": "gym:CartPole-v1", "film_every": 1, "evaluation_episodes": 1}
    spec = EnvironmentSpec(4, 2, is_discrete=True)
    context = make_context(agent_of(Constant()), spec, DISTRIBUTED, tmp_path, **options)
    with pytest.raises(UnusableEnvironmentError, match="env_kwargs=render_mode=rgb_array"):
        evaluator.Evaluation(context)


def test_a_newer_snapshot_does_not_end_an_evaluation_under_way(run):
    run.serve()
    run.publish(-1.0, 16)  # its episodes never end
    run.start()
    run.wait_for(lambda: run.policy.action == -1, "the first evaluation")
    run.publish(1.0, 20)
    run.wait_until_asked()
    assert run.policy.action == -1
    run.context.stop.request()
    assert run.ends() and run.rows() == []


def test_the_end_of_the_run_ends_an_evaluation_under_way_and_tensorboard_shows_the_last_one(run):
    run.serve()
    run.publish(-1.0, 16)
    run.start()
    run.wait_for(lambda: run.policy.action == -1, "the first evaluation")
    assert not run.directory.evaluation_json.exists()  # only the last one is kept there
    run.save(1.0, 33)
    run.publish(0.5, 33, finished=True)
    assert run.ends() and run.rows() == [(33, 1.0)]  # of the checkpoint
    events = EventAccumulator(str(run.directory.path))
    events.Reload()
    (shown,) = events.Tensors(
        "evaluator/episode_return"
    )  # the learner, which shows others, is gone
    assert (shown.step, float(tf.make_ndarray(shown.tensor_proto))) == (33, 1.0)


@pytest.mark.parametrize(
    "limits", [LIMITS, Budget(actor_steps=300), Budget(minutes=0.2, learner_steps=100)]
)
def test_the_evaluator_starts_after_the_end(run, limits):
    run.save(1.0, 32)
    run.start(limits=limits)
    assert run.ends() and run.rows() == [(32, 1.0)]
    row = last_row(run.directory.evaluator_csv)
    assert (row["wall_seconds"], row["actor_steps"]) == (12.35, 320)
    final = json.loads(run.directory.evaluation_json.read_text())
    assert final == row | {"episode_returns": [1.0] * 3}


def test_a_restart_plays_the_last_evaluation_only_if_it_is_not_whole(run):
    run.save(1.0, 32)
    for _ in range(2):
        evaluator.run(run.context)
        assert run.rows() == [(32, 1.0)]
    header, _ = run.directory.evaluator_csv.read_text().splitlines()
    run.directory.evaluator_csv.write_text(f"{header}\n")  # killed before the row
    evaluator.run(run.context)
    assert run.rows() == [(32, 1.0)]


def test_the_evaluator_starts_after_a_return_has_ended_the_run(run):
    limits = Budget(learner_steps=64, episode_return=0.9)
    run.save(1.0, 32)
    run.directory.write_run_record(seed=5, scale="laptop", budget=limits)
    run.start(limits=limits)
    run.wait_until_asked()
    assert run.thread.is_alive()  # the learner may only be restarting
    run.directory.close_run_record("finished")
    assert run.ends() and run.rows() == [(32, 1.0)]


def test_the_last_evaluation_waits_for_room_on_a_full_disk(run, monkeypatch):
    write, full = evaluator.replace_file, [OSError(errno.ENOSPC, "No space left on device")] * 2

    def replace_file(path, text):
        if full:
            raise full.pop()
        write(path, text)

    monkeypatch.setattr(evaluator, "replace_file", replace_file)
    monkeypatch.setattr(records, "_ROOM_SECONDS", 0.1)
    evaluation = evaluator.Evaluation(run.context)
    status = LearnerStatus(1, 32, 320, 1.0, finished=True)
    assert evaluation.run(np.ones(1, np.float32), status, lambda: False) == 1.0
    assert json.loads(run.directory.evaluation_json.read_text())["episode_returns"] == [1.0] * 3
    assert run.rows() == [(32, 1.0)]


def test_the_last_evaluation_also_plays_from_the_file_of_starts(tmp_path):
    """Pendulum without torque: the return of an episode is what is left of the whole one's."""
    name = "gym:Pendulum-v1"
    environment = environments.make(name, 3, evaluation=True)
    rewards, timestep = [], environment.reset()
    while not timestep.last():
        timestep = environment.step(np.zeros(1, np.float32))
        rewards.append(timestep.reward)
    starts = [[step, float(np.sum(rewards[:step]))] for step in (50, 150)]
    file = {"environment": name, "origin": "a pendulum", "episodes": []}
    file["episodes"].append({"seed": 3, "actions": [[0.0]] * 150, "starts": starts})
    (tmp_path / "starts.json").write_text(json.dumps(file))

    agent, spec = agent_of(Constant()), EnvironmentSpec(3, 1)
    options = {"environment": name, "start_states": tmp_path / "starts.json", "final_episodes": 4}
    context = make_context(agent, spec, DISTRIBUTED, tmp_path / "run", **options)
    evaluation, directory = evaluator.Evaluation(context), context.directory
    flat = np.zeros(1, np.float32)
    assert evaluation.run(flat, LearnerStatus(1, 1, 1, 1.0, False), lambda: False)
    assert not directory.evaluation_json.exists()
    assert evaluation.run(flat, LearnerStatus(2, 2, 2, 1.0, True), lambda: False)
    record = json.loads(directory.evaluation_json.read_text())
    assert len(record["episode_returns"]) == 4
    found = record["from_start_states"]
    assert found["origin"] == "a pendulum"
    left = [sum(rewards[step:]) for step in (50, 150)]
    assert sorted(found["episode_returns"]) == pytest.approx(sorted(2 * left))
    assert found["episode_return_mean"] == pytest.approx(np.mean(left))

    file["episodes"][0]["starts"][0][1] += 1
    file["episodes"][0]["starts"].pop()
    (tmp_path / "starts.json").write_text(json.dumps(file))
    with pytest.raises(UnusableEnvironmentError, match="another version"):
        evaluator.Evaluation(context)  # at the start of the run, not at its end


def test_an_old_checkpoint_is_not_the_last_of_a_run_that_goes_on(run):
    run.save(1.0, 32)
    run.start(limits=Budget(learner_steps=64))
    run.wait_until_asked()  # nobody answers
    run.serve()
    run.publish(0.5, 40)
    run.wait_for(lambda: last_row(run.directory.evaluator_csv), "a row")
    assert run.thread.is_alive() and set(run.rows()) == {(40, 0.5)}
    run.save(0.25, 64)
    run.publish(0.75, 64, finished=True)
    assert run.ends() and run.rows()[-1] == (64, 0.25)


def test_an_evaluator_that_is_left_alone_ends_after_its_patience(run, monkeypatch):
    monkeypatch.setattr(Patience, "default_seconds", 0.2)
    run.save(1.0, 32)
    run.start(limits=Budget(learner_steps=64))
    assert run.ends()
    assert "no answer from the learner" in str(run.error) and run.rows() == []
