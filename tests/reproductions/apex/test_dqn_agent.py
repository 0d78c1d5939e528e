"""Ape-X DQN's actors, and the agent on a real memory and in a small run."""

import numpy as np
from one_process import OneProcessRun
import pytest
from sides_task import EPISODE_STEPS, make_environments

from common.data.transitions import StoredTransition
from common.environments.spec import EnvironmentSpec
from common.networks import packing
from common.roles.evaluator import run_episodes
from reproductions.apex.dqn.config import DQNConfig
from reproductions.apex.dqn.dqn import ApexDQN

SHAPE, A, K = (36, 36, 4), 3, 5
SPEC = EnvironmentSpec(36 * 36 * 4, A, image_shape=SHAPE, is_discrete=True)
PRIORITIES = np.array([1, 2, 4, 0.5], np.float32)


def make_agent(**values):
    defaults = dict(batch_size=4, min_replay_size=4, replay_capacity=4, send_batch=1)
    return ApexDQN(DQNConfig(**{**defaults, **values}))


def images(size, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (size, *SHAPE), dtype=np.uint8)


def make_transitions(agent, size=4, seed=0):
    generator = np.random.default_rng(seed)

    def normal():
        return generator.normal(size=size).astype(np.float32)

    return StoredTransition(
        observation_tm1=agent.encode(images(size, seed)),
        action_tm1=generator.integers(0, A, size).astype(np.int32),
        n_step_reward=normal(),
        n_step_discount=normal(),
        observation_t=agent.encode(images(size, seed + 1)),
    )


@pytest.mark.usefixtures("eager")
def test_images_that_are_damaged_inside_are_drawn_once(tmp_path):
    """They ended the learner, and it ended again with the replay that was saved."""
    agent = make_agent()
    specs = agent.step_specs(SPEC)
    memory = agent.data.make_store(specs, seed=1)
    steps = make_transitions(agent)
    file = bytearray(steps.observation_t[3])
    file[len(file) // 2] ^= 255
    steps.observation_t[3] = bytes(file)
    memory.insert(np.arange(4), steps, np.array([1, 1, 1, 3], np.float32))
    learner = agent.make_learner(SPEC, seed=0)
    trainer = make_trainer(agent, memory, learner)
    assert trainer.step() is not None
    _, masses = memory.masses(np.arange(4))
    assert masses[3] == 0 and np.all(masses[:3] > 0)
    memory.save(tmp_path / "saved")
    again = agent.data.make_store(specs, seed=1)
    again.load(tmp_path / "saved")
    assert 3 not in again.sample(1000).keys.numpy()
    trainer = make_trainer(agent, again, learner)
    assert trainer.step() is not None and trainer.step() is not None


@pytest.mark.usefixtures("eager")
def test_small_images_are_stored_as_they_are():
    spec = EnvironmentSpec(1000, A, image_shape=(10, 10, 10), is_discrete=True)
    agent = make_agent(torso="minatar")
    image = np.random.default_rng(0).integers(0, 256, (4, 10, 10, 10), dtype=np.uint8)
    steps = make_transitions(agent)
    steps = steps._replace(observation_tm1=agent.encode(image), observation_t=image[::-1])
    memory = agent.data.make_store(agent.step_specs(spec), seed=1)
    memory.insert(np.arange(4), steps, PRIORITIES)
    assert not agent.decodes
    _, found = memory.read(np.arange(4))
    np.testing.assert_array_equal(found.observation_tm1, image)
    np.testing.assert_array_equal(found.observation_t, image[::-1])
    agent.declaration.require_spec(agent.config, spec)
    learner = agent.make_learner(spec, seed=0)
    trainer = agent.make_trainer(learner, memory, spec, 0, agent.rate_limiter())
    assert trainer.step() is not None


def make_trainer(agent, memory, learner):
    return agent.make_trainer(learner, memory, SPEC, 0, agent.rate_limiter())


def test_each_actor_has_its_step_of_the_runs_ladder():
    """Whatever process it lives in: here the last three of eight."""
    agent = make_agent()
    actor = agent.make_actor(SPEC, range(5, 8), 8, seed=0)
    np.testing.assert_allclose(
        actor._explore._epsilons, [0.004096, 0.0016384, 0.00065536], rtol=1e-6
    )
    alone = agent.make_actor(SPEC, range(1), 1, seed=0)
    assert alone._explore._epsilons.tolist() == [0.4]
    agent = make_agent(epsilons=(0.4, 0.1, 0.0))  # a fixed set goes round
    actor = agent.make_actor(SPEC, range(4, 8), 8, seed=0)
    assert actor._explore._epsilons.tolist() == [0.1, 0.0, 0.4, 0.1]


def make_loaded(agent, learner):
    actor = agent.make_actor(SPEC, range(K), K, seed=0)
    actor.load(packing.to_numpy(learner.actor_variables))
    return actor


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_an_actor_buffers_the_values_of_its_action_and_the_largest(epsilon):
    agent = make_agent(epsilons=(epsilon,))
    learner = agent.make_learner(SPEC, seed=1)
    actor, observation = make_loaded(agent, learner), images(K)
    action, state, extras = actor(observation, actor.initial_state(K))
    q = learner.network(observation).numpy()
    assert action.dtype == np.int32 and action.shape == (K,) and state == ()
    np.testing.assert_allclose(extras["q_max"], q.max(axis=1), rtol=1e-5)
    np.testing.assert_allclose(extras["q_taken"], q[np.arange(K), action], rtol=1e-5)
    assert np.all(action == q.argmax(axis=1)) == (epsilon == 0.0)


def test_initial_priorities_are_by_the_values_of_the_time_each_state_was_seen():
    agent = make_agent()
    actor = agent.make_actor(SPEC, range(K), K, seed=0)
    transitions = make_transitions(agent)._replace(
        n_step_reward=np.array([1.0, 0.5, 0.0, -2.0], np.float32),
        n_step_discount=np.array([0.5, 0.0, 1.0, 0.5], np.float32),
    )
    extras_tm1 = {"q_taken": np.array([0.0, 0.5, 3.0, 0.0], np.float32)}
    extras_t = {"q_max": np.array([4.0, 9.0, 1.0, 2.0], np.float32)}
    priorities = actor.initial_priorities(transitions, extras_tm1, extras_t)
    assert priorities.dtype == np.float32
    np.testing.assert_allclose(priorities, [3 + 1e-6, 1e-6, 2 + 1e-6, 1 + 1e-6], rtol=1e-6)
    # New parameters change nothing in what is buffered.
    actor.load(np.ones_like(packing.pack(actor._network.trainable_variables)))
    again = actor.initial_priorities(transitions, extras_tm1, extras_t)
    np.testing.assert_array_equal(again, priorities)


def test_the_evaluator_has_an_epsilon_of_its_own_and_repeats_itself():
    q = np.zeros((100, A), np.float32)
    q[:, 0] = 1
    evaluators = [make_agent(evaluation_epsilon=0.5).make_evaluator(SPEC, 100) for _ in range(2)]
    first, second = (evaluator._explore(q) for evaluator in evaluators)
    assert 20 < np.count_nonzero(first) < 50  # a random action may be the greedy one
    np.testing.assert_array_equal(first, second)
    assert make_agent().make_evaluator(SPEC, 3)._explore._epsilons.tolist() == [0.001] * 3


NUM_CALLS = 30


def share_of_right_actions(policy):
    """In 16 episodes on other seeds than those of training."""
    returns = run_episodes(make_environments(seed=1_000, count=16), policy, 16)
    return returns.mean() / (5 * EPISODE_STEPS)


def test_mini_run_learns():
    config = DQNConfig(
        discount=0.5,
        batch_size=32,
        learning_rate=5e-4,
        target_period=20,
        replay_capacity=300,
        min_replay_size=200,
        removal_period=10,
        send_batch=1,
        samples_per_insert=4.0,
        evaluation_epsilon=0.0,
    )
    agent = ApexDQN(config)
    run = OneProcessRun(agent, make_environments(0, 8))
    assert share_of_right_actions(run.evaluator(16)) < 0.9
    run.train(NUM_CALLS)
    run.memory.check()
    statistics = run.memory.statistics()
    assert int(run.learner.steps) == NUM_CALLS
    # Removed down to 300 every 10 steps, in which 10 * 32 / 4 are added.
    assert statistics.inserted > 400 and 300 <= statistics.items <= 400
    assert share_of_right_actions(run.evaluator(16)) > 0.95
